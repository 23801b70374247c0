"""The directories the tools may use, the files seen there, and the folder for full outputs.

The only object the tools share. It handles paths, not contents: it neither decodes nor edits files.
"""

import os
import unicodedata
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Self

from agent_cli.contracts.errors import ToolError
from agent_cli.contracts.options import require
from agent_cli.sandbox.guarded_files import why_protected
from agent_cli.sandbox.secret_files import (
    holds_token,
    is_behind_a_secret,
    is_linked_secret,
    is_secret,
)
from agent_cli.system.launching import Watched
from agent_cli.system.paths import as_named, is_too_long, real_path
from agent_cli_tools.seen import SeenFiles
from agent_cli_tools.session_resources import Keeper, RootResources, SessionResources
from agent_cli_tools.stoppable import Claim
from agent_cli_tools.textio import failure

if TYPE_CHECKING:
    from agent_cli.undo.logs import CommandQuestion
    from agent_cli_tools.job import Job

_CLOSE_NAMES_MAX = 3


class Workspace:
    """A root and further directories; paths are resolved so that no symlink leads out.

    Args:
        root: The base of relative paths and working directory of commands.
        shared: What the workspaces of a session share; closed with this one.
        keeper: Notified of every write to a file, and of commands.
        at_root: What workspaces at this root share, *keeper* included; None begins that anew.
        jobs_end_with_run: Whether the agent here has only one run, with which its jobs end.

    Attributes:
        wrote: Called with the real path of each file that a tool has written.
        has_started: Returns whether the job that a call started belongs to the agent here, which
            can read and end only its own.
    """

    def __init__(
        self,
        root: Path | str,
        *,
        shared: SessionResources | None = None,
        keeper: Keeper | None = None,
        at_root: RootResources | None = None,
        jobs_end_with_run: bool = False,
    ) -> None:
        self.shared = shared or SessionResources()
        require(root, Path, str, what="the root of a workspace")
        self.root = real_path(Path(root).expanduser())
        self._at_root = at_root or RootResources(keeper)
        self.open_files, self._keeper = self._at_root.open_files, self._at_root.keeper
        self.seen = SeenFiles()
        self.jobs_end_with_run = jobs_end_with_run
        self.has_started: Callable[[str], bool] = lambda _call_id: True
        self.wrote: Callable[[Path], None] = lambda _path: None

    def resolve(self, written: str, *, to_write: bool = False) -> Path:
        """Resolve the path *written*, as the model wrote it, to a real path.

        A leading "@" (as in mentions of files) is dropped, "~" is the home directory, and relative
        paths start at the root. The file need not exist; one that only looks like it is taken
        instead. Full outputs can only be read.

        Raises:
            ToolError: The path is empty, outside, a secret, contains misleading characters, or is
                to be written and would make programs act.
        """
        real = self._named(written)
        if not self._contains(real, to_write=to_write) and not self._is_opened(real):
            raise self._beyond(written)
        self._refuse_guarded(written, real, to_write=to_write)
        return real

    def _named(self, written: str) -> Path:
        """Return the real path of *written* wherever it is, unless its name tells of secrets."""
        refuse_hidden_characters(written)
        if written.startswith("@") and not os.path.lexists(self.root / written):
            written = written[1:]
        if not written:
            raise ToolError("The path is empty. Give one below the workspace, or `.` for its root.")
        if is_too_long(written):  # each of its parts would be looked up
            raise ToolError(f"The path is too long, with {len(written):,} characters. Check it.")
        # Not Path.resolve: the path before following symlinks is checked as well. Nor
        # Path.expanduser: it fails for a file whose name starts with "~".
        named = Path(os.path.abspath(self.root / os.path.expanduser(written)))  # noqa: PTH100, PTH111
        named = as_named(named)
        try:
            real = real_path(named)
        except OSError as error:  # A symlink changed between two checks.
            raise failure(error, named) from error
        if is_secret(named) or is_secret(real) or holds_token(real) or is_behind_a_secret(real):
            raise holds_secrets(written)
        return real

    def obstacle(self, written: str, *, to_write: bool) -> tuple[str, str]:
        """Return the error with which a tool would refuse the path *written*, or "".

        Then its real path, if the only obstacle is that it lies outside, else "". Paths opened with
        `open_path` count as outside: each call needs its own decision.
        """
        beyond = ""
        try:
            real = self._named(written)
            if not self._contains(real, to_write=to_write):
                beyond = str(self._beyond(written))
            self._refuse_guarded(written, real, to_write=to_write)
        except ToolError as error:
            return beyond or str(error), ""
        return beyond, str(real) if beyond else ""

    def open_path(self, path: str) -> None:
        """Let the tools use the real *path*, although it is outside."""
        self._at_root.opened.add(Path(path))

    def for_another_agent(self, root: Path | None = None) -> "Workspace":
        """Return this workspace, or one at *root*, for a subagent, which has seen no files yet.

        Both share the session's resources, and at the same root that root's.
        """
        at_root = self._at_root if root is None else None
        return Workspace(
            root or self.root, shared=self.shared, at_root=at_root, jobs_end_with_run=True
        )

    def open_dir(self, folder: Path | str) -> None:
        """Let the tools use a further directory like the workspace, also subagents' tools."""
        require(folder, Path, str, what="a directory of a workspace")
        real = real_path(Path(folder).expanduser())
        if real not in self._dirs:
            self.shared.extra_dirs.append(real)

    @property
    def own_jobs(self) -> list["Job"]:
        """The jobs of the agent here, in the order they were started."""
        return [job for job in self.shared.jobs.all if self.has_started(job.tool_call_id)]

    @property
    def _dirs(self) -> tuple[Path, ...]:
        return (self.root, *self.shared.extra_dirs)

    @property
    def dirs(self) -> tuple[str, ...]:
        """The root and the further directories."""
        return tuple(map(str, self._dirs))

    def touched_by(self, written: str, *, to_write: bool = False) -> tuple[str, ...]:
        """Return the real path that a tool would use for *written*, even if it is outside.

        Returns no path if the tool would refuse it wherever it is.
        """
        try:
            real = self._named(written)
            self._refuse_guarded(written, real, to_write=to_write)
        except ToolError:
            return ()
        return (str(real),)

    def shown(self, path: Path) -> str:
        """Return *path* as the model should write it: relative to the root if possible."""
        return str(path.relative_to(self.root)) if path.is_relative_to(self.root) else str(path)

    def missing(self, path: Path) -> ToolError:
        """Return the error for a missing *path*, with similar names."""
        from difflib import get_close_matches  # with a wrong path

        try:
            siblings = [entry.name for entry in os.scandir(path.parent)]
        except OSError:
            siblings = []
        if any(named(each) == path.name != each for each in siblings):
            return ToolError(
                f"{self.shown(path)} stands for a name with characters that no path may hold."
                " Use bash, with a pattern that matches the name."
            )
        name = path.name.casefold()
        close = [each for each in siblings if each.casefold() == name]
        close = close or get_close_matches(path.name, siblings, _CLOSE_NAMES_MAX, 0.6)
        names = ", ".join(self.shown(path.parent / name) for name in close)
        hint = f"Did you mean {names}?" if names else "Find it with glob."
        return ToolError(f"{self.shown(path)} does not exist. {hint}")

    def write(self, path: Path, data: bytes, *, before: bytes | None, claim: Claim) -> None:
        """Write *data* to the real path *path*; see `write_atomic`."""
        from agent_cli_tools.atomic_write import write_atomic  # with the first change

        # A missing folder is made; a new one in the place of a project that was moved is not it.
        if path.is_relative_to(self.root) and not self.root.is_dir():
            raise ToolError("The workspace is gone, so nothing can be written. Tell the user.")
        with self._keeper.writing(path, before, data) if self._keeper else nullcontext():
            if not self.open_files.write(path, data, before, claim):
                write_atomic(path, data, before=before, claim=claim.take)
        self.wrote(path)
        if self._keeper:
            self.shared.wrote(path, before is None)

    @asynccontextmanager
    async def running(
        self, command: str, *, by_hook: bool = False
    ) -> AsyncGenerator[Watched | None]:
        """Run a command in the body; the value is how to record it."""
        if self._keeper is None:
            yield None
            return
        async with self._keeper.running(command, by_hook=by_hook) as watched:
            try:
                yield watched
            finally:
                if watched and not by_hook:
                    self.shared.ran(Path(watched.folder))

    async def decides(self, command: str, question: "CommandQuestion") -> bool:
        """Return the answer to the question of a running *command*."""
        return self._keeper is None or await self._keeper.decides(command, question)

    def stale(self, path: Path) -> str:
        """Return the words that *path* changed since the model read it, and who did that."""
        # The last change is the model's own where it edited the file after that of another.
        with_own = not self.seen.edited_unseen(path)
        author = self._keeper.changed_by(path, with_own=with_own) if self._keeper else ""
        return "changed since you read it" + (f" ({author})" if author else "")

    def close(self) -> None:
        """Close the resources that the workspaces of the session share."""
        self.shared.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def _contains(self, real: Path, *, to_write: bool) -> bool:
        dirs = self._dirs
        if self.shared.spill_dir is not None and not to_write:
            dirs = (*dirs, real_path(self.shared.spill_dir))
        return any(real.is_relative_to(directory) for directory in dirs)

    def _is_opened(self, real: Path) -> bool:
        return any(real.is_relative_to(path) for path in self._at_root.opened)

    def _beyond(self, written: str) -> ToolError:
        return ToolError(
            f"{written} is outside the workspace. Use paths below {' or '.join(self.dirs)};"
            " the user can add a directory with --add-dir."
        )

    def _refuse_guarded(self, written: str, real: Path, *, to_write: bool) -> None:
        """Raise `ToolError` if *real* is a link to a secret, or makes programs act if written."""
        if to_write:
            self._refuse_protected(written, real)
        try:
            if is_linked_secret(real.stat(), self.root, Path.home()):
                raise holds_secrets(written)
        except (FileNotFoundError, NotADirectoryError):
            pass  # The tool decides whether it must exist.
        except OSError as error:
            raise failure(error, real) from error

    def _refuse_protected(self, written: str, real: Path) -> None:
        home = Path.home()
        roots = [each for each in self._dirs if real.is_relative_to(each)]
        for directory in roots or [home if real.is_relative_to(home) else Path("/")]:
            if why := why_protected(real, directory, self.shared.own_dirs):
                raise ToolError(
                    f"{written} is {why}, so the tools do not change it."
                    " Tell the user what to change there, and why."
                )


# Refuse paths as the model wrote them.

# Invisible characters that reorder text, so that a path looks like another one.
_BIDI = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def named(name: str) -> str:
    r"""Return the *name* of a file on one line: `\n` and the like for what no call may write."""
    if name.isprintable():
        return name
    return "".join(
        each.encode("unicode_escape").decode() if _is_hidden(each) else each for each in name
    )


def _is_hidden(character: str) -> bool:
    return character in _BIDI or unicodedata.category(character) in {"Cc", "Cs"}


def refuse_hidden_characters(written: str) -> None:
    """Raise `ToolError` if *written* has a character that hides which file it names."""
    for character in written:
        if _is_hidden(character):
            raise ToolError(
                f"The path {written!a} holds the character U+{ord(character):04X}, which hides"
                " what it names. Write the path without it."
            )


def holds_secrets(written: str) -> ToolError:
    """Return the error for a path whose file may hold secrets."""
    return ToolError(
        f"{written} may hold secrets, so the tools do not touch it."
        " Ask the user for what you need to know from it."
    )
