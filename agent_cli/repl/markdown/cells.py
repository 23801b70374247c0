"""The width of text in terminal cells, and its line breaks."""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final

from prompt_toolkit.utils import get_cwidth

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
