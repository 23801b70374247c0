"""Reasons shown to the model have a maximum length, whatever their source."""

import asyncio
from dataclasses import replace

from agent_cli.contracts.errors import ToolError
from agent_cli.contracts.tooling import Approval, Deny, ToolContext
from agent_cli.core.loop_config import LoopConfig
from agent_cli.core.returned_values import REASON_CHARS_MAX, bounded
from tests.fakes import (
    LIMIT_S,
    Gate,
    calls,
    does,
    returns,
    says,
    scripted_agent,
    texts,
    tool,
    tool_use,
)
from tests.tables import each_row

LONG = "".join(f"{number} " for number in range(20_000))


@each_row("length", [0, 1, 4_000])
def test_reason_within_the_limit_is_unchanged(length: int) -> None:
    assert bounded("r" * length) == "r" * length


def test_long_reason_is_shortened_in_the_middle_with_a_count() -> None:
    """S1-34, S1-35: the beginning and the end matter most."""
    shown = bounded("a" * 3_000 + "b" * 1_500 + "c" * 1_000)

    assert shown == f"{'a' * 3_000}\n[… 1,500 characters left out …]\n{'c' * 1_000}"
    assert bounded("r" * 4_001).count("[… 1 characters left out …]") == 1


async def test_reasons_of_refused_calls_are_limited_in_length() -> None:
    """S1-34: the calls have an unknown name, a failing path function, and a denying policy."""
    look = replace(tool("look", returns("")), reads=_refuses)
    agent, _, _ = scripted_agent(
        calls(tool_use(LONG, {}, "t1"), tool_use("look", {}, "t2"), tool_use("no", {}, "t3")),
        says("ok"),
        tools=[look, tool("no", returns(""))],
        options=LoopConfig(authorize_tool=lambda *_call: Deny(LONG)),
    )

    result = await agent.prompt("go")

    lengths = [len(text) for text in texts(result.messages).values()]
    assert len(lengths) == 3
    assert all(REASON_CHARS_MAX < length < REASON_CHARS_MAX + 60 for length in lengths)


def _refuses(_params: object) -> list[str]:
    raise ToolError(LONG)


async def test_error_text_of_a_stopped_tool_is_limited_in_length() -> None:
    """S0-64, S1-34: the text follows the sentence that the tool was stopped."""
    gate = Gate()

    async def body(_context: ToolContext) -> str:
        try:
            await gate.pass_through()
        except asyncio.CancelledError:
            raise ToolError(f"Files changed: {LONG}") from None
        return ""

    agent, _, _ = scripted_agent(calls(tool_use("work")), tools=[tool("work", does(body))])
    running = asyncio.ensure_future(agent.prompt("go"))
    await asyncio.wait_for(gate.reached.wait(), LIMIT_S)

    agent.abort()
    result = await asyncio.wait_for(running, LIMIT_S)

    said = texts(result.messages)["t1"]
    assert said.startswith(
        "Stopped with the whole run. Its effect may be partial. Files changed: 0 "
    )
    assert REASON_CHARS_MAX < len(said) < REASON_CHARS_MAX + 120


async def test_stopped_tool_without_an_error_text_has_only_the_stop_sentence() -> None:
    gate = Gate()

    async def body(_context: ToolContext) -> str:
        await gate.pass_through()
        return ""

    agent, _, _ = scripted_agent(calls(tool_use("work")), tools=[tool("work", does(body))])
    running = asyncio.ensure_future(agent.prompt("go"))
    await asyncio.wait_for(gate.reached.wait(), LIMIT_S)

    agent.abort()
    result = await asyncio.wait_for(running, LIMIT_S)

    stopped = "Stopped with the whole run. Its effect may be partial."
    assert texts(result.messages) == {"t1": stopped}


async def test_rejection_comment_is_not_shortened() -> None:
    """S2-33: the comment is the user's message, not one of the program's reasons."""
    danger = replace(tool("danger", returns("")), require_approval=Approval(required=True))
    agent, _, _ = scripted_agent(calls(tool_use("danger")), says("ok"), tools=[danger])
    await agent.prompt("go")

    result = await agent.reject("t1", LONG)

    assert texts(result.messages) == {"t1": LONG}
