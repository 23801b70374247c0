"""The editor that has the terminal for a while."""

import asyncio
import subprocess
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from agent_cli.repl.live.input import editing
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
    monkeypatch.setattr(editing, "get_app", lambda: SimpleNamespace(future=leaving))
    painter: Any = None
    opened = asyncio.ensure_future(editing.edit_text(painter, "ended with", ".md"))
    leaving.set_result(None)
    await asyncio.sleep(0)
    has_left.set()

    assert await asyncio.wait_for(opened, LIMIT_S) == "ended with -15"
