"""Sessions of Codex ("rollouts"): one JSON object a line, of a `type` and a `payload`.

Of these, `response_item` is what the model was sent and what it answered. Earlier versions wrote
the items without a wrapper.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Final

from agent_cli.contracts.timeline import Block, Json
from agent_cli.foreign_sessions.timeline import (
    CallRecord,
    ForeignRecord,
    ReplyRecord,
    ResultRecord,
    SummaryRecord,
    UserRecord,
    at_ms,
)
from agent_cli.system.shapes import is_array, is_object

_Line = Mapping[str, Json]

# Messages in the user's role that the program wrote.
_CONTEXT: Final = (
    *("<environment_context>", "<user_instructions>", "<permissions instructions>"),
    *("<skills_instructions>", "<turn_aborted>", "<collaboration_mode>", "<apps_instructions>"),
    *("# AGENTS.md instructions for", "<subagent_notification>", "<model_switch>", "<skill>"),
    *("<recommended_plugins>", "<app-context>"),
)
# Before it, an editor's extension and the app name open and attached files.
_WRAPPED: Final = ("# Context from my IDE setup:", "# Files mentioned by the user:")
_REQUEST: Final = "## My request for Codex:"
_RESULTS: Final = ("function_call_output", "custom_tool_call_output")


def opening(line: _Line) -> tuple[str, str]:
    """Return the workspace and the first prompt, as far as *line* has them."""
    payload = _payload(line)
    cwd = payload.get("cwd") if line.get("type") == "session_meta" else None
    title = ""
    if payload.get("type") == "message" and payload.get("role") == "user":
        title = " ".join(_request(str(block.get("text", ""))) for block in _user_blocks(payload))
    return cwd if isinstance(cwd, str) else "", title


def _request(text: str) -> str:
    """Return the typed text of a prompt that an editor or the app sent."""
    is_wrapped = text.lstrip().startswith(_WRAPPED)
    return text.partition(_REQUEST)[2].strip() or text if is_wrapped else text


def records_in(lines: list[_Line]) -> list[ForeignRecord]:
    """Return the records of the session, in order."""
    records: list[ForeignRecord] = []
    model = ""
    for line in lines:
        payload = _payload(line)
        match line.get("type"):
            case "turn_context":
                model = str(payload.get("model") or model)
            case "compacted":
                if isinstance(summary := payload.get("message"), str) and summary:
                    records.append(SummaryRecord(at_ms(line), summary))
            case "event_msg":
                if payload.get("type") == "thread_rolled_back":
                    _roll_back(records, payload.get("num_turns"))
            case _:
                _add(records, payload, at_ms(line), model)
    return records


def _payload(line: _Line) -> Mapping[str, Json]:
    payload = line.get("payload")
    return payload if is_object(payload) else line


def _add(records: list[ForeignRecord], item: Mapping[str, Json], at: int, model: str) -> None:
    match item.get("type"), item.get("role"):
        case "message", "user":
            if blocks := tuple(_user_blocks(item)):
                records.append(UserRecord(at, blocks))
        case "message", "assistant":
            _reply(records, at, model).parts.extend(_texts(item))
        case (("function_call" | "custom_tool_call" | "local_shell_call"), _):
            _reply(records, at, model).parts.append(_call(item))
        case str(kind), _ if kind in _RESULTS:
            blocks, is_error = _output(item.get("output"))
            records.append(ResultRecord(str(item.get("call_id")), blocks, is_error))
        case "web_search_call", _:
            _reply(records, at, model).parts.append(f"[web search: {item.get('action')}]")
        case _:
            return  # reasoning, and what other versions add


def _reply(records: list[ForeignRecord], at: int, model: str) -> ReplyRecord:
    if records and isinstance(records[-1], ReplyRecord):
        return records[-1]
    reply = ReplyRecord(at, model)
    records.append(reply)
    return reply


def _roll_back(records: list[ForeignRecord], turns: Json) -> None:
    """Remove the last prompts, which the user took back."""
    for _ in range(turns if isinstance(turns, int) else 0):
        starts = [number for number, each in enumerate(records) if isinstance(each, UserRecord)]
        del records[starts[-1] if starts else 0 :]


def _call(item: Mapping[str, Json]) -> CallRecord:
    name, arguments = str(item.get("name") or "local_shell"), item.get("arguments")
    value: Json = item.get("action") or {"input": item.get("input")}
    if isinstance(arguments, str):
        try:
            value = json.loads(arguments)
        except (ValueError, RecursionError):
            value = {"arguments": arguments}
    return CallRecord(str(item.get("call_id") or item.get("id")), name, value)


def _output(output: Json) -> tuple[tuple[Block, ...], bool]:
    if is_object(output):
        text = output.get("content")
        return (_text(str(text)),), output.get("success") is False
    if is_array(output):
        return tuple(_blocks(output)), False
    return (_text(str(output if output is not None else "")),), False


def _user_blocks(item: Mapping[str, Json]) -> Iterator[Block]:
    content = item.get("content")
    for block in _blocks(content if is_array(content) else [content]):
        if not str(block.get("text", "")).lstrip().startswith(_CONTEXT):
            yield block


def _blocks(content: list[Json]) -> Iterator[Block]:
    for each in content:
        if isinstance(each, str):
            yield _text(each)
        elif is_object(each) and isinstance(url := each.get("image_url"), str):
            kind, is_data, data = url.removeprefix("data:").partition(";base64,")
            if is_data:
                source: Json = {"type": "base64", "media_type": kind, "data": data}
                yield {"type": "image", "source": source}
        elif is_object(each) and "text" in each:
            yield _text(str(each["text"]))


def _texts(item: Mapping[str, Json]) -> Iterator[str]:
    content = item.get("content")
    blocks = _blocks(content if is_array(content) else [content])
    return (str(block.get("text", "")) for block in blocks)


def _text(text: str) -> Block:
    return {"type": "text", "text": text}
