"""The JSON form of events is an interface: pinned field by field."""

import dataclasses
import json
import typing

from agent_cli.contracts import events
from agent_cli.contracts.messages import AssistantMessage, ToolResultMessage, UserMessage
from agent_cli.contracts.provider import TextDelta, ToolCallStart
from agent_cli.contracts.timeline import Json, Prompt, TextOutput, ToolOutput, Usage, text_block
from agent_cli.contracts.tooling import ToolResult
from agent_cli.core.loop_config import LoopConfig
from agent_cli.headless.report import to_json, to_line
from agent_cli.session_store.codec import output_from_json, prompt_from_json
from tests.fakes import calls, returns, scripted_agent, tool, tool_use
from tests.session_store.recordings import ask_about
from tests.tables import each_row

USER = UserMessage.of("Hi")
REPLY = AssistantMessage((text_block("Hello"),), usage=Usage(1, 2), model="m", timestamp=5)
RESULT = ToolResultMessage("c1", "read", (text_block("text"),), timestamp=6)
TEXT = {"type": "text", "text": "Hello"}
USAGE = {
    "input_tokens": 1,
    "output_tokens": 2,
    "cache_read_tokens": 0,
    "cache_write_5m_tokens": 0,
    "cache_write_1h_tokens": 0,
    "cost_microdollars": 0,
    "held_microdollars": 0,
    "web_searches": 0,
    "thinking_tokens": 0,
}
SHOWN_REPLY = {
    "role": "assistant",
    "content": [TEXT],
    "stop_reason": "end_turn",
    "usage": USAGE,
    "model": "m",
    "error": None,
    "timestamp": 5,
    "beside": [],
}


def no_snapshot() -> AssistantMessage:
    raise AssertionError("the whole message is not built for every piece of it")


def test_message_update_holds_only_the_new_piece_of_a_reply() -> None:
    """Repeating the whole text each time would be quadratic."""
    assert to_json(events.MessageUpdate(no_snapshot, TextDelta(0, "Hel"))) == {
        "type": "message_update",
        "event": {"type": "text_delta", "index": 0, "delta": "Hel"},
    }
    assert to_json(events.MessageUpdate(no_snapshot, ToolCallStart(1, "c1", "read"))) == {
        "type": "message_update",
        "event": {"type": "toolcall_start", "index": 1, "id": "c1", "name": "read"},
    }


@each_row(
    ("event", "shown"),
    [
        (events.AgentStart(), {"type": "agent_start"}),
        (events.MessageEnd(REPLY), {"type": "message_end", "message": SHOWN_REPLY}),
        (
            events.ToolExecutionEnd("c1", "read", ToolResult.of("x", {"n": 1}), is_error=False),
            {
                "type": "tool_execution_end",
                "tool_call_id": "c1",
                "tool_name": "read",
                "result": {
                    "content": [{"type": "text", "text": "x"}],
                    "details": {"n": 1},
                    "is_error": False,
                    "full_chars": None,
                    "is_denied": False,
                },
                "is_error": False,
            },
        ),
        (
            events.PromptOutput("p1", 0, TextOutput("o1", 7, "r1", text_block("Hello"))),
            {
                "type": "app.prompt_output",
                "prompt_id": "p1",
                "index": 0,
                "output": {
                    "kind": "text",
                    "id": "o1",
                    "at_ms": 7,
                    "reply_id": "r1",
                    "block": TEXT,
                },
                "replaced": False,
                "only_reads": False,
            },
        ),
        (
            events.ApprovalRequested(events.ToolCall("c1", "bash", {"command": "x"}, "why")),
            {
                "type": "app.approval_requested",
                "call": {"id": "c1", "name": "bash", "input": {"command": "x"}, "reason": "why"},
            },
        ),
        (
            events.Retry(1, 5, 10.0, "busy", restarted=True),
            {
                "type": "app.retry",
                "attempt": 1,
                "max_attempts": 5,
                "wait_s": 10.0,
                "reason": "busy",
                "restarted": True,
            },
        ),
    ],
)
def test_event_is_written_as_its_fields_with_the_type_first(
    event: events.Event, shown: dict[str, object]
) -> None:
    """Readers look at the first key to identify the event."""
    written = to_json(event)

    assert written == shown
    assert next(iter(written)) == "type"


