"""A person in a chat of JupyterLab: reads, allows, declines, stops."""

import asyncio
import fcntl
from pathlib import Path

import pytest
from chats import LIMIT_S, chat_in, until_there

from tests.messages_api import reply, serve_in_thread, tool_use


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "notebooks"
    folder.mkdir()
    (folder / "app.py").write_text("x = 1\n")
    return folder


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    home.mkdir()
    return home


def _change(new: str) -> dict[str, object]:
    return tool_use("edit", {"path": "app.py", "edits": [{"old": "x = 1", "new": new}]})


async def test_a_change_is_shown_allowed_and_made(folder: Path, home: Path) -> None:
    with serve_in_thread(
        reply("I look.", tool_use("read", {"path": "app.py"})),
        reply("I change it.", _change("x = 2")),
        reply("**x** is 2."),
    ) as api:
        async with chat_in(folder, home, api.base_url) as chat:
            await chat.say("make x 2")
            await chat.answer("Edit app.py", "Yes")
            await chat.until(lambda: "**x** is 2." in chat.replies)

            assert chat.replies == ["I look.", "I change it.", "**x** is 2."]
            assert chat.calls["Read app.py"]["status"] == "completed"
            assert chat.calls["Edit app.py"]["diffs"]
        assert api.refusals == []

    assert (folder / "app.py").read_text() == "x = 2\n"


async def test_a_declined_change_is_not_made(folder: Path, home: Path) -> None:
    with serve_in_thread(
        reply(tool_use("read", {"path": "app.py"})), reply(_change("x = 3")), reply("As you wish.")
    ) as api:
        async with chat_in(folder, home, api.base_url) as chat:
            await chat.say("make x 3")
            await chat.answer("Edit app.py", "No")
            await chat.until(lambda: "As you wish." in chat.replies)

            assert chat.calls["Edit app.py"]["status"] == "failed"

    assert (folder / "app.py").read_text() == "x = 1\n"


async def test_stop_ends_the_command_and_the_chat_goes_on(folder: Path, home: Path) -> None:
    """The command holds a lock, which can be taken once it has ended."""
    command = "exec 9>lock; flock 9; sleep 300"
    with serve_in_thread(reply(tool_use("bash", {"command": command})), reply("Here I am.")) as api:
        async with chat_in(folder, home, api.base_url) as chat:
            await chat.say("wait")
            await chat.answer(f"Bash {command}", "Yes")
            await until_there(folder / "lock")
            await chat.stop()
            await chat.until(lambda: chat.calls[f"Bash {command}"]["status"] == "failed")
            await chat.say("go on")
            await chat.until(lambda: "Here I am." in chat.replies)

        with (folder / "lock").open() as lock:
            async with asyncio.timeout(LIMIT_S):
                await asyncio.to_thread(fcntl.flock, lock, fcntl.LOCK_EX)
