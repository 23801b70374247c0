"""Read JSON text that may be none, and what strict parsers refuse: surrogates, comments, commas.

JavaScript programs cut strings in the middle of an emoji and write half of it as `\\ud83d`.
"""

import json
import re
from typing import Any

from agent_cli.system.shapes import is_object

_ESCAPE = re.compile(
    rb"\\(?:"
    rb"u[dD][89aAbB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"  # a pair: kept
    rb"|(?P<lone>u[dD][89a-fA-F][0-9a-fA-F]{2})"
    rb"|.)",
    re.DOTALL,
)


def json_object(text: str | bytes) -> dict[str, Any] | None:
    """Return the JSON object that *text* is, None if it is anything else."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if is_object(value) else None


def not_json(name: object, error: Exception) -> str:
    """Return the sentence that the file *name* is not valid JSON, with the place of *error*."""
    if isinstance(error, json.JSONDecodeError):
        return f"{name}:{error.lineno} is not valid JSON: {error.msg}, at column {error.colno}"
    return f"{name} is not valid JSON: {error}"


def mend_surrogates(data: bytes) -> bytes:
    """Return *data*, JSON text, with U+FFFD for each escape of a lone surrogate."""
    if b"\\ud" not in data and b"\\uD" not in data:
        return data
    return _ESCAPE.sub(lambda found: rb"\ufffd" if found["lone"] else found[0], data)


# What has no end ends with the text: looked for behind each quote, it would take hours.
_COMMENT = re.compile(r'("(?>(?:[^"\\]|\\.)*)"?)|//[^\n]*|/\*.*?(?:\*/|\Z)', re.DOTALL)
_NOT_LINE_END = re.compile(r"[^\n]")
_TRAILING_COMMA = re.compile(r'("(?>(?:[^"\\]|\\.)*)"?)|,(?=\s*[}\]])', re.DOTALL)


def load_commented(text: str) -> object:
    """Parse *text*.

    Raises:
        ValueError: It is not JSON without its comments either; places are those of *text*.
    """
    try:
        return json.loads(text)
    except ValueError:
        return json.loads(without_comments(text))


def without_comments(text: str) -> str:
    """Return *text* with blanks for its comments and trailing commas, so that places stay."""
    without = _COMMENT.sub(lambda found: found[1] or _NOT_LINE_END.sub(" ", found[0]), text)
    return _TRAILING_COMMA.sub(lambda found: found[1] or " ", without)
