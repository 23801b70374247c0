"""How an answer looks: the themes, as SGR parameters per kind of text."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

ThemeName: TypeAlias = Literal["dark", "light", "high-contrast", "none"]

# What a token of code can be; the lexers' hundreds of kinds are mapped to these.
TokenKind: TypeAlias = Literal[
    "comment", "keyword", "string", "number", "name", "builtin", "inserted", "deleted", "heading"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Theme:
    """SGR parameters such as "1;36"; an empty one leaves the text as it is.

    Where emphasis cannot be shown, `keeps_marks` leaves the marks that were typed.
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
    bullet: str = "•"
    quote_bar: str = "│"
    rule: str = "─"
    column_bar: str = "│"
    crossing: str = "┼"


# The sixteen colours only: they are the ones people adjust to their eyes and their background.
_DARK: Final = Theme(
    title="1;4;96",
    heading="1;96",
    strong="1",
    emphasis="3",
    strike="9",
    code="36",
    url="34",
    marker="36",
    faint="90",
    table_head="1",
    tokens=MappingProxyType(
        {
            "comment": "90",
            "keyword": "95",
            "string": "32",
            "number": "33",
            "name": "94",
            "builtin": "36",
            "inserted": "32",
            "deleted": "31",
            "heading": "1",
        }
    ),
)
_LIGHT: Final = Theme(
    title="1;4;34",
    heading="1;34",
    strong="1",
    emphasis="3",
    strike="9",
    code="35",
    url="34",
    marker="34",
    faint="2",
    table_head="1",
    tokens=MappingProxyType(
        {
            "comment": "2",
            "keyword": "35",
            "string": "32",
            "number": "31",
            "name": "34",
            "builtin": "36",
            "inserted": "32",
            "deleted": "31",
            "heading": "1",
        }
    ),
)
# No faint text and no colour that some background swallows: weight and lines carry the meaning.
_HIGH_CONTRAST: Final = Theme(
    title="1;4",
    heading="1",
    strong="1",
    emphasis="4",
    strike="9",
    code="1",
    url="4",
    marker="1",
    table_head="1",
    tokens=MappingProxyType({"keyword": "1", "name": "1", "heading": "1", "comment": "3"}),
)
_NONE: Final = Theme(
    keeps_marks=True, bullet="-", quote_bar=">", rule="-", column_bar="|", crossing="+"
)

THEMES: Final[Mapping[ThemeName, Theme]] = MappingProxyType(
    {"dark": _DARK, "light": _LIGHT, "high-contrast": _HIGH_CONTRAST, "none": _NONE}
)
