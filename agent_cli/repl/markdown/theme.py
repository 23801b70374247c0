"""Themes of answers: SGR parameters per kind of text."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

from agent_cli.contracts.options import ThemeName
from agent_cli.system.records import dataclass, field

# Kinds of code tokens; the lexers' hundreds of types are mapped to these.
TokenKind: TypeAlias = Literal[
    "comment", "keyword", "string", "number", "name", "builtin", "inserted", "deleted", "heading"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Theme:
    """SGR parameters such as "1;36"; an empty string means no style.

    `keeps_marks` leaves the typed marks where emphasis cannot be shown. With `links` URLs can be
    clicked, even if wrapped. `spoken` uses words in place of lines.
    """

    title: str = ""
    heading: str = ""
    strong: str = ""
    emphasis: str = ""
    strike: str = ""
    code: str = ""
    url: str = ""
    marker: str = ""
    faint: str = ""
    table_head: str = ""
    tokens: Mapping[TokenKind, str] = field(default_factory=lambda: MappingProxyType({}))
    keeps_marks: bool = False
    links: bool = False
    spoken: bool = False
    bullet: str = "•"
    quote_bar: str = "│"
    rule: str = "─"
    column_bar: str = "│"
    crossing: str = "┼"


# Only the sixteen colours that people can adjust to their eyes and their background. High contrast
# has no faint text and no colour that is invisible on some background: weight and lines carry the
# meaning.
_TOKENS: Final[Mapping[TokenKind, tuple[str, str, str]]] = MappingProxyType(
    {
        "comment": ("90", "2", "3"),
        "keyword": ("95", "35", "1"),
        "string": ("32", "32", ""),
        "number": ("33", "31", ""),
        "name": ("94", "34", "1"),
        "builtin": ("36", "36", ""),
        "inserted": ("32", "32", ""),
        "deleted": ("31", "31", ""),
        "heading": ("1", "1", "1"),
    }
)


def _theme(column: int) -> Theme:
    """Return the theme in a column of the table: dark, light, high contrast."""
    return Theme(
        title=("1;4;96", "1;4;34", "1;4")[column],
        heading=("1;96", "1;34", "1")[column],
        strong="1",
        emphasis=("3", "3", "4")[column],
        strike="9",
        code=("36", "35", "1")[column],
        url=("34", "34", "4")[column],
        marker=("36", "34", "1")[column],
        faint=("90", "2", "")[column],
        table_head="1",
        tokens=MappingProxyType(
            {kind: styles[column] for kind, styles in _TOKENS.items() if styles[column]}
        ),
    )


_NONE: Final = Theme(
    keeps_marks=True, bullet="-", quote_bar=">", rule="-", column_bar="|", crossing="+"
)

SPOKEN: Final = Theme(spoken=True, quote_bar="quote:", rule="")
"""The theme for screen readers; it cannot be chosen by name."""

THEMES: Final[Mapping[ThemeName, Theme]] = MappingProxyType(
    {"dark": _theme(0), "light": _theme(1), "high-contrast": _theme(2), "none": _NONE}
)
