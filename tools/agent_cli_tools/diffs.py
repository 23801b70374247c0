"""What changed in a file, for a person: a unified diff, in time that depends on the change only."""

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from agent_cli.contracts.timeline import Json

_CONTEXT_LINES = 3
_SHOWN_LINES_MAX = 400
_SHOWN_CHARS_MAX = 500


@dataclass(frozen=True, slots=True)
class Diff:
    """A unified diff without file names, and how many lines came and went.

    `first` and `last` are the changed lines' numbers in the new text.
    """

    text: str
    added: int
    removed: int
    first: int
    last: int

    def details(self, path: str) -> Json:
        """Return the diff as data for the screen."""
        return {
            "kind": "diff",
            "path": path,
            "diff": self.text,
            "added": self.added,
            "removed": self.removed,
        }


def diff(before: str, after: str, *, lines_max: int | None = _SHOWN_LINES_MAX) -> Diff:
    """Return the difference between two texts; line endings count, but are not shown.

    Args:
        lines_max: Of its text; None leaves nothing out.
    """
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    same = _common(old, new)
    # Matching costs the product of the lengths, and most of a file does not change.
    start = max(0, same - _CONTEXT_LINES)
    tail = _common(old[same:][::-1], new[same:][::-1])
    end = max(0, tail - _CONTEXT_LINES)
    old, new = old[start : len(old) - end], new[start : len(new) - end]
    matcher = SequenceMatcher(None, old, new)
    changes = [code for code in matcher.get_opcodes() if code[0] != "equal"]
    lines: list[str] = []
    for group in matcher.get_grouped_opcodes(_CONTEXT_LINES):
        first, last = group[0], group[-1]
        lines.append(
            f"@@ -{_range(first[1] + start, last[2] + start)}"
            f" +{_range(first[3] + start, last[4] + start)} @@"
        )
        for kind, a, a_end, b, b_end in group:
            if kind == "equal":
                lines += _marked(" ", old[a:a_end])
            else:
                lines += [*_marked("-", old[a:a_end]), *_marked("+", new[b:b_end])]
    return Diff(
        text="\n".join(lines) if lines_max is None else _shortened(lines, lines_max),
        added=sum(code[4] - code[3] for code in changes),
        removed=sum(code[2] - code[1] for code in changes),
        first=changes[0][3] + start + 1 if changes else 0,
        last=max(changes[-1][4], changes[-1][3] + 1) + start if changes else 0,
    )


def _common(old: Sequence[str], new: Sequence[str]) -> int:
    """Return how many lines the two have in common at the start."""
    count = 0
    for one, other in zip(old, new, strict=False):
        if one != other:
            break
        count += 1
    return count


def _range(start: int, end: int) -> str:
    return f"{start + 1 if end > start else start},{end - start}"


def _marked(mark: str, lines: Sequence[str]) -> list[str]:
    return [mark + line.rstrip("\r\n")[:_SHOWN_CHARS_MAX] for line in lines]


def _shortened(lines: Sequence[str], lines_max: int) -> str:
    if len(lines) <= lines_max:
        return "\n".join(lines)
    more = len(lines) - lines_max
    return "\n".join([*lines[:lines_max], f"… {more} more lines"])
