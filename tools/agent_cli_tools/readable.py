"""Output of a command as text for the model: without colours, and binary data only described."""

import re
from typing import Final

# Colours and cursor movements; titles and links. To the model each is six characters of JSON.
_ESCAPES: Final = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\)|\x1b[()][0-9A-B]|\x1b[=>]"
)
_UNREADABLE: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ufffd]")
_UNREADABLE_SHARE_MAX: Final = 0.1
# Fewer cost nothing and may be what the command was run for.
_UNREADABLE_MIN: Final = 100


def without_escapes(text: str) -> str:
    """Return *text* without the sequences that only a terminal understands."""
    return _ESCAPES.sub("", text) if "\x1b" in text else text


def is_binary(text: str) -> bool:
    """Return whether more than a tenth of *text*, decoded output, is nothing that can be read.

    Names that are separated by NUL characters, as `find -print0` writes them, can be read.
    """
    return len(_UNREADABLE.findall(text)) > max(len(text) * _UNREADABLE_SHARE_MAX, _UNREADABLE_MIN)
