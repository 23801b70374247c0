"""Every way into a conversation refuses the same messages, and loses nothing."""

import functools
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from agent_cli import Agent, AgentContext, agent_loop
from agent_cli.contracts.errors import AgentCliError, ConversationError
from agent_cli.contracts.events import Event
from agent_cli.contracts.messages import AssistantMessage, UserMessage
from agent_cli.contracts.timeline import Block, text_block
from tests.fakes import ScriptedModel, config, says, scripted_agent, users
from tests.tables import each_row

NOTHING = "^there is nothing to send: a message needs text or an image$"
UNSENDABLE: list[tuple[Any, str]] = [
    ("", NOTHING),
    (" \n", NOTHING),
    (UserMessage(()), NOTHING),
    (UserMessage.of("\t"), NOTHING),
    (UserMessage((text_block(" "), text_block(""))), NOTHING),
    ("\u200b\u00a0\ufeff", NOTHING),
    (UserMessage((text_block("\u2063\U000e0041"), text_block("\u3164\u2800\x00"))), NOTHING),
    (UserMessage(({"type": "strange"}, text_block("hi"))), "cannot hold strange blocks"),
    (UserMessage("text"), "must be a tuple of blocks"),  # type: ignore[arg-type]
    (UserMessage(({"text": "x"},)), "must be a tuple of blocks"),
    (UserMessage(({"type": "text", "text": 1},)), "must be a tuple of blocks"),
    (UserMessage(({"type": "tool_result", "tool_use_id": "t1"},)), "cannot hold tool_result"),
    (AssistantMessage((text_block("hi"),)), "a prompt cannot be a message of kind assistant"),
    (1, "not int"),
    (None, "not NoneType"),
    ([UserMessage.of("hi")], "not list"),
]


@each_row(("message", "said"), UNSENDABLE)
async def test_no_way_in_takes_a_message_that_cannot_be_sent(message: Any, said: str) -> None:
    """A blank `steer` made an invalid request; `steer(1)` made every later prompt fail."""
    agent, model, _ = scripted_agent(says("ok"))

    with pytest.raises(ConversationError, match=said):
        await agent.prompt(message)
    with pytest.raises(ConversationError, match=said):
        agent_loop([message], AgentContext(), config(model))
    for put in (agent.steer, agent.follow_up, agent.queue_message):
        with pytest.raises(ConversationError, match=said):
            put(message)

    assert not agent.has_queued_messages()
    await agent.prompt("go")
    assert users(model.requests[-1].messages) == ["go"]


@each_row(
    ("message", "said"),
    [
        (UserMessage(()), NOTHING),
        (UserMessage(({"type": "tool_result", "tool_use_id": "t1"},)), "cannot hold tool_result"),
        (UserMessage(({"type": "image"},)), "tuple of blocks"),
        (UserMessage(({"type": "image", "source": {}},)), "tuple of blocks"),
        (UserMessage(({"type": "image", "source": {"type": ""}},)), "tuple of blocks"),
        (UserMessage(({"type": "image", "source": {"type": "base64"}},)), "tuple of blocks"),
        (
            UserMessage(({"type": "image", "source": {"type": "url", "url": ""}},)),
            "tuple of blocks",
        ),
        (
            UserMessage(({"type": "document", "source": {"type": "text", "data": ""}},)),
            "tuple of blocks",
        ),
    ],
)
def test_no_history_takes_a_users_message_that_cannot_be_sent(
    message: UserMessage, said: str
) -> None:
    """The request with it would be refused, and so would each one after it."""
    agent, _, _ = scripted_agent()

    with pytest.raises(ConversationError, match=said):
        agent.append_message(message)
    with pytest.raises(ConversationError, match=said):
        agent.replace_messages([UserMessage.of("hi"), message])

    assert agent.conversation.prompts == []


@each_row(
    "block",
    [
        {"type": "image", "source": {"type": "file", "file_id": "f1"}},
        {"type": "image", "source": {"type": "of next year"}},
    ],
)
async def test_blocks_that_only_the_api_knows_are_sent(block: Block) -> None:
    agent, model, _ = scripted_agent(says("ok"))

    await agent.prompt(UserMessage((block,)))

    assert [each.content for each in model.requests[-1].messages] == [(block,)]


@each_row("text", ["\u200b.", "\U0001fae8", "\U0001fae9", "\ue000", "́", "🇩🇪", "لا"])
async def test_text_that_shows_something_is_sent(text: str) -> None:
    """Characters that this Python does not know are shown: terminals are newer."""
    agent, model, _ = scripted_agent(says("ok"))

    await agent.prompt(text)

    assert users(model.requests[-1].messages) == [text]


async def test_steer_and_follow_up_take_text() -> None:
    agent, model, _ = scripted_agent(says("ok"), says("ok"), says("ok"))
    agent.steer("first")
    agent.follow_up("then")

    await agent.prompt("go")

    assert users(model.requests[-1].messages) == ["go", "first", "then"]


@each_row("hook", ["get_steering_messages", "get_follow_up_messages"])
@each_row("stateful", [True, False])
async def test_message_of_a_hook_that_cannot_be_sent_ends_one_run(
    hook: str, *, stateful: bool
) -> None:
    """It must not come back with the next run as a message that was not delivered."""
    batches = [[UserMessage.of(" ")]]
    source: Any = {hook: lambda: batches.pop() if batches else None}
    configured = replace(config(ScriptedModel(says("ok"), says("ok"))), **source)
    if stateful:
        agent = Agent(configured)
        result = await agent.prompt("go")
        undelivered = agent.clear_all_queues()
    else:
        stream = agent_loop(["go"], AgentContext(), configured)
        _ = [event async for event in stream]
        result, undelivered = stream.result(), list(stream.undelivered)

    assert (result.stop_reason, undelivered) == ("error", [])
    assert "nothing to send" in str(result.error)


@each_row("hook", ["get_steering_messages", "get_follow_up_messages"])
@each_row("returned", ["stop", UserMessage.of("stop"), 5])
async def test_hook_that_returns_no_sequence_of_messages_ends_the_run(
    hook: str, returned: object
) -> None:
    """S0-22, S0-23: a text became one message for each character; a message alone was a bug."""
    source: Any = {hook: lambda: returned}
    agent = Agent(replace(config(ScriptedModel(says("ok"), says("ok"))), **source))

    result = await agent.prompt("go")

    kind = type(returned).__name__
    assert result.error == f"steering and follow-up messages must be a sequence, not {kind}"
    assert users(agent.state.messages) == ["go"]


class AsyncListener:
    async def __call__(self, event: Event) -> None: ...


async def listen(event: Event) -> None: ...


async def listen_in_parts(event: Event) -> AsyncIterator[None]:
    yield


def listen_later(event: Event) -> Iterator[None]:
    yield


@each_row(
    "listener",
    [
        *(listen, AsyncListener(), functools.partial(listen), AsyncListener().__call__),
        *(listen_in_parts, listen_later, None, "print"),
    ],
)
async def test_what_nothing_would_run_is_refused_as_a_listener(
    listener: Callable[[Event], Any],
) -> None:
    """It was accepted and never run; what cannot be called failed in the log at each event."""
    agent, _, _ = scripted_agent(says("ok"))

    with pytest.raises(AgentCliError, match="must be a plain function"):
        agent.subscribe(listener)

    assert (await agent.prompt("go")).error is None
