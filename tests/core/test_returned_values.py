"""What a plugin's tool returned: any value becomes a result that every later request can hold."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from agent_cli.contracts.errors import AgentCliError, ToolError
from agent_cli.contracts.events import ToolCall, ToolExecutionEnd
from agent_cli.contracts.messages import UserMessage
from agent_cli.contracts.timeline import Block, Json, WidgetOutput, text_block
from agent_cli.contracts.tooling import ToolContext, ToolResult
from agent_cli.core.returned_values import (
    Maybe,
    TakeMessages,
    as_json,
    as_result,
    declared_paths,
    fix_paths,
    queued,
    revised,
    settled,
)
from tests.fakes import (
    calls,
    check_run,
    returns,
    says,
    scripted_agent,
    texts,
    tool,
    tool_use,
    wrong,
)
from tests.tables import each_row

IMAGE: Block = {
    "type": "image",
    "source": {"type": "base64", "media_type": "image/png", "data": ""},
}
HI = UserMessage.of("hi")
TOOL = tool("save", returns("ok"), writes=lambda params: [f"/{params}"])


@each_row(
    ("returned", "told"),
    [
        ({"rows": 3}, "returned dict, which is not a result"),
        (ToolResult(("text",)), "returned content that does not consist of"),  # type: ignore[arg-type]
        (ToolResult(({"text": "x"},)), "returned content that does not consist of"),
        (ToolResult(({"type": "text", "text": 5},)), "returned content that does not consist of"),
        (ToolResult(({"type": "image"},)), "returned content that does not consist of"),
        (ToolResult(({"type": "document"},)), "returned content that does not consist of"),
        (ToolResult(({"type": "audio"},)), "returned content that does not consist of"),
        (
            ToolResult(({"type": "thinking", "thinking": "a", "signature": "b"},)),
            "returned content that does not consist of",
        ),
        (ToolResult("text"), "returned content that does not consist of"),  # type: ignore[arg-type]
    ],
)
async def test_malformed_result_of_a_tool_is_an_error_result(returned: Any, told: str) -> None:
    """The run went on to fail, and so did every later request of the session."""

    async def execute(*_given: object) -> Any:
        return returned

    agent, model, events = scripted_agent(
        calls(tool_use("look", {}, "t1")), says("ok"), says("again"), tools=[tool("look", execute)]
    )
    result = await agent.prompt("go")
    check_run(events)
    await agent.prompt("more")

    assert told in texts(result.messages)["t1"]
    assert len(model.requests) == 3


def test_well_formed_results_stay_as_they_are() -> None:
    result = ToolResult((text_block("a"), IMAGE))
    reference = ToolResult(({"type": "tool_reference", "tool_name": "x"},))
    found: Block = {"type": "search_result", "source": "a", "title": "b", "content": []}

    assert as_result("look", "a") == ToolResult.of("a")
    assert as_result("look", result) is result
    assert as_result("look", reference) is reference
    assert as_result("look", ToolResult((found,))) == ToolResult((found,))


async def test_details_and_widgets_that_are_not_json_are_shown_as_text() -> None:
    """The line of such an event was missing in `--output-format stream-json`."""
    circle: list[Any] = []
    circle.append(circle)

    async def execute(_id: str, _params: object, _cancel: object, context: ToolContext) -> Any:
        context.display_widget("table", cast("Json", {"rows": [[Path("a")]]}), "a")
        return ToolResult.of("ok", cast("Json", {"path": Path("b"), "kept": 1}))

    agent, _, events = scripted_agent(
        calls(tool_use("look", {}, "t1")), says("ok"), tools=[tool("look", execute)]
    )
    await agent.prompt("go")

    [end] = [event for event in events if isinstance(event, ToolExecutionEnd)]
    assert end.result.details == {"path": "b", "kept": 1}
    [widget] = [out for out in agent.conversation.prompts[0].output if out.kind == "widget"]
    assert isinstance(widget, WidgetOutput)
    assert widget.data == {"rows": [["a"]]}
    assert as_json(circle) is None


async def test_a_value_and_an_awaitable_are_settled_alike() -> None:
    later: Maybe[str] = asyncio.sleep(0, "later")

    assert [await settled("now"), await settled(later)] == ["now", "later"]


async def test_what_was_cancelled_from_within_is_no_cancellation_of_the_caller() -> None:
    """A dialog that closes cancels the future that a hook awaits: nobody stopped the run."""

    async def closed() -> str:
        asyncio.get_running_loop().call_soon(answer.cancel)
        return await answer

    answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    later: Maybe[str] = closed()

    with pytest.raises(AgentCliError, match="it was cancelled from within"):
        await settled(later)


async def test_cancellation_of_the_caller_reaches_what_it_awaits_and_leaves() -> None:
    begun = asyncio.Event()

    async def waiting() -> bool:
        begun.set()
        return await asyncio.Event().wait()

    later: Maybe[bool] = waiting()
    task = asyncio.create_task(settled(later))
    await begun.wait()
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task


@each_row(
    ("take", "messages"),
    [
        (None, []),
        (lambda: None, []),
        (list, []),
        (lambda: [HI], [HI]),
        (lambda: asyncio.sleep(0, [HI]), [HI]),
        (lambda: asyncio.sleep(0, None), []),
    ],
)
async def test_a_missing_source_none_and_no_messages_are_the_same(
    take: TakeMessages | None, messages: list[UserMessage]
) -> None:
    assert [*await queued(take)] == messages


def test_paths_are_those_of_the_input() -> None:
    both = replace(TOOL, reads=lambda params: [f"/in/{params}"])

    assert declared_paths(both, "a") == (("/in/a",), ("/a",))


@each_row("error", [ValueError("broken"), SystemExit(3)])
def test_failing_function_of_a_tool_is_a_sentence_for_the_model(error: BaseException) -> None:
    def fail(_params: object) -> Sequence[str]:
        raise error

    with pytest.raises(ToolError, match="save cannot tell which files it would touch"):
        declared_paths(replace(TOOL, writes=fail), "a")


def test_fixed_paths_are_asked_for_once_for_each_input() -> None:
    """A symlink may change between the decision and the call."""
    answers = iter(["/first", "/second", "/third"])
    fixed = fix_paths(replace(TOOL, writes=lambda _params: [next(answers)]))

    assert [declared_paths(fixed, params)[1] for params in ("a", "b", "a", "b")] == [
        *(("/first",), ("/second",)) * 2
    ]


def test_fixed_paths_that_are_read_stay_apart_from_those_that_are_written() -> None:
    """C26: also when they are asked for the first time, which is when they become known."""
    fixed = fix_paths(replace(TOOL, reads=lambda params: [f"/in/{params}"]))

    assert [declared_paths(fixed, "a") for _ in range(2)] == [(("/in/a",), ("/a",))] * 2


async def test_finish_result_must_return_a_result() -> None:
    """It left `prompt` as an AttributeError."""
    call, seen = ToolCall("t1", "save", {}), ToolResult.of("saved")

    assert await revised(None, call, seen) is seen
    assert await revised(lambda _call, result: result, call, seen) is seen
    with pytest.raises(AgentCliError, match=r"^what finish_result returns must be ToolResult, not"):
        await revised(wrong(lambda _call, result: result.text), call, seen)
