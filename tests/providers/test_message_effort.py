"""The effort is stated in messages where the model reads it there, and beside them elsewhere."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from agent_cli.contracts.messages import AssistantMessage, LlmMessage, UserMessage
from agent_cli.contracts.options import ThinkingLevel
from agent_cli.contracts.timeline import text_block
from agent_cli.providers.anthropic.wire import parameters
from tests.messages_api import FakeMessagesApi, error, reply
from tests.providers.asking import asker, request

BETA = "mid-conversation-output-config-2026-07-01"


def at(effort: str | None, text: str = "hi") -> UserMessage:
    return UserMessage((text_block(text),), effort=effort)


def answer(text: str = "yes") -> AssistantMessage:
    return AssistantMessage((text_block(text),))


def efforts_in(body: dict[str, Any]) -> list[str]:
    """Return the efforts that messages state, each with what precedes it."""
    return [
        f"{body['messages'][index - 1]['role']}: {message['output_config']['effort']}"
        for index, message in enumerate(body["messages"])
        if "output_config" in message
    ]


async def sent(
    *messages: LlmMessage, level: ThinkingLevel | None, model: str = "claude-sonnet-5-5"
) -> tuple[dict[str, Any], str]:
    async with FakeMessagesApi(reply("ok")) as api, asker(api) as it:
        asked = await it.ask(request(*messages, model=model, thinking_level=level))
    assert (api.refusals, asked.error) == ([], None)
    return api.requests[0].body, api.requests[0].headers.get("anthropic-beta", "")


async def test_effort_stands_behind_the_message_it_begins_with() -> None:
    """Once where it changes; the request itself names none, so what is cached stays."""
    body, betas = await sent(
        *(at("low"), answer(), at(None), answer(), at("high"), answer(), at("high")), level="high"
    )

    assert efforts_in(body) == ["user: low", "user: high"]
    assert "output_config" not in body
    assert BETA in betas


async def test_default_effort_is_named_only_where_another_was_asked_for() -> None:
    body, _ = await sent(at(""), level=None)
    back, _ = await sent(at("high"), answer(), at(""), level=None, model="claude-opus-5-5")

    assert efforts_in(body) == []
    assert efforts_in(back) == ["user: high", "user: medium"]


async def test_other_models_are_asked_beside_the_messages() -> None:
    body, betas = await sent(at("low"), answer(), at("high"), level="high", model="claude-opus-4-8")

    assert efforts_in(body) == []
    assert body["output_config"] == {"effort": "high"}
    assert BETA not in betas


async def test_nothing_is_stated_while_thinking_is_off() -> None:
    """The API takes no effort in a message then."""
    body, betas = await sent(at("high"), answer(), at("off"), level="off")

    assert (efforts_in(body), BETA in betas) == ([], False)


async def test_request_without_statements_keeps_its_own_effort() -> None:
    """Of the library, for one: nothing records there what was asked before."""
    body, _ = await sent(at(None), level="high")

    assert (efforts_in(body), body["output_config"]) == ([], {"effort": "high"})


async def test_refused_statement_is_off_for_the_session() -> None:
    refusal = error(
        400,
        "invalid_request_error",
        "messages.1.output_config: Extra inputs are not permitted",
    )
    async with FakeMessagesApi(refusal, reply("ok"), reply("ok")) as api, asker(api) as it:
        for _ in range(2):
            asked = await it.ask(request(at("high"), thinking_level="high"))
            assert asked.error is None

    assert [each.body.get("output_config") for each in api.requests] == [
        None,
        {"effort": "high"},
        {"effort": "high"},
    ]


LEVELS: list[ThinkingLevel | None] = [None, "low", "medium", "high"]


@given(st.lists(st.sampled_from(LEVELS), min_size=1, max_size=6))
def test_later_messages_change_no_earlier_byte(levels: list[ThinkingLevel | None]) -> None:
    before: list[Any] = []
    history: list[LlmMessage] = []
    for now in levels:
        history.append(at(now or ""))
        body = parameters(request(*history, thinking_level=now), compat=False)
        messages: Any = body["messages"]
        bare: list[Any] = [
            {**each, "content": [{**b, "cache_control": None} for b in each["content"]]}
            for each in messages
        ]
        assert bare[: len(before)] == before
        assert len(bare) > len(before)
        before = bare
        history.append(answer())
