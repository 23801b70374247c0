"""The output of a command: head and tail in bounded memory, the whole in a file, and its lines."""

import asyncio
import codecs
import re
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import BinaryIO, Final, TypeAlias

from agent_cli.contracts.errors import ToolError
from agent_cli_tools.command_line import command_environment

OpenSpill: TypeAlias = Callable[[], tuple[Path, BinaryIO]]

EXCERPT_BYTES = 32 * 1024
_HEAD_SHARE = 3 / 8
# Leaves room in a result for the note on the gap and the exit status.
_EXCERPT_SHARE = 4 / 5
SPILL_BYTES_MAX = 64 * 1024 * 1024
FOLDED_BYTES_MIN = 600
FOLDED_BYTES_MAX = 2 * 1024 * 1024
HEAD_LINES = 800
TAIL_LINES = 1_200
_CONTINUATION_BYTES = bytes(range(0x80, 0xC0))  # continuation bytes of UTF-8


class OutputBuffer:
    """The beginning and the end of the output; once there is a gap, a file has the whole output.

    The file starts with the first byte and is limited to 64 MB.

    Attributes:
        total_chars: Number of characters added, assuming UTF-8.
        is_folded: Whether `final_text` left out what says little.
    """

    def __init__(
        self, open_spill: OpenSpill, *, result_chars_max: int = 0, folds: bool = False
    ) -> None:
        """Start empty.

        Args:
            open_spill: Opens the file.
            result_chars_max: Maximum length of a result, so that the excerpt is not cut again; 0
                for no limit but that of memory.
            folds: Whether `final_text` folds what says little; see folding.py.
        """
        room = round(result_chars_max * _EXCERPT_SHARE) or EXCERPT_BYTES
        self._head_bytes = round(room * _HEAD_SHARE)
        self._tail_bytes = room - self._head_bytes
        self._open_spill = open_spill
        self._folds = folds
        self.is_folded = False
        self._head = bytearray()
        self._tail = bytearray()
        self._spill: BinaryIO | None = None
        self._spilled_bytes = 0
        self._fault = ""
        self.spill_path: Path | None = None
        self.total_bytes = 0
        self.total_chars = 0
        self.total_lines = 0

    def add(self, data: bytes) -> None:
        """Add the next bytes of the output."""
        self.total_bytes += len(data)
        self.total_chars += len(data.translate(None, _CONTINUATION_BYTES))
        self.total_lines += data.count(b"\n")
        if self._spill is None and not self._fault and self.is_excerpt:
            self.start_spill()
        self._write_spill(data)
        room = self._head_bytes - len(self._head)
        self._head += data[:room] if room > 0 else b""
        self._tail += data[max(room, 0) :][-self._tail_bytes :]
        del self._tail[: -self._tail_bytes]

    def start_spill(self) -> None:
        """Keep all output in a file, including earlier output."""
        try:
            self.spill_path, self._spill = self._open_spill()
        except OSError as error:
            self._fault = error.strerror or str(error)
        self._write_spill(bytes(self._head + self._tail))

    def keep_file(self) -> bool:
        """Return whether the whole output is kept in a file, from now on at the latest."""
        if self.spill_path is None:
            self.start_spill()
        return self.spill_path is not None

    def last_lines(self, bytes_max: int = 2048) -> str:
        """Return the last lines of the output, for live display."""
        return _decode_end((self._head + self._tail)[-bytes_max:])

    def text(self) -> str:
        """Return the output for the model: the whole, or head, a note on the gap, and tail.

        Escape sequences are removed; binary data is described, and kept in the file.
        """
        if is_binary(without_escapes((self._head + self._tail).decode("utf-8", "replace"))):
            return self._described()
        if not self.is_excerpt:
            return without_escapes((self._head + self._tail).decode("utf-8", "replace"))
        head = without_escapes(_decode_start(_head_lines(bytes(self._head))))
        tail = without_escapes(_decode_end(_tail_lines(bytes(self._tail))))
        left_out = self.total_chars - len(head) - len(tail)
        note = f"[… {left_out:,} of {self.total_chars:,} characters left out; {self._where()} …]"
        return f"{head}\n{note}\n{tail}"

    def final_text(self) -> str:
        """Return the output of a command that has ended: as `text`, or folded if that saves much.

        Of a folded output all is kept in a file, which the last line names.
        """
        shown = self.text()
        if not self._folds or self.total_bytes < FOLDED_BYTES_MIN or is_binary(shown):
            return shown
        if (whole := self._whole()) is None:
            return shown
        from agent_cli_tools.folding import folded  # with the first long output
        from agent_cli_tools.folding.screen import settled

        text = whole.decode("utf-8", "replace")
        plain, last = without_escapes(text), without_escapes(settled(text))
        kept, summary = folded(last, drawn_over=max(0, len(plain) - len(last)))
        if not summary or not self.keep_file() or self._fault:
            return shown
        self.close()
        self.is_folded = True
        data = kept.encode()
        if len(data) > self._head_bytes + self._tail_bytes:
            head = _decode_start(_head_lines(data[: self._head_bytes]))
            tail = _decode_end(_tail_lines(data[-self._tail_bytes :]))
            left_out = len(kept) - len(head) - len(tail)
            kept = f"{head}\n[… {left_out:,} characters left out …]\n{tail}"
        return f"{kept.rstrip()}\n[folded: {summary}; {self._where()}]"

    def _whole(self) -> bytes | None:
        """Return all of the output; None if it is too long to be folded, or was not kept."""
        if not self.is_excerpt:
            return bytes(self._head + self._tail)
        if self.total_bytes > FOLDED_BYTES_MAX or self._fault or self.spill_path is None:
            return None
        try:
            if self._spill is not None:
                self._spill.flush()
            return self.spill_path.read_bytes()
        except OSError:
            return None

    def _described(self) -> str:
        if self._spill is None and not self._fault and self.spill_path is None:
            self.start_spill()
            self.close()
        return f"[binary output: {self.total_bytes:,} bytes, not shown; {self._where()}]"

    def close(self) -> None:
        """Close the file; nothing may be added after."""
        if self._spill is not None:
            self._spill.close()
            self._spill = None

    @property
    def is_excerpt(self) -> bool:
        """Whether `text` leaves something out."""
        too_long = self.total_bytes > self._head_bytes + self._tail_bytes
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
            # The command must not fail because the disk is full; the gap is reported to the model.
            self._fault = error.strerror or str(error)
            self.close()


