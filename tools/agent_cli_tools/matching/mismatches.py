"""Error messages for edits without a unique place, to help the model's next try."""

import re
from collections import Counter
from collections.abc import Sequence
from difflib import SequenceMatcher

LISTED_MAX = 8
"""Maximum number of places named for an ambiguous edit."""

JOINS = (
    "old ends with a line end and new does not, which would join two lines."
    " End both in the same way, or quote both lines in old."
)

_SHOWN_LINES_MAX = 12
_SHOWN_CHARS_MAX = 500
_COMPARED_LINES_MAX = 200_000
_COMPARED_CHARS_MAX = 200
_COMPARED_CLOSELY_MAX = 30
_VOTES_MAX = 1_000
_RATIO_MIN = 0.6
_WORD = re.compile(r"\w+")


def ambiguous(numbers: Sequence[int]) -> str:
    """Return the error for a text found at all lines *numbers*."""
    return (
        f"old occurs {_places(numbers)}."
        " Add lines around it so that it occurs once, or set all to true."
    )


def repaired_everywhere(numbers: Sequence[int]) -> str:
    """Return the error for a text to be replaced everywhere that has no exact match."""
    return (
        f"old does not match exactly, but nearly {_places(numbers)}."
        " With all, copy old as it stands there."
    )


def _places(numbers: Sequence[int]) -> str:
    listed = ", ".join(map(str, numbers[:LISTED_MAX]))
    more = len(numbers) > LISTED_MAX
    return (
        f"{f'more than {LISTED_MAX}' if more else len(numbers)} times"
        f" (lines {listed}{', …' if more else ''})"
    )


def unclear(lines: Sequence[str], first: int, count: int, why: str) -> str:
    """Return the error for *count* lines that match, but not with enough certainty."""
    return (
        f"old was not replaced at line {first + 1}: {why}."
        f" Copy old from what is there, and indent new to fit:\n{_excerpt(lines, first, count)}"
    )


def not_found(lines: Sequence[str], old: str) -> str:
    """Return the error with the most similar lines, for the model to copy."""
    quoted = [line.strip() for line in old.removesuffix("\n").split("\n")]
    if not any(quoted):
        return "old was not found: it holds only blanks. Give the lines around them too."
    nearest = _nearest([line.strip() for line in lines[:_COMPARED_LINES_MAX]], quoted)
    if nearest is None:
        return "old was not found, nor anything like it. Read the file again and copy the text."
    number, first = nearest
    return (
        f"old was not found. The closest is line {number + 1}; copy from what is there:\n"
        f"{_excerpt(lines, first, len(quoted))}"
    )


def _nearest(lines: Sequence[str], quoted: Sequence[str]) -> tuple[int, int] | None:
    """Return the most similar line, and the first line of its place."""
    first = _voted(lines, quoted)
    if first is not None:
        numbers = [first + i for i, line in enumerate(quoted) if line]
        differing = [
            number
            for number, line in zip(numbers, filter(None, quoted), strict=True)
            if 0 <= number < len(lines) and lines[number] != line
        ]
        return (differing or [max(0, first)])[0], max(0, first)
    wanted = max(quoted, key=len)
    number = _most_alike(lines, wanted)
    return None if number is None else (number, max(0, number - quoted.index(wanted)))


def _voted(lines: Sequence[str], quoted: Sequence[str]) -> int | None:
    """Return the start of *quoted* by majority vote of its exactly matching lines."""
    places: dict[str, list[int]] = {line: [] for line in quoted if len(line) > 1}
    for number, line in enumerate(lines):
        if line in places and len(places[line]) < _VOTES_MAX:
            places[line].append(number)
    votes: Counter[int] = Counter()
    for index, line in enumerate(quoted[:_VOTES_MAX]):
        found = places.get(line, ())
        for number in found:
            # Frequent lines are not significant.
            votes[number - index] += 1 + len(line) // len(found)
    return votes.most_common(1)[0][0] if votes else None


def _most_alike(lines: Sequence[str], wanted: str) -> int | None:
    words = set(_WORD.findall(wanted))
    shared = sorted(
        (
            (len(words.intersection(_WORD.findall(line))), -i)
            for i, line in enumerate(lines)
            if line
        ),
        reverse=True,
    )
    best, best_ratio = None, _RATIO_MIN
    matcher = SequenceMatcher(None, b=wanted[:_COMPARED_CHARS_MAX])
    for _, negative in shared[:_COMPARED_CLOSELY_MAX]:
        matcher.set_seq1(lines[-negative][:_COMPARED_CHARS_MAX])
        if matcher.quick_ratio() > best_ratio and (ratio := matcher.ratio()) > best_ratio:
            best, best_ratio = -negative, ratio
    return best


def _excerpt(lines: Sequence[str], first: int, count: int) -> str:
    shown = lines[first : first + min(count, _SHOWN_LINES_MAX)]
    return "\n".join(
        f"{number:6}\t{line[:_SHOWN_CHARS_MAX]}" for number, line in enumerate(shown, first + 1)
    )
