"""The effect of a call on a file, as shown before it runs."""

import os
from pathlib import Path

import pytest

from agent_cli.contracts.timeline import Json
from agent_cli.repl.approval.changes import Row, changes_of

FILE = "one\ntwo\nthree\nfour\nfive\nsix\nseven\n"


def edited(*edits: Json, path: str = "a.txt") -> list[str]:
    """Return the rows shown for *edits* to the file in the working directory."""
    return [row.text for row in changes_of({"path": path, "edits": [*edits]}, Path(path))]


def written(content: str, path: str = "a.txt") -> list[str]:
    """Return the rows shown for *content* replacing the file's."""
    return [row.text for row in changes_of({"path": path, "content": content}, Path(path))]


def test_change_is_shown_with_line_numbers_and_context_lines() -> None:
    """Whole lines, even if the model quotes a part of one; equal lines are not repeated."""
    Path("a.txt").write_text(FILE)

    assert changes_of(
        {"path": "a.txt", "edits": [{"old": "three\nfo", "new": "three\nnew\nFO"}]}, Path("a.txt")
    ) == [
        Row("path: a.txt"),
        Row("    2   two", gutter=6),
        Row("    3   three", gutter=6),
        Row("    4 − four", "removed", gutter=6),
        Row("    4 + new", "added", gutter=6),
        Row("    5 + FOur", "added", gutter=6),
        Row("    6   five", gutter=6),
        Row("    7   six", gutter=6),
    ]


def test_blank_lines_at_the_ends_of_the_context_are_left_out() -> None:
    """They take rows and say nothing; one between other lines stays."""
    Path("a.txt").write_text("\n\nb\n\nc\n\nd\n\n\ne\n")

    rows = edited({"old": "c", "new": "C"}, {"old": "d", "new": "D"})

    assert rows[1:] == [
        *("    3   b", "    4   ", "    5 − c", "    5 + C"),
        *("    6   ", "    7 − d", "    7 + D"),
    ]


def test_successive_edits_are_shown_as_one_combined_change() -> None:
    """The second edit applies to the first one's result; both ends of the file are covered."""
    Path("a.txt").write_text("one\ntwo")

    assert edited({"old": "one", "new": "1\n1"}, {"old": "1\ntwo", "new": "2"}) == [
        "path: a.txt",
        "    1 − one",
        "    2 − two",
        "    1 + 1",
        "    2 + 2",
    ]


def test_edit_of_all_occurrences_shows_each_changed_place() -> None:
    """A mark separates two places that are far apart."""
    Path("a.txt").write_text(f"0\n{FILE}0\n")

    assert edited({"old": "0\n", "new": "9\n", "all": True}) == [
        "path: a.txt",
        "    1 − 0",
        "    1 + 9",
        "    2   one",
        "    3   two",
        "      ⋮",
        "    7   six",
        "    8   seven",
        "    9 − 0",
        "    9 + 9",
    ]


@pytest.mark.parametrize(
    "edit",
    [
        {"old": "nowhere", "new": "x"},
        {"old": "o", "new": "x"},
        {"old": "", "new": "x", "all": True},
        {"old": "one", "new": "one"},
        {"old": "one", "new": "1", "regex": True},
        {"old": 1, "new": "x"},
        "odd",
    ],
)
def test_edit_with_an_uncertain_result_has_no_diff(edit: Json) -> None:
    """The input itself is shown instead."""
    Path("a.txt").write_text(FILE)

    assert edited(edit) == []


def test_diff_reads_only_plain_text_files() -> None:
    """Reading a pipe would block forever; folders and other encodings have no text to compare."""
    os.mkfifo("pipe")
    Path("latin").write_bytes(b"one \xe9")

    for path in ("pipe", "latin", "."):
        assert edited({"old": "one", "new": "1"}, path=path) == written("x", path) == []
    assert edited({"old": "one", "new": "1"}, path="missing") == []
    assert changes_of({"command": "ls"}, Path("a.txt")) == []
    assert changes_of("no object", Path("a.txt")) == []


def test_invisible_characters_in_a_file_are_shown_as_escapes() -> None:
    """The approved text is the one written."""
    Path("a.txt").write_text("one\u202e\n")

    assert "    1 − one\\u202e" in edited({"old": "one", "new": "1"})


def test_replaced_file_is_shown_as_a_diff() -> None:
    """Not the whole file: one changed line among a thousand would be overlooked."""
    Path("a.txt").write_text(FILE)

    assert written(FILE.replace("four", "4")) == [
        "path: a.txt",
        "    2   two",
        "    3   three",
        "    4 − four",
        "    4 + 4",
        "    5   five",
        "    6   six",
    ]
    assert written(FILE) == ["path: a.txt", "nothing changes"]
    assert written("") == ["path: a.txt", *[f"{at:>5} − {w}" for at, w in numbered(FILE)]]


def test_new_file_is_shown_as_all_additions() -> None:
    """The file is also marked as new."""
    assert written("one\ntwo\n") == ["path: a.txt (new file)", "    1 + one", "    2 + two"]
    assert written("") == ["path: a.txt (new file)", "nothing changes"]


def test_crlf_and_final_newline_add_no_noise_to_the_diff() -> None:
    """The tool keeps a file's CRLF; a final newline is mentioned, as no line shows it."""
    Path("a.txt").write_bytes(b"one\r\ntwo\r\n")
    Path("b.txt").write_text("one\ntwo\n")

    assert written("one\n2\n") == ["path: a.txt", "    1   one", "    2 − two", "    2 + 2"]
    assert written("one\ntwo", "b.txt") == ["path: b.txt", "a newline at the end goes"]


def test_large_file_with_no_common_lines_is_compared_quickly() -> None:
    """Matching tens of thousands of lines would take minutes."""
    Path("a.txt").write_text("".join(f"old {number % 7}\n" for number in range(20_000)))

    rows = written("".join(f"new {number % 7}\n" for number in range(20_000)))

    assert (len(rows), rows[1], rows[-1]) == (40_001, "    1 − old 0", "20000 + new 0")


def numbered(text: str) -> list[tuple[int, str]]:
    return list(enumerate(text.splitlines(), 1))


def test_changed_words_of_a_changed_line_are_marked() -> None:
    """Only where lines were changed one by one, and most of a line is the same."""
    Path("a.txt").write_text("return a - b  # of two\nold\n")
    edit: Json = {"old": "a - b  # of two\nold", "new": "a + b  # of all\nfresh things"}
    rows = changes_of({"path": "a.txt", "edits": [edit]}, Path("a.txt"))

    marked = {row.text[8:]: [row.text[start:end] for start, end in row.marks] for row in rows[1:]}

    assert marked == {
        "return a - b  # of two": ["-", "two"],
        "old": [],
        "return a + b  # of all": ["+", "all"],
        "fresh things": [],
    }
