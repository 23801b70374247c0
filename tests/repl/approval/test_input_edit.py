"""The user changes the file that an edit or a write would leave, and just that file comes out."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from agent_cli.contracts.errors import UsageError
from agent_cli.contracts.events import ToolCall
from agent_cli.contracts.timeline import Json
from agent_cli.contracts.tooling import FileContents, ToolContext
from agent_cli.repl.approval.call_rows import titled
from agent_cli.repl.approval.input_edit import edited_input, edited_part, proposed_file
from agent_cli.terminal.planned_change import PlannedChange
from agent_cli_tools import builtin_tools
from tests.fakes import returns, tool
from tests.tables import each_row
from tests.tools.calling import Tools, tools_in


@pytest.fixture
def tools(tmp_path: Path) -> Iterator[Tools]:
    with tools_in(tmp_path) as made:
        yield made


def _edit(path: str, *pairs: tuple[str, str]) -> ToolCall:
    edits: list[Json] = [{"old": old, "new": new} for old, new in pairs]
    return ToolCall("t1", "edit", {"path": path, "edits": edits})


def _write(path: str, content: str) -> ToolCall:
    return ToolCall("t1", "write", {"path": path, "content": content})


class User:
    """Saves what *change* makes of the opened text."""

    def __init__(self, change: Callable[[str], str]) -> None:
        self._change = change
        self.opened = ("", "")

    async def __call__(self, text: str, ending: str) -> str:
        self.opened = text, ending
        return self._change(text)


async def _changed(
    tools: Tools, call: ToolCall, change: Callable[[str], str]
) -> tuple[Json, tuple[str, str]]:
    """Return the new input of *call*, and what the editor showed."""
    user = User(change)
    found = await edited_input(call, builtin_tools(tools.workspace, None), user)
    return found, user.opened


async def _run(tools: Tools, call: ToolCall, given: Json) -> bytes:
    """Run *call* with the input *given*, and return the file that it leaves."""
    assert isinstance(given, dict)
    await tools.text(call.name, **given)
    return (tools.root / str(given["path"])).read_bytes()


def _as(text: str) -> Callable[[str], str]:
    return lambda _opened: text


LINES = "".join(f"line {number}\n" for number in range(1, 41))


async def test_editor_shows_the_file_as_the_edit_would_leave_it(tools: Tools) -> None:
    """Named as the file is, so that it is highlighted; the shortest edit leaves what was saved."""
    (tools.root / "a.py").write_text("one\ntwo\nthree\n")
    call = _edit("a.py", ("two", "2"))

    given, opened = await _changed(tools, call, _as("one\n2, really\nthree\n"))

    assert opened == ("one\n2\nthree\n", ".py")
    assert given == {"path": "a.py", "edits": [{"old": "two\n", "new": "2, really\n"}]}
    assert await _run(tools, call, given) == b"one\n2, really\nthree\n"


async def test_several_edits_stay_several_short_ones(tools: Tools) -> None:
    """The model reads the input that ran: the lines between two changes are not repeated."""
    (tools.root / "a.txt").write_text(LINES)
    call = _edit("a.txt", ("line 3\n", "3\n"), ("line 30\n", "30\n"))

    given, _ = await _changed(tools, call, lambda text: text.replace("30", "thirty"))

    assert given == {
        "path": "a.txt",
        "edits": [{"old": "line 3\n", "new": "3\n"}, {"old": "line 30\n", "new": "thirty\n"}],
    }
    expected = LINES.replace("line 30\n", "thirty\n").replace("line 3\n", "3\n")
    assert await _run(tools, call, given) == expected.encode()


@each_row(
    ("before", "pair", "saved"),
    [
        ("a\r\nb\r\nc\r\n", ("b", "B"), "a\r\nB!\r\nmore\r\nc\r\n"),
        ("a\r\nb\r\nc\r\n", ("b\nc", "B\nC"), "a\r\nB\r\nC!\r\n"),
        ("a\r\nb\nc\r\nd\n", ("d", "D"), "a\r\nb!\nc\r\nD\n"),
        ("a\nb", ("b", "B"), "a\nB!"),
        ("a\r\nb", ("b", "B"), "a\r\nB!"),
        ("x\nx\nx\nx\n", ("x\nx\nx\nx", "y\nx\nx\nx"), "x\nx\ny\nx\n"),
        ("a\n" * 9 + "b\n", ("b", "c"), "a\n" * 4 + "new\n" + "a\n" * 5 + "c\n"),
        ("a\nb\n", ("b\n", ""), "a\nb\nc\n"),
        ("a\nb\n", ("b\n", "c\n"), "b\n"),
        ("\ufeffa\nb\n", ("b", "B"), "\ufeffA\nB\n"),
        ("\ufeffa\nb\n", ("b", "B"), "a\nB\n"),
        ("", ("", "a\n"), "b\n"),
        (LINES, ("line 9\n", ""), "".join(reversed(LINES.splitlines(keepends=True)))),
        ("a\n" * 3000, ("a\n" * 3000, "b\n"), "b\na\n" * 1500),
    ],
)
async def test_an_edit_leaves_exactly_the_saved_text(
    tools: Tools, before: str, pair: tuple[str, str], saved: str
) -> None:
    """Line ends, byte order marks, repeated lines, no final newline: as the user saved them."""
    (tools.root / "a.txt").write_bytes(before.encode())
    await tools.text("read", path="a.txt")
    call = _edit("a.txt", pair)

    given, _ = await _changed(tools, call, _as(saved))

    assert await _run(tools, call, given) == saved.encode()


async def test_more_changes_than_an_edit_may_have_become_fewer(tools: Tools) -> None:
    """Edits that are near each other are joined."""
    (tools.root / "a.txt").write_text(LINES * 4)
    call = _edit("a.txt", (LINES * 4, "x\n"))
    saved = (LINES * 4).replace("1\n", "one\n").replace("3\n", "t\n").replace("5\n", "f\n")

    given, _ = await _changed(tools, call, _as(saved))

    assert await _run(tools, call, given) == saved.encode()


@each_row(
    ("before", "content", "opened", "saved", "left"),
    [
        (None, "a\n", "a\n", "b\n", "b\n"),
        ("old\n", "a\n", "a\n", "b\n", "b\n"),
        ("old\r\n", "a\nb\n", "a\r\nb\r\n", "a\r\nc\r\n", "a\r\nc\r\n"),
        ("old\r\n", "a\nb\n", "a\r\nb\r\n", "a\nc\n", "a\r\nc\r\n"),
        ("old\r\nlines", "a\nb", "a\r\nb", "a\r\nc\r\n", "a\r\nc"),
        ("old\n", "a", "a", "b\n", "b"),
        ("\ufeffold\n", "a\n", "\ufeffa\n", "\ufeffb\n", "\ufeffb\n"),
        (None, "\ufeffa\n", "\ufeffa\n", "\ufeffb\n", "\ufeffb\n"),
    ],
)
async def test_a_write_leaves_exactly_the_saved_text(
    tools: Tools, before: str | None, content: str, opened: str, saved: str, left: str
) -> None:
    """What editors change by themselves does not count: a final newline, all line ends."""
    (tools.root / "a.md").unlink(missing_ok=True)
    if before is not None:
        (tools.root / "a.md").write_bytes(before.encode())
        await tools.text("read", path="a.md")
    call = _write("a.md", content)

    given, shown = await _changed(tools, call, _as(saved))

    assert shown == (opened, ".md")
    assert await _run(tools, call, given) == left.encode()


@each_row(
    ("before", "call", "saved"),
    [
        ("a\nb\n", _edit("a.txt", ("b", "B")), "a\nB\n"),
        ("a\nb", _edit("a.txt", ("b", "B")), "a\nB\n"),
        ("a\r\nb\r\n", _edit("a.txt", ("b", "B")), "a\nB\n"),
        ("a\nb\n", _edit("a.txt", ("b", "B")), ""),
    ],
)
async def test_a_file_that_the_user_leaves_as_it_is_changes_nothing(
    tools: Tools, before: str, call: ToolCall, saved: str
) -> None:
    """The question stays, with the model's input."""
    (tools.root / "a.txt").write_bytes(before.encode())

    assert (await _changed(tools, call, _as(saved)))[0] is None


