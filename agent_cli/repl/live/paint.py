"""Colours of the program's own text, and conversion of text to rows."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from agent_cli.contracts.options import THEME, ThemeChoice, ThemeName
from agent_cli.terminal.sanitize import clean
from agent_cli.terminal.writer import Style

if TYPE_CHECKING:
    from agent_cli.repl.markdown.theme import TokenKind

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
            from agent_cli.repl.markdown.theme import THEMES  # with the first code

            parameters = THEMES[self.theme].tokens.get(kind, "")
        else:
            below = _PARAMETERS[self.theme].get(ground, "")
            on_it = _ON_GROUND.get(self.theme, {}).get(kind, "")
            parameters = ";".join(filter(None, (below, on_it)))
        return f"\x1b[{parameters}m" if parameters else ""

    def text(self, text: str, role: Role) -> str:
        """Return *text*, at most one row, in a role's colours."""
        return colored(text, self.begin(role))


def colored(text: str, begin: str) -> str:
    """Return *text* between *begin* and a colour reset; unchanged if *begin* is ""."""
    return f"{begin}{text}{_OFF}" if begin and text else text


def rows_of(text: str, begin: str = "", *, tab_cells: int = TAB_CELLS) -> list[str]:
    """Return untrusted text as rows: cleaned, tabs expanded, each row coloured separately."""
    return [colored(line, begin) for line in clean(text).expandtabs(tab_cells).split("\n")]
