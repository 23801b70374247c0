"""Resources that the workspaces of a session's agents share, and their ports to the program."""

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, Protocol

from agent_cli.contracts.dialogs import Documents
from agent_cli.contracts.errors import ToolError
from agent_cli.system.launching import Launcher, NamedFiles, Watched
from agent_cli.system.paths import is_dir, real_path
from agent_cli.system.records import dataclass, field
from agent_cli.system.temporary_files import OwnFolder
from agent_cli_tools.jobs import Jobs
from agent_cli_tools.stoppable import Claim
from agent_cli_tools.textio import decode, encode, looks_binary

if TYPE_CHECKING:
    from agent_cli.sandbox.confinement import Rules, WayOut
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
    ) -> AbstractAsyncContextManager[Watched | None]:
        """Return the context manager for running a command; its value is how to record it."""
        ...

    async def decides(self, command: str, question: "CommandQuestion") -> bool:
        """Return the answer to the question of a running *command*."""
        ...

    def changed_by(self, path: Path, *, with_own: bool) -> str:
        """Return which session or command changed *path* last, or "" if none did; blocks.

        Args:
            path: The file.
            with_own: Whether changes by this session count.
        """
        ...


class RootResources:
    """Resources that the workspaces of several agents at one root share: they have the same files.

    Attributes:
        keeper: Notified of every write to a file, and of commands.
        opened: Paths outside that the user let the tools use.
        open_files: The files that an editor has open.
    """

    def __init__(self, keeper: Keeper | None = None) -> None:
        """Share *keeper*; nothing is opened yet."""
        self.keeper = keeper
        self.opened: set[Path] = set()
        self.open_files = OpenFiles()


class SessionResources:
    """Processes, jobs, further directories and the folder for full outputs of one session.

    Args:
        extra_dirs: Further directories the tools may read and write.
        own_dirs: Directories of this program, never written even if inside a workspace.
        spill_dir: The folder for full outputs, private to the user; None makes a temporary
            directory that `close` removes.
        jobs: The background commands, with their limits.

    Attributes:
        command_variables: Returns additional environment variables for a command.
        wrote: Called with each recorded file that a tool has written, and whether it is new.
        ran: Called with the folder of a command's log when its call ends; a job goes on.
        exports: Variables that hooks set for commands.
        network: Opens the network by host to commands in bubblewrap; None: it stays closed.
        named_files: Returns what a command names and may lose, where its calls cannot be stopped;
            None for nothing. It blocks.
    """

    def __init__(
        self,
        *,
        extra_dirs: Sequence[Path] = (),
        own_dirs: Sequence[Path] = (),
        spill_dir: Path | None = None,
        jobs: Jobs | None = None,
    ) -> None:
        self.extra_dirs = [real_path(d.expanduser()) for d in extra_dirs]
        self.own_dirs = tuple(map(real_path, own_dirs))
        self.jobs = jobs or Jobs()
        self.launcher = Launcher()
        self.exports = CommandExports()
        self.network: CommandNetwork | None = None
        self.named_files: Callable[[str], NamedFiles | None] | None = None
        self.command_variables: Callable[[], Mapping[str, str]] = dict
        self.wrote: Callable[[Path, bool], None] = lambda _path, _is_new: None
        self.ran: Callable[[Path], None] = lambda _log: None
        self.spill_dir = spill_dir
        self._own_spill_dir: OwnFolder | None = None
        self._running: list[LeftRunning] = []
        self._on_close: list[Callable[[], None]] = []

    def made_spill_dir(self) -> Path:
        """Return the folder for full outputs, which exists."""
        if self.spill_dir is None:
            self._own_spill_dir = OwnFolder()
            self.spill_dir = self._own_spill_dir.path
        self.spill_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        return self.spill_dir

    def opened(self, rules: "Rules") -> "Rules":
        """Return the *rules* for a command, which may read the full outputs of earlier ones, too.

        Bubblewrap has a folder of its own for temporary files.
        """
        folder = self.spill_dir
        return rules.opened([real_path(folder)], []) if folder and is_dir(folder) else rules

    def open_spill(self) -> tuple[Path, BinaryIO]:
        """Create the next file for a full output, NNN.log, readable by the user only."""
        folder = self.made_spill_dir()
        numbers = [int(log.stem) for log in folder.glob("*.log") if log.stem.isdigit()]
        number = 1 + max(numbers, default=0)
        while True:
            path = folder / f"{number:03}.log"
            # Another call, or another process with the same session, may have been faster.
            with suppress(FileExistsError):
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
                return path, os.fdopen(os.open(path, flags, 0o600), "wb", buffering=0)
            number += 1

    def keep(self, running: LeftRunning) -> None:
        """Keep *running* until it ends or the session is closed."""
        for other in [one for one in self._running if one.has_ended()]:
            other.close()
            self._running.remove(other)
        self._running.append(running)

    def on_close(self, callback: Callable[[], None]) -> None:
        """Call *callback* when the session is closed, after all processes have ended."""
        self._on_close.append(callback)

    def close(self) -> None:
        """End all processes that calls left running; call it in their event loop."""
        while self._running:
            self._running.pop().close()
        self.launcher.close()
        while self._on_close:
            self._on_close.pop()()
        if self._own_spill_dir:
            self._own_spill_dir.remove()
            self._own_spill_dir = self.spill_dir = None


# Only UTF-8 text goes through an editor, because it might not keep another encoding. Line endings
# that an editor shows in one form and saves in another do not count as changes.
_OPEN_BYTES_MAX: Final = 5_000_000


class OpenFiles:
    """The files of one editor, if there is one.

    Attributes:
        documents: The editor.
    """

    def __init__(self) -> None:
        self.documents: Documents | None = None

    def content(self, path: Path, saved: bytes) -> bytes:
        """Return the editor's content of *path*, or *saved* if that is the same."""
        if self.documents is None or not _is_shown(saved):
            return saved
        shown = self.documents.read(path)
        before, encoding = decode(saved)
        if shown is None or _same(shown, before):
            return saved
        if "\r\n" in before and "\r\n" not in shown:
            shown = shown.replace("\n", "\r\n")
        return encode(shown.removeprefix("\ufeff"), encoding)

    def write(self, path: Path, data: bytes, before: bytes | None, claim: Claim) -> bool:
        """Let the editor write *data*; return False if the file does not go through an editor.

        Raises:
            ToolError: The user changed the file meanwhile, or it is unknown whether it was written.
        """
        if self.documents is None or not _is_shown(data) or not path.parent.is_dir():
            return False
        text, encoding = decode(data)
        if encoding != "utf-8":
            return False
        if before is not None:
            shown = self.documents.read(path)
            if shown is not None and not _same(shown, decode(before)[0]):
                raise ToolError(
                    f"{path.name} was changed in the editor at this moment, so nothing was"
                    " written. Read it again and repeat the change."
                )
        claim.take()
        return self.documents.write(path, text)


def _is_shown(content: bytes) -> bool:
    """Return whether an editor can show *content* unchanged."""
    is_text = len(content) <= _OPEN_BYTES_MAX and not looks_binary(content)
    return is_text and decode(content)[1] not in ("latin-1", "unknown")


def _same(shown: str, saved: str) -> bool:
    return _plain(shown) == _plain(saved)


def _plain(text: str) -> str:
    return text.removeprefix("\ufeff").replace("\r\n", "\n")
