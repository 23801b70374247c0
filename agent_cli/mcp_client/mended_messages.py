"""Read messages of servers, and mend those that the SDK would reject for a formal reason."""

import codecs
import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import TypeAlias

from mcp.shared.message import SessionMessage
from mcp_types import (
    INTERNAL_ERROR,
    ContentBlock,
    ErrorData,
    JSONRPCError,
    JSONRPCNotification,
    JSONRPCResponse,
    RequestId,
    jsonrpc_message_adapter,
)
from mcp_types.methods import validate_server_result
from pydantic import TypeAdapter, ValidationError

from agent_cli.contracts.input_faults import first_fault
from agent_cli.contracts.wording import printable
from agent_cli.mcp_client.reasons import NO_ANSWER
from agent_cli.mcp_client.schema_drafts import OF_SCHEMAS
from agent_cli.system.json_text import mend_surrogates
from agent_cli.system.shapes import is_array, is_object

OUTPUT_SCHEMA = "agent-cli/output-schema"
"""The key in a tool's `_meta` for its output schema, which is moved away from the SDK."""
TASK = "agent-cli/task"
"""The key in a result's `_meta` for the task that a call has started, which the SDK refuses."""
STRUCTURED = "agent-cli/structured"
"""The key in a result's `_meta` for structured content that is no object."""
Item: TypeAlias = SessionMessage | Exception
_BLOCKS: TypeAdapter[ContentBlock] = TypeAdapter(ContentBlock)
_KIND_CHARS = 40
_PARTS_MAX = 1000
# How an answer begins, and how one ends whose id is last.
_RESPONSE = re.compile(
    rb'\s*\{(?=.*"jsonrpc")'
    rb'(?:\s*"jsonrpc"\s*:\s*"2\.0"\s*,|\s*"id"\s*:\s*"?(?P<id>\d{1,18})"?\s*,){0,2}'
    rb'\s*"(?:result|error)"\s*:',
    re.DOTALL,
)
_ID_LAST = re.compile(rb'"id"\s*:\s*"?(\d{1,18})"?\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*\Z')
_END_BYTES = 100
_MESSAGE = re.compile(rb'\{\s*(?:"id"\s*:\s*"?\d{1,18}"?\s*,\s*)?"jsonrpc"')
_UNREADABLE = ErrorData(code=NO_ANSWER, message="its answer is not JSON")
_NOT_MCP = ErrorData(code=NO_ANSWER, message="its answer is not valid MCP")
# How the SDK's own errors about an answer begin; for a server's they would say no less.
_OWN_WORDS = {
    "SSE stream ended without a response": "its stream ended before the answer",
    "SSE stream ended and reconnection": "its stream broke off and could not be resumed",
    "SSE stream failed": "its stream cannot be read",
    "Failed to parse SSE message": _NOT_MCP.message,
    "Failed to parse JSON response": _NOT_MCP.message,
}
# Of these members, each result but that of a call has one.
_OF_OTHERS = {
    *("protocolVersion", "supportedVersions", "capabilities", "tools", "prompts", "resources"),
    *("resourceTemplates", "messages", "contents", "completion", "task", "taskId", "resultType"),
}
_BESIDE_CONTENT = ("structuredContent", "isError", "_meta")
_OBJECTS = ("inputSchema", "outputSchema", "annotations", "execution", "_meta")
_LISTS = ("tools", "prompts", "resources", "resourceTemplates", "content", "messages", "contents")


def parsed(text: bytes, *, asked: RequestId | None = None) -> Sequence[Item]:
    """Return the message in *text*; several if it is a batch, as revision 2025-03-26 had.

    Args:
        text: JSON, or something else that a server wrote.
        asked: The request that any answer in *text* belongs to, whatever id that has.
    """
    text = mend_surrogates(text.removeprefix(codecs.BOM_UTF8).decode(errors="replace").encode())
    try:
        message = jsonrpc_message_adapter.validate_json(text, by_name=False)
    except ValueError as error:
        if not text.lstrip().startswith((b"{", b"[")) and (found := _MESSAGE.search(text)):
            # A program wrote "Loading..." without a line break.
            return parsed(text[found.start() :], asked=asked)
        try:
            written = json.loads(text)
        except (ValueError, RecursionError):
            if not (answer := _RESPONSE.match(text)):
                return [error]
            # Its request must not wait. Where it broke off before its id, it may be the only one.
            last = _ID_LAST.search(text[-_END_BYTES:])
            id = answer["id"] or (last[1] if last else None)
            message = JSONRPCError(jsonrpc="2.0", id=int(id) if id else None, error=_UNREADABLE)
        else:
            batch = written if is_array(written) else [written]
            return [_message(each, asked) for each in batch] or [error]
    if asked is not None and isinstance(message, JSONRPCResponse | JSONRPCError):
        message.id = asked
    return [SessionMessage(message)]


