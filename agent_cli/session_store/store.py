"""The folder of all sessions: create, resume, fork, find and list them."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from agent_cli.contracts.errors import SessionError, SessionNotFound
from agent_cli.contracts.messages import new_id, now_ms
from agent_cli.core.conversation import Conversation
from agent_cli.session_store.codec import JsonObject
from agent_cli.session_store.history import (
    History,
    is_unused,
    read_header,
    read_mended,
)
from agent_cli.session_store.log_file import LogFile, damaged
from agent_cli.session_store.records import RENAMED, Header
from agent_cli.session_store.session import Session, Tell
from agent_cli.system import paths
from agent_cli.system.loading import collections_paused

if TYPE_CHECKING:
    from agent_cli.contracts.listings import SessionInfo

_AGENTS = "agents"


class SessionStore:
    """The sessions of one folder. No file is created before there is something to save.

    A client that must be able to resume a session it has not used yet lets it `keep` itself.
    """

    def __init__(self, folder: Path, *, tell: Tell = lambda _text: None) -> None:
        """Open a folder.

        Args:
            folder: The folder of the sessions; it need not exist.
            tell: Receives a sentence for the user when a session can no longer be saved, or one
                that is read is damaged.
        """
        self.folder = folder
        self._tell = tell
        # Cached: listing reads whole sessions, completion of an id lists at each key, and a limit
        # of cost the sessions of all subagents in each round.
        self._known: dict[Path, tuple[object, SessionInfo]] = {}

    def create(
        self,
        conversation: Conversation,
        workspace: Path,
        *,
        parent: str | None = None,
        parent_at: str | None = None,
        agent: str | None = None,
    ) -> Session:
        """Return a new session for *conversation*; its existing content is saved at once."""
        header = Header(
            conversation.id,
            str(workspace),
            now_ms(),
            conversation.user_id,
            parent=parent,
            parent_at=parent_at,
            agent=agent,
        )
        session = Session(header, self._path(conversation.id), self._tell)
        session.begin(conversation.prompts)
        return session

    def of_agents(self, id: str) -> "SessionStore":
        """Return the store of all subagents of the session *id*, nested ones included."""
        store = SessionStore(self.folder / _AGENTS / id, tell=self._tell)
        store._known = self._known
        return store

    def resume(self, id: str) -> tuple[Session, Conversation]:
        """Open a session to continue it; the effects of a crash are repaired and recorded.

        Raises:
            SessionError: There is no such session, another process has it open, or it is damaged.
        """
        path = self.find(id)
        with collections_paused():  # building these objects takes a third of the time
            log_file, header, history, mending = self._opened(path)
        session = Session(
            header,
            path,
            self._tell,
            log=log_file,
            prompts=history.prompts,
            taken_back=history.taken_back,
        )
        session.mend(mending)
        conversation = Conversation(history.prompts, id=header.id, user_id=header.user_id)
        conversation.taken_back = history.taken_back
        return session, conversation

    def _opened(self, path: Path) -> tuple[LogFile, Header, History, Sequence[JsonObject]]:
        """Open a session's file; return it with its repaired history and the repair's records."""
        try:
            log_file, log = LogFile.open(path)
        except OSError as error:
            raise SessionError(f"{path}: {error.strerror}") from error
        try:
            history = History.of_log(log, path)
            if history.damage:
                raise SessionError(history.damage.message(path.stem))
            header = _header(history, path)
            mending = history.mend()
        except BaseException:
            log_file.close()
            raise
        return log_file, header, history, mending

    def fork(
        self, id: str, *, workspace: Path | None = None, at: str | None = None
    ) -> tuple[Session, Conversation]:
        """Begin a new session with a copy of another one, which may be open or damaged.

        Args:
            id: The session to copy.
            workspace: The workspace of the copy; None keeps the original's.
            at: The id, or a prefix of it, of the last prompt or entry to copy, with the reply it
                belongs to. None copies everything.

        Raises:
            SessionNotFound: There is no such session, or nothing in it has the id *at*.
            SessionError: It cannot be read, or is damaged before its first prompt.
        """
        from agent_cli.core.branching import up_to  # only a fork needs it

        path = self.find(id)
        history = read_mended(path)
        if damage := history.damage:
            if not history.prompts:
                raise SessionError(damage.message(path.stem))
            before = "the copy goes on from what is before it"
            self._tell(damaged(path.stem, damage.fault, before))
        header = _header(history, path)
        prompts = up_to(history.prompts, at, session=path.stem) if at else history.prompts
        copy = History()
        copy.prompts = prompts
        # Questions stay with the original: approved in both, a call would run twice.
        copy.mend(keep_questions=False)
        conversation = Conversation(copy.prompts, id=new_id(), user_id=header.user_id)
        about = workspace or Path(header.workspace)
        session = self.create(conversation, about, parent=header.id, parent_at=at)
        return session, conversation

    def read(self, id: str) -> History:
        """Return a session's history, repaired in memory only; a damaged one up to the damage.

        The user is told of the damage.

        Raises:
            SessionError: There is no such session, or it cannot be read.
        """
        return self.history(self.find(id))

    def history(self, path: Path) -> History:
        """Return the history of the session in the file *path* of this store, as `read` does.

        Raises:
            SessionError: It cannot be read.
        """
        history = read_mended(path)
        if history.damage:
            self._tell(history.damage.message(path.stem))
        return history

    def read_file(self, path: Path) -> History:
        """Return the history of the session in any file *path*, up to damage, which is told.

        It may lie outside of this store, where its id names nothing.

        Raises:
            SessionError: It cannot be read, or is not a session.
        """
        history = read_mended(path)
        damage = history.damage
        if history.header is None and damage and not damage.is_foreign:
            raise SessionError(f"{path} is damaged: {damage.fault}; nothing is before it")
        if history.header is None:
            raise SessionError(f"{path} is neither a session of agent-cli nor a recording")
        if damage:
            self._tell(f"{path} is damaged: {damage.fault}; it is read up to there")
        return history

    def find(self, id: str) -> Path:
        """Return the file of the session of which *id* is the id, name, prefix of the id, or title.

        The first of these that fits counts. A name wins over a prefix: `42` and `cafe` are both.

        Raises:
            SessionNotFound: No session has, or more than one.
        """
        of_agents = filter(_is_session, self.folder.glob(f"{_AGENTS}/*/*.jsonl"))
        known = [*self._paths(), *of_agents]
        found = [path for path in known if id and path.stem.startswith(id)]
        exact = [path for path in found if path.stem == id]
        if not exact and id.strip():
            found = [*(self._named(id) or found or self._titled(id))]
        if len(exact or found) != 1:
            several = ", ".join(sorted(path.stem for path in found))
            problem = f"matches several: {several}" if found else "does not exist"
            shown = "`agent-cli sessions list` shows them"
            if not found:
                shown = "`agent-cli sessions list --all` shows all, also those of other agents"
            raise SessionNotFound(f"session {id!r} {problem}; {shown}")
        return (exact or found)[0]

    def _named(self, name: str) -> Sequence[Path]:
        # Most sessions have no name, and finding that out is much faster than reading them.
        renamed = [path for path in self.files() if RENAMED in _content(path)]
        return [path for path in renamed if _is_same(self.describe(path).name, name)]

    def _titled(self, title: str) -> Sequence[Path]:
        return [info.path for info in self.list() if _is_same(info.title, title)]

    def latest(self, workspace: Path) -> str:
        """Return the id of the last used session of *workspace*.

        The user is told of a later one whose directory cannot be read.

        Raises:
            SessionNotFound: It has none.
        """
        above = moved = ""
        for path in self.files():
            header = read_header(path)
            if header is None:
                self._tell_left_out(path)
                continue
            is_above = workspace.is_relative_to(header.workspace)
            is_moved = not (moved or is_above) and _may_be_moved(Path(header.workspace), workspace)
            if not (is_above or is_moved) or _is_unused(path):
                continue
            if header.workspace == str(workspace):
                return path.stem
            other = f"; -r {path.stem} goes on with the last one of {header.workspace}"
            if is_above:
                above = above or other
            else:
                moved = f"{other}, which is gone"
        raise SessionNotFound(f"there is no session of {workspace} to continue yet{above or moved}")

    def _tell_left_out(self, path: Path) -> None:
        with suppress(FileNotFoundError):  # deleted meanwhile
            if problem := self.describe(path).problem:
                self._tell(
                    f"session {path.stem} is left out, because it does not say of which directory"
                    f" it is: {problem}; `agent-cli sessions verify {path.stem}` says what to do"
                )

    def list(self, *, limit: int | None = None) -> Sequence["SessionInfo"]:
        """Return the sessions in which something was said, last used first; at most *limit*."""
        found: list[SessionInfo] = []
        for path in self.files():
            if len(found) == limit:
                break
            with suppress(FileNotFoundError):  # deleted meanwhile
                info = self.describe(path)
                found += () if info.is_unused else (info,)
        return found

    def tree(self, path: Path) -> Sequence[Path]:
        """Return the file *path* of a session, then the files of all its subagents."""
        found, ids = [path], {path.stem}
        for each in found:  # grows: a subagent's session that was resumed has subagents of its own
            files = [file for file in self.of_agents(each.stem).files() if file.stem not in ids]
            ids |= {file.stem for file in files}
            found += files
        return found

    def agents_of(self, info: "SessionInfo") -> Iterator["SessionInfo"]:
        """Yield the list entries of a session's subagents."""
        for path in self.tree(info.path)[1:]:
            with suppress(FileNotFoundError):  # deleted meanwhile
                yield self.describe(path)

    def files(self) -> Sequence[Path]:
        """Return the sessions' files, last used first."""
        used_at_ns: dict[Path, int] = {}
        for path in self._paths():
            with suppress(FileNotFoundError):  # deleted meanwhile
                used_at_ns[path] = path.stat().st_mtime_ns
        return sorted(used_at_ns, key=used_at_ns.__getitem__, reverse=True)

    def describe(self, path: Path) -> "SessionInfo":
        """Return the list entry of the session in the file *path*."""
        from agent_cli.session_store.listing import describe  # only lists need it

        stamp, known = paths.stamp(path), self._known.get(path)
        if known is None or known[0] != stamp:
            self._known[path] = known = (stamp, describe(path))
        return known[1]

    def _paths(self) -> Iterator[Path]:
        return filter(_is_session, self.folder.glob("*.jsonl"))

    def _path(self, id: str) -> Path:
        return self.folder / f"{id}.jsonl"


def _header(history: History, path: Path) -> Header:
    """Return the header of the session in *path*; raises `SessionError` if nothing is in it.

    A file may be empty, or hold nothing but zeros, after a power failure. To go on with it would be
    to begin anew, and a run of `-p --resume` would answer without the conversation.
    """
    if history.header is None:
        fault = "nothing is in its file, as after a power failure"
        raise SessionError(damaged(path.stem, fault, f"`agent-cli sessions delete {path.stem}`"))
    return history.header


def _is_same(title: str, requested: str) -> bool:
    from agent_cli.session_store.listing import as_title  # only lists need it

    return bool(title) and title.casefold() == as_title(requested).casefold()


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:  # deleted meanwhile, or not ours to read
        return b""


def _may_be_moved(old: Path, new: Path) -> bool:
    """Return whether *old* is gone, and *new* is beside it or has its name."""
    return (old.parent == new.parent or old.name == new.name) and not paths.exists(old)


def _is_unused(path: Path) -> bool:
    try:
        return is_unused(path)
    except OSError:  # deleted meanwhile
        return True


def _is_session(path: Path) -> bool:
    # An id of dots, as the name of a folder, would be another folder.
    return path.is_file() and path.name.removesuffix(".jsonl").strip(".") != ""
