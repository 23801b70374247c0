"""What a plugin's tool returned: any value becomes a result that every later request can hold."""

from pathlib import Path
from typing import Any, cast

import pytest

from agent_cli.contracts.events import ToolExecutionEnd
from agent_cli.contracts.timeline import Block, Json, WidgetOutput, text_block
from agent_cli.contracts.tooling import ToolContext, ToolResult
from agent_cli.core.returned_results import as_json, as_result
from tests.fakes import calls, check_run, says, scripted_agent, texts, tool, tool_use

IMAGE: Block = {
    "type": "image",
    "source": {"type": "base64", "media_type": "image/png", "data": ""},
}


@pytest.mark.parametrize(
    ("returned", "told"),
    [
        ({"rows": 3}, "returned dict, which is not a result"),
        (ToolResult(("text",)), "returned content that does not consist of"),  # type: ignore[arg-type]
        (ToolResult(({"text": "x"},)), "returned content that does not consist of"),
        (ToolResult(({"type": "text", "text": 5},)), "returned content that does not consist of"),
        (ToolResult(({"type": "image"},)), "returned content that does not consist of"),
        (ToolResult(({"type": "document"},)), "returned content that does not consist of"),
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

    assert as_result("look", "a") == ToolResult.of("a")
    assert as_result("look", result) is result
    assert as_result("look", reference) is reference


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
