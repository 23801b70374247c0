"""Text files to the byte: what was not changed is written back exactly as it was.

Knows bytes, encodings and how to replace a file safely; nothing about the workspace.
"""

import contextlib
import errno
import os
import secrets
import stat
import time
from pathlib import Path
from typing import BinaryIO, Literal, TypeAlias

from agent_cli.errors import ToolError

Encoding: TypeAlias = Literal["utf-8", "utf-8-sig", "latin-1"]

_BOM = b"\xef\xbb\xbf"
_SNIFFED_BYTES = 8192
_TEMP_PREFIX = ".agt-"
_STRAY_AFTER_S = 3600.0
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_FORBIDDEN = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})


def looks_binary(start: bytes) -> bool:
    """Whether a file that starts with *start* is not text; UTF-16 counts, tools would break it."""
    return b"\0" in start[:_SNIFFED_BYTES]


def decode(raw: bytes) -> tuple[str, Encoding]:
    """Return *raw* as text, and the encoding that turns it back into the same bytes.

    What is not UTF-8 is taken as Latin-1: perhaps the wrong letters, but every byte survives.
    """
    encoding: Encoding = "utf-8-sig" if raw.startswith(_BOM) else "utf-8"
    try:
        return raw.decode(encoding), encoding
    except UnicodeDecodeError:
        return raw.decode("latin-1"), "latin-1"


def encode(text: str, encoding: Encoding) -> bytes:
    """Return *text* in *encoding*.

    Raises:
        ToolError: It has no character for something in *text*.
    """
    try:
        return text.encode(encoding)
    except UnicodeEncodeError as error:
        character = f"U+{ord(text[error.start]):04X}"
        raise ToolError(
            f"The file is {encoding}, which cannot hold the character {character}."
            " Write it with other characters, or convert the file first."
        ) from error


def read_bytes(path: Path, *, bytes_max: int) -> bytes:
    """Return the content of the regular file *path*.

    Raises:
        ToolError: It is no regular file, is larger than *bytes_max* or may not be read.
    """
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > bytes_max:
            raise ToolError(
                f"{path.name} has {size:,} bytes, more than the {bytes_max:,} this tool handles."
                " Use bash with a program made for large files."
            )
        return file.read(bytes_max)


def open_regular(path: Path) -> BinaryIO:
    """Open the real path *path* for reading.

    Raises:
        ToolError: It is no regular file, or may not be read.
    """
    # A real path has no symlink at its end; one that is there now was put there since. And a
    # named pipe would block us until somebody writes to it.
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        file = os.fdopen(os.open(path, flags), "rb")
    except OSError as error:
        raise failure(error, path) from error
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise ToolError(f"{path.name} is not a regular file, so its content is not text to read.")
    return file


def failure(error: OSError, path: Path) -> ToolError:
    """Return *error*, met while reading or writing *path*, as a sentence for the model."""
    if error.errno in _FULL:
        return ToolError(
            f"The disk is full, so {path.name} was not written and is as it was before."
            " Free some space or ask the user to."
        )
    if error.errno in _FORBIDDEN:
        return ToolError(
            f"There is no permission to use {path.name} in this way ({error.strerror})."
            " Ask the user to change that, or choose another file."
        )
    return ToolError(f"{path.name} could not be used: {error.strerror or error}. Check the path.")


def write_atomic(path: Path, data: bytes, *, before: bytes | None) -> None:
    """Make *data* the content of the real path *path*, or leave everything as it is.

    The new content goes to a file beside it, which then takes its name with mode, owner and
    extended attributes. A file with several hard links is written in place, or the others would
    be left behind; that one case is not atomic.

    Args:
        path: Its directory must exist.
        data: All of the content.
        before: The content this change was made for; None when there was no file.

    Raises:
        ToolError: The file changed in the meantime, the disk is full, or it may not be written.
    """
    try:
        sweep_strays(path.parent)
        if before is not None and path.stat().st_nlink > 1:
            _expect(path, before)
            _write_in_place(path, data, before)
            return
        temporary = path.with_name(f"{_TEMP_PREFIX}{secrets.token_hex(8)}")
        try:
            _write_temporary(temporary, data, like=path if before is not None else None)
            _expect(path, before)
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        _sync_directory(path.parent)
    except OSError as error:
        raise failure(error, path) from error


def sweep_strays(directory: Path) -> None:
    """Remove temporary files a killed program left in *directory* more than an hour ago."""
    limit = time.time() - _STRAY_AFTER_S
    for stray in directory.glob(f"{_TEMP_PREFIX}*"):
        with contextlib.suppress(OSError):
            if stray.lstat().st_mtime < limit:
                stray.unlink()


def _expect(path: Path, before: bytes | None) -> None:
    """Refuse to overwrite what somebody else wrote since we looked."""
    now = path.read_bytes() if path.exists() else None
    if now != before:
        raise ToolError(
            f"{path.name} was changed by someone else at this moment, so nothing was written."
            " Read it again and repeat the change."
        )


def _write_temporary(temporary: Path, data: bytes, *, like: Path | None) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    # A new file gets what the umask leaves of 0666; a copy is nobody else's until it has the
    # mode of the original.
    descriptor = os.open(temporary, flags, 0o666 if like is None else 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        if like is not None:
            _copy_attributes(like, file.fileno())
        os.fsync(file.fileno())


def _copy_attributes(source: Path, descriptor: int) -> None:
    state = source.stat()
    own = os.fstat(descriptor)
    if (own.st_uid, own.st_gid) != (state.st_uid, state.st_gid):
        # Only root may give files away; then the file is ours from now on, as with an editor.
        with contextlib.suppress(PermissionError):
            os.fchown(descriptor, state.st_uid, state.st_gid)
    os.fchmod(descriptor, stat.S_IMODE(state.st_mode))
    if hasattr(os, "listxattr"):
        # Some file systems know no attributes, and some attributes only root may set.
        with contextlib.suppress(OSError):
            for name in os.listxattr(source):
                os.setxattr(descriptor, name, os.getxattr(source, name))


def _write_in_place(path: Path, data: bytes, before: bytes) -> None:
    try:
        _overwrite(path, data)
    except OSError:
        # The disk is full, most likely; what was there before did fit.
        _overwrite(path, before)
        raise


def _overwrite(path: Path, data: bytes) -> None:
    with path.open("r+b", buffering=0) as file:
        written = 0
        while written < len(data):
            written += file.write(data[written:])
        file.truncate()
        os.fsync(file.fileno())


def _sync_directory(directory: Path) -> None:
    """Make the new name last through a power failure, where the file system can do so."""
    with contextlib.suppress(OSError):
        descriptor = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
