"""One model call: its recorded entries, its events, and the closing of its connection."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from agent_cli.contracts.cancel import CancelToken
from agent_cli.contracts.errors import (
    AgentCliError,
    ContextOverflow,
    ConversationError,
    ModelError,
    ServerDelayTooLong,
)
from agent_cli.contracts.events import (
    Event,
    MessageEnd,
    MessageStart,
    Notice,
    Retry,
    TurnEnd,
    UsageChanged,
)
from agent_cli.contracts.messages import AssistantMessage, CustomMessage, UserMessage
from agent_cli.contracts.provider import (
    ModelRequest,
    Reply,
    ReplyEnd,
    ReplyStart,
    Retrying,
    StreamEvent,
    TextDelta,
)
from agent_cli.contracts.timeline import DiscardedOutput, Json, Usage
from agent_cli.core.agent import Agent
from agent_cli.core.conversation import Conversation
from agent_cli.core.loop_config import LoopConfig
from agent_cli.core.model_call import ask
from agent_cli.core.run import ChatStateMachine, Phase
from agent_cli.core.turn import Turn
from tests.fakes import (
    MODEL,
    ScriptedModel,
    Step,
    calls,
    returns,
    says,
    scripted_agent,
    tool,
    tool_use,
    wrong,
)
from tests.tables import each_row


def prepared(*script: Step) -> tuple[Turn, list[Event], ScriptedModel]:
    """Return a turn that is ready for its model call."""
    model, told = ScriptedModel(*script), list[Event]()
    conversation = Conversation()
    conversation.begin(UserMessage.of("go"))
    options = LoopConfig(model=MODEL, stream_fn=model)
    turn = Turn(options, conversation, told.append, CancelToken(), ChatStateMachine(), False)
    return turn, told, model


def discarded(turn: Turn) -> list[tuple[str, str, str | None]]:
    outputs = turn.conversation.prompts[-1].output
    return [(o.text, o.reason, o.error) for o in outputs if isinstance(o, DiscardedOutput)]


async def test_reply_is_recorded_published_and_counted() -> None:
    """S0-41, S2-41: the published message is the one in the record."""
    turn, told, model = prepared(says("Hello", usage=Usage(3, 4)))

    assert await ask(turn) == "end_turn"

    end, usage = told[-2:]
    assert isinstance(end, MessageEnd) and isinstance(usage, UsageChanged)
    assert end.message == turn.conversation.last_reply()
    assert (usage.reply, usage.total) == (Usage(3, 4), Usage(3, 4))
    assert turn.phase.phase is Phase.THINKING
    assert (model.closed, discarded(turn)) == (1, [])


@each_row(
    ("stop_reason", "notice"),
    [
        ("end_turn", None),
        ("max_tokens", 'the reply was cut off at max_tokens: say "go on", or raise max_tokens'),
        (
            "refusal",
            "the model refused to answer; the exchange was taken out of the history:"
            " rephrase the prompt, or use another model",
        ),
    ],
)
async def test_notice_says_why_a_reply_ended_early(stop_reason: str, notice: str | None) -> None:
    """S4-30, G2: the notice is a sentence that includes the next step."""
    turn, told, _ = prepared(says("x", stop_reason=stop_reason))

    assert await ask(turn) == stop_reason

    found = [(each.level, each.text) for each in told if isinstance(each, Notice)]
    assert found == ([("warning", notice)] if notice else [])


@each_row(
    ("details", "reason"),
    [
        ({"type": "refusal", "category": "cyber", "explanation": " It asks\nfor malware. "},
         ": It asks for malware"),
        ({"type": "refusal", "category": "cyber", "explanation": None}, " (cyber)"),
        ({"explanation": 3, "category": ["x"]}, ""),
        ({"explanation": "e" * 500}, f": {'e' * 500}"),
        ({"explanation": "e" * 501}, f": {'e' * 500}"),
        ("cyber", ""),
    ],
)  # fmt: skip
async def test_refusal_notice_shows_the_reason_given_by_the_api(details: Json, reason: str) -> None:
    """G2: the API's explanation, else its category; anything else is left out."""
    refused = replace(says("x", stop_reason="refusal"), stop_details=details)
    turn, told, _ = prepared(refused)

    await ask(turn)

    [notice] = [each.text for each in told if isinstance(each, Notice)]
    assert notice.startswith(f"the model refused to answer{reason}; the exchange was taken out")


async def test_refusal_after_other_replies_does_not_claim_to_remove_the_exchange() -> None:
    """G2: what was done for the prompt stays in the history, and so does the prompt."""
    agent, _, events = scripted_agent(
        calls(tool_use("look")),
        says("x", stop_reason="refusal"),
        tools=[tool("look", returns("a tree"))],
    )

    await agent.prompt("go")

    [notice] = [each.text for each in events if isinstance(each, Notice)]
    assert notice == (
        "the model refused to go on; its last reply was left out of the history:"
        " rephrase the prompt, or use another model"
    )
    first = agent.conversation.context()[0]
    assert isinstance(first, UserMessage)
    assert first.text == "go"


