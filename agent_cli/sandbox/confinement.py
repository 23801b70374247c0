"""The parameters for starting one command in the sandbox."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from agent_cli.system.launching import Restriction


def _nothing() -> Sequence[str]:
    return ()


@dataclass(frozen=True, slots=True)
class Confinement:
    """The parameters; call `release` once the command and all its processes have ended.

    Attributes:
        prefix: The program that builds the sandbox, and its arguments; the command follows.
        files: Files for that program to read, by the number of the descriptor each must have.
        environment: Variables that replace our own.
        restriction: The restrictions that the command's process first applies to itself.
        release: Frees everything; returns a sentence about each file that was restored. The sandbox
            keeps a list of the files that appeared, until `Sandbox.settle`.
        nested: Whether the command runs in a process namespace of its own, not in our group.
        hidden: The paths that the command cannot read.
    """

    prefix: Sequence[str] = ()
    files: Sequence[tuple[int, str]] = ()
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    restriction: Restriction | None = None
    release: Callable[[], Sequence[str]] = _nothing
    nested: bool = False
    hidden: Sequence[Path] = ()
