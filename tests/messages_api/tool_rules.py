"""Rules about tools and about calls and their results."""

import re

from tests.messages_api.refusals import Refusals, bad, binds_thinking, is_older
from tests.messages_api.script import Payload

TOOL_NAME = re.compile(r"^[a-zA-Z0-9_-]{1,64}$")
CALL_NAME = re.compile(r"^[a-zA-Z0-9_-]{1,200}$")
EFFORTS = {"low", "medium", "high", "xhigh", "max"}
MESSAGE_EFFORT_BETA = "mid-conversation-output-config-2026-07-01"
MESSAGE_EFFORT_MODEL = re.compile(
    r"claude-(fable|mythos)-5-[12]$|claude-(opus|sonnet|haiku)-5-5$|claude-opus-5$"
)
TOOL_CHANGES_BETA = "mid-conversation-tool-changes-2026-07-01"
INLINE_TOOLS_BETA = "inline-tools-2026-09-15"
CALL_ID = re.compile(r"^[a-zA-Z0-9_-]+$")
TOOL_FIELDS = {
    "name", "description", "input_schema", "type", "cache_control", "strict", "defer_loading",
    "eager_input_streaming", "input_examples", "allowed_callers",
}  # fmt: skip


def tool_pairs(merged: list[Payload]) -> Refusals:
    """Every call is answered in the next message, and every answer has a call."""
    seen: set[str] = set()
    for index, message in enumerate(merged):
        asked = [b["id"] for b in message["content"] if b["type"] == "tool_use"]
        if len(set(asked)) < len(asked) or seen & set(asked):
            yield bad("R17", "messages: `tool_use` ids must be unique")
        seen |= set(asked)
        yield from _calls(index, message["content"])
        follower = merged[index + 1]["content"] if index + 1 < len(merged) else []
        yield from _unanswered(index, asked, follower, is_last=index + 1 == len(merged))
        before = merged[index - 1]["content"] if index else []
        yield from _unasked(index, message["content"], before)


def _calls(index: int, blocks: list[Payload]) -> Refusals:
    """Calls of earlier replies are validated like new ones."""
    for at, block in enumerate(blocks):
        place = f"messages.{index}.content.{at}.tool_use"
        if block["type"] != "tool_use":
            continue
        if not CALL_NAME.match(str(block.get("name", ""))):
            yield bad("call", f"{place}.name: String should have at most 200 characters")
        if not CALL_ID.match(str(block.get("id", ""))):
            yield bad("call", f"{place}.id: String should match pattern '^[a-zA-Z0-9_-]+$'")
        if not isinstance(block.get("input"), dict):
            yield bad("call", f"{place}.input: Input should be a valid dictionary")


def _unanswered(
    index: int, asked: list[str], follower: list[Payload], *, is_last: bool
) -> Refusals:
    first = follower[: len(asked)]
    answered = {block.get("tool_use_id") for block in first if block["type"] == "tool_result"}
    missing = [each for each in asked if each not in answered]
    if missing and not is_last:
        yield bad(
            "R14",
            f"messages.{index}: `tool_use` ids were found without `tool_result` blocks immediately "
            f"after: {', '.join(missing)}. Each `tool_use` block must have a corresponding "
            "`tool_result` block in the next message.",
        )


def _unasked(index: int, blocks: list[Payload], before: list[Payload]) -> Refusals:
    asked = {block["id"] for block in before if block["type"] == "tool_use"}
    for at, block in enumerate(blocks):
        if block["type"] == "tool_result" and block.get("tool_use_id") not in asked:
            yield bad(
                "R15",
                f"messages.{index}.content.{at}: unexpected `tool_use_id` found in `tool_result` "
                f"blocks: {block.get('tool_use_id')}. Each `tool_result` block must have a "
                "corresponding `tool_use` block in the previous message.",
            )
        if block["type"] == "tool_result":
            asked.discard(block.get("tool_use_id"))


def tools(body: Payload) -> Refusals:
    """Definitions and `tool_choice`."""
    names: set[str] = set()
    for index, tool in enumerate(body.get("tools") or []):
        if not TOOL_NAME.match(tool.get("name", "")):
            yield bad("R18", f"tools.{index}.custom.name: String should match pattern")
        if tool["name"] in names:
            yield bad("R18", "tools: Tool names must be unique.")
        names.add(tool["name"])
        if "type" in tool:
            continue  # the API's own: `hosted_rules`
        for name in set(tool) - TOOL_FIELDS:
            yield bad("R18", f"tools.{index}.custom.{name}: Extra inputs are not permitted")
        if not isinstance(tool.get("eager_input_streaming", True), bool):
            yield bad("R18", f"tools.{index}.custom.eager_input_streaming: Input should be boolean")
        if (tool.get("input_schema") or {}).get("type") != "object":
            yield bad("R18", f"tools.{index}.custom.input_schema.type: Input should be 'object'")
    yield from _deferred(body)
    choice = (body.get("tool_choice") or {}).get("type")
    if choice in ("any", "tool") and binds_thinking(body["model"]):
        yield bad("R19", 'tool_choice: type "tool" and "any" are not supported for this model.')
    if choice not in (None, "none") and not body.get("tools"):
        yield bad("R21", "tool_choice: may only be specified while providing tools")


