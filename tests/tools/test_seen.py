"""Reading in parts adds up; changes made unknown to the model do not count as seen."""

from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agent_cli.contracts.timeline import Json
from agent_cli_tools.seen import SeenFiles
from tests.tools.calling import Tools

A = Path("a")
LINES = b"".join(b"line %d\n" % n for n in range(10))


def test_parts_read_in_any_order_add_up_to_the_whole_file() -> None:
    seen = SeenFiles()

    seen.note_lines(A, LINES, [(6, 10)])
    seen.note_lines(A, LINES, [(0, 4)])
    assert not seen.knows(A, LINES)
    seen.note_lines(A, LINES, [(3, 7)])

    assert seen.knows(A, LINES)


def test_parts_of_different_contents_do_not_add_up() -> None:
    seen = SeenFiles()

    seen.note_lines(A, LINES, [(0, 5)])
    seen.note_lines(A, LINES + b"more\n", [(5, 11)])

    assert not seen.knows(A, LINES + b"more\n")
    assert not seen.once_whole(A)


@example(0, 10, [])
@given(st.integers(0, 10), st.integers(0, 10), st.lists(st.just(b"new\n"), max_size=3))
def test_lines_already_read_still_count_after_an_edit(
    first: int, last: int, new: list[bytes]
) -> None:
    """The rest need not be read again, but unread parts still have to be; also if none is left."""
    old = LINES.splitlines(keepends=True)
    first, last = sorted((first, last))
    after = b"".join([*old[:first], *new, *old[last:]])
    partly, wholly = SeenFiles(), SeenFiles()
    partly.note_lines(A, LINES, [(0, 9)])
    wholly.note_all(A, LINES)

    partly.note_change(A, LINES, after)
    wholly.note_change(A, LINES, after)

    assert wholly.knows(A, after)
    if last < 10:
        assert not partly.knows(A, after)
        partly.note_lines(A, after, [(after.count(b"\n") - 1, after.count(b"\n"))])
        assert partly.knows(A, after)
    wholly.note_change(A, after, LINES)
    assert wholly.knows(A, LINES)


def test_file_that_changed_is_named_once_after_each_time_it_was_seen(tmp_path: Path) -> None:
    path, other = tmp_path / "a", tmp_path / "b"
    path.write_bytes(LINES)
    seen = SeenFiles()
    seen.note_lines(path, LINES, [(0, 2)])

    assert seen.take_outdated([path, other]) == []
    path.write_bytes(b"other\n")
    assert [seen.take_outdated([path]) for _ in "12"] == [[path], []]
    seen.note_lines(path, b"other\n", [(0, 1)])
    assert seen.take_outdated([path]) == []
    path.unlink()
    assert [seen.take_outdated([path]) for _ in "12"] == [[path], []]


def test_file_that_is_seen_while_it_is_compared_is_not_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call may read it at the same time, in another thread."""
    path, seen = tmp_path / "a", SeenFiles()
    seen.note_all(path, b"old\n")

    def read(_path: Path, *, bytes_max: int) -> bytes:
        assert bytes_max
        seen.note_all(path, b"new\n")
        return b"newer\n"

    monkeypatch.setattr("agent_cli_tools.seen.read_bytes", read)

    assert seen.take_outdated([path]) == []


async def test_large_file_read_in_parts_accepts_repaired_edits(tools: Tools) -> None:
    """A file larger than one result could otherwise never count as read."""
    path = tools.file("large", "".join(f"line {n} {'x' * 40}\n" for n in range(2_500)))
    edits: list[Json] = [{"old": "  line 7 " + "x" * 40, "new": "  line 7"}]

    await tools.text("read", path="large")
    assert "not read in full" in await tools.error("edit", path="large", edits=edits)
    offset = 1
    while "go on with" in (text := await tools.text("read", path="large", offset=offset)):
        offset = int(text.rpartition("offset=")[2].split("]")[0].split(";")[0])
    await tools.text("edit", path="large", edits=edits)

    assert "\nline 7\n" in path.read_text()


async def test_line_cut_in_a_read_result_does_not_count_as_read(tools: Tools) -> None:
    tools.file("a", "one\n" + "x" * 3_000 + "\ntwo\n")

    await tools.text("read", path="a")

    text = await tools.error("edit", path="a", edits=[{"old": "two ", "new": "2"}])
    assert "was not read in full" in text
