"""Each line keeps its ending."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_cli_tools.matching.endings import FlatText
from tests.tools.matching.editing import edited

texts = st.lists(st.sampled_from(["a", "\r", "\n", "\r\n", "é"]), max_size=20).map("".join)


@given(texts)
def test_every_flat_offset_maps_to_the_original_text(original: str) -> None:
    flat = FlatText(original)

    for offset, character in enumerate(flat.text):
        there = original[flat.original_offset(offset) :]
        assert flat.flat_offset(flat.original_offset(offset)) == offset
        assert there.startswith("\r\n" if character == "\n" and there[0] == "\r" else character)
    assert flat.original_offset(len(flat.text)) == len(original)


@pytest.mark.parametrize(
    ("text", "old", "new", "expected"),
    [
        ("a\r\nb\r\n", "a\r\n", "x", "x\r\nb\r\n"),
        ("a\r\nb\r\nc\r\n", "b\n", "", "a\r\nc\r\n"),
        ("a\r\nb\r\n", "a\nb\n", "a\nx\nb\n", "a\r\nx\r\nb\r\n"),
        ("a\r\nb\r\n", "a\r\nb", "a\nb", "a\nb\r\n"),
        ("a\nb\n", "a\r\nb\r\n", "b\r\na\r\n", "b\na\n"),
        ("a\nb\r\nc\n", "a", "A\nAA", "A\nAA\nb\r\nc\n"),
        ("a\r\nb\r\n", "a\r\nb", "a\nx\nb", "a\r\nx\r\nb\r\n"),
        ("a\r\nb\nc\r\n", "b\nc", "B\nC", "a\r\nB\nC\r\n"),
        ("a\r\nb\nc\r\n", "a\r\nb\n", "a\nnew\nb\n", "a\r\nnew\r\nb\nc\r\n"),
        ("a\nb\r\nc", "c", "c\nd", "a\nb\r\nc\r\nd"),
        ("a\r\nb", "a", "x\ny", "x\r\ny\r\nb"),
        ("a\r\r\nb\r\n", "a\r\r\n", "x\n", "x\r\nb\r\n"),
    ],
)
def test_new_lines_get_the_ending_of_replaced_or_neighbouring_lines(
    text: str, old: str, new: str, expected: str
) -> None:
    """An unchanged line keeps its ending; an added one gets that of the line before.

    The line endings of the quoted text do not matter, unless the edit changes only them.
    """
    assert edited(text, old, new) == expected
