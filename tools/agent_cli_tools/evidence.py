"""Verify the output of a search against the files themselves.

A search program opens files by path, and a symlink may be put there between its check and its open.
So its output is only a hint: shown lines are compared with the file as `read` would open it,
without following symlinks or reading another name of a secret.
"""

import codecs
import os
import re
import stat
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from agent_cli.sandbox.token_files import holds_token
from agent_cli.system.fixed_paths import directory_at, open_file
from agent_cli_tools.secret_files import is_linked_secret

_TRANSCODED_BYTES_MAX = 20_000_000
# The mark with which ripgrep shortens long lines.
_CUT = re.compile(rb" \[\.\.\. (?:omitted end of long line|\d+ more match(?:es)?)\]\Z")


class OpenedFile:
    """A file opened without symlinks, to compare with the output of a search."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._transcoded: bytes | None = None
        self._skipped = 0
        start = os.pread(descriptor, 3, 0)
        if start == codecs.BOM_UTF8:
            self._skipped = len(start)
        elif start[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
            content = os.pread(descriptor, _TRANSCODED_BYTES_MAX, 0)
            self._transcoded = content.decode("utf-16", "replace").encode()

    def holds(self, text: bytes, offset: int) -> bool:
        """Return whether the line *text* is at *offset*, in UTF-8 and without a byte order mark."""
        if self._bytes(len(text), offset) == text:
            return True
        cut = _CUT.search(text)
        return cut is not None and self._bytes(cut.start(), offset) == text[: cut.start()]

    def _bytes(self, count: int, offset: int) -> bytes:
        if self._transcoded is not None:
            return self._transcoded[offset : offset + count]
        return os.pread(self._descriptor, count, offset + self._skipped)


@contextmanager
def opened(path: Path, root: Path) -> Generator[OpenedFile | None]:
    """Yield the file *path* below *root*; None if it does not exist or may not be shown."""
    try:
        descriptor = open_file(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        yield None
        return
    try:
        state = os.fstat(descriptor)
        is_kept_back = is_linked_secret(state, root, Path.home()) or holds_token(path)
        yield OpenedFile(descriptor) if stat.S_ISREG(state.st_mode) and not is_kept_back else None
    finally:
        os.close(descriptor)


def is_there(path: Path) -> bool:
    """Return whether *path* exists without symlinks in it."""
    try:
        with directory_at(path.parent) as place:
            os.stat(path.name, dir_fd=place, follow_symlinks=False)
    except OSError:
        return False
    return True
