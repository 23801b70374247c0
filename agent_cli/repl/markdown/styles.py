"""Styled text: the themes, and runs of text with one style each; their width, breaks and output."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Final, Literal, TypeAlias
from zlib import crc32

from prompt_toolkit.utils import get_cwidth

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
    to_do: str = "☐"
    done: str = "☑"
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
    keeps_marks=True,
    bullet="-",
    to_do="[ ]",
    done="[x]",
    quote_bar=">",
    rule="-",
    column_bar="|",
    crossing="+",
)

SPOKEN: Final = Theme(spoken=True, to_do="to do:", done="done:", quote_bar="quote:", rule="")
"""The theme for screen readers; it cannot be chosen by name."""

THEMES: Final[Mapping[ThemeName, Theme]] = MappingProxyType(
    {"dark": _theme(0), "light": _theme(1), "high-contrast": _theme(2), "none": _NONE}
)


# Text; SGR parameters, "" for none, followed by a blank and the URL of a link, if any.
Span: TypeAlias = tuple[str, str]
Spans: TypeAlias = list[Span]

# Underline, reverse and strike-through are visible on a blank; other styles may include it.
_SHOWS_ON_BLANKS: Final = re.compile(r"(?:^|;)[479](?:;|$)| ")
# URLs for a browser or mail program, in unambiguous characters.
_LINKED: Final = re.compile(r"(?:https?://|mailto:)[!-~]{1,2000}")


def plain(spans: Iterable[Span]) -> str:
    """Return the text without styles."""
    return "".join(text for text, _ in spans)


def join_styles(first: str, second: str) -> str:
    """Return the parameters that set both styles; only the second may have a URL."""
    return f"{first};{second}" if first and second else first or second


def linked(style: str, address: str) -> str:
    """Return *style* with a link to *address*; without one if the address is unusual."""
    return f"{style} {address}" if _LINKED.fullmatch(address) else style


def painted(spans: Spans) -> str:
    """Return a row for the terminal, with styles set and reset, without trailing blanks."""
    parts: list[str] = []
    current = ""
    for text, style in _without_trailing_blanks(spans):
        if style != current and not (text.isspace() and not _SHOWS_ON_BLANKS.search(current)):
            parts.append(_change(current, style))
            current = style
        parts.append(text)
    if current:
        parts.append(_change(current, ""))
    return "".join(parts)


@lru_cache(maxsize=512)
def _change(before: str, after: str) -> str:
    """Return the escape sequences that change one style into another."""
    old, _, old_address = before.partition(" ")
    new, _, address = after.partition(" ")
    sgr = "" if old == new else f"\x1b[0;{new}m" if old and new else f"\x1b[{new}m"
    return sgr if old_address == address else sgr + _link(address)


def _link(address: str) -> str:
    """Return the OSC 8 sequence that begins or ends a link; rows of one URL share an id."""
    return f"\x1b]8;id={crc32(address.encode()):x};{address}\x1b\\" if address else "\x1b]8;;\x1b\\"


def _without_trailing_blanks(spans: Spans) -> Spans:
    end = len(spans)
    while end and (not spans[end - 1][0] or spans[end - 1][0].isspace()):
        end -= 1
    if end == 0:
        return []
    text, style = spans[end - 1]
    return [*spans[: end - 1], (text.rstrip(), style)]


def split_lines(spans: Spans) -> list[Spans]:
    """Split at newlines; there is always at least one line."""
    if not any("\n" in text for text, _ in spans):
        return [[span for span in spans if span[0]]]
    lines: list[Spans] = [[]]
    for text, style in spans:
        first, *others = text.split("\n")
        if first:
            lines[-1].append((first, style))
        lines += [[(other, style)] if other else [] for other in others]
    return lines


def cut(spans: Spans, ranges: Iterable[tuple[int, int]]) -> list[Spans]:
    """Return the spans of each range of characters; ranges ascend and do not overlap."""
    rows: list[Spans] = []
    index = offset = 0
    for start, end in ranges:
        row: Spans = []
        while index < len(spans) and offset < end:
            text, style = spans[index]
            after = offset + len(text)
            if after > start:
                row.append((text[max(start - offset, 0) : end - offset], style))
            if after > end:
                break
            index, offset = index + 1, after
        rows.append(row)
    return rows


# One cell each in every terminal: Latin, Greek, common punctuation, arrows, lines. For such text,
# which is most of it, the width is its length.
_NARROW: Final = re.compile(
    r"[ -~\xa0-\xac\xae-\u02ff\u0370-\u0377\u2010-\u2027\u2030-\u205e"
    r"\u2190-\u21ff\u2500-\u25fc]*"
)
# These combine with the character before them.
_NEVER_FIRST: Final = frozenset(
    "、。，．：；！？）」』】〉》〕”’…ー\U0001f3fb\U0001f3fc\U0001f3fd\U0001f3fe\U0001f3ff"
)
_JOINER: Final = "\u200d"
# Many terminals widen a narrow character that this asks to show as an emoji, e.g. a warning sign.
_AS_EMOJI: Final = "\ufe0f"
_FLAGS_OR_EMOJI: Final = re.compile("[\ufe0f\U0001f1e6-\U0001f1ff]")
# Longer words are broken here; shorter ones are left to the terminal, so that a copied URL has no
# newline in it.
_WORD_CELLS_MAX: Final = 2048


def is_narrow(text: str) -> bool:
    """Return whether each character certainly takes one cell."""
    return _NARROW.fullmatch(text) is not None


@lru_cache(maxsize=4096)
def _cell(character: str) -> int:
    return max(get_cwidth(character), 0)


def cells(text: str) -> int:
    """Return the number of cells of a text without tabs and newlines."""
    return len(text) if is_narrow(text) else sum(_sizes(text))


def _sizes(text: str) -> list[int]:
    """Return the number of cells of each character; of a flag's two letters the first has both."""
    if not _FLAGS_OR_EMOJI.search(text):
        return [*map(_cell, text)]
    sizes: list[int] = []
    is_half_flag = False
    for character in text:
        is_flag_letter = "\U0001f1e6" <= character <= "\U0001f1ff"
        if is_half_flag and is_flag_letter:
            sizes.append(0)
        elif is_flag_letter:
            sizes.append(2)
        else:
            sizes.append(_cell(character))
            if character == _AS_EMOJI and len(sizes) > 1 and sizes[-2] == 1:
                sizes[-2] = 2
        is_half_flag = is_flag_letter and not is_half_flag
    return sizes


