"""The changes between two lists of lines, in groups with equal lines around them."""

from collections.abc import Sequence
from difflib import SequenceMatcher
from itertools import takewhile
from typing import Final, Literal, TypeAlias

# Matching costs the product of the lengths; longer parts are shown as removed and added.
_MATCHED_LINES_MAX: Final = 1_000
_Opcode: TypeAlias = tuple[Literal["replace", "delete", "insert", "equal"], int, int, int, int]


class LineChanges(SequenceMatcher[str]):
    """What turns the lines *old* into *new*: compared once, and grouped as often as needed."""

    def __init__(self, old: Sequence[str], new: Sequence[str]) -> None:
        super().__init__()
        head = _common(old, new)
        tail = _common(old[head:][::-1], new[head:][::-1])
        old_end, new_end = len(old) - tail, len(new) - tail
        codes: list[_Opcode] = [("replace", 0, old_end - head, 0, new_end - head)]
        if max(old_end, new_end) - head <= _MATCHED_LINES_MAX:
            between = SequenceMatcher(None, old[head:old_end], new[head:new_end], autojunk=False)
            codes = between.get_opcodes()
        self._codes: list[_Opcode] = [("equal", 0, head, 0, head)] if head else []
        self._codes.extend(
            (kind, head + a, head + b, head + c, head + d) for kind, a, b, c, d in codes
        )
        if tail:
            self._codes.append(("equal", old_end, len(old), new_end, len(new)))

    def get_opcodes(self) -> list[_Opcode]:
        """Return the opcodes, for `get_grouped_opcodes`, which changes the list."""
        return [*self._codes]


def _common(old: Sequence[str], new: Sequence[str]) -> int:
    """Return the number of common lines at the start."""
    pairs = zip(old, new, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
