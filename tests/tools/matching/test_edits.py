"""Where an edit belongs, and that a guess is never made."""

import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from agent_cli_tools.matching.edits import Edit, NoMatch, apply_edits
from agent_cli_tools.matching.endings import flatten
from agent_cli_tools.textio import decode, encode

TEXT = 'def f():\n    if x:\n        return "one"\n    return 2\n\n\ndef g():\n    return "two"\n'


def edited(text: str, old: str, new: str, *, all: bool = False) -> str:
    return apply_edits(text, [Edit(old, new, all)]).text


def test_only_the_text_found_changes() -> None:
    assert edited("x = 1  \ny = “2”\n", "1", "3") == "x = 3  \ny = “2”\n"


@pytest.mark.parametrize(
    ("text", "old", "new", "expected"),
    [
        ("a\nb", "b", "b\n", "a\nb\n"),
        ("a\nb\n", "b\n", "b", "a\nb"),
        ("a\nb\n", "b\n", "c", "a\nc\n"),
        ("a\nb\nc\n", "b\n", "x", "a\nx\nc\n"),
        ("a\r\nb\r\n", "a\r\n", "x", "x\r\nb\r\n"),
        ("a\nb\nc\n", "\n", " ", None),
        ("a b\nc\n", "b\n", "c, ", None),
        ("a\nb\nc\n", "b\n", "b", None),
        ("a\nb\n", "b\n", "", "a\n"),
        ("a\nb", "\nb", "", "a"),
        ("", "", "new\n", "new\n"),
        ("a\r\nb\r\nc\r\n", "b\n", "", "a\r\nc\r\n"),
        ("a\r\nb\r\n", "a\nb\n", "a\nx\nb\n", "a\r\nx\r\nb\r\n"),
        ("a\r\nb\r\n", "a\r\nb", "a\nb", "a\nb\r\n"),
        ("a\nb\n", "a\r\nb\r\n", "b\r\na\r\n", "b\na\n"),
        ("a\nb\r\nc\n", "a", "A\nAA", "A\nAA\nb\r\nc\n"),
    ],
)
def test_ends_of_lines_are_text_but_a_lost_one_joins_no_lines(
    text: str, old: str, new: str, expected: str | None
) -> None:
    """Only at the end of the file does a line end that new lacks go."""
    if expected is None:
        with pytest.raises(NoMatch):
            edited(text, old, new)
    else:
        assert edited(text, old, new) == expected


def test_all_may_join_lines() -> None:
    assert edited("a,\nb,\nc\n", ",\n", ", ", all=True) == "a, b, c\n"


def test_a_text_that_occurs_twice_is_refused_with_its_lines() -> None:
    """The first place would be a guess."""
    with pytest.raises(NoMatch, match=r"occurs 3 times \(lines 3, 4, 8\).*all"):
        edited(TEXT, "    return", "    yield")


def test_overlapping_places_count() -> None:
    with pytest.raises(NoMatch, match="2 times"):
        edited("aaa", "aa", "b")


def test_places_that_differ_in_line_endings_only_count() -> None:
    """The model does not see the difference, so it cannot mean one of them."""
    with pytest.raises(NoMatch, match="2 times"):
        edited("a\nb\n\na\r\nb\r\n", "a\nb", "c")


def test_many_places_are_not_all_listed() -> None:
    with pytest.raises(NoMatch, match="more than 8 times"):
        edited("x\n" * 1000, "x", "y")


def test_all_replaces_every_place() -> None:
    assert edited("a.b.a\r\na", "a", "x\ny", all=True) == "x\r\ny.b.x\r\ny\r\nx\r\ny"


@pytest.mark.parametrize(
    ("old", "new", "tier"),
    [
        ("    if x:  \n        return", "    if y:  \n        return", "exact"),
        ("    return 2  \n", "    return 3  \n", "blanks at line ends"),
        ('if x:\n    return "one"\nreturn 2', "if y:\n    return 1\nreturn 2", "indentation"),
        ('      if x:\n          return "one"', "      if y:\n          return 1", "indentation"),
        ("        return “one”", "        return “three”", "typographic characters"),
        ('     2\t    if x:\n     3\t        return "one"', "     2\t    if y:", "line numbers"),
        ('2→    if x:\n3→        return "one"\n', "    if y:\n", "line numbers"),
    ],
)
def test_a_habit_of_models_is_forgiven(old: str, new: str, tier: str) -> None:
    if tier == "exact":
        with pytest.raises(NoMatch):
            apply_edits(TEXT, [Edit(old, new)])
        return
    ((repair,),) = apply_edits(TEXT, [Edit(old, new)]).repairs

    assert repair.startswith(tier)


