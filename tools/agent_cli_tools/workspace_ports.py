"""Ports of a workspace: a recorder of changes, a turn, processes left running, variables."""

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from agent_cli.system.records import dataclass, field

if TYPE_CHECKING:
    from agent_cli.sandbox.confinement import WayOut
    from agent_cli.system.launching import Watched
    from agent_cli.undo.logs import CommandQuestion


@dataclass(slots=True)
class CommandExports:
    """Variables that hooks set for commands; `confined` ones are for commands in the sandbox."""

    anywhere: Mapping[str, str] = field(default_factory=dict[str, str])
    confined: Mapping[str, str] = field(default_factory=dict[str, str])

    def words(self, *, is_confined: bool) -> list[str]:
        """Return NAME=value for each variable of a command, in the sandbox or not."""
        variables = {**self.anywhere, **(self.confined if is_confined else {})}
        return [f"{name}={value}" for name, value in variables.items()]


class ModelListener(Protocol):
    """Port to a turn of the model, as far as it can be sent a message."""

    def tell_model(self, text: str) -> None:
        """Append a message that the user did not type to the conversation."""
        ...


class LeftRunning(Protocol):
    """Port to a process that may outlive its call, but not the workspace."""

    def has_ended(self) -> bool:
        """Whether it has ended by itself."""
        ...

    def close(self) -> None:
        """End it if it still runs, and free its resources."""
        ...


class CommandNetwork(Protocol):
    """Port to the network that commands in the sandbox reach by host."""

    def open(
        self, command: str, standing_still: Callable[[], AbstractContextManager[None]], /
    ) -> "WayOut":
        """Return the way out of *command*, whose time limits do not run in *standing_still*.

        Raises:
            OSError: It cannot be made.
        """
        ...


class Keeper(Protocol):
    """Port to a recorder that is notified before files change."""

    def writing(
        self, path: Path, before: bytes | None, after: bytes
    ) -> AbstractContextManager[None]:
        """Return the context manager for writing a file; *before* is None if it is new."""
        ...

    def running(
        self, command: str, *, by_hook: bool = False
    ) -> "AbstractAsyncContextManager[Watched | None]":
        """Return the context manager for running a command; its value is how to record it."""
        ...

    async def decides(self, command: str, question: "CommandQuestion") -> bool:
        """Return the answer to the question of a running *command*."""
        ...

    def changed_by(self, path: Path) -> str:
        """Return which session or command changed *path* last, or "" if none did; blocks."""
        ...
