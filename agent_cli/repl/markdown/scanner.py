"""Parse Markdown blocks line by line, and render a stream as rows and a tail.

A part of CommonMark, and GitHub's tables. Reference definitions and HTML are plain text, and there
is no backtracking: the meaning of a line never depends on a later one, except for the line under a
heading or a table header.
"""

import re
from typing import Final, Self

from agent_cli.repl.markdown.highlight import highlighter
from agent_cli.repl.markdown.page import (
    Item,
    Leaf,
    Page,
    Piece,
    PieceCutter,
    Quote,
    indent_of,
    list_mark,
    opened,
)
from agent_cli.repl.markdown.prose import Code, Fence, Prose, heading_style
from agent_cli.repl.markdown.styles import Spans, Theme, cells, cut, folded, painted, plain
from agent_cli.repl.markdown.table import MarkdownTable, alignments, split_cells
from agent_cli.system.sanitize import clean

_CODE_INDENT: Final = 4
# Deeper quotes and lists do not occur in practice; their marks are shown as text.
_DEPTH_MAX: Final = 24
_FENCE: Final = re.compile(r"(?P<mark>`{3,})(?P<info>[^`]*)\Z|(?P<tildes>~{3,})(?P<note>.*)\Z")
_HEADING: Final = re.compile(r"(?P<mark>#{1,6})(?: +|\Z)")
_HEADING_END: Final = re.compile(r"(?:\A|(?<! ) +)#+ *\Z")
_RULE: Final = re.compile(r"([-*_])(?: *\1){2,} *\Z")
_UNDERLINE: Final = re.compile(r"(?:=+|-+) *\Z")
# Indented nested tags are not code, whose long lines would not be wrapped.
_TAG: Final = re.compile(r"</?[A-Za-z][^>]*>|<[A-Za-z][\w-]* [^>]*\Z|<!--")
_CALLOUT: Final = re.compile(r"\[!(NOTE|TIP|IMPORTANT|WARNING|CAUTION)\] *\Z", re.IGNORECASE)
_DELIMITERS: Final = re.compile(r"\|? *+:?-++:? *+(?>(?:\| *+:?-++:? *+)*)\|? *\Z")


