"""Each line keeps its ending."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_cli_tools.matching.endings import FlatText, with_endings_of
from tests.tools.matching.editing import edited

texts = st.lists(st.sampled_from(["a", "\r", "\n", "\r\n", "é"]), max_size=20).map("".join)


@given(texts)
def test_every_flat_character_is_found_in_the_original(original: str) -> None:
    flat = FlatText(original)

    for offset, character in enumerate(flat.text):
        there = original[flat.original_offset(offset) :]
        assert flat.flat_offset(flat.original_offset(offset)) == offset
        assert there.startswith("\r\n" if character == "\n" and there[0] == "\r" else character)
    assert flat.original_offset(len(flat.text)) == len(original)


@pytest.mark.parametrize(
    ("text", "old", "new", "expected"),
    [
        ("a\r\nb\r\n", "a\r\nb", "a\nx\nb", "a\r\nx\r\nb"),
        ("a\r\nb\nc\r\n", "b\nc", "B\nC", "B\nC"),
        ("a\r\nb\nc\r\n", "a\r\nb\n", "a\nnew\nb\n", "a\r\nnew\r\nb\n"),
        ("a\nb\r\nc", "c", "c\nd", "c\r\nd"),
        ("a\r\nb", "a", "x\ny", "x\r\ny"),
        ("a\r\r\nb\r\n", "a\r\r\n", "x\n", "x\r\n"),
    ],
)
def test_new_lines_end_as_their_neighbours_do(text: str, old: str, new: str, expected: str) -> None:
    """An unchanged line keeps its ending; an added one takes that of the line before."""
    start = text.index(old)

    assert with_endings_of(text, start, start + len(old), new) == expected


@pytest.mark.parametrize(
    ("text", "old", "new", "expected"),
    [
        ("a\r\nb\r\n", "a\r\n", "x", "x\r\nb\r\n"),
        ("a\r\nb\r\nc\r\n", "b\n", "", "a\r\nc\r\n"),
        ("a\r\nb\r\n", "a\nb\n", "a\nx\nb\n", "a\r\nx\r\nb\r\n"),
        ("a\r\nb\r\n", "a\r\nb", "a\nb", "a\nb\r\n"),
        ("a\nb\n", "a\r\nb\r\n", "b\r\na\r\n", "b\na\n"),
        ("a\nb\r\nc\n", "a", "A\nAA", "A\nAA\nb\r\nc\n"),
    ],
)
def test_texts_are_found_whatever_their_endings(
    text: str, old: str, new: str, expected: str
) -> None:
    """Unless only the endings are to change, those of the file stay."""
    assert edited(text, old, new) == expected