@each_row(
    ("saved", "told"),
    [
        ("a\nb\n", "not run: what you saved is a.txt as it is; say no to leave it so"),
        ("a\nB\n" + "x" * 2_000_001, "not run: The edits hold more than 2,000,000 characters"),
    ],
)
async def test_a_text_that_no_edit_leaves_is_reported(tools: Tools, saved: str, told: str) -> None:
    """The question comes again."""
    (tools.root / "a.txt").write_text("a\nb\n")

    with pytest.raises(UsageError, match=told):
        await _changed(tools, _edit("a.txt", ("b", "B")), _as(saved))


async def test_line_ends_that_a_write_cannot_leave_are_reported(tools: Tools) -> None:
    """Nothing else runs than what was saved: the tool would keep the byte order mark."""
    (tools.root / "a.txt").write_bytes(b"\xef\xbb\xbfold\n")
    await tools.text("read", path="a.txt")

    with pytest.raises(UsageError, match=r"write cannot leave a\.txt with these line ends and"):
        await _changed(tools, _write("a.txt", "a\n"), _as("b\n"))


async def test_a_file_changed_meanwhile_is_for_the_tool_to_find(tools: Tools) -> None:
    """The new input is made for the text that the user saw."""
    (tools.root / "a.txt").write_text("a\nb\nc\n")
    await tools.text("read", path="a.txt")
    edit, write = _edit("a.txt", ("b", "B")), _write("a.txt", "x\n")

    def meanwhile(text: str) -> str:
        (tools.root / "a.txt").write_text("other\n")
        return f"{text}more\n"

    edited, _ = await _changed(tools, edit, meanwhile)
    (tools.root / "a.txt").write_text("a\nb\nc\n")
    written, _ = await _changed(tools, write, meanwhile)

    assert isinstance(edited, dict)
    assert isinstance(written, dict)
    assert "was not found" in await tools.error("edit", **edited)
    assert "changed since" in await tools.error("write", **written)


