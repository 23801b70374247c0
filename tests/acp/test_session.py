"""The order of prompts, triggered runs and questions in one session."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from agent_cli.acp import session
from agent_cli.acp.client import EditorClient
from agent_cli.acp.ports import Application
from agent_cli.acp.schema import TextBlock
from agent_cli.acp.session import OpenSession
from agent_cli.acp.updates import Updates
from agent_cli.contracts.events import PromptOutput, ToolCall
from agent_cli.contracts.messages import AssistantMessage, UserMessage
from agent_cli.contracts.timeline import FileOutput, Json
from agent_cli.contracts.tooling import Ask, Verdict
from agent_cli.core.agent import Agent
from agent_cli.core.loop_config import LoopConfig
from tests.fakes import calls, returns, says, scripted_agent, tool, tool_use


def application(agent: Agent, workspace: Path) -> Application:
    """Return an application with an agent, and permissions that remember every call."""

    async def recall(*_call: object) -> None: ...

    permissions = SimpleNamespace(mode="ask", recall=recall, is_remembered=lambda _call: True)
    given = SimpleNamespace(
        agent=agent,
        permissions=permissions,
        workspace=workspace,
        tools=(),
        models={},
        answer=lambda *_dialogs: None,
        context_tokens=lambda: 0,
        todos=list,
        prompt_commands=list,
    )
    return cast("Application", given)


def said(agent: Agent) -> list[str]:
    """Return the texts of the model's replies."""
    replies = (each for each in agent.state.messages if isinstance(each, AssistantMessage))
    return [reply.text for reply in replies if reply.text]


class Client:
    """A client without capabilities; it keeps the updates."""

    reads_files = writes_files = shows_forms = shows_pages = False

    def __init__(self) -> None:
        self.updates: list[dict[str, Json]] = []

    def update(self, update: dict[str, Json]) -> None:
        self.updates.append(update)


async def test_question_of_a_run_triggered_while_a_prompt_is_prepared_comes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody else would ask it, and no prompt is accepted before it is answered."""

    def authorize(*_call: object) -> Verdict:
        return Ask("it changes a file")

    agent, _, _ = scripted_agent(
        calls(tool_use("change", {})),
        says("changed"),
        says("hello"),
        tools=[tool("change", returns("done"))],
        options=LoopConfig(authorize_tool=authorize),
    )
    opened = OpenSession(application(agent, tmp_path), cast("EditorClient", Client()))

    async def prepared(*_given: Any) -> tuple[UserMessage, None]:
        assert (await agent.trigger()).stop_reason == "waiting_for_approval"
        return UserMessage.of("hi"), None

    monkeypatch.setattr(session, "user_message", prepared)
    async with asyncio.timeout(60):
        answer = await opened.prompt([TextBlock(type="text", text="hi")])

    assert answer["stopReason"] == "end_turn"
    assert said(agent) == ["changed", "hello"]


async def test_address_of_a_file_made_by_a_tool_is_escaped() -> None:
    sent: list[dict[str, Json]] = []
    updates = Updates(application(Agent(), Path("/w")), sent.append)
    made = FileOutput("o1", 0, ToolCall("t1", "chart", {}).id, "a b#1.png", "image/png", "")

    updates(PromptOutput("p1", 0, made))

    content = sent[0]["content"]
    assert isinstance(content, dict)
    assert (content["uri"], content["name"]) == ("file:///w/a%20b%231.png", "a b#1.png")
