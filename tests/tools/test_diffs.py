"""The diff of a change, as shown to the user."""

from hypothesis import given
from hypothesis import strategies as st

from agent_cli_tools.diffs import diff


def test_diff_shows_three_lines_of_context() -> None:
    before = "".join(f"{number}\n" for number in range(1, 21))
    after = before.replace("10\n", "ten\nand\n")

    found = diff(before, after)

    assert found.text == "@@ -7,7 +7,8 @@\n 7\n 8\n 9\n-10\n+ten\n+and\n 11\n 12\n 13"
    assert (found.added, found.removed, found.first, found.last) == (2, 1, 10, 11)
    assert found.details("a.txt") == {
        "kind": "diff",
        "path": "a.txt",
        "diff": found.text,
        "added": 2,
        "removed": 1,
    }


def test_distant_changes_are_separate_hunks() -> None:
    before = "".join(f"{number}\n" for number in range(1, 31))
    after = before.replace("2\n", "two\n", 1).replace("29\n", "")

    found = diff(before, after)

    assert [line for line in found.text.splitlines() if line.startswith("@@")] == [
        "@@ -1,5 +1,5 @@",
        "@@ -26,5 +26,4 @@",
    ]
    assert (found.added, found.removed) == (1, 2)


def test_diff_of_a_new_file_has_only_added_lines() -> None:
    assert diff("", "a\nb\n").text == "@@ -0,0 +1,2 @@\n+a\n+b"


def test_diff_splits_lines_where_read_does() -> None:
    """Python splits at more characters, so the line numbers differed from the file's."""
    before = "a\x0cb\u2028c\x85\x1cd\n\u2029e\r\nold\rlast"

    found = diff(before, before.replace("old", "new"))

    assert found.text == (
        "@@ -1,3 +1,3 @@\n a\x0cb\u2028c\x85\x1cd\n \u2029e\n-old\rlast\n+new\rlast"
    )
    assert (found.added, found.removed, found.first, found.last) == (1, 1, 3, 3)


def test_diff_without_changes_is_empty() -> None:
    found = diff("a\n", "a\n")

    assert (found.text, found.added, found.removed, found.first) == ("", 0, 0, 0)


def test_huge_diff_is_truncated() -> None:
    """The details travel to the screen and into the session's file."""
    found = diff("", "x" * 600 + "\n" + "line\n" * 5000)

    assert found.added == 5001
    assert len(found.text.splitlines()) == 401
    assert found.text.endswith("… 4602 more lines")
    assert max(map(len, found.text.splitlines())) < 510


def test_long_lines_are_cut_around_what_differs_in_them() -> None:
    """Both versions began with the same 500 characters, and nothing said that they went on."""
    lead, rest = "a" * 9_000, "b" * 9_000
    found = diff(f"{lead}old{rest}\nsame\n{rest}\n", f"{lead}new{rest}\nsame\n{rest}\n")

    _, gone, come, same, around = found.text.split("\n")

    assert gone == f"-…{'a' * 250}old{'b' * 247}…"
    assert come == f"+…{'a' * 250}new{'b' * 247}…"
    assert (same, around) == (" same", f" {'b' * 500}…")


def test_whole_diff_cuts_no_line() -> None:
    line = "a" * 9_000
    found = diff(f"{line}old\n{line}\n", f"{line}new\n{line}\n")

    assert found.whole == f"@@ -1,2 +1,2 @@\n-{line}old\n+{line}new\n {line}"


texts = st.lists(st.sampled_from(["a\n", "b\u2028\n", "c\r\n", "\n"]), max_size=12).map("".join)


@given(texts, texts)
def test_diff_counts_match_its_added_and_removed_lines(before: str, after: str) -> None:
    found = diff(before, after)

    marks = [line[:1] for line in found.text.split("\n")]
    assert (marks.count("+"), marks.count("-")) == (found.added, found.removed)
    assert after.count("\n") - before.count("\n") == found.added - found.removed
