"""A cancelled call never writes; if it is too late to cancel the write, the result says so."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest

from agent_cli.contracts.timeline import Json
from agent_cli.core.loop_config import LoopConfig
from agent_cli_tools import Workspace, builtin_tools
from agent_cli_tools.atomic_write import write_atomic
from agent_cli_tools.stoppable import Claim
from tests.fakes import LIMIT_S, calls, says, scripted_agent, texts, tool_use
from tests.waiting import StoppedClock

EDIT: dict[str, Json] = {"path": "a", "edits": [{"old": "one", "new": "two"}]}
WRITE: dict[str, Json] = {"path": "new", "content": "two"}


class Slow:
    """A snapshot store that delays a write until the test releases it."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.go_on = threading.Event()
        self.ended = threading.Event()

    async def decides(self, command: str, question: object) -> bool:
        return True

    def changed_by(self, path: Path, *, with_own: bool) -> str:
        return ""

    @contextmanager
    def writing(self, path: Path, before: bytes | None, after: bytes) -> Generator[None]:
        self.reached.set()
        self.go_on.wait(LIMIT_S)
        try:
            yield
        finally:
            self.ended.set()

    @asynccontextmanager
    async def running(self, command: str, *, by_hook: bool = False) -> AsyncGenerator[None]:
        yield


async def happens(event: threading.Event) -> None:
    assert await asyncio.to_thread(event.wait, LIMIT_S)


@pytest.mark.parametrize(("name", "given"), [("edit", EDIT), ("write", WRITE)])
@pytest.mark.parametrize("stopped_by", ["limit", "abort"])
async def test_stopped_tool_call_never_writes(
    tmp_path: Path, name: str, given: dict[str, Json], stopped_by: str
) -> None:
    """S0-18: the thread continues, but may not write any more."""
    (tmp_path / "a").write_text("one")
    slow = Slow()
    clock = StoppedClock()
    options = LoopConfig(tool_timeout_s=LIMIT_S if stopped_by == "limit" else 0)
    agent, _, _ = scripted_agent(
        calls(tool_use(name, given)),
        says("ok"),
        tools=list(builtin_tools(Workspace(tmp_path, keeper=slow), None, permissions="allow")),
        options=options,
    )

    running = asyncio.ensure_future(agent.prompt("go"))
    await happens(slow.reached)
    if stopped_by == "abort":
        agent.abort()
    else:
        await clock.pass_s(LIMIT_S)
    await clock.until(running.done)
    result = await running
    slow.go_on.set()
    await happens(slow.ended)

    assert "topped" in texts(result.messages)["t1"]
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("a", "one")]


@pytest.mark.parametrize("stopped_by", ["limit", "abort"])
async def test_write_that_can_no_longer_be_stopped_is_reported(
    tmp_path: Path, stopped_by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model must not believe that the file is unchanged."""
    path = tmp_path / "a"
    path.write_text("one")
    claimed, go_on = threading.Event(), threading.Event()
    withdraw = Claim.withdraw

    def withdraw_and_go_on(claim: Claim) -> bool:
        outcome = withdraw(claim)
        go_on.set()
        return outcome

    def slow_write(path: Path, data: bytes, *, before: bytes, claim: object) -> None:
        assert callable(claim)
        claim()
        claimed.set()
        go_on.wait(LIMIT_S)
        write_atomic(path, data, before=before)

    monkeypatch.setattr("agent_cli_tools.atomic_write.write_atomic", slow_write)
    monkeypatch.setattr(Claim, "withdraw", withdraw_and_go_on)
    clock = StoppedClock()
    options = LoopConfig(tool_timeout_s=LIMIT_S if stopped_by == "limit" else 0)
    agent, _, _ = scripted_agent(
        calls(tool_use("edit", EDIT)),
        says("ok"),
        tools=list(builtin_tools(Workspace(tmp_path), None, permissions="allow")),
        options=options,
    )

    running = asyncio.ensure_future(agent.prompt("go"))
    await happens(claimed)
    if stopped_by == "abort":
        agent.abort()
    else:
        await clock.pass_s(LIMIT_S)
    await clock.until(running.done)
    result = await running

    assert "too late to stop the change: a: 1 edit, line 1" in texts(result.messages)["t1"]
    assert path.read_text() == "two"
