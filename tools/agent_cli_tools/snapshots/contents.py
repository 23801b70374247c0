"""Store earlier contents of files, each once by its digest; read current ones; watch files."""

import errno
import hashlib
import os
import stat
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from agent_cli.system.fixed_paths import open_file
from agent_cli.system.logger import logger
from agent_cli.system.paths import private_dir
from agent_cli.system.private_files import write_private
from agent_cli.system.records import dataclass, field

T = TypeVar("T")

TOTAL_BYTES_MAX: Final = 256 * 1024 * 1024
DIGESTED_BYTES_MAX: Final = 64 * 1024 * 1024
"""Tools change no larger files; what a command makes of one is known by its size and time."""
NO_FILE_ANY_MORE: Final = "not a file"
_LARGE: Final = "large file"
_PART_BYTES: Final = 1024 * 1024
_GONE: Final = (errno.ENOENT, errno.ENOTDIR)


class ContentStore:
    """A folder of contents, created with the first one.

    Attributes:
        folder: Each content is a file in it, named after its digest.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._bytes: int | None = None
        self._lock = threading.Lock()

    def keep(self, data: bytes) -> bool:
        """Store *data*; return False if the size limit is reached.

        Raises:
            OSError: It cannot be written.
        """
        name = digest(data)
        with self._lock:
            if self.has(name):
                return True
            if self._bytes is None:
                folder = private_dir(self.folder)
                self._bytes = sum(each.stat().st_size for each in folder.iterdir())
            if self._bytes + len(data) > TOTAL_BYTES_MAX:
                return False
            write_private(self.folder / name, data)
            self._bytes += len(data)
            return True

    def has(self, name: str) -> bool:
        """Return whether there is a content with that digest."""
        return (self.folder / name).exists()

    def get(self, name: str) -> bytes | None:
        """Return the content with that digest; None if it was not stored, or is damaged."""
        try:
            data = (self.folder / name).read_bytes()
        except OSError:
            return None
        return data if digest(data) == name else None


def digest(data: bytes) -> str:
    """Return the digest of a content, its name in the store."""
    return hashlib.sha256(data).hexdigest()


def content_of(path: Path, bytes_max: int = -1) -> bytes | None:
    """Return the current content of the real path *path*; None if it does not exist.

    Args:
        path: The file.
        bytes_max: Maximum number of bytes to read; -1 for no limit.

    Raises:
        OSError: It cannot be read, or is no longer a regular file.
    """
    with _opened(path) as file:
        return file.read(bytes_max) if file else None


def digest_of(path: Path) -> str | None:
    """Return the digest of the current content of *path*, or None; never raises OSError.

    A file too large for a digest has its size and time of change instead.
    """
    try:
        with _opened(path) as file:
            return _digest(file) if file else None
    except OSError:
        return NO_FILE_ANY_MORE


def is_large(found: str | None) -> bool:
    """Return whether the digest *found* is that of a file too large for one."""
    return found is not None and found.startswith(_LARGE)


def _digest(file: BufferedReader) -> str:
    # Read in parts: a command may have made the file gigabytes long, or may be writing to it.
    made, left = hashlib.sha256(), DIGESTED_BYTES_MAX
    if os.fstat(file.fileno()).st_size <= left:
        while part := file.read(min(_PART_BYTES, left + 1)):
            made.update(part)
            left -= len(part)
            if left < 0:
                break
        else:
            return made.hexdigest()
    state = os.fstat(file.fileno())
    return f"{_LARGE} {state.st_ino} {state.st_size} {state.st_mtime_ns}"


@contextmanager
def _opened(path: Path) -> Generator[BufferedReader | None]:
    try:
        descriptor = open_file(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError as error:
        if error.errno not in _GONE:
            raise
        yield None
        return
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, NO_FILE_ANY_MORE)
        yield file


class Digests:
    """A cache of digests of current contents; files with unchanged metadata are not read again."""

    def __init__(self) -> None:
        self._known: dict[Path, tuple[object, str | None]] = {}

    def of(self, path: Path) -> str | None:
        """Return the digest of the current content of *path*, as `digest_of`."""
        try:
            state = path.lstat()
        except OSError:
            return digest_of(path)
        stamp = state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns
        known = self._known.get(path)
        if known is None or known[0] != stamp:
            known = self._known[path] = stamp, digest_of(path)
        return known[1]


# Watch known files around a command: read what they hold, and keep it.

_log = logger(__name__)


class Seen(NamedTuple):
    """A file's content at one moment, and its permission bits; None if there was no file."""

    digest: str | None
    mode: int | None