async def test_truncated_reply_with_a_call_does_not_suggest_go_on() -> None:
    """G2: the run continues by itself, because the call is answered."""
    turn, told, _ = prepared(calls(tool_use("write"), stop_reason="max_tokens"))

    await ask(turn)

    [notice] = [each.text for each in told if isinstance(each, Notice)]
    assert notice == "the reply was cut off at max_tokens; the model is told so and goes on"


async def test_refused_reply_is_recorded_and_counted_but_not_sent_again() -> None:
    """S0-43, S2-41: the text is in the record, not in the next request."""
    turn, told, _ = prepared(says("I cannot", stop_reason="refusal", usage=Usage(5, 6)))

    await ask(turn)

    assert discarded(turn) == [("I cannot", "refusal", None)]
    assert turn.conversation.usage == Usage(5, 6)
    [message] = [event.message for event in told if isinstance(event, MessageEnd)]
    assert isinstance(message, AssistantMessage)
    assert (message.stop_reason, message.text) == ("refusal", "I cannot")
    assert turn.conversation.context() == []


async def test_full_context_window_raises_context_overflow() -> None:
    """S0-43: compaction handles it; the reply is not part of the history."""
    turn, _, _ = prepared(says("half", stop_reason="model_context_window_exceeded"))

    with pytest.raises(ContextOverflow, match=r"^the conversation no longer fits into the model"):
        await ask(turn)

    assert discarded(turn) == [("half", "context_window", None)]


@each_row(
    ("step", "kept"),
    [
        ([ModelError("gone")], []),
        ([ReplyStart("m"), TextDelta(0, "ha"), ModelError("gone")], [("ha", "error", "gone")]),
        ([ReplyStart("m"), TextDelta(0, "ha"), ModelError("")], [("ha", "error", None)]),
        ([ReplyStart("m"), ServerDelayTooLong("an hour")], [("", "error", "an hour")]),
    ],
)
async def test_reply_that_breaks_off_is_published_and_discarded(
    step: Step, kept: list[tuple[str, str, str | None]]
) -> None:
    """S0-41, S0-42: the error is raised for the caller to handle."""
    turn, told, model = prepared(step)

    with pytest.raises(ModelError):
        await ask(turn)

    assert (discarded(turn), model.closed) == (kept, 1)
    assert sum(isinstance(event, MessageEnd) for event in told) == len(kept)


async def test_stream_that_is_cancelled_from_within_is_an_error_of_the_run() -> None:
    """S0-42: the caller of `prompt` was not cancelled, and got a CancelledError."""

    async def stream(_request: ModelRequest) -> AsyncIterator[StreamEvent]:
        yield ReplyStart("m")
        yield TextDelta(0, "half")
        lost = asyncio.ensure_future(asyncio.sleep(0))
        lost.cancel()
        await lost

    agent = Agent(LoopConfig(model=MODEL, stream_fn=stream))

    result = await agent.prompt("go")

    assert result.error == "the stream broke off from within: send the prompt again"
    assert (result.stop_reason, agent.state.error) == ("error", result.error)


async def test_stream_of_something_else_ends_no_message_that_never_began() -> None:
    """S0-41: the brackets balance, also where a `stream_fn` yields what is no event."""
    strange: Any = "text"
    turn, told, _ = prepared([strange])

    with pytest.raises(AgentCliError, match="yielded str, which is no stream event: it is an `as"):
        await ask(turn)

    assert [event.type for event in told if isinstance(event, MessageStart | MessageEnd)] == []


def yielding(reply: Any) -> ScriptedModel:
    """Return a model whose stream ends with *reply*."""
    return ScriptedModel([ReplyStart("m"), ReplyEnd(reply)])


async def _coroutine(_request: ModelRequest) -> list[str]:
    return []


@each_row(
    ("stream_fn", "sentence"),
    [
        (
            _coroutine,
            "the stream_fn, or the provider's stream, returned coroutine: it is an `async",
        ),
        (lambda _request: None, "the stream_fn, or the provider's stream, returned NoneType: it"),
        (
            lambda _request: [ReplyStart("m")],
            "the stream_fn, or the provider's stream, returned li",
        ),
        (yielding(wrong(5)), "the reply of a ReplyEnd must be Reply, not int"),
        (yielding(Reply("r", "m", wrong("hi"), "end_turn")), "content of a Reply must be tuple"),
        (yielding(Reply("r", "m", wrong(["hi"]), "end_turn")), "content of a Reply must be bl"),
        (yielding(Reply("r", "m", (), wrong(None))), "stop_reason of a Reply must be str, not"),
        (yielding(Reply("r", "m", (), "end_turn", wrong({}))), "usage of a Reply must be Usage"),
        (yielding(Reply("r", "m", (), "end_turn", beside=(wrong(1),))), "each of beside of a"),
    ],
)
async def test_stream_fn_of_another_kind_ends_the_run_in_a_sentence(
    stream_fn: Any, sentence: str
) -> None:
    """It left `prompt` as a TypeError about `async for`, or failed in a later request."""
    agent = Agent(LoopConfig(model=MODEL, stream_fn=stream_fn))

    result = await agent.prompt("go")

    assert (result.error or "").startswith(sentence)