class Scanner:
    """The open block, and its page, which has the finished rows."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self._leaf: Leaf | None = None
        self._tail_rows: int | None = None

    def look_ahead(self, tail_rows: int) -> Self:
        """Return a copy that can continue from here to preview unfinished text."""
        other = type(self)(self.page.next_page())
        other._leaf = self._leaf.copy() if self._leaf else None
        other._tail_rows = tail_rows
        return other

    @property
    def is_in_code(self) -> bool:
        """Whether the next line belongs to fenced code, or closes it."""
        return isinstance(self._leaf, Code) and self._leaf.fence is not None

    def feed(self, piece: Piece) -> None:
        """Process the next piece of the text."""
        if not piece.starts_line:
            self._go_on(piece)
            return
        text = piece.text
        if "\t" in text[: len(text) - len(text.lstrip())]:
            rest = text.lstrip()
            text = text[: len(text) - len(rest)].expandtabs(4) + rest
        line = piece.with_text(text)
        if not self._in_fence(line):
            self._line(line)

    def finish(self) -> None:
        """Close all open blocks."""
        self._close_from(0)

    def _go_on(self, piece: Piece) -> None:
        """Process the rest of a long line."""
        if self._leaf is None:
            if not piece.text.strip():
                return
            self._leaf = Prose(self.page.take_prefix(), self.page.theme)
        self._add(piece)

    def _add(self, piece: Piece) -> None:
        if self._leaf:
            self.page.emit(self._leaf.add(piece, self.page.width))
            if piece.ends_line and isinstance(self._leaf, Prose) and self._leaf.is_heading:
                self._close_leaf()

    def _in_fence(self, piece: Piece) -> bool:
        """Process a line of fenced code, if it is one."""
        leaf = self._leaf
        if not isinstance(leaf, Code) or leaf.fence is None:
            return False
        text = self.page.code_line(piece.text)
        if text is None:
            return False
        if piece.ends_line and leaf.fence.is_closed_by(text):
            self._close_leaf()
            self._fence_row(text, "end of code")
        else:
            self._add(piece.with_text(text))
        return True

    def _line(self, piece: Piece) -> None:
        matched, text = self.page.matched(piece.text)
        if not text.strip() and piece.ends_line:
            self._blank(matched)
            return
        if matched < len(self.page.containers):
            if self._is_lazy(text):
                self._add(piece.with_text(text))
                return
            self._close_from(matched)
        text, has_opened = self._open_containers(text)
        rest = piece.with_text(text)
        if not text.strip() and piece.ends_line:
            return
        if self._is_titled(rest) if has_opened else self._continues(rest):
            return
        self._begin(rest)

    def _blank(self, matched: int) -> None:
        if not self.page.quotes_are_open_in(matched):
            self._close_from(matched)
        if isinstance(self._leaf, Code):
            self.page.emit(self._leaf.add(Piece(""), self.page.width))
            return
        self._close_leaf()
        self.page.leave_space()

    def _is_lazy(self, text: str) -> bool:
        """Return whether *text* continues a paragraph lazily, without its containers' prefix."""
        if not isinstance(self._leaf, Prose) or self._leaf.is_heading:
            return False
        line = text.lstrip(" ")
        begins = (
            line.startswith(">")
            or list_mark(line)
            or any(pattern.match(line) for pattern in (_FENCE, _HEADING, _RULE))
        )
        return not begins or indent_of(text) >= _CODE_INDENT

    def _open_containers(self, text: str) -> tuple[str, bool]:
        has_opened = False
        while len(self.page.containers) < _DEPTH_MAX and not _RULE.match(text.lstrip(" ")):
            interrupts = isinstance(self._leaf, Prose) and not has_opened
            found = opened(text, interrupts=interrupts)
            if found is None:
                break
            self._close_leaf()
            container, text = found
            self.page.containers.append(container)
            has_opened = True
            if isinstance(container, Item) and container.is_done is not None:
                break  # behind the box of a task is text
        return text, has_opened

    def _is_titled(self, piece: Piece) -> bool:
        """Show the kind of one of GitHub's callouts, the first line of a quote, as its title."""
        callout = _CALLOUT.match(piece.text) if piece.ends_line else None
        if not callout or not isinstance(self.page.containers[-1], Quote):
            return False
        theme = self.page.theme
        title = piece.text if theme.keeps_marks else callout[1].capitalize()
        row = self.page.take_prefix().before([(title, theme.strong)], self.page.width, first=True)
        self.page.emit([row])
        return True

    def _continues(self, piece: Piece) -> bool:
        """Process a line that continues the open leaf or changes its kind."""
        line = piece.text.strip(" ")
        leaf = self._leaf
        if isinstance(leaf, Prose):
            if piece.ends_line and (self._underlined(leaf, line) or self._headed(leaf, line)):
                return True
            goes_on = indent_of(piece.text) >= _CODE_INDENT or not self._is_start(piece)
        elif isinstance(leaf, MarkdownTable):
            goes_on = "|" in line and not self._is_start(piece)
        else:
            goes_on = isinstance(leaf, Code) and indent_of(piece.text) >= _CODE_INDENT
            piece = piece.with_text(piece.text[_CODE_INDENT:])
        if goes_on:
            self._add(piece)
        return goes_on

    def _is_start(self, piece: Piece) -> bool:
        line = piece.text.lstrip(" ")
        if _HEADING.match(line):
            return True
        return piece.ends_line and bool(_FENCE.match(line) or _RULE.match(line))

    def _underlined(self, leaf: Prose, line: str) -> bool:
        """Turn the paragraph into a heading if *line* is an underline."""
        level = 1 if line.startswith("=") else 2
        style = heading_style(level, self.page.theme)
        if not _UNDERLINE.match(line) or not leaf.becomes_heading(style):
            return False
        self.page.leave_space_unless_beside_mark()
        self._close_leaf()
        if self.page.theme.keeps_marks:
            self.page.emit([self.page.take_prefix().before([(line, "")], self.page.width)])
        return True

    def _headed(self, leaf: Prose, line: str) -> bool:
        """Begin a table if *line* is a delimiter row."""
        head = leaf.last_line() if "|" in line and _DELIMITERS.match(line) else None
        if head is None or "|" not in head:
            return False
        columns = alignments(line)
        if len(split_cells(head)) != len(columns):
            return False
        self.page.emit(leaf.without_last_line(self.page.width))
        self._leaf = MarkdownTable(self.page.take_prefix(), self.page.theme, head, columns)
        return True

    def _begin(self, piece: Piece) -> None:
        """Begin the block whose first line is *piece*."""
        self._close_leaf()
        indent = indent_of(piece.text)
        line = piece.text.lstrip(" ")
        if indent >= _CODE_INDENT and not _TAG.match(line):
            self._begin_code(None, "")
            self._add(piece.with_text(piece.text[_CODE_INDENT:]))
        elif heading := _HEADING.match(line):
            self._begin_heading(piece, line, heading)
        elif piece.ends_line and _RULE.match(line):
            before = self.page.take_prefix()
            rule = self.page.theme.rule * (self.page.width - before.cells(self.page.width))
            self.page.emit(
                [before.before([(rule, self.page.theme.faint)], self.page.width, first=True)]
            )
        elif piece.ends_line and (fence := _FENCE.match(line)):
            mark = fence["mark"] or fence["tildes"]
            info = (fence["info"] or fence["note"] or "").strip()
            self._begin_code(Fence(mark[0], len(mark)), info)
            self._fence_row(line, f"code {info}")
        else:
            self._leaf = Prose(self.page.take_prefix(), self.page.theme)
            self._add(piece.with_text(line))

    def _begin_heading(self, piece: Piece, line: str, match: re.Match[str]) -> None:
        text = line[match.end() :]
        if piece.ends_line:
            text = _HEADING_END.sub("", text)
        self.page.leave_space_unless_beside_mark()
        if self.page.theme.keeps_marks:
            text = f"{match['mark']} {text}"
        elif self.page.theme.spoken:
            text = f"heading {len(match['mark'])}: {text}"
        style = heading_style(len(match["mark"]), self.page.theme)
        self._leaf = Prose(self.page.take_prefix(), self.page.theme, style=style, heading=True)
        self._add(piece.with_text(text))

    def _fence_row(self, line: str, words: str) -> None:
        theme = self.page.theme
        shown = [((words if theme.spoken else line).strip(), theme.faint)]
        self.page.emit([self.page.bars().before(shown, self.page.width)])

    def _begin_code(self, fence: Fence | None, info: str) -> None:
        self.page.show_marks()
        self._leaf = Code(self.page.bars(), highlighter(info, self.page.theme), fence)

    def _close_from(self, number: int) -> None:
        """Close the open leaf and the containers from *number* on."""
        self._close_leaf()
        self.page.close_from(number)

    def _close_leaf(self) -> None:
        leaf, self._leaf = self._leaf, None
        if leaf is None:
            return
        self.page.emit(leaf.close(self.page.width, tail_rows=self._tail_rows))
        if isinstance(leaf, Code) and leaf.ends_blank():
            self.page.leave_space()


