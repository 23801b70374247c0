"""The layout around the input: panels above it, choices and status below; the echo of messages."""

import re
from bisect import bisect_left
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Final, Protocol, TypeAlias

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.formatted_text.utils import fragment_list_to_text
from prompt_toolkit.layout import Layout
from prompt_toolkit.layout.containers import ConditionalContainer, HSplit, VerticalAlign, Window
from prompt_toolkit.layout.controls import BufferControl, FormattedTextControl, SearchBufferControl
from prompt_toolkit.layout.dimension import Dimension
from prompt_toolkit.layout.processors import (
    AfterInput,
    Processor,
    TabsProcessor,
    Transformation,
    TransformationInput,
)
from prompt_toolkit.layout.utils import explode_text_fragments
from prompt_toolkit.search import SearchDirection, SearchState
from prompt_toolkit.styles import BaseStyle, DynamicStyle, Style

from agent_cli.contracts.wording import counted
from agent_cli.repl.live.choices import AnswerRow
from agent_cli.repl.live.paint import TAB_CELLS, Paint, row_width, rows_taken, shortened
from agent_cli.repl.live.picker import CHOSEN, FAINT, Picker
from agent_cli.system.sanitize import clean, reveal
from agent_cli.terminal.first_prompt import PROMPT

CONTINUATION: Final = " " * len(PROMPT)
# Any style works: without one the trailing space is replaced by a cursor movement, and programs
# that wait for the prompt in our output would not find it.
_PROMPT_STYLE: Final = "fg:ansidefault"
_CHOICES_MAX: Final = 8

# `LiveScreen.panels` lists them from top to bottom; `opening.py` adds those of the program. A
# panel follows the agent by its events, and asks for a new frame with `LiveScreen.refresh` if the
# change it shows is no event.
PanelRow: TypeAlias = tuple[bool, str]
"""Whether the row is marked, and its text; the layout cuts it at the width of the screen."""


class Panel(Protocol):
    """Rows of one thing: the todo list, the queued messages, the agents at work."""

    def __call__(self) -> Sequence[PanelRow]:
        """Return the rows now; none takes no space. Called with each frame, so it reads no file."""
        ...


class LayoutState(Protocol):
    """Port to the contents of the layout; see `LiveScreen`."""

    @property
    def panels(self) -> Sequence[Panel]:
        """The panels above the input, from top to bottom."""
        ...

    @property
    def status_row(self) -> str:
        """The line below the input, or ""."""
        ...

    @property
    def own_row(self) -> Callable[[], StyleAndTextTuples]:
        """Returns the output of the user's status command, below the status row, or nothing."""
        ...

    @property
    def question(self) -> str:
        """The question in place of the prompt, or ""."""
        ...

    @property
    def hint(self) -> str:
        """The faint hint behind the question, or ""."""
        ...

    @property
    def choice_rows(self) -> Sequence[AnswerRow]:
        """The answers below the question."""
        ...

    @property
    def marked_choice(self) -> int | None:
        """The index of the completion that Enter takes, if any."""
        ...

    @property
    def rows_max(self) -> int:
        """Maximum number of rows of the input."""
        ...

    @property
    def columns(self) -> int:
        """The width of the terminal."""
        ...


def layout_of(shown: LayoutState, buffer: Buffer, search: Buffer, picker: Picker) -> Layout:
    """Return the layout of the prompt; the input has the focus."""
    unfound = AfterInput(lambda: [] if _is_found(search.text, buffer) else [(FAINT, "  no match")])
    find = SearchBufferControl(search, input_processors=[unfound], ignore_case=True)
    line = BufferControl(
        buffer,
        input_processors=[SeparateEmoji(), Tabs(), AfterInput(lambda: _hint(shown, buffer))],
        search_buffer_control=find,
        preview_search=True,
    )
    container = HSplit(
        [
            _rows(lambda: _panel_rows(shown)),
            ConditionalContainer(
                Window(
                    line,
                    height=lambda: Dimension(min=1, max=shown.rows_max),
                    get_line_prefix=lambda number, wrapped: _prefix(shown, number, wrapped),
                    wrap_lines=True,
                    dont_extend_height=True,
                ),
                filter=~picker.is_open,
            ),
            picker.container(),
            ConditionalContainer(
                Window(find, height=1, get_line_prefix=_history_prefix),
                filter=Condition(lambda: container_focus.has_focus(find)),
            ),
            _rows(lambda: _choices(buffer, shown) or _answers(shown)),
            _rows(lambda: [[(FAINT, _cut(shown.status_row, shown))]] if shown.status_row else []),
            Window(
                FormattedTextControl(lambda: shown.own_row()),
                height=lambda: Dimension.exact(1 if shown.own_row() else 0),
                dont_extend_height=True,
            ),
        ],
        align=VerticalAlign.TOP,
    )
    container_focus = Layout(container, focused_element=line)
    return container_focus


