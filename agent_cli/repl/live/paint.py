"""Rows of the program's own text: their colours, their width in cells, and breaks between words.

Imported before the first prompt: standard library and prompt_toolkit only.
"""

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from prompt_toolkit.utils import get_cwidth

from agent_cli.contracts.options import THEME, ThemeChoice, ThemeName
from agent_cli.system.sanitize import clean
from agent_cli.terminal.writer import Style

if TYPE_CHECKING:
    from agent_cli.repl.markdown.styles import TokenKind


Role: TypeAlias = (
    Style
    | Literal["said", "path", "good", "bad", "rule"]
    | Literal["added ground", "added word", "removed ground", "removed word"]
)

# SGR parameters by theme. High contrast has no faint text and no colour that is invisible on some
# background; marks and words carry the meaning there. Other roles have no colour.
_PARAMETERS: Final[Mapping[ThemeName, Mapping[Role, str]]] = MappingProxyType(
    {
        "dark": {
            "dim": "2",
            "warning": "33",
            "error": "31",
            "said": "1",
            "label": "1",
            "path": "36",
            "good": "32",
            "bad": "31",
            "added": "32",
            "removed": "31",
            "title": "1;94",
            "rule": "34",
            "added ground": "38;5;253;48;5;22",
            "added word": "1;38;5;255;48;5;28",
            "removed ground": "38;5;253;48;5;52",
            "removed word": "1;38;5;255;48;5;88",
        },
        "light": {
            "dim": "2",
            "warning": "38;5;130",
            "error": "31",
            "said": "1",
            "label": "1",
            "path": "34",
            "good": "32",
            "bad": "31",
            "added": "32",
            "removed": "31",
            "title": "1;34",
            "rule": "34",
            "added ground": "38;5;235;48;5;194",
            "added word": "1;38;5;232;48;5;151",
            "removed ground": "38;5;235;48;5;224",
            "removed word": "1;38;5;232;48;5;217",
        },
        "high-contrast": {
            "warning": "1",
            "error": "1;7",
            "said": "1",
            "label": "1",
            "path": "4",
            "good": "1",
            "bad": "1;7",
            "added": "1",
            "title": "1",
            "added ground": "1",
            "added word": "1;4",
            "removed word": "4",
        },
        "none": {},
    }
)
# The kinds of code on the ground of a changed line, where the sixteen colours are hard to read.
_ON_GROUND: Final[Mapping[ThemeName, Mapping["TokenKind", str]]] = MappingProxyType(
    {
        "dark": {
            "comment": "38;5;250;3",
            "keyword": "38;5;183",
            "string": "38;5;193",
            "number": "38;5;222",
            "name": "38;5;153",
            "builtin": "38;5;159",
        },
        "light": {
            "comment": "38;5;240;3",
            "keyword": "38;5;90",
            "string": "38;5;22",
            "number": "38;5;94",
            "name": "38;5;18",
            "builtin": "38;5;23",
        },
    }
)
_OFF = "\x1b[0m"
TAB_CELLS = 4
MARK = "❯ "
"""Before the chosen one of several rows; `MARGIN` is before the others."""
MARGIN = " " * len(MARK)


class Paint:
    """Holds the theme, and whether colours may be used at all.

    Attributes:
        ground: The terminal's background, as far as it is known.
    """

    def __init__(self, *, color: bool, weight: bool = False) -> None:
        """Use the default theme; *weight* allows bold and underlined text without colours."""
        self._color = color
        self._colorless: ThemeName = "high-contrast" if weight else "none"
        self._theme: ThemeChoice = THEME
        self.ground: Literal["dark", "light"] = "dark"

    @property
    def theme(self) -> ThemeName:
        """The current theme; without colours, a theme that needs none."""
        if self._color or self._theme == "none":
            return self.ground if self._theme == "auto" else self._theme
        return self._colorless

    @property
    def choice(self) -> str:
        """The theme as chosen, and for "auto" which it is here."""
        is_auto = self._theme == "auto" and self.theme == self.ground
        return f"auto, here {self.ground}" if is_auto else self.theme

    def use_theme(self, theme: ThemeChoice) -> None:
        """Use *theme* from now on; "auto" chooses by the `ground` of the terminal."""
        self._theme = theme

    def begin(self, role: Role) -> str:
        """Return the escape sequence that begins a role's colours, or ""."""
        parameters = _PARAMETERS[self.theme].get(role)
        return f"\x1b[{parameters}m" if parameters else ""

    def token(self, kind: "TokenKind", ground: Role | None = None) -> str:
        """Return the sequence for a *kind* of code, on the *ground* of a changed line, or ""."""
        if ground is None:
            from agent_cli.repl.markdown.styles import THEMES  # with the first code

            parameters = THEMES[self.theme].tokens.get(kind, "")
        else:
            below = _PARAMETERS[self.theme].get(ground, "")
            on_it = _ON_GROUND.get(self.theme, {}).get(kind, "")
            parameters = ";".join(filter(None, (below, on_it)))
        return f"\x1b[{parameters}m" if parameters else ""

    def ground_behind(self, role: Role, cells: int) -> str:
        """Return the sequence that gives the next *cells* cells the ground of *role*, or "".

        The cells are erased in its colour and not written: blanks that were written would wrap
        into rows of their own when the window becomes narrower.
        """
        begin = self.begin(role)
        return colored(f"\x1b[{cells}X", begin) if begin and cells > 0 else ""

    def text(self, text: str, role: Role) -> str:
        """Return *text*, at most one row, in a role's colours."""
        return colored(text, self.begin(role))