async def test_edit_of_several_lines_with_crlf_is_shown_as_a_diff(tools: Tools) -> None:
    """The tool matches line ends; its input was shown instead, without line numbers."""
    (tools.root / "a.txt").write_bytes(b"a\r\nb\r\nc\r\nd\r\n")
    call, listed = _edit("a.txt", ("b\nc", "B\nC")), builtin_tools(tools.workspace, None)

    shown = titled(call, listed, await proposed_file(call, listed))

    assert (shown.title, shown.beside) == ("Edit a.txt", "+2 −2")
    assert [row.text for row in shown.rows] == [
        *("    1   a", "    2 − b", "    3 − c", "    2 + B", "    3 + C", "    4   d"),
    ]


@pytest.mark.parametrize(("given", "is_all"), [({}, True), ({"mode": "0777"}, False)])
async def test_diff_stands_for_no_input_that_may_ask_for_more(
    given: dict[str, Json], *, is_all: bool
) -> None:
    """A tool of a Python program may do more than leave the file."""

    path = str(Path("a.txt").absolute())

    async def foresee(_given: object, _context: ToolContext, contents: FileContents) -> None:
        contents[path] = b"b\n"

    save = tool("save", returns("done"), writes=lambda _given: [path])
    call = ToolCall("t1", "save", {"path": "a.txt", "content": "b\n", **given})

    file = await proposed_file(call, [replace(save, foresee=foresee)])

    assert file is not None
    assert file.change == (PlannedChange("a.txt", "", "b\n", is_new=True) if is_all else None)


NOTEBOOK = '{"nbformat": 4, "cells": [{"cell_type": "code", "source": ["x"], "outputs": []}]}'


@each_row(
    ("name", "content", "call", "part"),
    [
        ("a.ipynb", NOTEBOOK.encode(), _edit("a.ipynb", ("x", "y")), "input"),
        ("a.ipynb", None, _write("a.ipynb", NOTEBOOK), "file"),
        ("a.bin", None, _write("a.bin", "a\0b"), "content"),
        ("a.txt", b"\xe9\nb\n", _edit("a.txt", ("b", "B")), "input"),
        ("a.txt", b"a\n", _edit("a.txt", ("missing", "B")), "input"),
        ("a.txt", b"a\n" * 600_000, _edit("a.txt", ("a\nb", "B")), "input"),
        ("a.txt", None, ToolCall("t1", "edit", {"path": "a.txt"}), "input"),
        ("a.txt", None, ToolCall("t1", "other", {"path": "a.txt", "edits": []}), "input"),
        ("a.txt", None, ToolCall("t1", "bash", {"command": "touch a.txt"}), "command"),
    ],
)
async def test_what_is_no_text_of_a_file_opens_as_before(
    tools: Tools, name: str, content: bytes | None, call: ToolCall, part: str
) -> None:
    """Cells of a notebook, bytes that are no UTF-8, calls that fail or write no file."""
    (tools.root / name).unlink(missing_ok=True)
    if content is not None:
        (tools.root / name).write_bytes(content)

    assert (
        edited_part(call, await proposed_file(call, builtin_tools(tools.workspace, None))) == part
    )
