"""The logs that the keepers of commands have written, each in a folder of its own."""

import contextlib
import fcntl
import json
import os
import stat
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TypeAlias

from agent_cli.system.keeper import LOCK
from agent_cli.system.logger import logger
from agent_cli.system.records import dataclass
from agent_cli.undo.kept_files import NEARLY_FULL
from agent_cli.undo.records import INCOMPLETE, LOG, ChangeRecord

_NAMED_MAX = 5
_SHORT_BYTES_MAX: Final = 8_000_000
_log = logger(__name__)
UNDONE: Final = "undone"
"""The folder in that of a log for what its undo took away."""

Signature: TypeAlias = list[int] | None


@dataclass(frozen=True, slots=True)
class CommandLog:
    """The log of the changes that one command was about to make.

    Attributes:
        folder: The folder with the kept files.
        command: Its text, as the session gave it.
        began_ns: When it began.
        records: In order.
        ended_ns: When all its processes had ended; 0 if its keeper was killed.
        after: The signature that each touched path had then.
        roots: The folders whose files were recorded.
    """

    folder: Path
    command: str
    began_ns: int
    records: Sequence[ChangeRecord]
    ended_ns: int
    after: Mapping[str, Signature]
    roots: Sequence[str] = ()

    @property
    def lost(self) -> Sequence[ChangeRecord]:
        """The files that could not be kept."""
        return [each for each in self.records if each.kind == "lost"]


@dataclass(frozen=True, slots=True)
class Loss:
    """The files that a command has deleted or overwritten, and the next one, before it is lost.

    Attributes:
        files: How many; the first are in `paths`.
        next: The file that it wants to delete or overwrite now.
        why_unkept: Why an undo could not bring the next one back; "" if it could.
    """

    files: int
    bytes: int
    paths: Sequence[str]
    next: str
    next_bytes: int
    why_unkept: str


@dataclass(frozen=True, slots=True)
class GeneratedFolder:
    """A folder in which a command loses files, and that can be built again if git agrees.

    Attributes:
        ignores_itself: Whether a file in it made git ignore the whole folder before the command.
        is_certain: Whether its own tool's files prove that it can be built again without git.
    """

    folder: str
    ignores_itself: bool
    is_certain: bool = False


CommandQuestion: TypeAlias = Loss | GeneratedFolder


def question_of(fields: Mapping[str, Any]) -> CommandQuestion:
    """Return the question that a keeper asks."""
    return GeneratedFolder(**fields) if "folder" in fields else Loss(**fields)


def read_log(folder: Path) -> CommandLog | None:
    """Return the log in *folder*; None if the command was not watched.

    Raises:
        OSError: It cannot be read.
    """
    try:
        lines = (folder / LOG).read_bytes().splitlines()
    except FileNotFoundError:
        return None
    records: list[ChangeRecord] = []
    header: dict[str, Any] = {}
    ended_ns, after = 0, dict[str, Signature]()
    for line in lines:
        with contextlib.suppress(ValueError):  # cut off by a crash
            found = json.loads(line)
            if isinstance(found, list):
                records.append(ChangeRecord.parse(found))  # pyright: ignore[reportUnknownArgumentType]
            elif "end" in found:
                ended_ns, after = found["end"], found["after"]
            else:
                header = header or found
    if not header:
        return None
    began_ns = int(str(header["at"]))
    if is_incomplete(folder):
        records = [_without_kept(each, folder) for each in records]
        if not any(each.kind == "lost" for each in records):
            records.append(ChangeRecord("lost", began_ns, "some files", "the disk was full"))
    return CommandLog(
        *(folder, str(header["command"]), began_ns, records, ended_ns, after),
        roots=header.get("roots", ()),
    )


def short_log(folder: Path) -> CommandLog | None:
    """Return the log in *folder* if it can be read beside a call.

    Returns:
        None if it is too long, or the command was not watched, or changed nothing: then its log
        was removed.
    """
    try:
        if (folder / LOG).stat().st_size <= _SHORT_BYTES_MAX:
            return read_log(folder)
        _log.info("changes of a command not told", log=str(folder))
    except OSError:
        pass
    return None


def narrowed(log: CommandLog, holds: Callable[[str], bool]) -> CommandLog:
    """Return *log* reduced to the paths for which *holds* is true."""
    return replace(
        log,
        records=[each for each in log.records if holds(each.path)],
        after={path: left for path, left in log.after.items() if holds(path)},
    )


def with_changes(logs: Iterable[CommandLog]) -> list[CommandLog]:
    """Return the logs that record more than new times of files."""
    return [log for log in logs if any(each.kind != "times" for each in log.records)]


def _without_kept(record: ChangeRecord, folder: Path) -> ChangeRecord:
    """Return a record as lost if its kept file was given up."""
    if record.kind not in ("gone", "write") or os.path.lexists(folder / record.to):
        return record
    return record._replace(kind="lost", to=NEARLY_FULL)


def is_of_names(folder: Path) -> bool:
    """Return whether the log in *folder* is about the files that the command names alone."""
    with contextlib.suppress(OSError, ValueError), (folder / LOG).open(encoding="utf-8") as log:
        return "unwatched" in json.loads(log.readline())
    return False


def is_watched(folder: Path) -> bool:
    """Return whether the command with the log in *folder* is, or was, watched."""
    try:
        return (folder / LOG).stat().st_size > 0
    except OSError:
        return False


def is_incomplete(folder: Path) -> bool:
    """Return whether the log in *folder* misses changes, or files that could not be kept."""
    try:
        return stat.S_IMODE((folder / LOG).stat().st_mode) == INCOMPLETE
    except OSError:
        return False


def unkept(folder: Path) -> str:
    """Return the first files that the log in *folder* could not keep, and why; "" for none."""
    if not is_incomplete(folder):
        return ""
    try:
        log = read_log(folder)
    except OSError as error:
        return f"its record cannot be read ({error.strerror})"
    lost = [f"{each.path} ({each.to})" for each in log.lost] if log else []
    more = f", and {len(lost) - _NAMED_MAX} more" if len(lost) > _NAMED_MAX else ""
    return ", ".join(lost[:_NAMED_MAX]) + more


def is_running(folder: Path) -> bool:
    """Return whether a process of the command with the log in *folder* may still change files."""
    return is_held(folder / LOCK)


def is_held(path: Path) -> bool:
    """Return whether another open file has a lock on *path*."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


def drop_kept(folder: Path, but: Collection[Path] = ()) -> None:
    """Remove the kept files of a command that is undone: a link more would show on the file."""
    for each in folder.iterdir():
        if each.name not in (LOG, LOCK, UNDONE) and each not in but:
            with contextlib.suppress(OSError):
                each.unlink()
