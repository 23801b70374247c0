"""Entries as JSON and back."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from hypothesis import given, settings

from agent_cli.contracts import timeline
from agent_cli.contracts.timeline import (
    Block,
    Output,
    ReplyOutput,
    TextOutput,
    TrimOutput,
    Usage,
    WidgetOutput,
)
from agent_cli.contracts.tooling import ToolContext, ToolResult
from agent_cli.core.conversation import Conversation
from agent_cli.session_store import SessionStore
from agent_cli.session_store.codec import KINDS, UnknownOutput, output_from_json, output_to_json
from tests.fakes import calls, does, says, tool, tool_use
from tests.session_store.recordings import WORKSPACE, agent_with, faults, outputs
from tests.tables import each_row


@dataclass(frozen=True, slots=True)
class ProgressOutput(WidgetOutput):
    """A kind defined outside the program."""

    kind: ClassVar[str] = "progress"
    percent: int


@given(outputs)
@settings(deadline=None, derandomize=True)
def test_every_kind_of_entry_round_trips_through_json(output: Output) -> None:
    """S2-43: through real JSON text, not only through dicts."""
    text = json.dumps(output_to_json(output))

    assert output_from_json(json.loads(text)) == output


def test_every_kind_of_timeline_entry_is_registered() -> None:
    """S2-43: a kind missing from the registry would be loaded as an unknown entry."""
    declared = {value for value in vars(timeline).values() if isinstance(value, type)}
    ours = {cls for cls in declared if issubclass(cls, Output)} - {Output}

    assert ours == set(KINDS)


def test_entry_of_an_unknown_kind_is_kept_unchanged() -> None:
    """S2-04: a plugin that is not installed today may be tomorrow."""
    data: Block = {"kind": "hologram", "id": "a1", "at_ms": 7, "beams": [1, {"of": "light"}]}

    output = output_from_json(data)

    assert output == UnknownOutput("a1", 7, data)
    assert output_to_json(output) == data


def test_unknown_field_of_an_entry_is_ignored() -> None:
    """A newer version may add one; the entry must not become an unknown one."""
    block: Block = {"type": "text", "text": "hi"}
    data: Block = {
        "kind": "text",
        "id": "a",
        "at_ms": 1,
        "reply_id": "r",
        "block": block,
        "mood": "good",
    }

    assert output_from_json(data) == TextOutput("a", 1, "r", block)


@each_row("id", ["", "msg_1"])
def test_the_api_s_id_of_a_reply_is_written_where_there_is_one(id: str) -> None:
    """Entries of earlier versions, and of servers that give none, stay as they are."""
    output = ReplyOutput("a", 1, "r", "m", "end_turn", message_id=id)

    data = output_to_json(output)

    assert ("message_id" in data) == bool(id)
    assert output_from_json(data) == output


@each_row("tokens", [0, 5])
def test_the_tokens_of_thinking_stand_beside_the_usage(tokens: int) -> None:
    """Version 0.12 reads no entry whose usage has a figure that is new to it."""
    output = ReplyOutput("a", 1, "r", "m", "end_turn", Usage(3, 9, thinking_tokens=tokens))

    data = output_to_json(output)

    assert "thinking_tokens" not in data["usage"]
    assert data.get("thinking_tokens", 0) == tokens
    assert output_from_json(data) == output


def test_trim_of_an_earlier_version_has_no_note() -> None:
    """Its requests stay as they were sent."""
    data: Block = {"kind": "trim", "id": "a", "at_ms": 1, "first_kept_id": "b"}

    assert output_from_json(data | {"removed_messages": 2}) == TrimOutput("a", 1, "b", 2)


def test_entry_with_a_missing_field_is_kept_as_unknown() -> None:
    data: Block = {"kind": "trim", "id": "a", "at_ms": 1}

    assert output_from_json(data) == UnknownOutput("a", 1, data)


async def test_kind_defined_elsewhere_survives_a_run_and_a_restart(tmp_path: Path) -> None:
    """S2-04: neither the loop nor the store knows `progress`; the session keeps all of it."""
    progress = ProgressOutput("p1", 3, "t1", "bar", None, "42 %", 42)

    async def work(context: ToolContext) -> ToolResult:
        context.add_output(progress)
        return ToolResult.of("done")

    conversation = Conversation()
    session = SessionStore(tmp_path).create(conversation, WORKSPACE)
    script = [calls(tool_use("work", {}, "t1")), says("Finished.")]
    agent = agent_with(conversation, session, *script, tools=[tool("work", does(work))])
    await agent.prompt("Go")
    session.close()

    again, resumed = SessionStore(tmp_path).resume(session.id)
    again.close()

    assert conversation.prompts[0].output[1] == progress
    entry = resumed.prompts[0].output[1]
    assert isinstance(entry, UnknownOutput)
    assert output_to_json(entry) == output_to_json(progress)
    assert faults(resumed) == []