def style_of(dims: Callable[[], bool]) -> BaseStyle:
    """Return the style of the rows around the prompt: faint only if the theme *dims* text."""
    faint = Style([("faint", "fg:ansibrightblack")])
    return DynamicStyle(lambda: faint if dims() else None)


def _rows(rows: Callable[[], Sequence[StyleAndTextTuples]]) -> Window:
    """Return a window whose height is its number of rows."""

    def text() -> StyleAndTextTuples:
        parts: StyleAndTextTuples = []
        for row in rows():
            parts += [*row, ("", "\n")]
        return parts[:-1]

    return Window(
        FormattedTextControl(text),
        height=lambda: Dimension.exact(len(rows())),
        dont_extend_height=True,
    )


def _panel_rows(shown: LayoutState) -> list[StyleAndTextTuples]:
    return [_marked(on, _cut(row, shown)) for panel in shown.panels for on, row in panel()]


def _marked(is_marked: bool, row: str) -> StyleAndTextTuples:
    return [(CHOSEN if is_marked else FAINT, row)]


def _prefix(shown: LayoutState, number: int, wrapped: int) -> StyleAndTextTuples:
    if number == 0 and wrapped == 0:
        return [(_PROMPT_STYLE, shown.question or PROMPT)]
    return [("", CONTINUATION)]


def _hint(shown: LayoutState, buffer: Buffer) -> StyleAndTextTuples:
    return [(FAINT, f"  {shown.hint}" if shown.hint and buffer.text else shown.hint)]


def _history_prefix(_number: int, _wrapped: int) -> StyleAndTextTuples:
    return [(FAINT, "history: ")]


def _is_found(text: str, buffer: Buffer) -> bool:
    """Return whether a search for *text* finds it in the draft or in an earlier prompt."""
    state = SearchState(text, SearchDirection.BACKWARD, ignore_case=True)
    return text.lower() in buffer.document_for_search(state).text.lower()


def _choices(buffer: Buffer, shown: LayoutState) -> list[StyleAndTextTuples]:
    """Return the completions around the marked one, one row each, and how many follow."""
    state = buffer.complete_state
    if state is None:
        return []
    marked = shown.marked_choice
    count = max(min(_CHOICES_MAX, shown.rows_max), 1)
    if count < len(state.completions) and count > 1:
        count -= 1  # the last row counts the others
    first = max(0, (marked or 0) - count + 1)
    choices = state.completions[first : first + count]
    texts = [(_on_one_row(c.display_text), _on_one_row(c.display_meta_text)) for c in choices]
    width = max((row_width(text) for text, _about in texts), default=0)
    rows: list[StyleAndTextTuples] = []
    for index, (choice, about) in enumerate(texts, first):
        gap = " " * (width - row_width(choice) + 2)
        text = f"{CONTINUATION}{choice}{gap}{about}".rstrip()
        rows.append([(CHOSEN if index == marked else FAINT, _cut(text, shown))])
    if (more := len(state.completions) - first - len(choices)) and count > 1:
        rows.append([(FAINT, _cut(f"{CONTINUATION}{more:,} more ↓", shown))])
    return rows


def _on_one_row(text: str) -> str:
    """Return *text*, e.g. a server's description, on one row with nothing hidden in it."""
    return " ".join(reveal(text).split())


