"""Log records name the session they belong to, whatever task or thread makes them."""

import asyncio
import logging

import pytest

from agent_cli.contracts.messages import UserMessage
from agent_cli.contracts.tooling import ToolContext
from agent_cli.core.agent import Agent
from agent_cli.core.event_stream import AgentContext, agent_loop
from agent_cli.core.loop_config import LoopConfig
from agent_cli.system.logger import for_session, logger
from tests.fakes import MODEL, ScriptedModel, calls, does, says, tool, tool_use


def sessions(caplog: pytest.LogCaptureFixture) -> list[tuple[str, object]]:
    """Return each record's event and the session it names."""
    found = [record.msg for record in caplog.records]
    return [(msg["event"], msg.get("session_id")) for msg in found if isinstance(msg, dict)]


async def work(on_update: ToolContext) -> str:
    logger("agent_cli.somewhere").warning("inside", tool=on_update.tool_name)
    await asyncio.sleep(0)
    raise RuntimeError("broken")


async def test_every_record_of_a_run_names_its_session(caplog: pytest.LogCaptureFixture) -> None:
    """S0-27: the records are the tool's, the core's and a listener's; later ones name none."""
    tools = [tool("work", does(work))]

    def script() -> ScriptedModel:
        return ScriptedModel(calls(tool_use("work")), says("ok"))

    options = LoopConfig(model=MODEL, stream_fn=script(), tools=tools, session_id="s1")
    agent = Agent(options)
    agent.subscribe(
        lambda e: logger("agent_cli.x").warning("heard") if e.type == "agent_end" else None
    )
    await agent.prompt("go")
    low = LoopConfig(model=MODEL, stream_fn=script(), tools=tools, session_id="s2")
    async for _ in agent_loop([UserMessage.of("go")], AgentContext(), low):
        pass
    logger("agent_cli.x").warning("after")

    assert sessions(caplog) == [
        ("inside", "s1"),
        ("tool failed", "s1"),
        ("heard", "s1"),
        ("inside", "s2"),
        ("tool failed", "s2"),
        ("after", None),
    ]


async def test_an_agent_without_a_session_names_its_conversation(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """S0-27: the conversation is stored under that id."""
    model = ScriptedModel(calls(tool_use("work")), says("ok"))
    agent = Agent(LoopConfig(model=MODEL, stream_fn=model, tools=[tool("work", does(work))]))

    await agent.prompt("go")

    assert {session for _, session in sessions(caplog)} == {agent.conversation.id}


def test_log_record_with_its_own_session_id_keeps_that_id(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)

    with for_session("outer"):
        with for_session("inner"):
            logger("agent_cli.x").info("a")
        logger("agent_cli.x").info("b")
        logger("agent_cli.x").info("c", session_id="own")

    assert sessions(caplog) == [("a", "inner"), ("b", "outer"), ("c", "own")]
