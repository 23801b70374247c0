"""An edit as a person is shown it before it runs."""

import os
from pathlib import Path

import pytest

from agent_cli.repl.changes import changes_of
from agent_cli.timeline import Json

FILE = "one\ntwo\nthree\nfour\nfive\nsix\nseven\n"


def shown(*edits: Json, path: str = "a.txt") -> list[str]:
    """Return what is shown of *edits* to the file in the working directory."""
    return changes_of({"path": path, "edits": [*edits]}, Path.cwd())


def test_a_change_has_its_line_numbers_and_its_neighbours() -> None:
    """Whole lines, though the model names a part of one; equal lines are not repeated."""
    Path("a.txt").write_text(FILE)

    assert shown({"old": "three\nfo", "new": "three\nnew\nFO"}) == [
        "path: a.txt",
        "    2   two",
        "    3   three",
        "    4 - four",
        "    4 + new",
        "    5 + FOur",
        "    6   five",
        "    7   six",
    ]


def test_edits_apply_one_after_the_other() -> None:
    """The second finds what the first has made; both ends of the file are no trap."""
    Path("a.txt").write_text("one\ntwo")

    assert shown({"old": "one", "new": "1\n1"}, {"old": "1\ntwo", "new": "2"}) == [
        "path: a.txt",
        "    1 - one",
        "    1 + 1",
        "    2 + 1",
        "    3   two",
        "      ⋮",
        "    1   1",
        "    2 - 1",
        "    3 - two",
        "    2 + 2",
    ]


def test_every_place_is_shown_where_all_are_changed() -> None:
    Path("a.txt").write_text("x\n" * 2)

    assert shown({"old": "x", "new": "y", "all": True}) == [
        "path: a.txt",
        "    1 - x",
        "    1 + y",
        "    2   x",
        "      ⋮",
        "    1   x",
        "    2 - x",
        "    2 + y",
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
def test_what_is_not_certain_is_not_guessed(edit: Json) -> None:
    """Then the input itself is shown, all of it."""
    Path("a.txt").write_text(FILE)

    assert shown(edit) == []


def test_only_plain_text_files_are_read() -> None:
    """A pipe would never answer; neither folders nor other encodings are text to compare."""
    os.mkfifo("pipe")
    Path("latin").write_bytes(b"one \xe9")

    for path in ("pipe", "latin", ".", "missing", "nul\0"):
        assert shown({"old": "one", "new": "1"}, path=path) == []
    assert changes_of({"command": "ls"}, Path.cwd()) == []
    assert changes_of("no object", Path.cwd()) == []


def test_hidden_characters_of_a_file_are_visible() -> None:
    """What is approved is what is written."""
    Path("a.txt").write_text("one\u202e\n")

    assert "    1 - one\\u202e" in shown({"old": "one", "new": "1"})