def wrapped(text: str, width: int, *, breaks_words: bool = False) -> Iterator[tuple[int, int]]:
    """Yield (start, end) of each row of one line: at most *width* cells, without blanks at breaks.

    Blanks at the end of the line stay in its last row, because the line may continue. A word wider
    than a row gets a row of its own, unbroken unless *breaks_words*.
    """
    if is_narrow(text):
        return _wrapped_narrow(text, width, breaks_words)
    return _wrapped_wide(text, width, breaks_words)


def _wrapped_narrow(text: str, width: int, breaks_words: bool) -> Iterator[tuple[int, int]]:
    longest = _longest_word(width, breaks_words)
    length = len(text.rstrip(" "))
    start = _after_blanks(text, 0)
    while length - start > width:
        end = text.rfind(" ", start, start + width + 1)
        if end < 0:
            end = text.find(" ", start, min(start + longest + 1, length))
        if end < 0:
            end = start + longest
        if end >= length:
            break
        yield start, end
        start = _after_blanks(text, end)
    yield start, len(text)


def _wrapped_wide(text: str, width: int, breaks_words: bool) -> Iterator[tuple[int, int]]:
    longest = _longest_word(width, breaks_words)
    sizes = _sizes(text)
    start = index = end = _after_blanks(text, 0)
    used = 0
    while index < len(text):
        size = sizes[index]
        is_blank = text[index] == " "
        if is_blank or (index > start and _may_break(text, index, sizes)):
            end = index
        if not is_blank and used + size > width and (end > start or used + size > longest):
            row_end = end if end > start else index
            yield start, row_end
            start = end = _after_blanks(text, row_end)
            index = max(index, start)
            used = sum(sizes[start:index])
        else:
            used += size
            index += 1
    yield start, len(text)


def _longest_word(width: int, breaks_words: bool) -> int:
    return width if breaks_words else max(_WORD_CELLS_MAX // width, 1) * width


def _after_blanks(text: str, start: int) -> int:
    while start < len(text) and text[start] == " ":
        start += 1
    return start


def _may_break(text: str, index: int, sizes: Sequence[int]) -> bool:
    """Return whether a row may end before *index* without a blank, as in Chinese and Japanese."""
    if sizes[index] == 1 and sizes[index - 1] == 1:
        return False
    return (
        sizes[index] > 0
        and 2 in (sizes[index], sizes[index - 1])
        and text[index] not in _NEVER_FIRST
        and text[index - 1] not in (_JOINER, " ")
    )


def folded(text: str, width: int) -> Iterator[tuple[int, int]]:
    """Yield (start, end) of each row into which a terminal wraps a line."""
    if is_narrow(text):
        for start in range(0, max(len(text), 1), width):
            yield start, min(start + width, len(text))
        return
    start = used = 0
    for index, size in enumerate(_sizes(text)):
        if used + size > width and index > start:
            yield start, index
            start, used = index, 0
        used += size
    yield start, len(text)
