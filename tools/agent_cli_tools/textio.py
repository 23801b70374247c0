"""Read and write text files so that unchanged parts stay identical to the byte.

It handles bytes and encodings, not the workspace.
"""

import codecs
import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO, Final, Literal, TypeAlias

from agent_cli.contracts.errors import ToolError
from agent_cli.system.fixed_paths import open_file

Encoding: TypeAlias = Literal["utf-8", "utf-8-sig", "utf-16-le", "utf-16-be", "latin-1", "unknown"]

NOTEBOOK_SUFFIX = ".ipynb"
RESULT_BYTES_MAX = 50 * 1024
FOOTER_BYTES = 512
"""Of a result, left for the note at its end."""
_BOM = b"\xef\xbb\xbf"
_UTF_16: Final[dict[bytes, Encoding]] = {
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}
_BOM_BYTES = 2
# Latin-1 has no characters there. Windows has quotes, dashes, dots, the euro sign and the French
# ligatures, and letters that are rare where the rest is Latin-1.
_NO_LATIN_1: Final = bytes(
    {*range(0x80, 0xA0)} - {0x80, 0x85, 0x8C, *range(0x91, 0x98), 0x99, 0x9C}
)
_ASCII: Final = bytes(range(0x80))
_ISO_2022: Final = (b"\x1b$@", b"\x1b$A", b"\x1b$B", b"\x1b$(D", b"\x1b$)A", b"\x1b$)C", b"\x1b$)G")
"""The codes that begin the letters of Japanese, Chinese and Korean text of seven bits."""
_CLASSES: Final = bytes(128) + b"\1" * 128
_SNIFFED_BYTES = 8192
_CHANGED_BYTES_MAX = 20_000_000
# Most of a large notebook are the pictures in its outputs.
_NOTEBOOK_BYTES_MAX = 100_000_000
_WRITABLE = 0o222
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_FORBIDDEN = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})


def looks_binary(start: bytes) -> bool:
    """Return whether a file that starts with *start* is binary; UTF-16 needs a byte order mark."""
    text = _utf_16(start, is_whole=len(start) < _SNIFFED_BYTES)
    if text is not None:
        return "\0" in text
    return b"\0" in start[:_SNIFFED_BYTES] or start[:_BOM_BYTES] in _UTF_16


def _utf_16(raw: bytes, *, is_whole: bool) -> str | None:
    """Return the text of *raw* behind its byte order mark; None if it is not UTF-16 with one."""
    encoding = _UTF_16.get(raw[:_BOM_BYTES])
    if encoding is None or len(raw) % 2:
        return None
    try:
        return codecs.getincrementaldecoder(encoding)().decode(raw[_BOM_BYTES:], is_whole)
    except UnicodeDecodeError:
        return None


def decode(raw: bytes) -> tuple[str, Encoding]:
    """Return *raw* as text, and the encoding that turns it back into the same bytes.

    Text that is not UTF-8 is decoded as Latin-1: possibly wrong letters, but no lost bytes. It is
    "unknown" if its letters are surely wrong, as those of ISO 2022, which look like ASCII.
    """
    if (text := _utf_16(raw, is_whole=True)) is not None:
        return text, _UTF_16[raw[:_BOM_BYTES]]
    encoding: Encoding = "utf-8-sig" if raw.startswith(_BOM) else "utf-8"
    try:
        text = raw.decode(encoding)
        is_shifted = text.isascii() and any(each in raw for each in _ISO_2022)
        return text, "unknown" if is_shifted else encoding
    except UnicodeDecodeError:
        return raw.decode("latin-1"), "latin-1" if _may_be_latin_1(raw) else "unknown"


def _may_be_latin_1(raw: bytes) -> bool:
    """Return whether the letters of *raw* beyond ASCII mostly stand alone.

    So they do in Western languages; a word such as "Grüße" may have two in a row.
    """
    beyond = raw.translate(None, _ASCII)
    if beyond.translate(None, _NO_LATIN_1) != beyond:
        return False
    is_beyond = raw.translate(_CLASSES)
    starts = is_beyond.count(b"\0\1") + is_beyond.startswith(b"\1")
    return 2 * (len(beyond) - starts) <= starts + 1


def require_writable(new: str, encoding: Encoding, *, old: str = "") -> None:
    """Raise a `ToolError` if *new* adds a character to *old* that *encoding* may not have."""
    if encoding != "unknown":
        return
    if added := {each for each in new if not each.isascii()} - {*old}:
        raise ToolError(
            "The file is neither UTF-8 nor Latin-1, so only ASCII can be added to it; this has"
            f" U+{ord(min(added)):04X}. Find its encoding, and change it with iconv or Python in"
            " bash."
        )


def text_bytes(raw: bytes) -> bytes:
    """Return *raw*, of UTF-16 its text in UTF-8; of the start of a file its whole characters."""
    text = _utf_16(raw, is_whole=False)
    return raw if text is None else text.encode()


def encode(text: str, encoding: Encoding) -> bytes:
    """Return *text* in *encoding*.

    Raises:
        ToolError: It has no character for something in *text*.
    """
    marks = (mark for mark, each in _UTF_16.items() if each == encoding)
    try:
        return next(marks, b"") + text.encode("latin-1" if encoding == "unknown" else encoding)
    except UnicodeEncodeError as error:
        character = f"U+{ord(text[error.start]):04X}"
        raise ToolError(
            f"The file is {encoding}, which cannot hold the character {character}."
            " Write it with other characters, or convert the file first."
        ) from error


def read_to_change(path: Path, shown: str) -> bytes:
    """Return the content of the file *path*, shown as *shown*, to be edited.

    Raises:
        ToolError: It may not be edited, is too large, or is not a file.
    """
    if path.is_dir():
        raise ToolError(f"{shown} is a directory. Give the path of a file in it.")
    raw = read_bytes(path, bytes_max=changed_bytes_max(path))
    if not path.stat().st_mode & _WRITABLE:
        raise ToolError(f"{shown} is read-only. Ask the user whether it may be changed.")
    return raw


def changed_bytes_max(path: Path) -> int:
    """Return how many bytes *path* may have to be read whole and edited."""
    return _NOTEBOOK_BYTES_MAX if path.suffix == NOTEBOOK_SUFFIX else _CHANGED_BYTES_MAX


def read_bytes(path: Path, *, bytes_max: int) -> bytes:
    """Return the content of the regular file *path*.

    Raises:
        ToolError: It is not a regular file, is larger than *bytes_max* or cannot be read.
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
        ToolError: It is not a regular file, or cannot be read.
    """
    # Without O_NONBLOCK, opening a named pipe would block until there is a writer.
    try:
        file = os.fdopen(open_file(path, os.O_RDONLY | os.O_NONBLOCK), "rb")
    except OSError as error:
        raise failure(error, path) from error
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise ToolError(f"{path.name} is not a regular file, so its content is not text to read.")
    return file


def failure(error: OSError, path: Path) -> ToolError:
    """Return *error*, from reading or writing *path*, as a ToolError for the model."""
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
