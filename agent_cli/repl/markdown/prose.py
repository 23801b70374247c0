"""The leaf blocks of an answer: paragraphs, headings and code."""

import copy
import re
from typing import Final, Self

from agent_cli.repl.markdown.highlight import Highlighter
from agent_cli.repl.markdown.inline import beside, is_product, parse_inline
from agent_cli.repl.markdown.page import PIECE_CHARS, PROSE_CHARS, Piece, Prefix
from agent_cli.repl.markdown.styles import (
    Spans,
    Theme,
    cells,
    cut,
    is_narrow,
    plain,
    split_lines,
    wrapped,
)
from agent_cli.system.records import dataclass

# A longer paragraph is finished in parts, at places without open marks. Less than a piece, because
# the marks of quotes and items at its start are not part of the text.
_PART_CHARS: Final = PROSE_CHARS * 3 // 4
# A mark still open after this many characters is literal.
_OPEN_CHARS_MAX: Final = 4 * PIECE_CHARS
_CHECK_EVERY_CHARS: Final = PIECE_CHARS // 4
_BLANK: Final = re.compile(r"[ \n\u3000-\u9fff\uac00-\ud7af\uff00-\uff60]")
_MARK: Final = re.compile(r"\\.|`+|\*+|_+|~~+|\[|\]\(|[\])]")


class Prose:
    """Text that wraps seamlessly although it is finished in parts.

    The last row of a part is carried over and filled by the next part.
    """

    def __init__(
        self, prefix: Prefix, theme: Theme, *, style: str = "", heading: bool = False
    ) -> None:
        self.is_heading = heading
        self._prefix = prefix
        self._theme = theme
        self._style = style
        self._text = ""
        self._carried: Spans = []
        self._checked_at_chars = _PART_CHARS
        self._begins_line = True
        self._has_lines = False
        self._has_parts = False
        self._has_rows = False

    def add(self, piece: Piece, width: int) -> list[Spans]:
        """Add text; each new line begins on a new row."""
        text = piece.text.replace("\t", " ")
        if piece.starts_line:
            text = text.lstrip(" ")
            self._text += "\n" + text if self._has_lines else text
            self._has_lines = True
        else:
            self._text += text
        if len(self._text) < self._checked_at_chars:
            return []
        self._checked_at_chars = len(self._text) + _CHECK_EVERY_CHARS
        end = safe_end(self._text)
        return self._part(end, width) if end else []

    def close(self, width: int, *, tail_rows: int | None = None) -> list[Spans]:
        """Return the rest of the text."""
        provisional = tail_rows is not None
        spans = self._parsed(self._text, provisional=provisional)
        self._text = ""
        if provisional and not spans and not self._carried:
            return []
        rows = self._wrapped(self._carried + spans, width)
        self._carried = []
        return self._prefixed(rows, width)

    def copy(self) -> Self:
        """Return a copy."""
        return copy.copy(self)

    def becomes_heading(self, style: str) -> bool:
        """Turn the paragraph into a heading unless a row of the paragraph is finished."""
        if self._has_parts:
            return False
        self._style = style
        return True

    def last_line(self) -> str | None:
        """Return the last line, unless its beginning is finished."""
        _, newline, line = self._text.rpartition("\n")
        return line if newline or self._begins_line else None

    def without_last_line(self, width: int) -> list[Spans]:
        """Close without the last line, which turned out to be a table header."""
        self._text = self._text.rpartition("\n")[0]
        if self._text or self._carried:
            return self.close(width)
        has_mark = not self._has_rows and self._prefix.first != self._prefix.rest
        return [self._prefix.before([], width, first=True)] if has_mark else []

    def _part(self, end: int, width: int) -> list[Spans]:
        spans = self._carried + self._parsed(self._text[:end])
        self._begins_line = self._text[end - 1] == "\n"
        self._text = self._text[end:]
        self._checked_at_chars = _PART_CHARS
        self._has_parts = True
        *rows, self._carried = self._wrapped(spans, width)
        return self._prefixed(rows, width)

    def _parsed(self, text: str, *, provisional: bool = False) -> Spans:
        return parse_inline(text, self._theme, base=self._style, provisional=provisional)

    def _wrapped(self, spans: Spans, width: int) -> list[Spans]:
        inner = width - self._prefix.cells(width)
        rows: list[Spans] = []
        for line in split_lines(spans):
            text = plain(line)
            is_row = len(text) <= inner and is_narrow(text) and not text.startswith(" ")
            rows += [line] if is_row else cut(line, wrapped(text, inner))
        return rows

    def _prefixed(self, rows: list[Spans], width: int) -> list[Spans]:
        prefixed: list[list[tuple[str, str]]] = []
        for row in rows:
            prefixed.append(self._prefix.before(row, width, first=not self._has_rows))
            self._has_rows = True
        return prefixed


def heading_style(level: int, theme: Theme) -> str:
    """Return the style of a heading of *level*."""
    return {1: theme.title, 2: theme.heading}.get(level, theme.strong)


