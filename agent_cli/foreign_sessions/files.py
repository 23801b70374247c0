"""The files of sessions of other agents: found, listed, read. Nothing is ever written."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Final

from agent_cli.contracts.errors import SessionError, SessionNotFound
from agent_cli.contracts.listings import SessionInfo
from agent_cli.contracts.timeline import Json, Prompt
from agent_cli.foreign_sessions import claude, codex
from agent_cli.foreign_sessions.timeline import ForeignRecord, prompts_of
from agent_cli.system import paths
from agent_cli.system.fixed_paths import start_of
from agent_cli.system.json_text import json_object
from agent_cli.system.records import dataclass

_BYTES_MAX: Final = 256 * 1024 * 1024
_HEAD_BYTES: Final = 256 * 1024
_LISTED_MAX: Final = 1_000
_TITLE_CHARS: Final = 80

_Lines = Iterator[Mapping[str, Json]]


@dataclass(frozen=True, slots=True)
class ForeignSession:
    """A session's file.

    Attributes:
        program: "claude" or "codex".
        id: As that program calls it.
    """

    program: str
    id: str
    path: Path
    updated_at_ms: int

    def describe(self) -> SessionInfo:
        """Return its list entry; reads only the beginning, so its prompts are not counted."""
        title = workspace = ""
        for line in _lines_of(_beginning(self.path)):
            found = _OPENING[self.program](line)
            workspace, title = workspace or found[0], title or found[1]
            if title and workspace:
                break
        return SessionInfo(
            self.id,
            self.path,
            self.updated_at_ms,
            _as_title(title),
            workspace,
            program=self.program,
        )

    def read(self) -> list[Prompt]:
        """Return its prompts in our form, without thinking, each call with a result.

        Raises:
            SessionError: It cannot be read, or holds no message.
        """
        prompts = prompts_of(self._records())
        if not prompts:
            raise SessionError(f"nothing was said in session {self.id} of {self.program}")
        return prompts

    def _records(self) -> list[ForeignRecord]:
        try:
            if self.path.stat().st_size > _BYTES_MAX:
                raise SessionError(f"{self.path} has more than {_BYTES_MAX // 1024**2} MB")
            data = self.path.read_bytes()
        except OSError as error:
            raise SessionError(f"{self.path} cannot be read: {error.strerror}") from error
        return _READ[self.program]([*_lines_of(data)])


_READ: Final[Mapping[str, Callable[[list[Mapping[str, Json]]], list[ForeignRecord]]]] = {
    "claude": claude.records_in,
    "codex": codex.records_in,
}
_OPENING: Final[Mapping[str, Callable[[Mapping[str, Json]], tuple[str, str]]]] = {
    "claude": claude.opening,
    "codex": codex.opening,
}


def folders() -> dict[str, Path]:
    """Return the folder with the sessions of each program."""
    return {"claude": paths.claude_dir() / "projects", "codex": paths.codex_dir() / "sessions"}


def foreign_sessions() -> list[ForeignSession]:
    """Return the sessions of other agents, last used first; at most 1,000."""
    homes = folders()
    found = [
        *(("claude", path, path.stem) for path in _files(homes["claude"], "*/*.jsonl")),
        *(
            ("codex", path, path.stem[-36:])
            for path in _files(homes["codex"], "*/*/*/rollout-*.jsonl")
        ),
    ]
    sessions: list[ForeignSession] = []
    for program, path, id in found:
        with suppress(OSError):  # deleted meanwhile
            updated_at_ms = paths.unix_ms(path.stat().st_mtime_ns)
            sessions.append(ForeignSession(program, id, path, updated_at_ms))
    newest = sorted(sessions, key=lambda each: each.updated_at_ms, reverse=True)
    return [*islice(newest, _LISTED_MAX)]


def find_foreign(id: str) -> ForeignSession | None:
    """Return the session whose id begins with *id*, or which has it as its title; None: none has.

    Raises:
        SessionNotFound: Several have.
    """
    sessions = foreign_sessions()
    found = [each for each in sessions if id and each.id.startswith(id)]
    if not found and (title := _as_title(id).casefold()):
        found = [each for each in sessions if each.describe().title.casefold() == title]
    if len(found) > 1 and not any(each.id == id for each in found):
        listed = ", ".join(each.id for each in found[:5])
        raise SessionNotFound(f"session {id!r} matches several of other agents: {listed}")
    return next((each for each in found if each.id == id or len(found) == 1), None)


def described(sessions: list[ForeignSession]) -> list[SessionInfo]:
    """Return the list entries of the *sessions* that hold a message."""
    return [info for each in sessions if (info := each.describe()).title]


def _as_title(text: str) -> str:
    return " ".join(text.split())[:_TITLE_CHARS]


def _files(folder: Path, pattern: str) -> Iterator[Path]:
    return (path for path in folder.glob(pattern) if paths.is_file(path))


def _lines_of(data: bytes) -> _Lines:
    """Yield the objects on the lines of *data*; a torn last line is no loss."""
    for line in data.splitlines():
        if (value := json_object(line)) is not None:
            yield value


def _beginning(path: Path) -> bytes:
    try:
        return start_of(path, _HEAD_BYTES)
    except OSError:  # deleted meanwhile
        return b""