def latest(items: Sequence[Item]) -> Sequence[Item]:
    """Return the *items* of one read, without notifications that a later item replaces.

    The SDK starts tasks for each notification, so ten thousand of them would hold back the answer
    behind them for seconds.
    """
    kept: dict[object, Item] = {}
    for item in items:
        key = replacement_key(item) or object()
        kept.pop(key, None)
        kept[key] = item
    return tuple(kept.values())


def replacement_key(item: Item) -> str:
    """Return the key of a notification that a later one with this key replaces, else ""."""
    message = item.message if isinstance(item, SessionMessage) else None
    if not isinstance(message, JSONRPCNotification):
        return ""
    params = message.params or {}
    match message.method:
        case "notifications/progress":
            return f"progress of {params.get('progressToken')!r}"
        case "notifications/resources/updated":
            return "updated"  # no resource is subscribed to
        case method if method.endswith("/list_changed"):
            return f"{method} {params!r}"
        case _:
            return ""


def answer_in(body: bytes, asked: RequestId) -> bytes | None:
    """Return the answer to the request *asked* in the *body* of an HTTP response, None without."""
    for item in parsed(body, asked=asked):
        if isinstance(item, SessionMessage) and isinstance(
            item.message, JSONRPCResponse | JSONRPCError
        ):
            with suppress(ValueError):  # nested too deeply
                return item.message.model_dump_json(by_alias=True, exclude_unset=True).encode()
    return None


def _message(written: object, asked: RequestId | None) -> Item:
    try:
        message = jsonrpc_message_adapter.validate_python(written, by_name=False)
    except (ValueError, RecursionError) as error:
        return (_mended_answer(written, asked) if is_object(written) else None) or error
    if asked is not None and isinstance(message, JSONRPCResponse | JSONRPCError):
        message.id = asked
    return SessionMessage(message)


def _mended_answer(written: Mapping[str, object], asked: RequestId | None) -> SessionMessage | None:
    """Return the answer that *written*, which has a formal fault, stands for; None without one."""
    id = written.get("id") if asked is None else asked
    if isinstance(id, float) and id.is_integer():
        id = int(id)
    id = id if isinstance(id, int | str) else None
    result, fault = written.get("result"), written.get("error")
    if "method" in written:
        return None
    if fault is not None:
        return SessionMessage(JSONRPCError(jsonrpc="2.0", id=id, error=_error(fault)))
    if id is None or not written.keys() & {"jsonrpc", "result"}:
        return None
    if is_object(result):
        return SessionMessage(JSONRPCResponse(jsonrpc="2.0", id=id, result=dict(result)))
    return SessionMessage(JSONRPCError(jsonrpc="2.0", id=id, error=_NOT_MCP))


def _error(written: object) -> ErrorData:
    """Return the error that *written*, e.g. a bare text, stands for."""
    error: Mapping[str, object] = written if is_object(written) else {"message": written}
    code, text = error.get("code"), error.get("message")
    return ErrorData(
        code=code if isinstance(code, int) else INTERNAL_ERROR,
        message=text if isinstance(text, str) else json.dumps(written),
        data=error.get("data"),
    )


def mended(item: Item, on_note: Callable[[str], None]) -> Item:
    """Return *item* without parts for which the SDK would reject the whole answer.

    *on_note* is called with a sentence for each tool that is left out.
    """
    if isinstance(item, SessionMessage) and isinstance(item.message, JSONRPCError):
        item.message.error = _in_own_words(item.message.error)
    if not isinstance(item, SessionMessage) or not isinstance(item.message, JSONRPCResponse):
        return item
    result = item.message.result
    # Many servers are written in Go, whose empty lists become null.
    result |= {name: [] for name in _LISTS if name in result and result[name] is None}
    if isinstance(cursor := result.get("nextCursor"), int | float):
        result["nextCursor"] = str(cursor)
    if "protocolVersion" in result:
        result["serverInfo"] = _mended_info(result.get("serverInfo"))
        offers = result.get("capabilities")
        result["capabilities"] = _php_objects(offers, offers) if is_object(offers) else {}
    if "content" in result or not result.keys() & _OF_OTHERS:
        # It may have taken effect, so that it is not lost for a formal reason.
        item.message.result = result = _mended_result(result)
    if is_object(task := result.get("task")) and "content" not in result:
        meta = result.get("_meta")
        result |= {"content": [], "_meta": {**(meta if is_object(meta) else {}), TASK: task}}
    if is_array(tools := result.get("tools")):
        checked = [_mended_tool(tool) for tool in tools]
        result["tools"] = [tool for tool in checked if _is_valid(tool, on_note)]
    if is_array(content := result.get("content")):
        # The SDK checks each part in the event loop: hundreds of thousands would stop the program.
        blocks = [_known_block(block) for block in content[:_PARTS_MAX]]
        if (more := len(content) - _PARTS_MAX) > 0:
            blocks.append(_known_block(f"({more:,} more parts of this result are left out)"))
        result["content"] = blocks
    if is_array(messages := result.get("messages")):
        for message in messages:
            if is_object(message) and message.get("content") is not None:
                message["content"] = _known_block(message["content"])
    return item