_WIDTH_MIN: Final = 8
# A line with only these characters is ambiguous: shown at once it would briefly appear as a
# heading, a list or a rule, and the box of a task or the kind of a callout as its text.
_BOX: Final = r"(?:\[(?:[ xX]\]?|![A-Za-z]*\]?)?)?"
_UNDECIDED: Final = re.compile(rf"[-=+*#>`~|: ]*{_BOX}\Z|[ ]*\d{{1,9}}(?:[.)](?: +{_BOX})?)?\Z")


class MarkdownStream:
    """Text in, rows out; a finished row never changes, whatever follows.

    The text must have no control characters except tabs and newlines. Rows are styled by SGR
    sequences and end with the default style; rows of code and long words may be wider than the
    terminal, which wraps them. Finished rows do not depend on how the text was cut into deltas.
    """

    def __init__(self, width: int, theme: Theme) -> None:
        self._cutter = PieceCutter()
        self._scanner = Scanner(Page(max(width, _WIDTH_MIN), theme))

    def feed(self, text: str) -> list[str]:
        """Add the next delta; return the rows it finishes."""
        for piece in self._cutter.feed(text):
            self._scanner.feed(piece)
        return self._taken()

    def finish(self) -> list[str]:
        """End the answer; return its last rows. The next `feed` begins a new answer."""
        for piece in self._cutter.finish():
            self._scanner.feed(piece)
        self._scanner.finish()
        rows = self._taken()
        self._scanner = Scanner(Page(self._scanner.page.width, self._scanner.page.theme))
        return rows

    def resize(self, width: int) -> None:
        """Wrap unfinished text to a new width."""
        self._scanner.page.width = max(width, _WIDTH_MIN)

    def tail(self, max_rows: int) -> list[str]:
        """Return the last rows of the unfinished text as if it ended here.

        No row is wider than the terminal. The state does not change: the text is finished later.
        """
        if max_rows <= 0:
            return []
        scanner = self._scanner.look_ahead(max_rows)
        pending = self._cutter.pending()
        if pending and (
            scanner.is_in_code or not pending.starts_line or not _UNDECIDED.match(pending.text)
        ):
            scanner.feed(pending)
        scanner.finish()
        rows: list[str] = []
        for row in reversed(scanner.page.rows):
            rows += [painted(part) for part in reversed(_folded(row, scanner.page.width))]
            if len(rows) >= max_rows:
                break
        return rows[:max_rows][::-1]

    def _taken(self) -> list[str]:
        rows, self._scanner.page.rows = self._scanner.page.rows, []
        return [painted(row) for row in rows]


def rendered(text: str, width: int, theme: Theme) -> list[str]:
    """Return the rows of a whole *text*; its control characters are removed."""
    page = MarkdownStream(width, theme)
    return [*page.feed(clean(text)), *page.finish()]


def _folded(row: Spans, width: int) -> list[Spans]:
    """Return *row* as a terminal would wrap it."""
    text = plain(row).rstrip()
    return [row] if cells(text) <= width else cut(row, folded(text, width))
