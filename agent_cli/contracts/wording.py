"""Word counts for people and the model."""


def counted(count: int, noun: str, plural: str = "") -> str:
    """Return *count* and its noun: `1 file`, `1,234 files`; *plural* where *noun* takes no s."""
    return f"{count:,} {noun if count == 1 else plural or f'{noun}s'}"
