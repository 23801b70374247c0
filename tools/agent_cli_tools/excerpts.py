"""Read some lines of a text file of any size, in bounded memory and time."""

import codecs
from collections import deque
from collections.abc import Iterator
from typing import BinaryIO

from agent_cli.system.records import dataclass

SCANNED_BYTES_MAX = 64 * 1024 * 1024
LINE_CHARS_MAX = 2_000
_PIECE_BYTES = 4 * LINE_CHARS_MAX
_BLOCK_BYTES = 1024 * 1024
_TAIL_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class ExcerptLine:
    """A line without its ending; `raw` is the start of a long one."""

    raw: bytes
    length: int
    ending: str


@dataclass(frozen=True, slots=True)
class Excerpt:
    """Consecutive lines of a file, and facts about the rest of the file.

    Attributes:
        lines: Decoded, without endings, long ones cut with a mark.
        first: Number of the first line; negative if counted from the end of a very large file.
        total: Lines in the file, or in the part of it that was read.
        complete: Whether the whole file was read.
        cut: Indexes of the lines that were cut.
        endings: Lines with "\\n", "\\r\\n" and "" (the last one), as far as read.
        encoding: The encoding of the lines.
    """

    lines: tuple[str, ...]
    first: int
    total: int
    complete: bool
    cut: frozenset[int]
    endings: dict[str, int]
    encoding: str


def excerpt(file: BinaryIO, size: int, *, offset: int, limit: int) -> Excerpt:
    """Return *limit* lines of *file*, which has *size* bytes.

    They start at line *offset*; a negative one counts from the end.
    """
    if offset < 0 and size > SCANNED_BYTES_MAX:
        return _far_tail(file, size, count=-offset, limit=limit)
    return _scanned(file, size, offset=offset, limit=limit)


def _scanned(file: BinaryIO, size: int, *, offset: int, limit: int) -> Excerpt:
    kept: deque[ExcerptLine] = deque(maxlen=-offset if offset < 0 else limit)
    endings = {"\n": 0, "\r\n": 0, "": 0}
    is_utf8 = True
    has_bom = False
    for number, line in enumerate(_lines(file), 1):
        endings[line.ending] += 1
        has_bom = has_bom or (number == 1 and line.raw.startswith(b"\xef\xbb\xbf"))
        is_utf8 = is_utf8 and _is_utf8(line)
        if offset < 0 or number >= offset:
            kept.append(line)
        if offset > 0 and number == offset + limit - 1:
            break
    rest_is_utf8 = _count_rest(file, endings)
    total, is_utf8 = sum(endings.values()), is_utf8 and rest_is_utf8
    lines = list(kept)[:limit]
    first = max(1, total + offset + 1) if offset < 0 else offset
    complete = file.tell() >= size
    return Excerpt(
        lines=tuple(_text(line, is_utf8=is_utf8) for line in lines),
        first=first,
        total=total,
        complete=complete,
        cut=frozenset(index for index, line in enumerate(lines) if _is_cut(line)),
        endings=endings,
        encoding=("utf-8-sig" if has_bom else "utf-8") if is_utf8 else "latin-1",
    )


def _count_rest(file: BinaryIO, endings: dict[str, int]) -> bool:
    """Count the remaining lines in *endings*, block by block; return whether they are UTF-8."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    is_utf8 = True
    last = b""
    while block := file.read(min(_BLOCK_BYTES, max(0, SCANNED_BYTES_MAX - file.tell()))):
        # CR and LF may be in different blocks.
        crlf = (last[-1:] + block).count(b"\r\n")
        endings["\r\n"] += crlf
        endings["\n"] += block.count(b"\n") - crlf
        is_utf8 = is_utf8 and _decodes(decoder, block)
        last = block
    endings[""] += bool(last) and not last.endswith(b"\n")
    at_end = file.tell() < SCANNED_BYTES_MAX
    return is_utf8 and _decodes(decoder, b"", final=at_end)


def _decodes(decoder: codecs.IncrementalDecoder, block: bytes, *, final: bool = False) -> bool:
    try:
        decoder.decode(block, final)
    except UnicodeDecodeError:
        return False
    return True


def _far_tail(file: BinaryIO, size: int, *, count: int, limit: int) -> Excerpt:
    """Return lines from the end of a file that is too large to count its lines."""
    file.seek(size - _TAIL_BYTES)
    file.readline()
    if file.tell() == size:
        # The last line alone is longer; show a part of it.
        file.seek(size - _TAIL_BYTES)
    kept = deque(_lines(file), maxlen=count)
    lines = list(kept)[:limit]
    return Excerpt(
        lines=tuple(_text(line, is_utf8=_is_utf8(line)) for line in lines),
        first=-len(kept),
        total=0,
        complete=False,
        cut=frozenset(),
        endings={},
        encoding="utf-8",
    )


def _lines(file: BinaryIO) -> Iterator[ExcerptLine]:
    scanned = 0
    while scanned < SCANNED_BYTES_MAX and (piece := file.readline(_PIECE_BYTES)):
        start, length = piece, len(piece)
        # One line may be larger than our memory.
        while not piece.endswith(b"\n") and scanned + length < SCANNED_BYTES_MAX:
            if not (piece := file.readline(1024 * 1024)):
                break
            length += len(piece)
        scanned += length
        ending = ("\r\n" if piece.endswith(b"\r\n") else "\n") if piece.endswith(b"\n") else ""
        if piece is start and ending:
            start = start[: -len(ending)]
        yield ExcerptLine(start, length - len(ending), ending)


def _is_utf8(line: ExcerptLine) -> bool:
    try:
        line.raw.decode()
    except UnicodeDecodeError as error:
        # A long line may have been cut within a character.
        return len(line.raw) < line.length and error.start > len(line.raw) - 4
    return True


def _text(line: ExcerptLine, *, is_utf8: bool) -> str:
    text = line.raw.decode("utf-8", "ignore") if is_utf8 else line.raw.decode("latin-1")
    text = text.removeprefix("\ufeff")
    if not _is_cut(line):
        return text
    return f"{text[:LINE_CHARS_MAX]} [… line of {line.length:,} bytes cut]"


def _is_cut(line: ExcerptLine) -> bool:
    return len(line.raw) < line.length or len(line.raw.decode("utf-8", "replace")) > LINE_CHARS_MAX
