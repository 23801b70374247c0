"""Error messages for edits without a unique place, to help the model's next try."""

import re
from collections import Counter
from collections.abc import Sequence
from difflib import SequenceMatcher

LISTED_MAX = 8
"""Maximum number of places named for an ambiguous edit."""

_SHOWN_LINES_MAX = 12
_SHOWN_CHARS_MAX = 500
_COMPARED_LINES_MAX = 200_000
_COMPARED_CHARS_MAX = 200
_COMPARED_CLOSELY_MAX = 30
_VOTES_MAX = 1_000
_WORD = re.compile(r"\w+")


def ambiguous(numbers: Sequence[int], *, nearly: bool = False) -> str:
    """Return the error for a text found at all lines *numbers*, or nearly found."""
    more = len(numbers) > LISTED_MAX
    count = f"more than {LISTED_MAX}" if more else len(numbers)
    times = f"{count} times (lines {_listed(numbers)})"
    if nearly:
        return f"old stands there nearly {times}. With all, copy old as it stands there."
    return f"old occurs {times}. Add lines around it so that it occurs once, or set all to true."


def _listed(numbers: Sequence[int]) -> str:
    more = ", …" if len(numbers) > LISTED_MAX else ""
    return ", ".join(map(str, numbers[:LISTED_MAX])) + more


def unclear(lines: Sequence[str], first: int, count: int, why: str) -> str:
    """Return the error for *count* lines that match, but not with enough certainty."""
    return (
        f"old was not replaced at line {first + 1}: {why}."
        f" Copy old from what is there, and indent new to fit:\n{_excerpt(lines, first, count)}"
    )


def not_found(lines: Sequence[str], old: str) -> str:
    """Return the error with the most similar lines, for the model to copy."""
    quoted = [line.strip() for line in old.removesuffix("\n").split("\n")]
    there = [line.strip() for line in lines[:_COMPARED_LINES_MAX]]
    if not any(there):
        return "old was not found: the file has no text. Use write for all of it."
    if not any(quoted):
        blank = [number for number, line in enumerate(there[:-1], 1) if not line]
        listed = (
            f"like line{'s' * (len(blank) > 1)} {_listed(blank)}" if blank else "but no line does"
        )
        return f"old was not found: it holds only blanks, {listed}. Give the lines around too."
    first = _voted(there, quoted)
    if first is not None:
        numbers = [first + i for i, line in enumerate(quoted) if line]
        differing = (n for n in numbers if 0 <= n < len(there) and there[n] != quoted[n - first])
        number = next(differing, max(0, first))
    else:
        longest = max(quoted, key=len)
        number = _most_alike(there, longest)
        first = number - quoted.index(longest)
    return (
        f"old was not found. The closest is line {number + 1}; copy from what is there:\n"
        f"{_excerpt(lines, max(0, first), len(quoted))}"
    )


def _voted(lines: Sequence[str], quoted: Sequence[str]) -> int | None:
    """Return the start of *quoted* by majority vote of its exactly matching lines."""
    line_numbers: dict[str, list[int]] = {line: [] for line in quoted if len(line) > 1}
    for number, line in enumerate(lines):
        if line in line_numbers and len(line_numbers[line]) < _VOTES_MAX:
            line_numbers[line].append(number)
    votes: Counter[int] = Counter()
    for index, line in enumerate(quoted[:_VOTES_MAX]):
        found = line_numbers.get(line, ())
        for number in found:
            # Frequent lines are not significant.
            votes[number - index] += 1 + len(line) // len(found)
    return votes.most_common(1)[0][0] if votes else None


def _most_alike(lines: Sequence[str], line_text: str) -> int:
    """Return the line most like *line_text* among the lines that share most words with it."""
    words = set(_WORD.findall(line_text))
    shared = sorted(
        (-len(words.intersection(_WORD.findall(line))), i) for i, line in enumerate(lines) if line
    )
    matcher = SequenceMatcher(None, b=line_text[:_COMPARED_CHARS_MAX])

    def likeness(number: int) -> float:
        matcher.set_seq1(lines[number][:_COMPARED_CHARS_MAX])
        return matcher.ratio()

    return max((number for _, number in shared[:_COMPARED_CLOSELY_MAX]), key=likeness)


def _excerpt(lines: Sequence[str], first: int, count: int) -> str:
    shown = lines[first : first + min(count, _SHOWN_LINES_MAX)]
    return "\n".join(
        f"{number}\t{line[:_SHOWN_CHARS_MAX]}" for number, line in enumerate(shown, first + 1)
    )