@pytest.mark.parametrize(
    ("text", "old", "new", "expected"),
    [
        ("a \nb\nc\n", "a\nb  \n", "a\nB  \n", "a \nB\nc\n"),
        ("a \nb\n", "a\nb  \nextra", "", None),
        ("\tif x:\n\t\ty\n", "if x:\n\ty", "if x:\n\n\tz", "\tif x:\n\n\t\tz\n"),
        ("if x:\n  y\n", "    if x:\n      y", "  if x:\n      z", None),
        ("if x:\n  y\n", "    if x:\n  y", "if x:\n  z", None),
        ("say “hi”\nit's\n", 'say "hi"\nit\'s', 'say "hi"\nit\'s so', "say “hi”\nit's so\n"),
        ('say "hi"\n', "say “hi”", "say “ho”", 'say "ho"\n'),
        ("a - b\n", "a – b", "a – c", "a - c\n"),
        ("200: x\n", "200: x\n", "201: x\n", "201: x\n"),
        ("x\ny\n", "1: x\n2: y", "1: z", "z\n"),
        ("x\ny\n", "1: x\n2: y", "1: z\nw", None),
        ("x\ny\n", "1\tx\n3\ty", "1\tz", None),
        ("a \n \nb \n", "a\n\nb\n", "", ""),
        ("x\n   \ny\n", "\n\n", "\n", None),
    ],
)
def test_a_repair_writes_what_the_file_would(
    text: str, old: str, new: str, expected: str | None
) -> None:
    """Lines that stay are the file's own; the others lose what the model added."""
    if expected is None:
        with pytest.raises(NoMatch):
            edited(text, old, new)
    else:
        assert edited(text, old, new) == expected


def test_a_repair_needs_one_place_only() -> None:
    with pytest.raises(NoMatch, match=r"2 times \(lines 1, 3\)"):
        edited("a  \nb\na   \nb\n", "a \nb", "c")


def test_one_word_off_is_not_found_but_the_nearest_line_is_shown() -> None:
    with pytest.raises(NoMatch) as caught:
        edited(TEXT, '    if z:\n        return "one"\n', "")

    assert "The closest is line 2" in str(caught.value)
    assert '     2\t    if x:\n     3\t        return "one"' in str(caught.value)


def test_nothing_alike_says_so() -> None:
    with pytest.raises(NoMatch, match="nor anything like it"):
        edited(TEXT, "completely different words", "")
    with pytest.raises(NoMatch, match="only blanks"):
        edited("a\nb\n", "   ", "")
    with pytest.raises(NoMatch, match="old is empty"):
        edited(TEXT, "", "x")


def test_edits_apply_in_order() -> None:
    assert apply_edits("a b", [Edit("a", "c"), Edit("c", "d")]).text == "d b"


def test_an_edit_may_write_what_a_later_one_looks_for() -> None:
    """Both were written with the file of before in mind."""
    assert apply_edits("a\nb\n", [Edit("a", "b\na"), Edit("b", "c")]).text == "b\na\nc\n"


def test_all_edits_or_none() -> None:
    with pytest.raises(NoMatch, match=r"(?s)Edit 2 of 2: .*None of the edits was made"):
        apply_edits("a b", [Edit("a", "c"), Edit("x", "d")])


def test_overlapping_edits_are_refused() -> None:
    with pytest.raises(NoMatch):
        apply_edits("a b c\nb c\n", [Edit("a b", "b c"), Edit("b c\nb", "x")])


pieces = st.sampled_from(["a", "b", " ", "\t", "“", "é", "\n", "\r\n", "\r"])


@given(
    st.lists(pieces), st.lists(pieces, min_size=1, max_size=6), st.lists(pieces), st.text("xy\n")
)
def test_no_byte_outside_the_span_ever_changes(
    left: list[str], middle: list[str], right: list[str], new: str
) -> None:
    """Whatever the text and its line endings; a place that is not the only one is refused."""
    before, old, after = "".join(left), "".join(middle), "".join(right)
    text = before + old + after
    # Where the parts were cut within a CRLF, they are not what they were drawn as.
    assume(flatten(text) == flatten(before) + flatten(old) + flatten(after))
    assume(old != new)

    if len(re.findall(f"(?={re.escape(flatten(old))})", flatten(text))) > 1:
        assume("\r\n" not in old)
        with pytest.raises(NoMatch):
            edited(text, old, new)
        return
    # A text with CRLF is looked for as it is, and may overlap itself.
    assume("\r\n" not in old or len(re.findall(f"(?={re.escape(old)})", text)) == 1)
    # Line ends that new lacks, and indentation of which old has a part, are repaired.
    assume(not old.endswith("\n") or not new or new.endswith("\n"))
    start = flatten(before).rpartition("\n")[2]
    assume(not start or start.strip(" \t"))
    result = edited(text, old, new)

    assert result.startswith(before)
    assert result.endswith(after)
    assert flatten(result[len(before) : len(result) - len(after)]) == new


@given(st.binary(max_size=60), st.binary(min_size=1, max_size=8), st.text(max_size=5))
def test_bytes_of_any_kind_around_the_span_survive(left: bytes, right: bytes, new: str) -> None:
    """The marker is the only thing that may change, whatever surrounds it."""
    marker = b"=marker="
    raw = left + marker + right
    text, encoding = decode(raw)
    assume(text.count("=marker=") == 1)
    try:
        wanted = new.encode("latin-1" if encoding == "latin-1" else "utf-8")
    except UnicodeEncodeError:
        return
    assume("\n" not in new and "\r" not in new)

    assert encode(edited(text, "=marker=", new), encoding) == left + wanted + right


@pytest.mark.parametrize("word", ["def", "return", "two"])
def test_a_changed_word_is_refused_in_every_position(word: str) -> None:
    with pytest.raises(NoMatch):
        edited(TEXT, TEXT.replace(word, "quux", 1), "")
