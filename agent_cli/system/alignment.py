"""Align two sequences in bounded time: the blocks that turn one into the other.

Imported before the first prompt, so it imports next to nothing.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

_EQUAL_PAIRS_MAX: Final = 1_000_000


class Block(NamedTuple):
    """`a[a_start:a_end]` corresponds to `b[b_start:b_end]`."""

    kind: Literal["replace", "delete", "insert", "equal"]
    a_start: int
    a_end: int
    b_start: int
    b_end: int


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


def grouped(blocks: Sequence[Block], *, around: int) -> list[list[Block]]:
    """Return the changes in groups, with *around* equal items before and behind each."""
    groups: list[list[Block]] = []
    group: list[Block] = []
    for block in blocks:
        if block.kind != "equal":
            group.append(block)
            continue
        if not group:
            group = [_last(block, around)]
        elif block.a_end - block.a_start > 2 * around:
            groups.append([*group, _first(block, around)])
            group = [_last(block, around)]
        else:
            group.append(block)
    if any(block.kind != "equal" for block in group):
        last = group[-1]
        groups.append([*group[:-1], _first(last, around)] if last.kind == "equal" else group)
    return groups


def _first(block: Block, count: int) -> Block:
    count = min(count, block.a_end - block.a_start)
    return block._replace(a_end=block.a_start + count, b_end=block.b_start + count)


def _last(block: Block, count: int) -> Block:
    count = min(count, block.a_end - block.a_start)
    return block._replace(a_start=block.a_end - count, b_start=block.b_end - count)


def common_start(a: Sequence[object], b: Sequence[object]) -> int:
    """Return the number of common items at the start."""
    count = 0
    for one, other in zip(a, b, strict=False):
        if one is not other and one != other:  # most are the same object
            break
        count += 1
    return count


def _middle(a: Sequence[str], b: Sequence[str]) -> list[Block]:
    from difflib import SequenceMatcher  # with the first change

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
