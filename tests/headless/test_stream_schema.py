"""The published JSON Schema of stream-json matches the lines that are printed."""

import json
from pathlib import Path

from jsonschema import Draft202012Validator

from agent_cli.contracts.errors import ToolError
from agent_cli.contracts.tooling import Ask
from agent_cli.core.loop_config import LoopConfig
from agent_cli.headless.report import RunReport, to_json
from docs.stream_json import schema
from tests.fakes import calls, raises, returns, says, scripted_agent, tool, tool_use
from tests.tables import each_row

FILE = Path(__file__).parents[2] / "docs" / "stream-json.schema.json"
VALIDATOR = Draft202012Validator(schema())


def test_published_schema_file_matches_the_event_types() -> None:
    """`python -m docs.stream_json > docs/stream-json.schema.json` regenerates it."""
    assert json.loads(FILE.read_text(encoding="utf-8")) == schema()
    Draft202012Validator.check_schema(schema())


async def test_every_line_of_a_run_matches_the_schema() -> None:
    tools = [tool("look", returns("a tree")), tool("fail", raises(ToolError("no")))]
    agent, _, events = scripted_agent(
        calls(tool_use("look", {}, "t1"), tool_use("fail", {}, "t2")),
        says("ok"),
        calls(tool_use("look", {}, "t3")),
        tools=tools,
        options=LoopConfig(authorize_tool=lambda call, _tool, _params: Ask("?")),
    )

    await agent.prompt("go")
    await agent.approve("t1")
    await agent.reject("t2", "no")
    lines = [*map(to_json, events), RunReport().to_json()]

    faults = [
        f"{line['type']}: {fault.message[:200]}"
        for line in lines
        for fault in VALIDATOR.iter_errors(line)
    ]
    assert faults == []
    assert {"message_update", "tool_execution_end", "app.approval_requested", "app.result"} <= {
        str(line["type"]) for line in lines
    }


@each_row(
    "line",
    [{}, {"type": "unknown"}, {"type": "agent_end"}, {"type": "app.result", "text": "x"}],
)
def test_invalid_line_does_not_match_the_schema(line: dict[str, str]) -> None:
    assert not VALIDATOR.is_valid(line)
