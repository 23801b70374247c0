"""Aligned blocks turn one text into the other, whichever method found them."""

from hypothesis import given
from hypothesis import strategies as st

from agent_cli_tools.alignment import align

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
