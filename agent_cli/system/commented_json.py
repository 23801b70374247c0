"""Parse JSON with comments and trailing commas."""

import json
import re

_COMMENT = re.compile(r'("(?:[^"\\]|\\.)*")|//[^\n]*|/\*.*?\*/', re.DOTALL)
_TRAILING_COMMA = re.compile(r'("(?:[^"\\]|\\.)*")|,(?=\s*[}\]])')


def load_commented(text: str) -> object:
    """Parse *text*.

    Raises:
        ValueError: It is not JSON without its comments either; places are those of *text*.
    """
    try:
        return json.loads(text)
    except ValueError:
        try:
            return json.loads(_plain(text))
        except ValueError:
            pass
        raise


def _plain(text: str) -> str:
    without = _COMMENT.sub(lambda found: found[1] or " ", text)
    return _TRAILING_COMMA.sub(lambda found: found[1] or "", without)