def _head_lines(head: bytes) -> bytes:
    """Return complete lines only, if there are any."""
    lines = head[: head.rfind(b"\n") + 1] or head
    return b"".join(lines.splitlines(keepends=True)[:HEAD_LINES]).removesuffix(b"\n")


def _tail_lines(tail: bytes) -> bytes:
    lines = tail[tail.find(b"\n", 0, -1) + 1 :]
    return b"".join(lines.splitlines(keepends=True)[-TAIL_LINES:])


def _decode_start(data: bytes) -> str:
    """Decode bytes that may end within a character."""
    return codecs.getincrementaldecoder("utf-8")("replace").decode(data)


def _decode_end(data: bytes | bytearray) -> str:
    """Decode bytes that may start within a character."""
    skipped = 0
    while skipped < min(3, len(data)) and data[skipped] & 0xC0 == 0x80:
        skipped += 1
    return data[skipped:].decode("utf-8", "replace")


# Convert a command's output to text for the model: no escapes, binary data only described.

# Colours and cursor movements; titles and links. Each costs the model six characters of JSON.
_ESCAPES: Final = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\)|\x1b[()][0-9A-B]|\x1b[=>]"
)
_UNREADABLE: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ufffd]")
_UNREADABLE_SHARE_MAX: Final = 0.1
# Fewer cost nothing and may be the point of the command.
_UNREADABLE_MIN: Final = 100


def without_escapes(text: str) -> str:
    """Return *text* without terminal escape sequences."""
    return _ESCAPES.sub("", text) if "\x1b" in text else text


def is_binary(text: str) -> bool:
    """Return whether more than a tenth of the decoded output *text* is unreadable.

    Names separated by NUL characters, as from `find -print0`, are readable.
    """
    return len(_UNREADABLE.findall(text)) > max(len(text) * _UNREADABLE_SHARE_MAX, _UNREADABLE_MIN)


_LIMIT_S: Final = 10.0
_BYTES_AT_ONCE: Final = 4 * 1024 * 1024
_FOUND_NONE: Final = 1


class LinePattern:
    """A regular expression, and its position in one growing file.

    ripgrep does the matching, as in `grep`: Python's `re` can take for ever with a model's pattern.
    """

    def __init__(self, regex: str, ripgrep: Sequence[str]) -> None:
        """Search nothing yet; *ripgrep* is the command line to which options are added."""
        self._regex = regex
        self._ripgrep = ripgrep
        self._offset = 0

    async def check(self) -> None:
        """Raise `ToolError` if this is not a regular expression."""
        await asyncio.to_thread(self._numbers, "", "--max-count=1")

    async def numbers(self, lines: Sequence[str]) -> list[int]:
        """Return the indexes of the matching *lines*.

        Raises:
            ToolError: This is not a regular expression.
        """
        return await asyncio.to_thread(self._numbers, "\n".join(lines))

    async def first_match(self, log: Path) -> str:
        """Return the first matching line of *log* behind the lines searched before.

        An incomplete last line is searched, and again when it has grown, because a program may wait
        after a prompt. "" means that none matches, or that *log* cannot be read.
        """
        try:
            return await asyncio.to_thread(self._first_match, log)
        except (OSError, ToolError):  # searched again with the next output
            return ""

    def _first_match(self, log: Path) -> str:
        with log.open("rb") as file:
            while True:
                file.seek(self._offset)
                data = file.read(_BYTES_AT_ONCE)
                lines = without_escapes(data.decode("utf-8", "replace")).split("\n")
                if found := self._numbers("\n".join(lines), "--max-count=1"):
                    return lines[found[0]].strip()
                whole = data.rfind(b"\n") + 1
                if len(data) < _BYTES_AT_ONCE:
                    self._offset += whole
                    return ""
                self._offset += whole or len(data)  # one line may be longer than that

    def _numbers(self, text: str, *options: str) -> list[int]:
        arguments = ["--text", "--color=never", "--line-number", "--replace=", "--only-matching"]
        command = [*self._ripgrep, *arguments, *options, f"--regexp={self._regex}", "-"]
        try:
            ran = subprocess.run(
                command,
                input=text.encode(errors="replace"),
                capture_output=True,
                check=False,
                timeout=_LIMIT_S,
                env=command_environment(),
            )
        except (OSError, ValueError, subprocess.TimeoutExpired) as error:
            raise ToolError(f"The pattern could not be tried: {error}.") from error
        if ran.returncode > _FOUND_NONE:
            message = ran.stderr.decode("utf-8", "replace").strip()
            raise ToolError(f"This pattern is no regular expression: {message}")
        numbers = (line.partition(b":")[0] for line in ran.stdout.splitlines())
        return sorted({int(number) - 1 for number in numbers})
