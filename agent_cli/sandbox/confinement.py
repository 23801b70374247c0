"""The parameters for starting one command in the sandbox."""

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from agent_cli.system.launching import Restriction, restricted


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

    @property
    def is_sandbox(self) -> bool:
        """Whether it confines at all."""
        return bool(self.prefix) or self.restriction is not None

    def showing(self, folder: Path) -> "Confinement":
        """Return this one, in which the command may also read *folder*, of a temporary directory.

        Only bubblewrap hides it, by a directory for temporary files of its own.
        """
        if not self.nested:
            return self
        mount = ("--ro-bind", str(folder), str(folder))
        return replace(self, prefix=[*self.prefix[:-1], *mount, self.prefix[-1]])

    def around(self, command: Sequence[str]) -> list[str]:
        """Return the command line of *command* in the sandbox, for any way to start programs."""
        if self.restriction is not None:
            return restricted(self.restriction, command)
        # A program opens no files at numbers of its choice for another one; a shell does.
        opened = " ".join(f"{number}<{shlex.quote(path)}" for number, path in self.files)
        inner = [*self.prefix, *command]
        return ["/bin/sh", "-c", f'exec {opened} "$@"', "sh", *inner] if opened else inner