def colored(text: str, begin: str) -> str:
    """Return *text* between *begin* and a colour reset; unchanged if *begin* is ""."""
    return f"{begin}{text}{_OFF}" if begin and text else text


def rows_of(text: str, begin: str = "", *, tab_cells: int = TAB_CELLS) -> list[str]:
    """Return untrusted text as rows: cleaned, tabs expanded, each row coloured separately."""
    return [colored(line, begin) for line in clean(text).expandtabs(tab_cells).split("\n")]


# A gap between columns, and the bar before quoted text.
_GAP: Final = re.compile(r" {2,}(?=\S)")
_BAR: Final = re.compile(r"  (?:\S{1,30} )?│ ")
_ESCAPE: Final = re.compile(r"(\x1b\[[0-9;]*[mX]|\x1b\]8;[^\x1b]*\x1b\\)")


@lru_cache(maxsize=256)  # of one row, several times in each frame that shows it
def row_width(row: str) -> int:
    """Return the number of cells a row with colours takes."""
    text = _ESCAPE.sub("", row)
    return len(text) if text.isascii() else sum(max(get_cwidth(char), 0) for char in text)


def widest(row: str) -> int:
    """Return the most cells a row with colours may take.

    Terminals disagree: many give a cell to each vowel sign of Indic scripts, which others combine.
    """
    text = _ESCAPE.sub("", row)
    return len(text) if text.isascii() else sum(max(get_cwidth(char), 1) for char in text)


def rows_taken(width: int, columns: int) -> int:
    """Return how many rows a line of *width* cells takes on a terminal that wraps."""
    return max(1, -(-width // max(columns, 1)))


def shortened(text: str, cells_max: int) -> str:
    """Return *text*, which has no escapes, cut to *cells_max* cells."""
    if row_width(text) <= cells_max:
        return text
    return f"{fitting(text, cells_max - 1)}…" if cells_max > 0 else ""


def fitting(text: str, cells_max: int) -> str:
    """Return the longest prefix of *text*, which has no escapes, of at most *cells_max* cells."""
    used = 0
    for at, char in enumerate(text):
        used += max(get_cwidth(char), 0)
        if used > cells_max:
            return text[:at]
    return text


def cut(row: str, columns: int) -> str:
    """Return *row*, which may have colours, cut to *columns* cells; all its escapes stay."""
    if row_width(row) <= columns:
        return row
    parts: list[str] = []
    room = columns - 1
    for at, part in enumerate(_ESCAPE.split(row)):
        if at % 2:  # an escape
            parts.append(part)
        elif (width := row_width(part)) <= room:
            parts.append(part)
            room -= width
        elif room >= 0:
            parts.append(shortened(part, room + 1))
            room = -1
    return "".join(parts)


def sentence_rows(text: str, columns: int, begin: str = "") -> list[str]:
    """Return *text* as rows of at most *columns* cells; indentation is kept.

    Text behind a gap of two blanks is a column, and wraps below its own beginning; the bar that
    marks quoted text is repeated before each of its rows. A wider word, such as a URL, is left
    whole, so that a copy has no newline in it. *begin* is the escape sequence that begins the
    colour of each row.
    """
    lines = rows_of(text)
    return [colored(row, begin) for line in lines for row in _broken(line, columns)]


def _broken(line: str, columns: int) -> Iterator[str]:
    from agent_cli.repl.markdown.styles import cells, wrapped  # with the first sentence

    if bar := _BAR.match(line):
        begin, text = bar[0], line[bar.end() :]
        for start, end in wrapped(text, max(columns - cells(begin), 1)):
            yield f"{begin}{text[start:end]}"
            begin = f"{' ' * (cells(begin) - 2)}│ "
        return
    indent = min(len(line) - len(line.lstrip(" ")), columns // 2)
    gaps = (gap.end() for gap in _GAP.finditer(line))
    column = max((end for end in gaps if end <= columns // 2), default=indent)
    begin, text = line[:column], line[column:]
    for start, end in wrapped(text, max(columns - cells(begin), 1)):
        yield f"{begin}{text[start:end]}"
        begin = " " * cells(begin)
