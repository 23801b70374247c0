"""Convert a command's output to text for the model: no escapes, binary data only described."""

import re
from typing import Final

# Colours and cursor movements; titles and links. Each costs the model six characters of JSON.
_ESCAPES: Final = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\)|\x1b[()][0-9A-B]|\x1b[=>]"
)
_UNREADABLE: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ufffd]")
_UNREADABLE_SHARE_MAX: Final = 0.1
# Fewer cost nothing and may be the point of the command.
_UNREADABLE_MIN: Final = 100


def without_escapes(text: str) -> str:
    """Return *text* without terminal escape sequences."""
    return _ESCAPES.sub("", text) if "\x1b" in text else text


def is_binary(text: str) -> bool:
    """Return whether more than a tenth of the decoded output *text* is unreadable.

    Names separated by NUL characters, as from `find -print0`, are readable.
    """
    return len(_UNREADABLE.findall(text)) > max(len(text) * _UNREADABLE_SHARE_MAX, _UNREADABLE_MIN)
