"""What to tell a model whose edit has no place, so that its next try fits."""

from collections.abc import Sequence
from difflib import get_close_matches

from agent_cli_tools.endings import flatten

LISTED_MAX = 8
"""Places an ambiguous edit is told about."""

_NEAREST_LINES_MAX = 6
_COMPARED_LINES_MAX = 20_000
_COMPARED_CHARS_MAX = 400


def ambiguous(numbers: Sequence[int]) -> str:
    """Return the error for a text found at the lines *numbers*."""
    listed = ", ".join(map(str, numbers[:LISTED_MAX]))
    more = len(numbers) > LISTED_MAX
    return (
        f"old occurs {f'more than {LISTED_MAX}' if more else len(numbers)} times"
        f" (lines {listed}{', …' if more else ''})."
        " Add lines around it so that it occurs once, or set all to true."
    )


def not_found(text: str, old: str) -> str:
    """Return the error with the lines that come closest, for the model to copy."""
    lines = flatten(text).split("\n")[:_COMPARED_LINES_MAX]
    quoted = [line.strip() for line in flatten(old).split("\n") if line.strip()]
    if not quoted:
        return "old was not found: it holds only blanks. Give the lines around them too."
    wanted = max(quoted, key=len)[:_COMPARED_CHARS_MAX]
    stripped = [line.strip()[:_COMPARED_CHARS_MAX] for line in lines]
    close = get_close_matches(wanted, set(stripped), 1, 0.6)
    if not close:
        return "old was not found, nor anything like it. Read the file again and copy the text."
    nearest = stripped.index(close[0])
    first = max(0, nearest - quoted.index(max(quoted, key=len)))
    shown = lines[first : first + min(len(old.split("\n")), _NEAREST_LINES_MAX)]
    excerpt = "\n".join(f"{first + i:6}\t{line}" for i, line in enumerate(shown, 1))
    return (
        f"old was not found. The closest is line {nearest + 1}; copy from what is there:\n{excerpt}"
    )