def _in_own_words(error: ErrorData) -> ErrorData:
    for beginning, words in _OWN_WORDS.items():
        if error.message.startswith(beginning):
            return ErrorData(code=NO_ANSWER, message=words)
    return error


def _mended_info(info: object) -> Mapping[str, object]:
    """Return the name and version of a server as texts, whatever it wrote."""
    written = info if is_object(info) else {}
    texts = {name: str(written.get(name) or "") for name in ("name", "version")}
    return {**written, **texts}


def _php_objects(written: Mapping[str, object], objects: Collection[str]) -> dict[str, object]:
    """Return *written* with {} for each empty list in the place of one of the *objects*."""
    return {key: {} if each == [] and key in objects else each for key, each in written.items()}


def _mended_result(result: Mapping[str, object]) -> dict[str, object]:
    """Return the result of a call with a list as content, and an object or nothing beside it."""
    mended = {name: value for name, value in result.items() if value is not None}
    content, structured = mended.get("content"), mended.get("structuredContent")
    if content is None:
        beside = {name: value for name, value in mended.items() if name not in _BESIDE_CONTENT}
        content = [json.dumps(beside, ensure_ascii=False)] if beside else []
    if structured is not None and not is_object(structured):
        # Allowed from revision 2026-07-28 on; the SDK refuses it in answers of an earlier one.
        meta = mended.get("_meta")
        mended["_meta"] = {**(meta if is_object(meta) else {}), STRUCTURED: structured}
        del mended["structuredContent"]
    mended["content"] = content if is_array(content) else [content]
    return mended


def _known_block(block: object) -> object:
    """Return a block of content, or a text in place of a block the SDK does not know."""
    if isinstance(block, str):
        return {"type": "text", "text": block}
    kind = block.get("type") if is_object(block) else None
    if is_object(block) and kind is not None:  # the SDK's model fills it in, and then refuses it
        for each in (block, _plain_block(block)):
            with suppress(ValueError, RecursionError):
                _BLOCKS.validate_python(each, by_name=False)
                return each
    named = f' of type "{printable(kind)[:_KIND_CHARS]}"' if isinstance(kind, str) else ""
    return {"type": "text", "text": f"(content{named}, which this program cannot read)"}


def _plain_block(block: Mapping[str, object]) -> Mapping[str, object]:
    """Return *block* without notes about it, and with the rest as the protocol has it."""
    plain = {name: value for name, value in block.items() if name not in ("annotations", "_meta")}
    match block.get("type"):
        case "text":
            text = block.get("text")
            plain["text"] = text if isinstance(text, str) else json.dumps(text, ensure_ascii=False)
        case "image" | "audio" as kind if "mimeType" not in block:
            # What an image is, its bytes say.
            plain["mimeType"] = block.get("mime_type") or f"{kind}/*"
        case "resource" if is_object(resource := block.get("resource")):
            plain["resource"] = {"uri": "", **resource}
        case _:
            pass
    return plain


def _mended_tool(tool: object) -> object:
    """Return *tool* without parts that only the strict rules of the newest revision reject."""
    if not is_object(tool):
        return tool
    mended = _php_objects(tool, _OBJECTS)
    if is_object(schema := mended.get("inputSchema")):
        mended["inputSchema"] = {"type": "object"} | _mended_root(schema)
    # The SDK would fetch references and match patterns without limit, so we check results.
    output, meta = mended.pop("outputSchema", None), mended.get("_meta")
    if is_object(output):
        mended["_meta"] = {**(meta if is_object(meta) else {}), OUTPUT_SCHEMA: output}
    return mended


def _mended_root(schema: Mapping[str, object]) -> dict[str, object]:
    """Return *schema* without null for absent keywords, and for objects that may be null."""
    written = _php_objects(schema, OF_SCHEMAS)
    root = {key: value for key, value in written.items() if value is not None}
    kinds = root.get("type")
    if is_array(kinds) and "object" in kinds:
        root["type"] = "object"
    return root


def _is_valid(tool: object, on_note: Callable[[str], None]) -> bool:
    if not is_object(tool):
        on_note("a tool is left out: it is not an object")
        return False
    name = tool.get("name") or "without a name"
    if tool.get("name") == "":
        on_note("a tool is left out: its name is empty")
        return False
    try:
        # The rules of the strictest revision; the negotiated one is not known here.
        validate_server_result("tools/list", "2025-11-25", {"tools": [tool]})
    except ValidationError as error:
        where, fault = first_fault(error, skip=len(("tools", 0)))
        on_note(f"tool {name} is left out: {where} {fault}")
        return False
    except (ValueError, RecursionError):
        on_note(f"tool {name} is left out: it is nested too deeply")
        return False
    return True
