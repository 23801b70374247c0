"""Tell the model its workspace, the date, git's state at the start, and the pinned texts.

What holds for the whole session follows the stable prompt: no clock, no git state and nothing else
that changes, since a changed system prompt would cost the whole prompt cache and the thinking bound
to it. Date and git's state are recorded in the conversation with the first request and sent as
recorded, so that a resumed session keeps its cache; a message at the end tells of a new day.
"""

import asyncio
import os
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import Final

from agent_cli.contracts.authors import NOTICE
from agent_cli.contracts.errors import UsageError
from agent_cli.contracts.messages import CustomMessage, UserMessage
from agent_cli.contracts.wording import one_line
from agent_cli.core.conversation import Conversation
from agent_cli.core.pins import as_pinned, as_unpinned, pins_and_former
from agent_cli.core.projection import noted
from agent_cli.core.turn import Turn
from agent_cli.system.git import GitError, git_output, status_rows
from agent_cli.system.paths import real_path
from agent_cli.system.sanitize import reveal

ENTRY: Final = "session_facts"
_GIT_LIMIT_S: Final = 2.0
_NAME_CHARS_MAX: Final = 100
_WEEKDAYS: Final = (
    *("Monday", "Tuesday", "Wednesday", "Thursday"),
    *("Friday", "Saturday", "Sunday"),
)


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
        extra = (real_path(folder) for folder in extra_dirs)
        self.all: tuple[Path, ...] = tuple(dict.fromkeys((root, *extra)))
        self._opens = opens
        self._added: list[Path] = []
        self._sent: dict[str, int] = {}
        self._followers: list[WorkspaceDirectories] = []

    def add(self, path: str) -> Path:
        """Let the tools use one more directory, until the program ends, and return it.

        Raises:
            UsageError: *path* is not a directory, or may be used already.
        """
        folder = self._directory(path)
        if folder is None:
            raise UsageError(f"{one_line(path)} is not a directory")
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

    def _directory(self, path: str) -> Path | None:
        try:
            folder = real_path(self._root / Path(path).expanduser())
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


class SessionFacts:
    """A `prepare` contributor: the date and git's state at the start of the session."""

    def __init__(self, root: Path, *, today: Callable[[], date] = date.today) -> None:
        """Store the workspace *root* and the clock; git runs later."""
        self._root = root
        self._today = today

    async def __call__(self, turn: Turn) -> None:
        """Add the recorded facts to the system prompt, and a message if the day has changed."""
        facts = _recorded_facts(turn.conversation)
        day = _day(self._today())
        if not facts:
            git = await asyncio.to_thread(git_state, self._root)
            facts = ["\n".join([f"Today is {day}.", *([git] if git else [])])]
            _record(turn.conversation, facts[0])
        elif day not in facts[-1] and not turn.conversation.open_calls():
            text = f"[agent-cli: it is now {day}.]"
            _record(turn.conversation, text)
            turn.tell_model(text, author=NOTICE)
        turn.system.append(facts[0])


def git_state(root: Path) -> str:
    """Return git's branch and the number of changes; "" without a repository.

    Blocks for a short time only.
    """
    branch = git_output(root, "symbolic-ref", "--quiet", "--short", "HEAD", limit_s=_GIT_LIMIT_S)
    if branch is None:
        return ""
    facts = f"Git branch: {one_line(reveal(branch.rstrip()), _NAME_CHARS_MAX)}"
    try:
        marks = [row[:2] for row in status_rows(root, limit_s=_GIT_LIMIT_S)]
    except GitError:
        return facts
    untracked = marks.count("??")
    if not marks:
        return f"{facts}, clean"
    return f"{facts}, {len(marks) - untracked} changed and {untracked} untracked files"


def _day(today: date) -> str:
    # Not strftime's %A, which depends on the locale.
    return f"{_WEEKDAYS[today.weekday()]}, {today.isoformat()}"


def _recorded_facts(conversation: Conversation) -> list[str]:
    """Return the recorded facts of *conversation*, the first ones first."""
    notes = noted(conversation.between_replies, ENTRY)
    return [str(note["text"]) for note in notes if isinstance(note, dict)]


def _record(conversation: Conversation, text: str) -> None:
    conversation.note(CustomMessage(ENTRY, {"text": text}))


def tell_pins(turn: Turn) -> None:
    """Append a message for each pin that the next request would not hold, and for each taken back.

    A `prepare` contributor, placed before compaction, which repeats the pins behind a summary.
    """
    held, gone = pins_and_former(turn.conversation)
    if not (held or gone) or turn.conversation.open_calls():
        return
    texts = [each.text for each in turn.conversation.context() if isinstance(each, UserMessage)]
    sent = "\n".join(texts)
    for text in held.values():
        if sent.rfind(as_pinned(text)) <= sent.rfind(as_unpinned(text)):
            turn.tell_model(as_pinned(text), author=NOTICE)
    for text in gone:
        if sent.rfind(as_pinned(text)) > sent.rfind(as_unpinned(text)):
            turn.tell_model(as_unpinned(text), author=NOTICE)
