"""A caller's own history is accepted whole, repaired with a report, or refused."""

import itertools
from collections.abc import Sequence
from typing import Any

import pytest

from agent_cli.contracts.errors import ConversationError
from agent_cli.contracts.messages import (
    AssistantMessage,
    CustomMessage,
    Message,
    ToolResultMessage,
    UserMessage,
)
from agent_cli.contracts.timeline import text_block
from agent_cli.core import record
from agent_cli.core.agent import Agent, AgentState
from agent_cli.core.api_messages import to_api
from agent_cli.core.conversation import Conversation
from agent_cli.core.imported_history import append, conversation_of
from tests.fakes import (
    LOOK,
    ScriptedModel,
    config,
    listening,
    notices,
    problems,
    says,
    scripted_agent,
    tool,
    tool_use,
    users,
)
from tests.tables import each_row

ASKED = AssistantMessage((tool_use("look", {}, "t1"), tool_use("look", {}, "t2")), "tool_use")
REPAIRED = "calls without a result were answered with an error: t1, t2"


async def test_replacing_messages_reports_repaired_calls(
    logged: list[dict[str, object]],
) -> None:
    """S0-58, C7: an event and a log line name the repaired calls; the request is valid."""
    agent, model, events = scripted_agent(says("ok"), says("ok"), tools=[LOOK])

    agent.replace_messages([UserMessage.of("a"), ASKED])

    assert notices(events) == [REPAIRED]
    assert [(e["event"], e["tool_call_ids"]) for e in logged] == [
        ("history repaired", ["t1", "t2"])
    ]
    await agent.prompt("b")
    assert notices(events) == [REPAIRED]
    assert str(model.sent()).count("No result was recorded for this call.") == 2


async def test_repair_of_initial_messages_is_reported_in_the_first_run() -> None:
    """S0-58: there were no listeners yet when the agent was made."""
    model = ScriptedModel(says("ok"), says("ok"))
    agent, events = listening(
        Agent(config(model), initial_state=AgentState(messages=[UserMessage.of("a"), ASKED]))
    )

    await agent.prompt("b")
    await agent.prompt("c")

    assert notices(events) == [REPAIRED]
    assert events[0].type == "agent_start"


async def test_open_call_is_closed_and_reported_with_the_next_appended_message() -> None:
    """S0-58, C7: the next request is valid."""
    agent, model, events = scripted_agent(says("ok"), says("ok"))
    agent.append_message(UserMessage.of("a"))
    agent.append_message(ASKED)
    assert notices(events) == []

    agent.append_message(UserMessage.of("b"))

    assert notices(events) == [REPAIRED]
    assert [m.role for m in agent.state.messages] == ["user", "assistant"] + ["toolResult"] * 2 + [
        "user"
    ]
    await agent.continue_()
    assert model.sent()[-1]["role"] == "user"


async def test_appended_result_without_an_open_call_is_refused() -> None:
    """S0-58, C7: a stray result, or a second one; nothing changes."""
    agent, _, events = scripted_agent()
    agent.append_message(UserMessage.of("a"))
    agent.append_message(AssistantMessage((tool_use("look", {}, "t1"),), "tool_use"))
    agent.append_message(ToolResultMessage("t1", "look", (text_block("ok"),)))
    before, told = agent.state.messages, len(events)

    for id in ("t1", "t9"):
        with pytest.raises(ConversationError, match=rf"'{id}' answers no open call; open: \[\]"):
            agent.append_message(ToolResultMessage(id, "look", ()))

    assert (agent.state.messages, len(events)) == (before, told)


async def test_next_prompt_closes_an_appended_call_without_a_result() -> None:
    """S0-58: whatever a caller left open, the request is valid."""
    agent, model, _ = scripted_agent(says("ok"), says("ok"))
    await agent.prompt("a")
    agent.append_message(AssistantMessage((tool_use("look", {}, "t1"),), "tool_use"))

    await agent.prompt("b")

    assert "No result was recorded" in str(model.sent())


async def test_imported_messages_keep_their_timestamps(monkeypatch: pytest.MonkeyPatch) -> None:
    """S3-25, S0-58: initial, replaced and appended messages; a time out of order is moved up."""
    history: list[Message] = [
        UserMessage((text_block("a"),), timestamp=1000),
        AssistantMessage((tool_use("look"),), "tool_use", timestamp=2000),
        ToolResultMessage("t1", "look", (text_block("ok"),), timestamp=3000),
        AssistantMessage((text_block("half"),), "aborted", timestamp=3500),
        CustomMessage("note", {"x": 1}, timestamp=4000),
    ]
    agent, _, _ = scripted_agent(says("ok"))
    started = Agent(initial_state=AgentState(messages=history))

    agent.replace_messages(history)
    for message in (
        UserMessage((text_block("b"),), timestamp=5000),
        AssistantMessage((text_block("B"),), timestamp=4500),
    ):
        agent.append_message(message)

    assert started.state.messages == history
    assert agent.state.messages[:5] == history
    assert [message.timestamp for message in agent.state.messages[5:]] == [5000, 5000]
    monkeypatch.setattr(record, "now_ms", lambda: 9_000)  # the machine's clock may be wrong
    await agent.prompt("now")
    assert agent.state.messages[-1].timestamp == 9_000


