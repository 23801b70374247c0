"""The alignment of two sequences."""

from difflib import SequenceMatcher
from typing import Literal, TypeAlias

from hypothesis import given
from hypothesis import strategies as st

from agent_cli.system.alignment import Block, align, grouped

Opcode: TypeAlias = tuple[Literal["replace", "delete", "insert", "equal"], int, int, int, int]

lines = st.lists(st.sampled_from("abcd"), max_size=8)


@given(lines, lines)
def test_aligned_blocks_have_no_gaps_and_equal_blocks_are_equal(a: list[str], b: list[str]) -> None:
    a_end = b_end = 0
    for block in align(a, b):
        assert (block.a_start, block.b_start) == (a_end, b_end)
        a_end, b_end = block.a_end, block.b_end
        is_equal = a[block.a_start : a_end] == b[block.b_start : b_end]
        assert is_equal == (block.kind == "equal")
    assert (a_end, b_end) == (len(a), len(b))


def test_lines_replaced_in_place_are_paired_by_position() -> None:
    kinds = [block.kind for block in align(["a", "x", "b", "y"], ["a", "1", "b", "2"])]

    assert kinds == ["equal", "replace", "equal", "replace"]


def test_moved_line_is_not_paired_by_position() -> None:
    kinds = [block.kind for block in align(["a", "x", "b"], ["x", "a", "b"])]

    assert kinds == ["insert", "equal", "delete", "equal"]


class Difflib(SequenceMatcher[str]):
    """Groups blocks that were found elsewhere."""

    def __init__(self, blocks: list[Block]) -> None:
        super().__init__()
        self._blocks = blocks

    def get_opcodes(self) -> list[Opcode]:
        return [*self._blocks]


@given(lines, lines, st.integers(0, 3))
def test_groups_hold_every_change_and_at_most_so_much_around(
    a: list[str], b: list[str], around: int
) -> None:
    """As `difflib` groups the same blocks."""
    blocks = align(a, b)

    assert grouped(blocks, around=around) == [*Difflib(blocks).get_grouped_opcodes(around)]
