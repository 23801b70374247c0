"""Each line keeps its ending."""

from hypothesis import given
from hypothesis import strategies as st

from agent_cli_tools.matching.document import Document, Span, flatten
from tests.tables import each_row
from tests.tools.matching.editing import edited

pieces = st.sampled_from(["a", "\r", "\n", "\r\n", "é"])
texts = st.lists(pieces, max_size=20).map("".join)


@given(texts)
def test_document_holds_the_text_of_the_file_and_that_with_lf(original: str) -> None:
    document = Document.of(original)

    assert document.original == original
    assert document.text == flatten(original)
    assert "\n".join(document.lines) == document.text


@given(texts, st.lists(pieces, max_size=5).map("".join), st.integers(0, 20), st.integers(0, 20))
def test_verbatim_span_is_written_with_its_own_line_ends(
    original: str, new: str, start: int, length: int
) -> None:
    document = Document.of(original)
    end = min(start + length, len(original))
    # Between CR and LF, there is no offset in the text.
    start, end = (at + (original[at - 1 : at + 1] == "\r\n") for at in (min(start, end), end))

    span = Span(*document.offsets(start, end), new, is_verbatim=True)
    result = document.replaced([span]).original

    assert result == original[:start] + new + original[end:]


@each_row(
    ("text", "old", "new", "expected"),
    [
        ("a\r\nb\r\n", "a\r\n", "x", "xb\r\n"),
        ("a\r\nb\r\nc\r\n", "b\n", "", "a\r\nc\r\n"),
        ("a\r\nb\r\n", "a\nb\n", "a\nx\nb\n", "a\r\nx\r\nb\r\n"),
        ("a\r\nb\r\n", "a\r\nb", "a\nb", "a\nb\r\n"),
        ("a\nb\n", "a\r\nb\r\n", "b\r\na\r\n", "b\na\n"),
        ("a\nb\r\nc\n", "a", "A\nAA", "A\nAA\nb\r\nc\n"),
        ("a\r\nb\r\n", "a\r\nb", "a\nx\nb", "a\r\nx\r\nb\r\n"),
        ("a\r\nb\nc\r\n", "b\nc", "B\nC", "a\r\nB\nC\r\n"),
        ("a\r\nb\nc\r\n", "a\r\nb\n", "a\nnew\nb\n", "a\r\nnew\r\nb\nc\r\n"),
        ("a\r\nb\r\n", "b", "x\r\ny\nz", "a\r\nx\r\ny\nz\r\n"),
        ("a\nb\n", "b", "x\r\ny", "a\nx\r\ny\n"),
        ("a\r\nb\r\n", "a\r", "c\r", "c\r\nb\r\n"),
        ("a\nb\n\na\r\nb\r\n", "a\nb", "c", "c\n\na\r\nb\r\n"),
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
