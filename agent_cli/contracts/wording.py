"""Counts as people and the model read them, and sentences of more than one module."""

from typing import Final

CUT: Final = "\n\n[OUTPUT TRUNCATED: "
"""Begins the note at the end of a result that was cut, for the model."""
UNSANDBOXED: Final = "runs outside the sandbox, with all your rights and the network"
"""Why a command without the sandbox is asked about."""
MOVED: Final = "Not run: it would touch other files now than when it was checked. Call again."
"""The refusal of a call that a symlink leads to other files since its paths were checked."""


def counted(count: int, noun: str, plural: str = "") -> str:
    """Return *count* and its noun: `1 file`, `1,234 files`; *plural* where *noun* takes no s."""
    return f"{count:,} {noun if count == 1 else plural or f'{noun}s'}"


def short_count(count: int) -> str:
    """Return *count* as `834`, `12.4k` or `1.2M`."""
    if count < 1_000:
        return str(count)
    return f"{count / 1_000:.1f}k" if count < 999_950 else f"{count / 1_000_000:.1f}M"
