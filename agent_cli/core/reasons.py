"""Why a call did not run or did not end, as the model reads it."""

from typing import Final

REASON_CHARS_MAX: Final = 4_000
_TAIL_CHARS: Final = 1_000


def bounded(reason: str) -> str:
    """Return *reason*, without its middle where it is longer than a reason has to be.

    It may hold what a model, a tool or a hook wrote, and no limit of results is applied to it.
    """
    left_out = len(reason) - REASON_CHARS_MAX
    if left_out <= 0:
        return reason
    head, tail = reason[: REASON_CHARS_MAX - _TAIL_CHARS], reason[-_TAIL_CHARS:]
    return f"{head}\n[… {left_out:,} characters left out …]\n{tail}"
