"""Align the lines of two texts in bounded time, and unified diffs for people."""

from collections import Counter
from collections.abc import Sequence
from difflib import SequenceMatcher
from io import StringIO
from typing import Literal, NamedTuple

from agent_cli.contracts.timeline import Json
from agent_cli.system.records import dataclass

_CONTEXT_LINES = 3
_SHOWN_LINES_MAX = 400
_SHOWN_CHARS_MAX = 500


@dataclass(frozen=True, slots=True)
class Diff:
    """A unified diff without file names, and the numbers of lines added and removed.

    `text` is for the screen, `whole` leaves nothing out. `first` and `last` are the changed lines'
    numbers in the new text.
    """

    text: str
    whole: str
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
    """Return the diff of two texts; line endings count, but are not shown.

    Args:
        lines_max: Maximum number of lines on the screen; None leaves none out.
    """
    old, new = lines_of(before), lines_of(after)
    blocks = align(old, new)
    changes = [block for block in blocks if block.kind != "equal"]
    rows: list[_Row] = []
    for group in _grouped(blocks):
        first, last = group[0], group[-1]
        ranges = f"-{_range(first.a_start, last.a_end)} +{_range(first.b_start, last.b_end)}"
        rows.append(_Row("", f"@@ {ranges} @@"))
        for kind, a, a_end, b, b_end in group:
            if kind == "equal":
                rows += _marked(" ", old[a:a_end])
            else:
                starts = [*map(_shown_from, old[a:a_end], new[b:b_end])]
                rows += _marked("-", old[a:a_end], starts)
                rows += _marked("+", new[b:b_end], starts)
    lines = [row.mark + _part(row.line, row.start) for row in rows]
    return Diff(
        text="\n".join(lines) if lines_max is None else _shortened(lines, lines_max),
        whole="\n".join(row.mark + row.line for row in rows),
        added=sum(change.b_end - change.b_start for change in changes),
        removed=sum(change.a_end - change.a_start for change in changes),
        first=changes[0].b_start + 1 if changes else 0,
        last=max(changes[-1].b_end, changes[-1].b_start + 1) if changes else 0,
    )


def lines_of(text: str) -> list[str]:
    """Return the lines of *text* with their endings: LF, CRLF and CR as in editors.

    `str.splitlines` also splits at U+2028 and form feeds, which occur within lines of source.
    """
    return list(StringIO(text, newline=""))


class Block(NamedTuple):
    """`a[a_start:a_end]` corresponds to `b[b_start:b_end]`."""

    kind: Literal["replace", "delete", "insert", "equal"]
    a_start: int
    a_end: int
    b_start: int
    b_end: int


def _grouped(blocks: Sequence[Block]) -> list[list[Block]]:
    """Return the changes in groups, with some equal lines around each."""
    groups: list[list[Block]] = []
    group: list[Block] = []
    for block in blocks:
        if block.kind != "equal":
            group.append(block)
            continue
        if group:
            group.append(_first(block))
        if not group or block.a_end - block.a_start > 2 * _CONTEXT_LINES:
            groups += [group] if group else []
            group = [_last(block)]
        elif group:
            group[-1] = block
    if any(block.kind != "equal" for block in group):
        last = group[-1]
        groups.append([*group[:-1], _first(last)] if last.kind == "equal" else group)
    return groups


def _first(block: Block) -> Block:
    count = min(_CONTEXT_LINES, block.a_end - block.a_start)
    return block._replace(a_end=block.a_start + count, b_end=block.b_start + count)


def _last(block: Block) -> Block:
    count = min(_CONTEXT_LINES, block.a_end - block.a_start)
    return block._replace(a_start=block.a_end - count, b_start=block.b_end - count)


def _range(start: int, end: int) -> str:
    return f"{start + 1 if end > start else start},{end - start}"


class _Row(NamedTuple):
    """A line behind its mark; the screen shows a long one from `start` on."""

    mark: str
    line: str
    start: int = 0


def _marked(mark: str, lines: Sequence[str], starts: Sequence[int] = ()) -> list[_Row]:
    begins = [*starts, *[0] * len(lines)]
    return [_Row(mark, line.rstrip("\r\n"), begins[at]) for at, line in enumerate(lines)]


def _part(line: str, start: int) -> str:
    end = start + _SHOWN_CHARS_MAX
    return f"{'…' if start else ''}{line[start:end]}{'…' if len(line) > end else ''}"


def _shown_from(old: str, new: str) -> int:
    """Return where to begin with two versions of a long line, to show where they differ."""
    if max(len(old), len(new)) <= _SHOWN_CHARS_MAX:
        return 0
    return max(common_start(old, new) - _SHOWN_CHARS_MAX // 2, 0)


def _shortened(lines: Sequence[str], lines_max: int) -> str:
    if len(lines) <= lines_max:
        return "\n".join(lines)
    more = len(lines) - lines_max
    return "\n".join([*lines[:lines_max], f"… {more} more lines"])


_EQUAL_PAIRS_MAX = 1_000_000


def align(a: Sequence[str], b: Sequence[str]) -> list[Block]:
    """Return the blocks that turn *a* into *b*, in order and without gaps."""
    head = common_start(a, b)
    tail = common_start(a[head:][::-1], b[head:][::-1])
    a_end, b_end = len(a) - tail, len(b) - tail
    blocks = [
        Block(kind, a_start + head, a_stop + head, b_start + head, b_stop + head)
        for kind, a_start, a_stop, b_start, b_stop in _middle(a[head:a_end], b[head:b_end])
    ]
    if head:
        blocks.insert(0, Block("equal", 0, head, 0, head))
    if tail:
        blocks.append(Block("equal", a_end, len(a), b_end, len(b)))
    return blocks


def common_start(a: Sequence[object], b: Sequence[object]) -> int:
    """Return the number of common items at the start."""
    count = 0
    for one, other in zip(a, b, strict=False):
        if one != other:
            break
        count += 1
    return count


def _middle(a: Sequence[str], b: Sequence[str]) -> list[Block]:
    if not a and not b:
        return []
    if not a or not b:
        return [Block("insert" if b else "delete", 0, len(a), 0, len(b))]
    if _is_in_place(a, b):
        return _side_by_side(a, b)
    counts, other = Counter(a), Counter(b)
    if sum(count * other[item] for item, count in counts.items()) > _EQUAL_PAIRS_MAX:
        # SequenceMatcher visits every pair of equal items, possibly many times.
        return _side_by_side(a, b)
    return [Block(*code) for code in SequenceMatcher(None, a, b).get_opcodes()]


def _is_in_place(a: Sequence[str], b: Sequence[str]) -> bool:
    """Return whether lines were replaced by the same number of others, without moves."""
    if len(a) != len(b):
        return False
    changed = [(one, other) for one, other in zip(a, b, strict=True) if one != other]
    return {one for one, _ in changed}.isdisjoint(other for _, other in changed)


def _side_by_side(a: Sequence[str], b: Sequence[str]) -> list[Block]:
    """Pair the items by position, as for the same change on many lines."""
    blocks: list[Block] = []
    both = min(len(a), len(b))
    start = 0
    while start < both:
        is_equal = a[start] == b[start]
        end = start + 1
        while end < both and (a[end] == b[end]) == is_equal:
            end += 1
        blocks.append(Block("equal" if is_equal else "replace", start, end, start, end))
        start = end
    if len(a) > both:
        blocks.append(Block("delete", both, len(a), both, both))
    elif len(b) > both:
        blocks.append(Block("insert", both, both, both, len(b)))
    return blocks