def test_imported_calls_are_answered_unless_a_decision_about_them_follows() -> None:
    """S0-58: a request with an open call is refused by the API."""
    history: list[Message] = [UserMessage.of("a"), ASKED]

    closed, waiting = conversation_of(history), conversation_of(history, keep_open=True)

    assert [len(each.open_calls()) for each in (closed, waiting)] == [0, 2]


def test_imported_history_ends_with_a_completed_prompt() -> None:
    """S0-58: the next message is a new prompt, not steering of the last one."""
    taken_in = conversation_of([UserMessage.of("go"), AssistantMessage((text_block("ok"),))])

    assert [prompt.state for prompt in taken_in.prompts] == ["completed"]


@each_row(
    ("then", "request_texts"),
    [
        ("prompt", ["a", "no, stop"]),
        ("steered", ["a", "no, stop"]),
        ("continue", ["a"]),
        ("trigger", ["a"]),
        ("custom", ["a"]),
    ],
)
@each_row("imported", [(UserMessage.of("a"), ASKED), (UserMessage.of("a"),)])
async def test_appended_history_is_complete_and_never_run(
    imported: Sequence[Message], then: str, request_texts: list[str]
) -> None:
    """The next prompt joined the last one, and an imported call ran after "no, stop"."""
    ran: list[str] = []

    async def look(id: str, _params: object, _cancel: object, _context: object) -> str:
        ran.append(id)
        return "a tree"

    agent, model, _ = scripted_agent(says("ok"), tools=[tool("look", look)])
    for message in imported:
        agent.append_message(message)
    assert {prompt.state for prompt in agent.conversation.prompts} == {"completed"}
    before = len(agent.conversation.prompts)

    match then:
        case "prompt":
            await agent.prompt("no, stop")
        case "steered":
            agent.steer("no, stop")
            await agent.continue_()
        case "continue":
            await agent.continue_()
        case "trigger":
            await agent.trigger()
        case _:
            await agent.prompt(CustomMessage("note", {"by": "a plugin"}))

    assert ran == []
    assert users(model.requests[-1].messages)[: len(request_texts)] == request_texts
    assert len(agent.conversation.prompts) == before + 1


@each_row(
    ("message", "said"),
    [
        ("text", "a history holds messages, not str"),
        (AssistantMessage(({"type": "tool_use", "id": "t"},)), "must be a tuple of blocks"),
        (AssistantMessage(({"type": "tool_result"},)), "assistant cannot hold tool_result blocks"),
        (ToolResultMessage("t", "look", ({"type": "tool_use", "name": "x"},)), "cannot hold"),
        (UserMessage.of(" "), "nothing to send"),
    ],
)
def test_history_that_cannot_be_sent_is_refused(message: Any, said: str) -> None:
    agent, _, _ = scripted_agent()

    for take in (agent.append_message, lambda one: agent.replace_messages([one])):
        with pytest.raises(ConversationError, match=said):
            take(message)

    assert agent.state.messages == []


POOL: list[Message] = [
    UserMessage.of("a"),
    AssistantMessage((text_block("b"),)),
    ASKED,
    ToolResultMessage("t1", "look", (text_block("ok"),)),
    AssistantMessage((text_block("half"),), "aborted"),
    AssistantMessage((text_block("half"),), "error"),
    CustomMessage("note"),
]


@each_row("appended", [True, False])
def test_every_short_history_makes_a_valid_request(*, appended: bool) -> None:
    """All histories of up to three messages; those that are refused change nothing.

    The text of an interrupted reply is sent: before it, too, there must be a message of the user's.
    """
    accepted = 0
    for messages in (each for n in range(4) for each in itertools.product(POOL, repeat=n)):
        try:
            if appended:
                conversation = Conversation()
                for message in messages:
                    append(conversation, message)
            else:
                conversation = conversation_of(messages)
        except ConversationError:
            continue
        conversation.begin(UserMessage.of("next"))
        sent = [each for each in conversation.context() if not isinstance(each, CustomMessage)]
        assert problems(to_api(sent)) == [], messages
        accepted += 1

    assert accepted > 200
