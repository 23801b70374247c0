r"""Parse and write references to files: `@src/app.py`, or `@"two words.png"` with quotes.

Between quotes, a backslash escapes a quote or a backslash, and `\n`, `\t` and `\r` have their usual
meaning.
"""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from agent_cli.system.loading import late_pattern

_QUOTED: Final = r'"(?P<quoted>(?:[^"\\\n]|\\.)*)"'
_ANY: Final = late_pattern(rf'(?<!\S)@(?:{_QUOTED}|(?P<plain>[^\s"]\S*))')
_OPEN: Final = late_pattern(r'(?<!\S)@(?:"(?P<quoted>(?:[^"\\\n]|\\.)*)|(?P<plain>(?!")\S*))\Z')
_PLAIN: Final = late_pattern(r'[^\s"\\\x00-\x1f\x7f][^\s\x00-\x1f\x7f]*')
_ESCAPES: Final = {"\n": r"\n", "\t": r"\t", "\r": r"\r", '"': r"\"", "\\": r"\\"}
_MEANINGS: Final = {"n": "\n", "t": "\t", "r": "\r"}
_TRAILING: Final = ".,;:!?)]}'"


class Reference(NamedTuple):
    """A path named in a text: *start* is the index of the @, *length* that of the text after it."""

    start: int
    length: int
    path: str


def references(text: str) -> Iterator[Reference]:
    """Yield the references in *text*; a path that ends in punctuation is yielded twice.

    First with the punctuation, then without: only a check of the files can tell which is meant.
    """
    for found in _ANY.finditer(text):
        length = found.end() - found.start() - 1
        plain = found["plain"]
        if plain is None:
            yield Reference(found.start(), length, _meant(found["quoted"]))
            continue
        yield Reference(found.start(), length, plain)
        if (short := plain.rstrip(_TRAILING)) and short != plain:
            yield Reference(found.start(), len(short), short)


def reference_before(text: str) -> Reference | None:
    """Return the reference that is being typed at the end of *text*."""
    found = _OPEN.search(text)
    if found is None:
        return None
    quoted = found["quoted"]
    path = found["plain"] if quoted is None else _meant(quoted)
    return Reference(found.start(), found.end() - found.start() - 1, path)


def reference_to(path: str) -> str:
    """Return the text after the @ that refers to *path*."""
    if _PLAIN.fullmatch(path):
        return path
    return f'"{"".join(_ESCAPES.get(character, character) for character in path)}"'


def _meant(quoted: str) -> str:
    return re.sub(r"\\(.)", lambda escape: _MEANINGS.get(escape[1], escape[1]), quoted)