def safe_end(text: str) -> int:
    """Return where a part of *text* can end: after a blank without open marks; 0 if nowhere.

    Too long a text ends even with an open mark. A last line that may become the header of a table
    stays whole.
    """
    last_line = text.rfind("\n") + 1
    whole_line = "|" in text[last_line:] and len(text) - last_line < _OPEN_CHARS_MAX // 2
    limit = last_line if whole_line else len(text)
    end = 0
    for start, stop in _closed_stretches(text, limit):
        end = max(end, _after_last_blank(text, start, stop))
    if end == 0 and len(text) >= _OPEN_CHARS_MAX:
        return _after_last_blank(text, 0, limit) or len(text)
    return end


def _after_last_blank(text: str, start: int, stop: int) -> int:
    """Return the last possible break between words; Chinese may be cut anywhere."""
    match = _BLANK.search(text[start:stop][::-1])
    return stop - match.start() if match else 0


def _closed_stretches(text: str, limit: int) -> list[tuple[int, int]]:
    """Return the (start, end) of all text without open marks, by a rough count."""
    stretches: list[tuple[int, int]] = []
    opened: set[str] = set()
    code = ""
    brackets = 0
    closed_since: int | None = 0
    for match in _MARK.finditer(text, 0, limit):
        mark = match[0]
        if code or mark[0] == "`":
            code = "" if mark == code else code or mark
        elif mark[0] == "[":
            brackets += 1
        elif mark in ("]", ")"):
            brackets -= brackets > 0
        elif mark[0] in "*_~":
            _toggle(opened, mark, text, match)
        is_open = bool(opened or code) or brackets > 0
        if is_open and closed_since is not None:
            stretches.append((closed_since, match.start()))
            closed_since = None
        elif not is_open and closed_since is None:
            closed_since = match.end()
    if closed_since is not None:
        stretches.append((closed_since, limit))
    return stretches


def _toggle(opened: set[str], mark: str, text: str, match: re.Match[str]) -> None:
    before, after = beside(text, match)
    if is_product(before, after):
        return
    can_close = not before.isspace()
    if can_close and mark in opened:
        opened.discard(mark)
    elif can_close and mark == "***" and {"*", "**"} <= opened:
        opened -= {"*", "**"}
    elif not after.isspace() and not (mark[0] == "_" and before.isalnum()):
        opened.add(mark)


# The terminal wraps wider lines.
_TAB_CELLS: Final = 4
# Longer lines are finished in parts, so that memory stays bounded.
_LINE_CHARS_MAX: Final = 64 * PIECE_CHARS


@dataclass(frozen=True, slots=True)
class Fence:
    """The opening fence of a code block."""

    character: str
    count: int

    def is_closed_by(self, line: str) -> bool:
        """Return whether *line* is the closing fence."""
        mark = line.strip(" \t")
        return len(mark) >= self.count and mark.strip(self.character) == ""


class Code:
    """The lines of one code block; `fence` is None for an indented block."""

    def __init__(
        self, prefix: Prefix, highlighter: Highlighter | None, fence: Fence | None
    ) -> None:
        self.fence = fence
        self._prefix = prefix
        self._highlighter = highlighter
        self._line: list[str] = []
        self._line_chars = 0
        self._blank_lines = 0

    def add(self, piece: Piece, width: int) -> list[Spans]:
        """Add a piece of a line; a complete line is a row."""
        self._line.append(piece.text)
        self._line_chars += len(piece.text)
        if not piece.ends_line and self._line_chars < _LINE_CHARS_MAX:
            return []
        row = self._row("".join(self._line), width)
        self._line, self._line_chars = [], 0
        if self.fence is None and not row[len(self._prefix.rest) :]:
            self._blank_lines += 1
            return []
        blank = [self._row("", width) for _ in range(self._blank_lines)]
        self._blank_lines = 0
        return [*blank, row]

    def close(self, width: int, *, tail_rows: int | None = None) -> list[Spans]:
        """Return the incomplete line; blank lines at the end of indented code are dropped."""
        if not self._line:
            return []
        line = "".join(self._line)
        if tail_rows is not None and len(line) > tail_rows * width:
            return [self._prefix.before([(_end_of(line, width, tail_rows), "")], width)]
        return [self._row(line, width)]

    def ends_blank(self) -> bool:
        """Whether blank lines followed indented code; they belong to the next block."""
        return self._blank_lines > 0

    def copy(self) -> Self:
        """Return a copy of the block."""
        other = copy.copy(self)
        other._line = list(self._line)
        other._highlighter = self._highlighter.copy() if self._highlighter else None
        return other

    def _row(self, line: str, width: int) -> Spans:
        text = line.expandtabs(_TAB_CELLS)
        if self._highlighter and len(text) <= PIECE_CHARS:
            spans = self._highlighter.line(text)
        else:
            spans = [(text, "")] if text.strip() else []
        return self._prefix.before(spans, width)


def _end_of(line: str, width: int, rows: int) -> str:
    """Return the end of *line* that fits in the tail's rows.

    It advances by half a tail at a time; advancing with each character would repaint it all.
    """
    step = max(rows // 2, 1) * width
    start = -(-(len(line) - rows * width) // step) * step
    # A combining mark at the start of a row would combine with the end of the row above.
    while start < len(line) and cells(line[start]) == 0:
        start += 1
    return line[start:]