async def test_stream_without_an_end_is_an_error_with_a_next_step() -> None:
    """S0-41: a partial reply is not a reply."""
    turn, _, _ = prepared([ReplyStart("m"), TextDelta(0, "half")])

    with pytest.raises(ModelError, match=r"^the model's reply ended too early: send the prompt"):
        await ask(turn)

    assert discarded(turn) == [("half", "error", "the stream ended without a complete reply")]


async def test_restart_during_a_reply_ends_the_turn_of_the_partial_reply() -> None:
    """S1-22: the new attempt is a separate turn, except if nothing had been streamed."""
    turn, told, _ = prepared(
        [
            Retrying(1, 5, 0.5, "busy"),
            ReplyStart("m", Usage(input_tokens=40, output_tokens=1)),
            TextDelta(0, "half"),
            Retrying(2, 5, 1.0, "cut", restarted=True),
            ReplyStart("m"),
            ReplyEnd(says("whole")),
        ]
    )

    await ask(turn)

    assert [event for event in told if isinstance(event, Retry)] == [
        Retry(1, 5, 0.5, "busy", False),
        Retry(2, 5, 1.0, "cut", True),
    ]
    names = [event.type for event in told if not event.type.startswith("app.prompt")]
    assert names == [
        "app.retry",
        "message_start",
        "message_update",
        "message_end",
        "app.usage",
        "turn_end",
        "app.retry",
        "turn_start",
        "message_start",
        "message_end",
        "app.usage",
    ]
    [ended] = [event for event in told if isinstance(event, TurnEnd)]
    assert ended.message is not None
    assert (ended.message.text, ended.message.error, ended.tool_results) == ("half", "cut", ())
    assert discarded(turn) == [("half", "error", "cut")]
    assert turn.conversation.usage == Usage(50, 6), "the prompt of the lost reply counts"


async def test_stream_may_be_an_iterator_without_aclose() -> None:
    """S0-03, S0-68: `stream_fn` may return any asynchronous iterator."""

    class Played:
        def __init__(self, reply: Reply) -> None:
            self._events: list[StreamEvent] = [ReplyStart("m"), ReplyEnd(reply)]

        def __aiter__(self) -> "Played":
            return self

        async def __anext__(self) -> StreamEvent:
            await asyncio.sleep(0)
            if not self._events:
                raise StopAsyncIteration
            return self._events.pop(0)

    def stream(_request: ModelRequest) -> AsyncIterator[StreamEvent]:
        return Played(says("ok"))

    result = await Agent(LoopConfig(model=MODEL, stream_fn=stream)).prompt("go")

    assert result.final_message is not None
    assert result.final_message.text == "ok"


async def test_failed_stream_is_closed_before_the_run_ends() -> None:
    """S0-64: the garbage collector would be too late."""
    closed: list[str] = []

    async def stream(_request: ModelRequest) -> AsyncIterator[StreamEvent]:
        try:
            yield ReplyStart("m")
            raise ModelError("gone")
        finally:
            await asyncio.sleep(0)
            closed.append("closed")

    def failing(request: ModelRequest) -> AsyncIterator[StreamEvent]:
        events = stream(request)

        class Wrapped:
            def __aiter__(self) -> "Wrapped":
                return self

            async def __anext__(self) -> StreamEvent:
                event = await anext(events)
                closed.append("first")
                raise ModelError(f"left after {event.type}")

            async def aclose(self) -> None:
                await events.aclose()  # type: ignore[attr-defined]  # a generator

        return Wrapped()

    result = await Agent(LoopConfig(model=MODEL, stream_fn=failing)).prompt("go")

    assert (result.error, closed) == ("left after reply_start", ["first", "closed"])


async def test_error_about_unconverted_messages_names_their_kinds_and_the_remedy() -> None:
    """S3-03: all of them, sorted; the note of a limit is not among them."""
    turn, _, model = prepared(says("never"))
    for kind in ("news", "mail", "limit", "news"):
        turn.conversation.note(CustomMessage(kind))

    with pytest.raises(ConversationError) as raised:
        await ask(turn)

    assert (
        str(raised.value) == "messages of kind mail, news need a convert_to_llm that handles them"
    )
    assert model.requests == []
