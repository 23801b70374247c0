"""What starting one command in the sandbox takes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path


def _nothing() -> Sequence[str]:
    return ()


@dataclass(frozen=True, slots=True)
class Confinement:
    """How one command is started; `release` must be called once it, and all it left, has ended.

    Attributes:
        prefix: The program that builds the sandbox, and its arguments; the command follows.
        descriptors: Files that program needs open.
        environment: Variables in place of our own.
        enter: Restricts the thread it is called in; to be called in the one that starts the
            command, which must do nothing else after.
        release: Frees everything; returns a sentence about each file that had to be put back.
        nested: The command is not in our process group, but in a process namespace of its own.
        placeholders: Empty directories that `release` removes, and somebody else has to if we are
            killed before; each has a lock on it while a session needs it.
    """

    prefix: Sequence[str] = ()
    descriptors: Sequence[int] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    enter: Callable[[], None] | None = None
    release: Callable[[], Sequence[str]] = _nothing
    nested: bool = False
    placeholders: Sequence[Path] = ()
