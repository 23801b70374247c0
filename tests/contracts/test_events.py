"""An event's `type` lets a type checker narrow it to its class; mypy checks this file as well."""

from typing import assert_never, get_args

from agent_cli.contracts import events
from agent_cli.contracts.messages import UserMessage
from agent_cli.contracts.provider import StreamEvent, TextDelta, ToolCallStart
from agent_cli.contracts.tooling import ToolResult
from tests.tables import each_row


def told(event: events.CoreEvent) -> object:
    """Use the fields of each event, narrowed by `type` alone; no event may be missing."""
    if event.type == "agent_start" or event.type == "turn_start":
        return None
    if event.type == "agent_end":
        return event.stop_reason
    if event.type == "turn_end":
        return event.tool_results
    if event.type == "message_start" or event.type == "message_end":
        return event.message.role
    if event.type == "message_update":
        return event.event
    if event.type == "tool_execution_start":
        return event.args
    if event.type == "tool_execution_update":
        return event.partial_result.text
    if event.type == "tool_execution_end":
        return event.is_error
    assert_never(event)


def piece(event: StreamEvent) -> str:
    """Do the same for the model's stream events."""
    if event.type == "text_delta" or event.type == "thinking_delta":
        return event.delta
    return event.name if event.type == "toolcall_start" else ""


@each_row(
    ("event", "value"),
    [
        (events.AgentStart(), None),
        (events.AgentEnd((), "end_turn"), "end_turn"),
        (events.TurnEnd(None, ()), ()),
        (events.MessageEnd(UserMessage.of("a")), "user"),
        (events.ToolExecutionStart("t1", "look", {"a": 1}), {"a": 1}),
        (events.ToolExecutionUpdate("t1", "look", ToolResult.of("half")), "half"),
        (events.ToolExecutionEnd("t1", "look", ToolResult.of("ok"), False), False),
    ],
)
def test_event_type_narrows_the_event_to_its_class(event: events.CoreEvent, value: object) -> None:
    """S0-08: without `isinstance` and without a cast."""
    assert told(event) == value


def test_stream_event_type_narrows_the_event_to_its_class() -> None:
    assert [piece(e) for e in (TextDelta(0, "a"), ToolCallStart(0, "t1", "look"))] == ["a", "look"]


def test_event_types_are_unique_and_app_events_begin_with_app() -> None:
    """S0-08: core events have no such prefix."""
    core = [event.type for event in get_args(events.CoreEvent)]
    app = [event.type for event in get_args(events.AppEvent)]

    assert len({*core, *app}) == len(core) + len(app)
    assert all(name.startswith("app.") for name in app)
    assert not any("." in name for name in core)
