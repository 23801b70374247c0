"""The parameters for starting one command in the sandbox."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from agent_cli.system.launching import Restriction


def _nothing(_moved: Sequence[tuple[str, str]]) -> Sequence[str]:
    return ()


@dataclass(frozen=True, slots=True)
class Confinement:
    """How to start one command; call `release` once it and all its processes have ended.

    Attributes:
        prefix: The program that builds the sandbox, and its arguments; the command follows.
        files: Files that program reads, each under a descriptor of this number.
        environment: Variables in place of our own.
        restriction: The restrictions the command's process first applies to itself.
        release: Frees everything, given what the keeper moved aside; returns a sentence about each
            file that had to be moved or put back.
        nested: The command is not in our process group, but in a process namespace of its own.
        missing: Paths that must not come into being; what appears there is moved to `aside`.
    """

    prefix: Sequence[str] = ()
    files: Sequence[tuple[int, str]] = ()
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    restriction: Restriction | None = None
    release: Callable[[Sequence[tuple[str, str]]], Sequence[str]] = _nothing
    nested: bool = False
    missing: Sequence[Path] = ()
    aside: Path = Path()