SAMPLES: dict[object, object] = {
    str: "x",
    int: 1,
    float: 1.5,
    bool: True,
    int | None: None,
}


@each_row("kind", typing.get_args(events.Event))
def test_every_event_has_a_json_form(kind: type) -> None:
    """A new event with a field that has no JSON form fails here and not in a run."""
    made = {
        "messages": (USER, REPLY, RESULT),
        "message": REPLY,
        "tool_results": (RESULT,),
        "snapshot": no_snapshot,
        "event": TextDelta(0, "x"),
        "args": {"path": "a"},
        "partial_result": ToolResult.of("x"),
        "result": ToolResult.of("x"),
        "prompt": Prompt("p1", "local", "normal", 1),
        "output": TextOutput("o1", 7, "r1", text_block("x")),
        "calls": (events.ToolCall("c1", "read", {}),),
        "call": events.ToolCall("c1", "read", {}),
        "trouble": "network",
        "reply": Usage(),
        "total": Usage(),
        "level": "info",
        "error": None,
    }
    hints = typing.get_type_hints(kind, localns={"Event": events.Event})
    fields = {
        field.name: made[field.name] if field.name in made else SAMPLES[hints[field.name]]
        for field in dataclasses.fields(kind)
    }

    line = to_line(to_json(kind(**fields)))

    assert json.loads(line)["type"] == kind.type  # type: ignore[attr-defined]  # all have one


async def test_record_can_be_rebuilt_from_stream_json_lines() -> None:
    """S2-10, S2-45: the JSON alone tells success, error and pending apart."""
    script = calls(*(tool_use(name, {}, f"t_{name}") for name in ("look", "missing", "write")))
    agent, _, told = scripted_agent(
        script,
        tools=[tool("look", returns("a tree")), tool("write", returns("written"))],
        options=LoopConfig(authorize_tool=ask_about("write"), approval="defer"),
    )
    await agent.prompt("Go")
    prompts = dict[str, Prompt]()

    for line in [json.loads(to_line(to_json(event))) for event in told]:
        match line["type"]:
            case "app.prompt_started":
                prompts[line["prompt"]["id"]] = prompt_from_json(line["prompt"])
            case "app.prompt_output":
                place = slice(line["index"], line["index"] + line["replaced"])
                prompts[line["prompt_id"]].output[place] = [output_from_json(line["output"])]
            case _:
                pass

    [asked] = agent.conversation.prompts
    assert [*prompts.values()] == [dataclasses.replace(asked, state="running", usage=Usage())]
    states = [out.result.state for out in asked.output if isinstance(out, ToolOutput)]
    assert states == ["success", "error", "pending"]


def test_event_with_any_content_stays_one_printable_line() -> None:
    """Some readers split at U+2028 or a carriage return, or fail on a lone surrogate."""
    line = to_line(to_json(events.Notice("info", "a\nb\r\u2028\ud800\x1b\x7f é")))

    assert line.isascii()
    assert line.isprintable()
    assert len(line.splitlines()) == 1
    assert json.loads(line)["text"] == "a\nb\r\u2028\ud800\x1b\x7f é"


def test_infinite_number_is_null() -> None:
    """JSON has none; many parsers stop at `Infinity`."""
    details: Json = {"rate": float("inf"), "share": [float("nan"), 0.5]}
    event = events.ToolExecutionEnd("t1", "look", ToolResult.of("x", details), is_error=False)

    shown = json.loads(to_line(to_json(event)))

    assert shown["result"]["details"] == {"rate": None, "share": [None, 0.5]}