def system_messages(body: Payload, betas: set[str]) -> Refusals:
    """Messages in the system's role between the others (R6), and the tools that they add."""
    messages = body["messages"]
    names = {tool["name"] for tool in body.get("tools") or []}
    defined: set[str] = set()
    for index, message in enumerate(messages):
        if message["role"] != "system":
            continue
        where = f"messages.{index}"
        model = body["model"]
        if is_older(model) or re.search(r"-4-[67]$|^claude-sonnet-5$", model):
            yield bad("R6", f"{where}: role 'system' is not supported on this model")
        yield from _message_effort(where, body, message, betas)
        if not message["content"]:
            continue  # it may stand anywhere
        after = messages[index + 1]["role"] if index + 1 < len(messages) else "assistant"
        if not index or messages[index - 1]["role"] != "user" or after != "assistant":
            yield bad("R6", f"{where}: a system message must directly follow a user turn, and be")
        for at, block in enumerate(message["content"]):
            kind, place = block["type"], f"{where}.content.{at}"
            if kind not in ("text", "tool_addition", "tool_removal"):
                yield bad("R6", f"{place}: Input tag '{kind}' does not match")
            if kind != "text":
                yield from _tool_change(place, block, names, defined, betas)


def _tool_change(
    place: str, block: Payload, names: set[str], defined: set[str], betas: set[str]
) -> Refusals:
    """A tool that is added, withdrawn or offered again.

    *names* are those of the tools, *defined* those that earlier blocks have added.
    """
    kind, tool = block["type"], block["tool"]
    if tool["type"] == "tool_reference":
        if TOOL_CHANGES_BETA not in betas:
            yield bad("R6", f"{place}: Input tag '{kind}' does not match")
        if set(tool) != {"type", "name"} or tool["name"] not in names | defined:
            yield bad("R26", "tool_reference_unresolved")
        if kind == "tool_addition" and tool["name"] in defined and INLINE_TOOLS_BETA not in betas:
            yield bad("R6", f"{place}: a reference to an added tool needs {INLINE_TOOLS_BETA}")
        return
    if INLINE_TOOLS_BETA not in betas or kind != "tool_addition":
        yield bad("R6", f"{place}: Input tag '{kind}' does not match")
    definition = tool.get("definition") or {}
    if set(tool) != {"type", "definition"} or "defer_loading" in definition:
        yield bad("R26", f"{place}.tool_addition.tool: Extra inputs are not permitted")
    if not TOOL_NAME.match(definition.get("name", "")):
        yield bad("R18", f"{place}.tool_addition.tool.name: should match pattern")
    if definition["name"] in names:
        yield bad("R26", "tool_name_conflict")
    defined.add(definition["name"])
    if (definition.get("input_schema") or {}).get("type") != "object":
        yield bad("R18", f"{place}.tool_addition.tool.input_schema: must be an object")


def _message_effort(where: str, body: Payload, message: Payload, betas: set[str]) -> Refusals:
    """An effort from the user's turn before it on."""
    config = message.get("output_config")
    if config is None:
        if not message["content"]:
            yield bad("R6", f"{where}: a system message needs content or output_config")
        return
    if MESSAGE_EFFORT_BETA not in betas or not MESSAGE_EFFORT_MODEL.match(body["model"]):
        yield bad("effort", f"{where}.output_config: Extra inputs are not permitted")
    if set(config) - {"effort"} or config.get("effort") not in EFFORTS:
        yield bad("effort", f"{where}.output_config.effort: one of {sorted(EFFORTS)}")
    if (body.get("thinking") or {}).get("type") in ("disabled", "between_tools"):
        yield bad("effort", f"{where}.output_config.effort: not while thinking is disabled")


def _deferred(body: Payload) -> Refusals:
    """Tools that are loaded where a result refers to them, alone in it."""
    tools = body.get("tools") or []
    deferred = [tool for tool in tools if tool.get("defer_loading")]
    if deferred and len(deferred) == len(tools):
        yield bad("R25", "All tools have defer_loading: true")
    if any("cache_control" in tool for tool in deferred):
        yield bad("R25", "tools: cache_control cannot be used with defer_loading")
    known = {tool["name"] for tool in tools}
    for message in body["messages"]:
        content = message["content"] if isinstance(message["content"], list) else []
        for block in content:
            inner = block.get("content") if block.get("type") == "tool_result" else None
            parts = inner if isinstance(inner, list) else []
            named = [each for each in parts if each.get("type") == "tool_reference"]
            if named and len(named) < len(parts):
                yield bad("tool_reference", "tool_reference cannot be mixed with other content")
            if any(set(each) - {"type", "tool_name", "cache_control"} for each in named):
                yield bad("tool_reference", "tool_reference: Extra inputs are not permitted")
            if missing := {each["tool_name"] for each in named} - known:
                yield bad("R26", f"tool_reference: not among the tools: {sorted(missing)}")
