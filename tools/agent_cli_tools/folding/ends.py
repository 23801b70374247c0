"""Leave out the middle of a run of lines that say alike; pure."""

from collections.abc import Iterator, Sequence


def ends_of(lines: Sequence[str]) -> Iterator[str]:
    """Yield the first and the last of *lines*, and the number between; there are three at least."""
    yield lines[0]
    yield f"[{len(lines) - 2:,} lines like these]"
    yield lines[-1]
