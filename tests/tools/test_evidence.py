"""A search result counts as read only if the file, opened as `read` opens it, has the same text."""

import os
from collections.abc import Callable
from pathlib import Path
from subprocess import Popen

import pytest

from agent_cli_tools import searches
from agent_cli_tools.searches import is_there, opened
from tests.tools.calling import Tools

CANARY = "CANARY"


@pytest.fixture
def tree(tools: Tools) -> Tools:
    """A folder in the workspace, and an identical one beside the workspace."""
    tools.file("sub/a.txt", "inside\n")
    outside = tools.root.parent / "outside"
    outside.mkdir()
    (outside / "a.txt").write_text(f"{CANARY}\n")
    (outside / "only-there.txt").write_text(f"{CANARY}\n")
    return tools


def around_the_search(
    monkeypatch: pytest.MonkeyPatch, *, before: Callable[[], object], after: Callable[[], object]
) -> None:
    """Call *before* once the path has been checked, *after* when the program has ended."""
    start = searches._start

    def started(*arguments: object) -> "Popen[bytes]":
        before()
        process = start(*arguments)  # type: ignore[arg-type]  # passed on unchanged
        process.wait()
        after()
        return process

    monkeypatch.setattr(searches, "_start", started)


@pytest.mark.parametrize("swapped_back", [False, True])
@pytest.mark.parametrize("path", [".", "sub", "sub/a.txt"])
async def test_search_shows_nothing_through_a_directory_swapped_for_a_symlink(
    tree: Tools, monkeypatch: pytest.MonkeyPatch, path: str, *, swapped_back: bool
) -> None:
    """Threat 3: between check and open, also if the old directory is restored afterwards."""
    folder, aside = tree.root / "sub", tree.root.parent / "aside"

    def swap() -> None:
        if not folder.is_symlink():  # Without a match, a second search follows.
            folder.rename(aside)
            folder.symlink_to("../outside")

    def back() -> None:
        if swapped_back:
            folder.unlink()
            aside.rename(folder)

    answers: list[str] = []
    for call in (
        {"pattern": ".", "path": path},
        {"pattern": CANARY, "path": path, "context": 1},
        {"pattern": CANARY, "path": path, "mode": "files"},
    ):
        around_the_search(monkeypatch, before=swap, after=back)
        answers.append((await tree("grep", **call)).text)
        monkeypatch.undo()
        if not swapped_back:
            folder.unlink()
            aside.rename(folder)

    assert not any(CANARY in answer.replace(f"for {CANARY}", "") for answer in answers)


async def test_glob_lists_no_names_outside_through_a_swapped_directory(
    tree: Tools, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Threat 3: glob reveals only names, but not even those may leak."""
    folder = tree.root / "sub"

    def swap() -> None:
        folder.rename(tree.root.parent / "aside")
        folder.symlink_to("../outside")

    around_the_search(monkeypatch, before=swap, after=lambda: None)
    answer = (await tree("glob", pattern="*", path="sub")).text

    assert "only-there" not in answer


async def test_hard_link_to_a_secret_is_not_searched(tree: Tools) -> None:
    """Threat 2: a hard link is the file itself, as for `read`."""
    secret = tree.file(".env", f"TOKEN={CANARY}\n")
    os.link(secret, tree.root / "notes.txt")

    for mode in ("content", "files", "count"):
        text = await tree.text("grep", pattern="TOKEN", mode=mode)

        assert text.startswith("[no matches")
        assert "1 left out that changed meanwhile, or may hold secrets" in text


@pytest.mark.parametrize(
    "content",
    [
        "é\r\nfound\r\n".encode(),
        b"\xef\xbb\xbffound first\nfound again\n",
        "first\nfound\n".encode("utf-16"),
        b"h\xe9 found\n",
        b"found" + b"x" * 2_000 + b"found\nfound\n",
        b"no line end: found",
    ],
    ids=["crlf", "bom", "utf-16", "latin-1", "long", "no end"],
)
async def test_search_shows_every_true_match_in_any_encoding(tools: Tools, content: bytes) -> None:
    """Otherwise correct results would be withheld."""
    tools.file("a.txt", content)

    result = await tools("grep", pattern="found", context=1)

    assert "found" in result.text
    assert "left out" not in result.text


def test_opened_file_confirms_only_text_at_the_given_offset(tmp_path: Path) -> None:
    """Only in a regular file; a pipe without a writer does not block."""
    (tmp_path / "a").write_bytes(b"one\ntwo\n")
    (tmp_path / "link").symlink_to("a")
    os.mkfifo(tmp_path / "pipe")

    with opened(tmp_path / "a", tmp_path) as file:
        assert file is not None
        assert file.holds(b"two", 4)
        assert not file.holds(b"two", 0)
        assert not file.holds(b"two [... omitted end of long line]x", 4)
        assert file.holds(b"tw [... omitted end of long line]", 4)
        assert file.holds(b"tw [... 1 more match]", 4)
    for name in ("link", "pipe", "none"):
        with opened(tmp_path / name, tmp_path) as file:
            assert file is None
    assert is_there(tmp_path / "link")
    assert not is_there(tmp_path / "none")
