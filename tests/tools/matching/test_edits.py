"""Several edits of one text, with nothing outside of them changed."""

import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from agent_cli_tools.matching import Edit, NoMatch, apply_edits
from agent_cli_tools.matching.document import flatten
from agent_cli_tools.textio import decode, encode
from tests.tools.matching.editing import edited, refusal


def test_edits_apply_in_order() -> None:
    assert apply_edits("a b", [Edit("a", "c"), Edit("c", "d")]).text == "d b"


def test_edit_may_insert_text_that_a_later_edit_searches_for() -> None:
    """Both were written for the file before the edits."""
    assert apply_edits("a\nb\n", [Edit("a", "b\na"), Edit("b", "c")]).text == "b\na\nc\n"


def test_edit_may_add_a_line_end_where_an_earlier_one_removed_the_only_one() -> None:
    """The file had CRLF."""
    edits = [Edit("a\n", "a"), Edit("b", "x\ny")]

    assert apply_edits("a\r\nb", edits).text == "ax\r\ny"


def test_if_one_edit_fails_no_edit_is_made() -> None:
    with pytest.raises(NoMatch, match=r"(?s)Edit 2 of 2: .*None of the edits was made"):
        apply_edits("a b", [Edit("a", "c"), Edit("x", "d")])


def test_overlapping_edits_are_refused() -> None:
    with pytest.raises(NoMatch):
        apply_edits("a b c\nb c\n", [Edit("a b", "b c"), Edit("b c\nb", "x")])


pieces = st.sampled_from(["a", "b", " ", "\t", "“", "é", "\n", "\r\n", "\r"])


@given(
    st.lists(pieces), st.lists(pieces, min_size=1, max_size=6), st.lists(pieces), st.text("xy\n")
)
def test_no_text_outside_the_replaced_span_changes(
    left: list[str], middle: list[str], right: list[str], new: str
) -> None:
    """Whatever the text and its line endings; an ambiguous place is refused.

    A text that stands there once as it was quoted is not ambiguous.
    """
    before, old, after = "".join(left), "".join(middle), "".join(right)
    text = before + old + after
    # Parts cut within a CRLF differ from the drawn ones.
    assume(flatten(text) == flatten(before) + flatten(old) + flatten(after))
    assume(old != new)

    if len(re.findall(f"(?={re.escape(flatten(old))})", flatten(text))) > 1:
        if len(re.findall(f"(?={re.escape(old)})", text)) != 1:
            assume("\r" not in old)
            refusal(text, old, new)
        return
    # A text with CR is searched literally, and may overlap itself.
    assume("\r" not in old or len(re.findall(f"(?={re.escape(old)})", text)) == 1)
    result = edited(text, old, new)

    assert result.startswith(before)
    assert result.endswith(after)
    assert flatten(result[len(before) : len(result) - len(after)]) == new


@given(st.binary(max_size=60), st.binary(min_size=1, max_size=8), st.text(max_size=5))
def test_arbitrary_bytes_around_the_replaced_span_survive(
    left: bytes, right: bytes, new: str
) -> None:
    """The marker is the only thing that may change, whatever surrounds it."""
    marker = b"=marker="
    raw = left + marker + right
    text, encoding = decode(raw)
    assume(text.count("=marker=") == 1)
    try:
        wanted = new.encode("latin-1" if encoding in ("latin-1", "unknown") else "utf-8")
    except UnicodeEncodeError:
        return
    assume("\n" not in new and "\r" not in new)

    assert encode(edited(text, "=marker=", new), encoding) == left + wanted + right