@dataclass(slots=True, eq=False)
class Watch:
    """The contents of known files when a command began, or when a tool changed them since.

    Attributes:
        log: The folder of the log that the command's keeper may write.
        by_hook: Whether it is a hook.
    """

    seen: dict[Path, Seen] = field(default_factory=dict[Path, Seen])
    has_run: bool = False
    log: Path | None = None
    by_hook: bool = False
    _has_begun: threading.Event = field(default_factory=threading.Event)

    def begin(self, work: "Callable[[Watch, str], T]", command: str) -> T:
        """Return the result of *work*, and let `end` go on."""
        try:
            return work(self, command)
        finally:
            self._has_begun.set()

    def end(self, work: "Callable[[Watch, str], None]", command: str) -> None:
        """Do *work* once `begin` is done: a caller that was cancelled left that to its thread."""
        self._has_begun.wait()
        work(self, command)

    @property
    def is_recorded(self) -> bool:
        """Whether the command's keeper records all that it changes."""
        from agent_cli.undo.logs import is_watched  # with a command

        return self.log is not None and is_watched(self.log)

    def unrecorded(self) -> Sequence[Path] | None:
        """Return the known files that the keeper did not record; None if it recorded all."""
        from agent_cli.undo.logs import is_of_names, read_log  # with a command

        if self.log is None or not self.is_recorded:
            return tuple(self.seen)
        if not is_of_names(self.log) or (log := read_log(self.log)) is None:
            return None
        named = {each.path for each in log.records}
        return [path for path in self.seen if str(path) not in named]


def seen_now(path: Path, digests: Digests) -> Seen:
    """Return the current content of *path*."""
    return Seen(digests.of(path), mode_of(path))


def keep_content(path: Path, digests: Digests, contents: ContentStore) -> None:
    """Store the current content of *path*."""
    found = digests.of(path)
    with faults_logged("content not kept", path):
        if found and not is_large(found) and not contents.has(found):
            data = content_of(path, DIGESTED_BYTES_MAX)
            if data is not None:
                contents.keep(data)


def log_folder(watch: Watch, store: Path, faults: set[int]) -> Path | None:
    """Return the folder for a keeper's log; None if there can be none, for one of *faults*.

    Where the disk is full it is one that is not there: the keeper asks about what is lost.
    """
    is_full = not faults.isdisjoint((errno.ENOSPC, errno.EDQUOT))
    return watch.log or (store / "unrecorded" if is_full else None)


@contextmanager
def faults_logged(failure: str, about: object, warned: set[int] | None = None) -> Generator[None]:
    """Log errors of recording, because a tool must not fail for them.

    An error of the system whose number is in *warned*, to which it is added, is no warning again.
    """
    try:
        yield
    except (OSError, ValueError) as error:
        number = error.errno if isinstance(error, OSError) else None
        is_known = warned is not None and number in warned
        if warned is not None and number is not None:
            warned.add(number)
        log = _log.debug if is_known else _log.warning
        reason = (error.strerror if isinstance(error, OSError) else "") or str(error)
        log(failure, about=str(about), reason=reason, sentence=f"{failure}: {about}: {reason}")


def changed_ns_of(path: Path) -> int:
    """Return when *path* was changed last; 0 if it does not exist."""
    try:
        return path.lstat().st_mtime_ns
    except OSError:
        return 0


def mode_of(path: Path) -> int | None:
    """Return the permission bits of *path*; None if it does not exist."""
    try:
        return stat.S_IMODE(path.lstat().st_mode)
    except OSError:
        return None
