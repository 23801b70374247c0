"""What a command prints, in bounded memory: its head, its tail, and all of it in a file."""

import codecs
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, TypeAlias

OpenSpill: TypeAlias = Callable[[], tuple[Path, BinaryIO]]

HEAD_BYTES = 12 * 1024
TAIL_BYTES = 20 * 1024
SPILL_BYTES_MAX = 64 * 1024 * 1024
HEAD_LINES = 800
TAIL_LINES = 1_200


class OutputBuffer:
    """The first 12 KB and the last 20 KB of what was added; from the first gap on, a file too.

    The file starts with the very first byte and ends at 64 MB, whatever comes.
    """

    def __init__(self, open_spill: OpenSpill) -> None:
        self._open_spill = open_spill
        self._head = bytearray()
        self._tail = bytearray()
        self._spill: BinaryIO | None = None
        self._spilled_bytes = 0
        self._fault = ""
        self.spill_path: Path | None = None
        self.total_bytes = 0
        self.total_lines = 0

    def add(self, data: bytes) -> None:
        """Take the next bytes of the output."""
        self.total_bytes += len(data)
        self.total_lines += data.count(b"\n")
        if self._spill is None and not self._fault and self._overflows():
            self.start_spill()
        self._write_spill(data)
        room = HEAD_BYTES - len(self._head)
        self._head += data[:room] if room > 0 else b""
        self._tail += data[max(room, 0) :][-TAIL_BYTES:]
        del self._tail[:-TAIL_BYTES]

    def start_spill(self) -> None:
        """Keep everything in a file from here on, and what came before too."""
        try:
            self.spill_path, self._spill = self._open_spill()
        except OSError as error:
            self._fault = error.strerror or str(error)
        self._write_spill(bytes(self._head + self._tail))

    def last_lines(self, bytes_max: int = 2048) -> str:
        """Return the end of the output, for a screen that shows it growing."""
        return _decode_end((self._head + self._tail)[-bytes_max:])

    def text(self) -> str:
        """Return the output for the model: all of it, or head, a note on the gap, and tail."""
        if not self._overflows():
            return (self._head + self._tail).decode("utf-8", "replace")
        head, tail = _head_lines(bytes(self._head)), _tail_lines(bytes(self._tail))
        left_out = self.total_bytes - len(head) - len(tail)
        note = f"[… {left_out:,} of {self.total_bytes:,} bytes left out; {self._where()} …]"
        return f"{_decode_start(head)}\n{note}\n{_decode_end(tail)}"

    def close(self) -> None:
        """Close the file; nothing may be added after."""
        if self._spill is not None:
            self._spill.close()
            self._spill = None

    def _overflows(self) -> bool:
        too_long = self.total_bytes > HEAD_BYTES + TAIL_BYTES
        return too_long or self.total_lines > HEAD_LINES + TAIL_LINES

    def _where(self) -> str:
        if self._fault:
            return f"they could not be kept: {self._fault}"
        part = "the first 64 MB are" if self.total_bytes > SPILL_BYTES_MAX else "all of it is"
        return f"{part} in {self.spill_path}"

    def _write_spill(self, data: bytes) -> None:
        if self._spill is None:
            return
        data = data[: SPILL_BYTES_MAX - self._spilled_bytes]
        try:
            while data:
                written = self._spill.write(data)
                self._spilled_bytes += written
                data = data[written:]
        except OSError as error:
            # The command must not fail because the disk is full; the model learns of the gap.
            self._fault = error.strerror or str(error)
            self.close()


def _head_lines(head: bytes) -> bytes:
    """Return whole lines only, if there is one."""
    lines = head[: head.rfind(b"\n") + 1] or head
    return b"".join(lines.splitlines(keepends=True)[:HEAD_LINES]).removesuffix(b"\n")


def _tail_lines(tail: bytes) -> bytes:
    lines = tail[tail.find(b"\n", 0, -1) + 1 :]
    return b"".join(lines.splitlines(keepends=True)[-TAIL_LINES:])


def _decode_start(data: bytes) -> str:
    """Decode what may end within a character."""
    return codecs.getincrementaldecoder("utf-8")("replace").decode(data)


def _decode_end(data: bytes | bytearray) -> str:
    """Decode what may start within a character."""
    skipped = 0
    while skipped < min(3, len(data)) and data[skipped] & 0xC0 == 0x80:
        skipped += 1
    return data[skipped:].decode("utf-8", "replace")
