"""Files that are open in an editor."""

from pathlib import Path

import pytest

from agent_cli.contracts.errors import ToolError
from agent_cli_tools.session_resources import OpenFiles
from agent_cli_tools.stoppable import Claim
from tests.tables import each_row


class Buffers:
    """An editor; None stands for an unreadable file, *is_writing* says whether it writes."""

    def __init__(self, shown: str | None, *, is_writing: bool = True) -> None:
        self.shown = shown
        self.written: list[str] = []
        self._is_writing = is_writing

    def read(self, path: Path) -> str | None:
        return self.shown

    def write(self, path: Path, text: str) -> bool:
        self.written.append(text)
        return self._is_writing


def opened(buffers: Buffers) -> OpenFiles:
    files = OpenFiles()
    files.documents = buffers
    return files


@each_row(
    ("saved", "shown", "content"),
    [
        (b"a\n", "b\n", b"b\n"),
        (b"a\n", "a\n", b"a\n"),
        (b"a\n", None, b"a\n"),
        (b"a\r\nb\r\n", "a\nb\n", b"a\r\nb\r\n"),
        (b"a\r\nb\r\n", "a\nc\n", b"a\r\nc\r\n"),
        (b"\xef\xbb\xbfa\n", "a\n", b"\xef\xbb\xbfa\n"),
        (b"\xef\xbb\xbfa\n", "b\n", b"\xef\xbb\xbfb\n"),
        (b"caf\xe9\n", "caf\ufffd\n", b"caf\xe9\n"),
        (b"\0\n", "x\n", b"\0\n"),
    ],
)
def test_only_the_users_unsaved_changes_override_the_file_on_disk(
    saved: bytes, shown: str | None, content: bytes
) -> None:
    """Line endings, a byte order mark or another encoding in an editor are no change."""
    assert opened(Buffers(shown)).content(Path("a.txt"), saved) == content


def test_without_an_editor_the_file_on_disk_is_used() -> None:
    assert OpenFiles().content(Path("a.txt"), b"a") == b"a"
    assert not OpenFiles().write(Path("a.txt"), b"a", None, Claim())


def test_buffer_changed_in_the_editor_meanwhile_is_not_overwritten() -> None:
    buffers = Buffers("typed just now\n")

    with pytest.raises(ToolError, match="changed in the editor"):
        opened(buffers).write(Path("a.txt"), b"ours\n", b"as it was\n", Claim())
    assert buffers.written == []


@each_row("data", [b"caf\xe9\n", b"\xef\xbb\xbfa\n", b"\0"])
def test_content_an_editor_would_save_differently_is_not_written_through_it(data: bytes) -> None:
    buffers = Buffers("a\n")

    assert not opened(buffers).write(Path("a.txt"), data, b"a\n", Claim())
    assert buffers.written == []


def test_stopped_call_changes_no_editor_buffer() -> None:
    buffers, claim = Buffers("a\n"), Claim()
    claim.withdraw()

    with pytest.raises(ToolError, match="stopped"):
        opened(buffers).write(Path("a.txt"), b"b\n", b"a\n", claim)
    assert buffers.written == []


def test_file_is_written_by_the_tool_if_the_editor_cannot_write_it() -> None:
    assert not opened(Buffers("a\n", is_writing=False)).write(Path("a"), b"b\n", b"a\n", Claim())
