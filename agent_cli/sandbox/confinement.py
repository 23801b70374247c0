"""The parameters for starting one command in the sandbox."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from agent_cli.system.launching import Restriction


def _nothing(_moved: Sequence[tuple[str, str]]) -> Sequence[str]:
    return ()


@dataclass(frozen=True, slots=True)
class Confinement:
    """The parameters; call `release` once the command and all its processes have ended.

    Attributes:
        prefix: The program that builds the sandbox, and its arguments; the command follows.
        files: Files for that program to read, by the number of the descriptor each must have.
        environment: Variables that replace our own.
        restriction: The restrictions that the command's process first applies to itself.
        release: Frees everything, given the files that the keeper moved aside; returns a sentence
            about each file that was moved or restored.
        nested: Whether the command runs in a process namespace of its own, not in our group.
        missing: Paths that must not be created; files that appear there are moved to `aside`.
        hidden: The paths that the command cannot read.
    """

    prefix: Sequence[str] = ()
    files: Sequence[tuple[int, str]] = ()
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    restriction: Restriction | None = None
    release: Callable[[Sequence[tuple[str, str]]], Sequence[str]] = _nothing
    nested: bool = False
    missing: Sequence[Path] = ()
    aside: Path = Path()
    hidden: Sequence[Path] = ()
