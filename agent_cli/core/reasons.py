"""Reasons why a call did not run or did not end, worded for the model."""

from typing import Final

REASON_CHARS_MAX: Final = 4_000
_TAIL_CHARS: Final = 1_000


def bounded(reason: str) -> str:
    """Return *reason*, with its middle left out where it is too long.

    It may quote a model, a tool or a hook, and the length limit of results does not apply to it.
    """
    left_out = len(reason) - REASON_CHARS_MAX
    if left_out <= 0:
        return reason
    head, tail = reason[: REASON_CHARS_MAX - _TAIL_CHARS], reason[-_TAIL_CHARS:]
    return f"{head}\n[… {left_out:,} characters left out …]\n{tail}"
