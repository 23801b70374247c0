"""The editor that has the terminal for a while."""

import asyncio
import subprocess
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from prompt_toolkit.output import DummyOutput

from agent_cli.contracts.errors import UsageError
from agent_cli.repl.live.input import editing
from agent_cli.repl.live.input.editing import edited
from agent_cli.repl.live.painter import Painter
from tests.fakes import LIMIT_S


async def test_editor_is_ended_whose_start_the_end_of_the_session_overtook(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """SIGTERM then waited until the user closed it."""
    leaving = asyncio.get_running_loop().create_future()
    has_left = threading.Event()

    def edited(
        text: str, _ending: str, started: Callable[[subprocess.Popen[bytes]], object]
    ) -> str:
        assert has_left.wait(LIMIT_S)
        with subprocess.Popen(["sleep", "600"]) as process:
            started(process)
            return f"{text} {process.wait(LIMIT_S)}"

    @asynccontextmanager
    async def lent(_painter: Painter) -> AsyncGenerator[None]:
        yield

    monkeypatch.setattr(editing, "edited", edited)
    monkeypatch.setattr(editing, "terminal_lent", lent)
    app = SimpleNamespace(future=leaving, output=DummyOutput())
    monkeypatch.setattr(editing, "get_app", lambda: app)
    painter: Any = None
    opened = asyncio.ensure_future(editing.edit_text(painter, "ended with", ".md"))
    leaving.set_result(None)
    await asyncio.sleep(0)
    has_left.set()

    assert await asyncio.wait_for(opened, LIMIT_S) == "ended with -15"


def editor(monkeypatch: pytest.MonkeyPatch, *lines: str, variable: str = "EDITOR") -> None:
    """Make the script *lines* the user's editor; it gets the file's name as $2."""
    script = Path("an editor").absolute()
    script.write_text("\n".join(["#!/bin/sh", *lines, ""]))
    script.chmod(0o755)
    for name in ("EDITOR", "VISUAL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(variable, f"'{script}' --wait")


@pytest.mark.parametrize("variable", ["EDITOR", "VISUAL"])
def test_edited_text_is_returned_as_saved(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Byte for byte; the file has a fitting suffix, only the user can read it, and is removed."""
    editor(
        monkeypatch,
        'echo "$2" > name; stat -c %a "$(dirname "$2")" > mode; printf more >> "$2"',
        variable=variable,
    )

    assert edited("one\r\ntwo\u202e\n", ".sh") == "one\r\ntwo\u202e\nmore"
    name = Path(Path("name").read_text().strip())
    assert (name.suffix, Path("mode").read_text().strip()) == (".sh", "700")
    assert not name.exists()


@pytest.mark.parametrize(
    ("script", "told"),
    [
        ("exit 3", "ended with 3; nothing was changed"),
        ('rm "$2"', "left no file; nothing was changed"),
    ],
)
def test_failed_editor_raises_a_usage_error_and_changes_nothing(
    script: str, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`:cq` in vi is the usual way to cancel."""
    editor(monkeypatch, 'printf other > "$2"', script)

    with pytest.raises(UsageError, match=told):
        edited("text", ".txt")


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (
            "/nowhere/to/be/found",
            "/nowhere/to/be/found cannot be used: there is no such program",
        ),
        ("an 'open quote", "is not a command: an 'open quote"),
    ],
)
def test_unusable_editor_command_is_named_in_the_error(
    command: str, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The variable may be misspelt."""
    monkeypatch.setenv("VISUAL", command)

    with pytest.raises(UsageError, match=told):
        edited("text", ".txt")


def test_missing_editor_error_says_which_variable_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """No editor is started if none is installed."""
    for name in ("EDITOR", "VISUAL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", "/nowhere")

    with pytest.raises(UsageError, match="set \\$EDITOR"):
        edited("text", ".txt")


def test_missing_room_for_the_editors_file_is_a_usage_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A full disk used to show a traceback in place of the prompt."""
    editor(monkeypatch, "touch opened")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "nowhere"))

    with pytest.raises(UsageError, match="no temporary file can be written for the editor"):
        edited("text", ".txt")
    assert not Path("opened").exists()