def _answers(shown: LayoutState) -> list[StyleAndTextTuples]:
    """Return the list below a question, one row each."""
    return [_answer(row, shown) for row in shown.choice_rows]


def _answer(row: AnswerRow, shown: LayoutState) -> StyleAndTextTuples:
    """Return an answer, marked or not, and faint the hint behind it."""
    text = _cut(row.text, shown)
    label = text[: len(row.label)]
    return [(CHOSEN if row.is_marked else "", label), (FAINT, text[len(label) :])]


def _cut(text: str, shown: LayoutState) -> str:
    return shortened(text, shown.columns - 1)


_HEAD_ROWS: Final = 7
_TAIL_ROWS: Final = 5


def echoed(text: str, *, columns: int, paint: Paint) -> list[str]:
    """Return the rows that show *text* behind the prompt on a terminal with *columns*."""
    lines = clean(separated(text)).expandtabs(TAB_CELLS).split("\n")
    width = max(columns - len(PROMPT), 1)
    heights = [rows_taken(row_width(line), width) for line in lines]
    if sum(heights) > _HEAD_ROWS + _TAIL_ROWS:
        lines = _folded(lines, heights, width)
    begins = [PROMPT, *[CONTINUATION] * (len(lines) - 1)]
    return [paint.text(f"{begin}{line}", "said") for begin, line in zip(begins, lines, strict=True)]


def _folded(lines: Sequence[str], heights: Sequence[int], width: int) -> list[str]:
    """Return the first and the last of *lines*, with the number left out in between."""
    head, tail = _fitting(heights, _HEAD_ROWS), _fitting(heights[::-1], _TAIL_ROWS)
    first = lines[:head] if head else [shortened(lines[0], _HEAD_ROWS * width)]
    last = lines[max(len(lines) - tail, len(first)) :]
    left_out = len(lines) - len(first) - len(last)
    more = counted(left_out, "more line") if left_out else ""
    if not head:
        more = more or f"{len(lines[0]):,} characters in this line"
    return [*first, *([f"… {more}"] if more else []), *last]


def _fitting(heights: Sequence[int], rows_max: int) -> int:
    """Return how many lines of these *heights* fit in *rows_max* rows."""
    return sum(1 for rows in accumulate(heights) if rows <= rows_max)


# Terminals disagree about the width of a family, a skin tone or a red heart (1 to 8 cells), so the
# cursor would not stand where the editor takes it to be. Without the characters that join or
# change them, all agree.
# The zero-width joiner, the variation selectors, the skin tones.
_COMBINES: Final = re.compile("[\u200d\ufe0e\ufe0f\U0001f3fb-\U0001f3ff]")


def separated(text: str) -> str:
    """Return *text* without the characters that join or change emoji."""
    return text if text.isascii() else _COMBINES.sub("", text)


class SeparateEmoji(Processor):
    """Hides the joining characters on the screen; they stay in the text."""

    def apply_transformation(self, transformation_input: TransformationInput) -> Transformation:
        """Return the fragments to show, and how positions in them and in the text correspond."""
        fragments = transformation_input.fragments
        text = fragment_list_to_text(fragments)
        if text.isascii() or not _COMBINES.search(text):
            return Transformation(fragments)
        kept = [at for at, character in enumerate(text) if not _COMBINES.match(character)]
        shown = [each for each in explode_text_fragments(fragments) if not _COMBINES.match(each[1])]
        return Transformation(
            shown,
            source_to_display=lambda at: bisect_left(kept, at),
            display_to_source=lambda at: kept[at] if at < len(kept) else len(text),
        )


class Tabs(TabsProcessor):
    """Shows the tabs of a line, if it has some, as blanks; by itself each is `^I`."""

    def __init__(self) -> None:
        super().__init__(TAB_CELLS, " ", " ", style="")

    def apply_transformation(self, ti: TransformationInput) -> Transformation:
        """Return the fragments to show, and how positions in them and in the text correspond."""
        if "\t" not in fragment_list_to_text(ti.fragments):
            return Transformation(ti.fragments)
        return super().apply_transformation(ti)
