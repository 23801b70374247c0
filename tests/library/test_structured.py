"""Answers in a form that the program gives: `SessionOptions(json_schema=...)`."""

from typing import Any

import pytest
from pydantic import BaseModel

from agent_cli import (
    AgentSession,
    ConversationError,
    RunFailed,
    SessionOptions,
    UsageError,
    UserMessage,
    image_block,
    query,
    tool,
)
from tests.library.test_session import asked, at
from tests.messages_api import reply, serve_in_thread, tool_use


class Verdict(BaseModel):
    approve: bool
    reason: str


SCHEMA = Verdict.model_json_schema()
FITS = '{"approve": true, "reason": "good"}'


async def test_answer_is_the_value_that_the_schema_describes() -> None:
    """A program had to write the form into its prompt, and to check what came."""
    with serve_in_thread(reply(FITS), reply("```json\n" + FITS + "\n```")) as api:
        options = SessionOptions(environment=at(api), json_schema=SCHEMA)
        async with AgentSession(options) as session:
            results = [
                await session.prompt("judge"),
                await session.prompt(UserMessage.of("judge again")),
            ]

    for result, request in zip(results, api.requests, strict=True):
        assert Verdict.model_validate(result.output) == Verdict(approve=True, reason="good")
        asking = request.body["messages"][-1]["content"]
        assert "fits this JSON Schema" in asking[0]["text"]
        assert asking[1]["text"].startswith("judge")
        assert request.body["output_config"]["format"]["type"] == "json_schema"


@pytest.mark.parametrize("schema", [None, SCHEMA])
@pytest.mark.parametrize("message", ["look", UserMessage.of("look")])
async def test_images_go_along_with_a_text_and_a_message(
    schema: dict[str, Any] | None, message: str | UserMessage
) -> None:
    """Those beside a message were left out without a word, with a schema and without."""
    with serve_in_thread(reply(FITS)) as api:
        options = SessionOptions(environment=at(api), json_schema=schema)
        async with AgentSession(options) as session:
            await session.prompt(message, [image_block(b"hi", "image/png")])

    *_, text, image = api.requests[0].body["messages"][-1]["content"]
    assert (text["text"], image["type"]) == ("look", "image")


async def test_answer_that_does_not_fit_is_corrected_once_and_then_a_failure() -> None:
    """A program never gets a value that it has to check again, nor pays for ever."""
    corrected, _ = await asked(reply("Fine."), reply(FITS), json_schema=SCHEMA)
    with pytest.raises(RunFailed, match=r"the answer does not fit json_schema: .*not JSON") as two:
        await asked(reply("Fine."), reply("Fine!"), json_schema=SCHEMA)

    assert corrected.output == {"approve": True, "reason": "good"}
    assert (two.value.stop_reason, two.value.result.rounds) == ("invalid_output", 2)
    assert (two.value.result.text, two.value.result.output) == ("Fine!", None)


async def test_answer_that_paused_is_checked_as_a_whole() -> None:
    """After `pause_turn` the rest comes in the next request; no part fits alone."""
    begun = reply(FITS[:9], stop_reason="pause_turn")
    result, api = await asked(begun, reply(FITS[9:]), json_schema=SCHEMA)

    assert (result.text, result.output) == (FITS, {"approve": True, "reason": "good"})
    assert len(api.requests) == 2


async def test_words_between_calls_are_no_answer() -> None:
    """Only the last reply has the form; the others are not sent back."""

    @tool(changes=False)
    async def look() -> str:
        """Look."""
        return "seen"

    calling = reply("I look first.", tool_use("look"))
    result, api = await asked(calling, reply(FITS), tools=[look], json_schema=SCHEMA)

    assert result.output == {"approve": True, "reason": "good"}
    assert len(api.requests) == 2


async def test_message_of_a_wrong_type_is_refused_as_without_a_schema() -> None:
    wrong: Any = 5

    for schema in (None, SCHEMA):
        with pytest.raises(ConversationError, match="must be text or a UserMessage, not int"):
            await asked(prompt=wrong, json_schema=schema)


async def test_schema_that_is_none_is_refused_before_anything_is_sent() -> None:
    """A wrong schema would be found after the model was paid."""
    with pytest.raises(UsageError, match="json_schema is no schema"):
        await query("go", SessionOptions(json_schema={"type": "objekt"}))
