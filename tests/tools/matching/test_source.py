"""The cached lines of an edited text equal those of the same text read from scratch."""

from hypothesis import given
from hypothesis import strategies as st

from agent_cli_tools.matching.source import Source, Span

texts = st.lists(st.sampled_from(["a ", "“", "\r", "\n", "\r\n"]), max_size=12).map("".join)
crlf_texts = st.lists(st.sampled_from(["a ", "“", "\r\n"]), max_size=12).map("".join)


@given(texts | crlf_texts, texts | crlf_texts, st.integers(0, 20), st.integers(0, 20))
def test_cached_text_and_lines_after_an_edit_match_a_new_source(
    text: str, new: str, start: int, length: int
) -> None:
    """Also if an edit creates or splits a CRLF."""
    source = Source(text)
    source.find_loosely(["x"], 1)

    following = source.replaced([Span(start, start + length, new)])

    afresh = Source(text[:start] + new + text[start + length :])
    assert "lines" in vars(following)
    assert following.lines == afresh.lines
    assert following.original == afresh.original
    assert following.text == afresh.text
    for offset in range(len(afresh.text) + 1):
        assert following.flat.original_offset(offset) == afresh.flat.original_offset(offset)
    for line in afresh.lines:
        assert following.find_loosely([line], 99) == afresh.find_loosely([line], 99)
