"""Tell the model its workspace: facts that hold for the whole session, after the stable prompt.

No clock, no git state and nothing else that changes: a changed system prompt would cost the whole
prompt cache and the thinking bound to it.
"""

import os
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

from agent_cli.contracts.authors import NOTICE
from agent_cli.contracts.errors import UsageError
from agent_cli.contracts.wording import one_line
from agent_cli.core.turn import Turn


class WorkspaceDirectories:
    """A `prepare` contributor: names the workspace, the platform and more directories.

    A message at the end tells each conversation of a directory that the user adds during a session,
    so that the system prompt stays the same.

    Attributes:
        all: The workspace, then the others.
    """

    def __init__(
        self,
        root: Path,
        extra_dirs: Sequence[Path] = (),
        *,
        opens: Sequence[Callable[[Path], None]] = (),
    ) -> None:
        """Prepare the text; each of *opens* lets a part of the program use one more directory."""
        lines = [f"Workspace: {root}", f"Platform: {os.uname().sysname} {os.uname().machine}"]
        lines += [f"The tools may also use: {folder}" for folder in extra_dirs]
        self._text = "\n".join(lines)
        self._root = root
        extra = (Path(os.path.realpath(folder)) for folder in extra_dirs)
        self.all: tuple[Path, ...] = tuple(dict.fromkeys((root, *extra)))
        self._opens = opens
        self._added: list[Path] = []
        self._sent: dict[str, int] = {}
        self._followers: list[WorkspaceDirectories] = []

    def add(self, given: str) -> Path:
        """Let the tools use one more directory, until the program ends, and return it.

        Raises:
            UsageError: *given* is not a directory, or may be used already.
        """
        folder = self._directory(given)
        if folder is None:
            raise UsageError(f"{one_line(given)} is not a directory")
        if any(folder.is_relative_to(known) for known in self.all):
            raise UsageError(f"the tools may use {folder} already")
        self._open(folder)
        return folder

    @contextmanager
    def following(
        self, root: Path, *, opens: Sequence[Callable[[Path], None]] = ()
    ) -> Generator["WorkspaceDirectories"]:
        """Yield these directories for an agent in *root*; it gets what the user adds meanwhile."""
        follower = WorkspaceDirectories(root, self.all[1:], opens=opens)
        self._followers.append(follower)
        try:
            yield follower
        finally:
            self._followers.remove(follower)

    def _open(self, folder: Path) -> None:
        self.all = (*self.all, folder)
        for open_dir in self._opens:
            open_dir(folder)
        self._added.append(folder)
        for follower in self._followers:
            follower._open(folder)

    def _directory(self, given: str) -> Path | None:
        try:
            folder = Path(os.path.realpath(self._root / Path(given).expanduser()))
            return folder if folder.is_dir() else None
        except (OSError, RuntimeError, ValueError):  # no such user, a NUL in it, too long
            return None

    def __call__(self, turn: Turn) -> None:
        """Add the facts to the system prompt, and tell of directories added since."""
        turn.system.append(self._text)
        id, count = turn.conversation.id, len(self._added)
        if self._sent.get(id, 0) < count and not turn.conversation.open_calls():
            folders = ", ".join(map(str, self._added[self._sent.get(id, 0) :]))
            self._sent[id] = count
            text = f"[agent-cli: the user lets the file tools use {folders} too.]"
            turn.tell_model(text, author=NOTICE)
