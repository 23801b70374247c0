"""The directories the tools may use, the files seen there, and the folder for full outputs.

The only object the tools share. It handles paths, not contents: it neither decodes nor edits files.
"""

import copy
import os
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Self

from agent_cli.contracts.errors import ToolError
from agent_cli.sandbox.own_folder import OwnFolder
from agent_cli.sandbox.protected import why_protected
from agent_cli.sandbox.token_files import holds_token
from agent_cli.system.launching import Launcher, Watched
from agent_cli_tools.jobs import Jobs
from agent_cli_tools.open_files import OpenFiles
from agent_cli_tools.secret_files import is_linked_secret, is_secret
from agent_cli_tools.seen import SeenFiles
from agent_cli_tools.stoppable import Claim
from agent_cli_tools.textio import failure
from agent_cli_tools.workspace_ports import CommandExports, Keeper, LeftRunning

if TYPE_CHECKING:
    from agent_cli_tools.job import Job

_CLOSE_NAMES_MAX = 3


class Workspace:
    """A root and further directories; paths are resolved so that no symlink leads out.

    Args:
        root: The base of relative paths and working directory of commands.
        extra_dirs: Further directories the tools may read and write.
        own_dirs: Directories of this program, never written even if inside the root.
        keeper: Notified of every write to a file, and of commands.
        spill_dir: The folder for full outputs, private to the user; None makes a temporary
            directory that is removed when the program ends.
        jobs: The background commands, with their limits.
        jobs_end_with_run: Whether the agent here has only one run, with which its jobs end.

    Attributes:
        command_variables: Returns additional environment variables for a command.
        exports: Variables that hooks set for commands.
        wrote: Called with the real path of each file that a tool has written.
        has_started: Returns whether the job that a call started belongs to the agent here, which
            can read and end only its own.
    """

    def __init__(
        self,
        root: Path,
        *,
        extra_dirs: Sequence[Path] = (),
        own_dirs: Sequence[Path] = (),
        keeper: Keeper | None = None,
        spill_dir: Path | None = None,
        jobs: Jobs | None = None,
        jobs_end_with_run: bool = False,
    ) -> None:
        self.root = Path(os.path.realpath(root.expanduser()))
        self._extra_dirs = [Path(os.path.realpath(d.expanduser())) for d in extra_dirs]
        self._opened: set[Path] = set()
        self._own_dirs = tuple(Path(os.path.realpath(directory)) for directory in own_dirs)
        self._keeper = keeper
        self._spill_dir = spill_dir
        self._own_spill_dir: OwnFolder | None = None
        self.seen, self.open_files = SeenFiles(), OpenFiles()
        self._running: list[LeftRunning] = []
        self.launcher = Launcher()
        self.command_variables: Callable[[], Mapping[str, str]] = dict
        self.exports = CommandExports()
        self.jobs = jobs or Jobs()
        self.jobs_end_with_run = jobs_end_with_run
        self.has_started: Callable[[str], bool] = lambda _call_id: True
        self.wrote: Callable[[Path], None] = lambda _path: None
        self._on_close: list[Callable[[], None]] = []

    def resolve(self, given: str, *, to_write: bool = False) -> Path:
        """Resolve the path *given*, as the model wrote it, to a real path.

        A leading "@" (as in mentions of files) is dropped, "~" is the home directory, and relative
        paths start at the root. The file need not exist. Full outputs can only be read.

        Raises:
            ToolError: The path is empty, outside, a secret, contains misleading characters, or is
                to be written and would make programs act.
        """
        refuse_hidden_characters(given)
        if given.startswith("@") and not os.path.lexists(self.root / given):
            given = given[1:]
        if not given:
            raise ToolError("The path is empty. Give one below the workspace, or `.` for its root.")
        # Not Path.resolve: the path before following symlinks is checked as well. Nor
        # Path.expanduser: it fails for a file whose name starts with "~".
        named = Path(os.path.abspath(self.root / os.path.expanduser(given)))  # noqa: PTH100, PTH111
        try:
            real = Path(os.path.realpath(named))
        except OSError as error:  # A symlink changed between two checks.
            raise failure(error, named) from error
        if is_secret(named) or is_secret(real) or holds_token(real):
            raise holds_secrets(given)
        if not self._contains(real, to_write=to_write) and not self._is_opened(real):
            raise _Outside(
                f"{given} is outside the workspace. Use paths below {' or '.join(self.dirs)};"
                " the user can add a directory with --add-dir.",
                real,
            )
        if to_write:
            self._refuse_protected(given, real)
        try:
            if is_linked_secret(real.stat(), self.root, Path.home()):
                raise holds_secrets(given)
        except (FileNotFoundError, NotADirectoryError):
            pass  # The tool decides whether it must exist.
        except OSError as error:
            raise failure(error, real) from error
        return real

    def refusal(self, given: str, *, to_write: bool) -> str:
        """Return the error with which a tool would refuse the path *given*, or ""."""
        try:
            self.resolve(given, to_write=to_write)
        except ToolError as error:
            return str(error)
        return ""

    def outside(self, given: str, *, to_write: bool) -> str:
        """Return the real path of *given* if its only obstacle is lying outside, else "".

        Paths opened with `open_path` count as outside, too.
        """
        try:
            real = self.resolve(given, to_write=to_write)
        except _Outside as error:
            real = error.path
            if to_write:
                home = Path.home()
                root = home if real.is_relative_to(home) else Path("/")
                return "" if why_protected(real, root, self._own_dirs) else str(real)
        except ToolError:
            return ""
        return "" if self._contains(real, to_write=to_write) else str(real)

    def open_path(self, path: str) -> None:
        """Let the tools use the real *path*, although it is outside."""
        self._opened.add(Path(path))

    def for_another_agent(self, root: Path | None = None) -> "Workspace":
        """Return this workspace, or one at *root*, for a subagent, which has seen no files yet.

        It is closed with this one, which must outlive it.
        """
        if self._spill_dir is None:
            self._own_spill_dir = OwnFolder()
            self._spill_dir = self._own_spill_dir.path
        other = copy.copy(self)
        other.seen, other.jobs_end_with_run = SeenFiles(), True
        if root:
            other.root = Path(os.path.realpath(root))
            other._opened, other._keeper, other.open_files = set(), None, OpenFiles()
        return other

    def open_dir(self, folder: Path) -> None:
        """Let the tools use a further directory like the workspace; those of subagents too."""
        real = Path(os.path.realpath(folder.expanduser()))
        if real not in self._dirs:
            self._extra_dirs.append(real)  # shared with the workspaces of subagents

    @property
    def own_jobs(self) -> list["Job"]:
        """The jobs of the agent here, in the order they were started."""
        return [job for job in self.jobs.all if self.has_started(job.tool_call_id)]

    @property
    def _dirs(self) -> tuple[Path, ...]:
        return (self.root, *self._extra_dirs)

    @property
    def dirs(self) -> tuple[str, ...]:
        """The root and the further directories."""
        return tuple(map(str, self._dirs))

    def touched_by(self, given: str, *, to_write: bool = False) -> tuple[str, ...]:
        """Return the real path that a tool would use for *given*, even if it is outside.

        Returns no path if the tool would refuse it wherever it is.
        """
        try:
            return (str(self.resolve(given, to_write=to_write)),)
        except _Outside as error:
            return (str(error.path),)
        except ToolError:
            return ()

    def shown(self, path: Path) -> str:
        """Return *path* as the model should write it: relative to the root if possible."""
        return str(path.relative_to(self.root)) if path.is_relative_to(self.root) else str(path)

    def missing(self, path: Path) -> ToolError:
        """Return the error for a missing *path*, with similar names."""
        from difflib import get_close_matches  # noqa: PLC0415 - with a wrong path

        try:
            siblings = [entry.name for entry in os.scandir(path.parent)]
        except OSError:
            siblings = []
        close = get_close_matches(path.name, siblings, _CLOSE_NAMES_MAX, 0.6)
        names = ", ".join(self.shown(path.parent / name) for name in close)
        hint = f"Did you mean {names}?" if names else "Find it with glob."
        return ToolError(f"{self.shown(path)} does not exist. {hint}")

    def write(self, path: Path, data: bytes, *, before: bytes | None, claim: Claim) -> None:
        """Write *data* to the real path *path*; see `write_atomic`."""
        from agent_cli_tools.atomic_write import write_atomic  # noqa: PLC0415 - with the first change

        with self._keeper.writing(path, before, data) if self._keeper else nullcontext():
            if not self.open_files.write(path, data, before, claim):
                write_atomic(path, data, before=before, claim=claim.take)
        self.wrote(path)

    def running(self, command: str) -> AbstractAsyncContextManager[Watched | None]:
        """Return the context manager to run a command in; its value is how to record it."""
        return self._keeper.running(command) if self._keeper else nullcontext()

    def open_spill(self) -> tuple[Path, BinaryIO]:
        """Create the next file for a full output, NNN.log, readable by the user only."""
        if self._spill_dir is None:
            self._own_spill_dir = OwnFolder()
            self._spill_dir = self._own_spill_dir.path
        self._spill_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        numbers = [int(log.stem) for log in self._spill_dir.glob("*.log") if log.stem.isdigit()]
        number = 1 + max(numbers, default=0)
        while True:
            path = self._spill_dir / f"{number:03}.log"
            # Another call, or another process with the same session, may have been faster.
            with suppress(FileExistsError):
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
                return path, os.fdopen(os.open(path, flags, 0o600), "wb", buffering=0)
            number += 1

    def keep(self, running: LeftRunning) -> None:
        """Keep *running* until it ends or the workspace is closed."""
        for other in [one for one in self._running if one.has_ended()]:
            other.close()
            self._running.remove(other)
        self._running.append(running)

    def on_close(self, callback: Callable[[], None]) -> None:
        """Call *callback* when the workspace is closed, after all processes have ended."""
        self._on_close.append(callback)

    def close(self) -> None:
        """End all processes that calls left running; call it in their event loop."""
        while self._running:
            self._running.pop().close()
        self.launcher.close()
        while self._on_close:
            self._on_close.pop()()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def _contains(self, real: Path, *, to_write: bool) -> bool:
        dirs = self._dirs
        if self._spill_dir is not None and not to_write:
            dirs = (*dirs, Path(os.path.realpath(self._spill_dir)))
        return any(real.is_relative_to(directory) for directory in dirs)

    def _is_opened(self, real: Path) -> bool:
        return any(real.is_relative_to(path) for path in self._opened)

    def _refuse_protected(self, given: str, real: Path) -> None:
        for directory in self._dirs:
            if not real.is_relative_to(directory):
                continue
            if why := why_protected(real, directory, self._own_dirs):
                raise ToolError(
                    f"{given} is {why}, so the tools do not change it."
                    " Tell the user what to change there, and why."
                )


class _Outside(ToolError):
    """A path is outside the workspace, which is its only obstacle."""

    def __init__(self, said: str, path: Path) -> None:
        super().__init__(said)
        self.path = path


# Refuse paths as the model wrote them.

# Invisible characters that reorder text, so that a path looks like another one.
_BIDI = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def refuse_hidden_characters(given: str) -> None:
    """Raise `ToolError` if *given* has a character that hides which file it names."""
    for character in given:
        if character in _BIDI or unicodedata.category(character) in {"Cc", "Cs"}:
            raise ToolError(
                f"The path {given!a} holds the character U+{ord(character):04X}, which hides"
                " what it names. Write the path without it."
            )


def holds_secrets(given: str) -> ToolError:
    """Return the error for a path whose file may hold secrets."""
    return ToolError(
        f"{given} may hold secrets, so the tools do not touch it."
        " Ask the user for what you need to know from it."
    )
