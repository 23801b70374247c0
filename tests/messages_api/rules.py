"""The refusals of the Messages API, rule by rule, numbered as in the reference notes.

Each check is a generator of refusals over the parsed body; the first one is the answer.
"""

import json
import re
from base64 import b64decode
from collections.abc import Callable, Mapping

from tests.messages_api.compaction_rules import compaction
from tests.messages_api.hosted_rules import continues, hosted
from tests.messages_api.prompt_cache import blocks_of, segments_of
from tests.messages_api.refusals import Refusal, Refusals, bad, is_older, merged_messages
from tests.messages_api.script import Payload
from tests.messages_api.tool_rules import EFFORTS, system_messages, tool_pairs, tools

MAX_BODY_BYTES = 32 * 1024 * 1024
MAX_MESSAGES = 100_000
MAX_IMAGE_CHARS = 10 * 1024 * 1024
MANY_IMAGES = 20
MANY_IMAGES_SIDE = 2_000
SMALL_MODELS = ("claude-haiku-4-5", "claude-opus-4-5", "claude-sonnet-4-5")
IMAGE_TYPES = {"image/jpeg", "image/png", "image/gif", "image/webp"}
FIELDS = {
    "model", "max_tokens", "messages", "cache_control", "compaction", "container", "diagnostics",
    "fallbacks", "inference_geo", "metadata", "output_config", "service_tier", "speed",
    "stop_sequences", "stream", "system", "thinking", "tool_choice", "tools",
}  # fmt: skip
SCHEMA_WORDS = {
    "type", "enum", "const", "$ref", "description", "title", "$defs", "definitions", "properties",
    "required", "additionalProperties", "items", "anyOf", "format",
}  # fmt: skip
SMALL_OUTPUT = 64_000
LARGE_OUTPUT = 128_000
BINDING_BETA = "thinking-binding-controls-2026-08-01"
FALLBACK_BETA = "server-side-fallback-2026-07-01"
TASK_BUDGET_BETA = "task-budgets-2026-03-13"


COUNT_PATH = "/v1/messages/count_tokens"
COUNTED_FIELDS = FIELDS - {"max_tokens", "metadata", "stop_sequences", "stream", "service_tier"}


def check_count(headers: Mapping[str, str], raw: bytes, key: str | None) -> Refusal | None:
    """Return the first rule that a request for a count breaks; it takes fewer fields."""
    body = json.loads(raw)
    for name in body:
        if name not in COUNTED_FIELDS:
            return bad("fields", f"{name}: Extra inputs are not permitted")
    asked = {**body, "max_tokens": 1, "stream": True}
    return check("POST", "/v1/messages", headers, json.dumps(asked).encode(), key)


def check(
    method: str, path: str, headers: Mapping[str, str], raw: bytes, key: str | None
) -> Refusal | None:
    """Return the first rule that the request breaks."""
    if (method, path) != ("POST", "/v1/messages"):
        return Refusal("route", 404, "not_found_error", f"Not found: {method} {path}")
    given = headers.get("authorization", "").removeprefix("Bearer ").strip()
    if not given:
        return Refusal("auth", 401, "authentication_error", "Authorization header is required")
    if key is not None and given != key:
        return Refusal("auth", 401, "authentication_error", "invalid bearer token")
    if len(raw) > MAX_BODY_BYTES:
        return Refusal("R7", 413, "request_too_large", "Request exceeds the maximum size")
    if "anthropic-version" not in headers:
        return bad("version", "anthropic-version: header is required")
    try:
        body = json.loads(raw)
    except ValueError:
        return bad("json", "The request body is not valid JSON")
    betas = set(headers.get("anthropic-beta", "").split(","))
    return next(_all(body, betas), None)


def _all(body: Payload, betas: set[str]) -> Refusals:
    yield from _shape(body)
    merged = merged_messages(body["messages"])
    checks: tuple[Callable[[], Refusals], ...] = (
        lambda: _fields(body, betas),
        lambda: _roles(body),
        lambda: _content(body),
        lambda: tool_pairs(merged),
        lambda: tools(body),
        lambda: hosted(body),
        lambda: system_messages(body, betas),
        lambda: compaction(body, betas),
        lambda: _thinking_config(body, betas),
        lambda: _output_format(body),
        lambda: _cache_markers(body),
        lambda: _images(body),
    )
    for each in checks:
        yield from each()


def _shape(body: Payload) -> Refusals:
    for name in ("model", "max_tokens", "messages"):
        if name not in body:
            yield bad("R1", f"{name}: Field required")
    if type(body["max_tokens"]) is not int or body["max_tokens"] < 0:
        yield bad("R1", "max_tokens: Input should be a valid integer greater than or equal to 0")
    if not isinstance(body["messages"], list) or not body["messages"]:
        yield bad("R1", "messages: at least one message is required")
    if len(body["messages"]) > MAX_MESSAGES:
        yield Refusal("R7", 413, "request_too_large", "Too many messages")
    for index, message in enumerate(body["messages"]):
        roles = ("user", "assistant", "system")
        if not isinstance(message, dict) or message.get("role") not in roles:
            yield bad("R1", f"messages.{index}.role: Input should be 'user' or 'assistant'")
        blocks: list[object] = [*blocks_of(message)]
        for at, block in enumerate(blocks):
            if not isinstance(block, Mapping) or "type" not in block:
                yield bad("R1", f"messages.{index}.content.{at}.type: Field required")


def _fields(body: Payload, betas: set[str]) -> Refusals:
    for name in ("temperature", "top_p", "top_k"):
        if name in body:
            yield bad("R11", f"{name}: sampling parameters are no longer supported")
    for name in body:
        if name not in FIELDS:
            yield bad("fields", f"{name}: Extra inputs are not permitted")
    if "block_binding" in (body.get("thinking") or {}) and BINDING_BETA not in betas:
        yield bad("fields", "thinking.block_binding: Extra inputs are not permitted")
    yield from _fallbacks(body, betas)
    if budget := (body.get("output_config") or {}).get("task_budget"):
        if TASK_BUDGET_BETA not in betas:
            yield bad("fields", "output_config.task_budget: Extra inputs are not permitted")
        if budget.get("type") != "tokens" or budget.get("total", 0) < 20_000:
            yield bad("task_budget", "output_config.task_budget.total: at least 20000 tokens")
        if is_older(body["model"]) or body["model"] == "claude-sonnet-5":
            yield bad("task_budget", "output_config.task_budget: not supported for this model")
    if body.get("stream") is not True:
        yield bad("stream", "stream: this test server only streams")
    largest = SMALL_OUTPUT if is_older(body["model"]) else LARGE_OUTPUT
    if body["max_tokens"] > largest:
        yield bad(
            "R12",
            f"max_tokens: {body['max_tokens']} > {largest}, which is the maximum allowed number "
            f"of output tokens for {body['model']}",
        )


def _fallbacks(body: Payload, betas: set[str]) -> Refusals:
    """A chain of models, and the marks in replies that more than one model wrote."""
    chain = body.get("fallbacks")
    if chain is not None and FALLBACK_BETA not in betas:
        yield bad("fields", "fallbacks: Extra inputs are not permitted")
    if chain is not None and not chain:
        yield bad("fallbacks", "fallbacks: List should have at least 1 item after validation")
    for index, entry in enumerate(chain or []):
        if set(entry) - {"model", "max_tokens", "thinking", "output_config", "speed"}:
            yield bad("fallbacks", f"fallbacks.{index}: Extra inputs are not permitted")
        largest = SMALL_OUTPUT if is_older(entry["model"]) else LARGE_OUTPUT
        if entry.get("max_tokens", body["max_tokens"]) > largest:
            yield bad("R12", f"fallbacks.{index}.max_tokens: more than {largest}")
    for index, message in enumerate(body["messages"]):
        kinds = [block["type"] for block in blocks_of(message)]
        if "fallback" not in kinds:
            continue
        if FALLBACK_BETA not in betas:
            sentence = "Input tag 'fallback' does not match any of the expected tags"
            yield bad("fallbacks", f"messages.{index}.content: {sentence}")
        last = len(kinds) - kinds[::-1].index("fallback") - 1
        if "tool_use" in kinds[:last]:
            sentence = "tool_use blocks before the final fallback block are not permitted"
            yield bad("fallbacks", f"messages.{index}.content: {sentence}")


def _roles(body: Payload) -> Refusals:
    messages = body["messages"]
    begins = (blocks_of(messages[0]) or [{}])[0].get("type")
    if messages[0]["role"] != "user" and begins != "compaction":
        yield bad("R3", "messages: first message must use the user role")
    last = messages[-1]
    if last["role"] == "assistant" and "compaction" not in body:
        if not (is_older(body["model"]) or continues(last)):
            yield bad(
                "R4",
                "This model does not support assistant message prefill. "
                "The conversation must end with a user message.",
            )
        text = (blocks_of(last) or [{}])[-1].get("text", "")
        if text != text.rstrip():
            yield bad("R5", "messages: final assistant content cannot end with trailing whitespace")


def _content(body: Payload) -> Refusals:
    for index, message in enumerate(body["messages"]):
        blocks = blocks_of(message)
        final_assistant = message["role"] == "assistant" and message is body["messages"][-1]
        needs_content = not final_assistant and "output_config" not in message
        if (not blocks or message["content"] == "") and needs_content:
            yield bad(
                "R10",
                f"messages.{index}: all messages must have non-empty content "
                "except for the optional final assistant message",
            )
        yield from _texts("messages", blocks)
        for block in blocks:
            inner = block.get("content")
            if block["type"] == "tool_result" and isinstance(inner, list):
                yield from _texts("messages", inner)
            if message["role"] == "assistant" and block["type"] == "document":
                yield bad("R11", "messages: document blocks are not permitted in assistant turns")
            if message["role"] == "user" and block["type"] == "text" and "citations" in block:
                yield bad("R11", "messages: citations are not permitted on user text blocks")
    if isinstance(body.get("system"), list):
        yield from _texts("system", body["system"])


def _texts(where: str, blocks: list[Payload]) -> Refusals:
    for block in blocks:
        if block["type"] == "text" and "cache_control" in block and not block["text"]:
            yield bad("R38", "cache_control cannot be set for empty text blocks")
        if block["type"] == "text" and not block["text"]:
            yield bad("R8", f"{where}: text content blocks must be non-empty")
        if block["type"] == "text" and not block["text"].strip():
            yield bad("R9", f"{where}: text content blocks must contain non-whitespace text")


def _thinking_config(body: Payload, betas: set[str]) -> Refusals:
    model = body["model"]
    thinking = body.get("thinking") or {}
    kind = thinking.get("type")
    if kind == "enabled" and not is_older(model) and not re.search(r"-4-6$", model):
        yield bad(
            "R29",
            '"thinking.type.enabled" is not supported for this model. Use '
            '"thinking.type.adaptive" and "output_config.effort" to control thinking behavior.',
        )
    if kind == "disabled" and re.match(r"claude-(fable|mythos)-5|claude-(opus|sonnet)-5-5", model):
        yield bad("R29", '"thinking.type.disabled" is not supported for this model.')
    if kind == "between_tools" and model != "claude-sonnet-5-5":
        yield bad("R29", '"thinking.type.between_tools" is not supported for this model.')
    if kind == "adaptive" and is_older(model):
        yield bad("R29", "adaptive thinking is not supported on this model")
    budget = thinking.get("budget_tokens", 1024)
    if kind == "enabled" and not 1024 <= budget < body["max_tokens"]:
        yield bad("R29", "thinking.enabled.budget_tokens: at least 1024, less than max_tokens")
    effort = (body.get("output_config") or {}).get("effort")
    if effort is not None and effort not in EFFORTS:
        yield bad("effort", f"output_config.effort: {effort} is not one of {sorted(EFFORTS)}")
    if effort is not None and is_older(model) and "opus" not in model:
        yield bad("effort", "output_config.effort: not supported for this model")


def _output_format(body: Payload) -> Refusals:
    """The part of JSON Schema by which answers are generated (R24)."""
    form = (body.get("output_config") or {}).get("format")
    if form is None:
        return
    if set(form) != {"type", "schema"} or form["type"] != "json_schema":
        yield bad("R24", "output_config.format: Extra inputs are not permitted")
    left = [form["schema"]]
    while left:
        each = left.pop()
        if extra := set(each) - SCHEMA_WORDS:
            yield bad("R24", f"output_config.format.schema: {sorted(extra)} is not supported")
        if each.get("type") == "object" and each.get("additionalProperties") is not False:
            yield bad("R24", "output_config.format.schema: additionalProperties must be false")
        for word in ("properties", "$defs", "definitions"):
            left += each.get(word, {}).values()
        left += [*each.get("anyOf", []), *([each["items"]] if "items" in each else [])]


def _cache_markers(body: Payload) -> Refusals:
    for message in body["messages"]:
        for block in blocks_of(message):
            if block["type"] in ("thinking", "redacted_thinking") and "cache_control" in block:
                yield bad("R34", f"{block['type']}.cache_control: Extra inputs are not permitted")
    explicit = [s for s in segments_of({**body, "cache_control": None}) if s.ttl]
    automatic = body.get("cache_control")
    placed = [segment for segment in segments_of(body) if segment.ttl]
    found = max(len(placed), len(explicit) + bool(automatic and len(placed) > len(explicit)))
    if found > 4:
        yield bad(
            "R35", f"A maximum of 4 blocks with cache_control may be provided. Found {found}."
        )
    if automatic and len(placed) == len(explicit) and placed:
        if placed[-1].ttl != automatic.get("ttl", "5m"):
            yield bad("R37", "cache_control: conflicts with the marker of the last block")
    elif automatic and len(explicit) >= 4:
        yield bad("R37", "cache_control: no breakpoint is left for it")
    ttls = [segment.ttl for segment in placed]
    if "5m" in ttls and "1h" in ttls[ttls.index("5m") :]:
        yield bad(
            "R36",
            "cache_control.ttl: a ttl='1h' cache_control block must not come after a ttl='5m' "
            "cache_control block. Note that blocks are processed in the following order: "
            "tools, system, messages.",
        )


def _images(body: Payload) -> Refusals:
    yield from _many(body)
    for index, message in enumerate(body["messages"]):
        for block in blocks_of(message):
            inner = block.get("content")
            kinds = {each["type"] for each in inner} if isinstance(inner, list) else set()
            if block.get("is_error") and kinds - {"text"}:
                yield bad(
                    "is_error",
                    f"messages.{index}.content.0.tool_result: all content must be type `text` if"
                    " `is_error` is true",
                )
            for each in [block, *(inner if isinstance(inner, list) else [])]:
                source = each.get("source") or {}
                if each.get("type") == "document" and source.get("type") == "base64":
                    yield from _pdf(f"messages.{index}.content.0.pdf", source)
                if each.get("type") != "image" or source.get("type") != "base64":
                    continue
                where = f"messages.{index}: image.source.base64"
                if source.get("media_type") not in IMAGE_TYPES:
                    yield bad("R39", f"{where}.media_type: one of {sorted(IMAGE_TYPES)}")
                if len(source.get("data", "")) > MAX_IMAGE_CHARS:
                    yield bad("R39", f"{where}.data: image exceeds 10 MB maximum")


def _pdf(where: str, source: Payload) -> Refusals:
    if source.get("media_type") != "application/pdf":
        yield bad("R39", f"{where}.source.base64.media_type: Input should be 'application/pdf'")
    data = b64decode(source.get("data", ""))
    if not data.startswith(b"%PDF-"):
        yield bad("R39", f"{where}.source.base64.data: The PDF specified was not valid.")
    if b"/Encrypt" in data:
        yield bad("R39", f"{where}.source.base64.data: The PDF specified is password protected.")


def _many(body: Payload) -> Refusals:
    """R41 for PNG files, and R42 without the pages of documents."""
    found: list[Payload] = []
    for message in body["messages"]:
        for block in blocks_of(message):
            inner = block.get("content")
            found += [block, *(inner if isinstance(inner, list) else [])]
    given = [each["source"].get("data", "") for each in found if each.get("type") == "image"]
    limit = 100 if body["model"].startswith(SMALL_MODELS) else 600
    if len(given) > limit:
        yield bad("R42", f"messages: too many images: {len(given)} > {limit}")
    for data in given if len(given) > MANY_IMAGES else ():
        head = b64decode(data[:32]) if data.startswith("iVBORw0KGgo") else b""
        if max(int.from_bytes(head[16:20]), int.from_bytes(head[20:24])) > MANY_IMAGES_SIDE:
            yield bad(
                "R41",
                "messages: At least one of the image dimensions exceed max allowed size for "
                f"many-image requests: {MANY_IMAGES_SIDE} pixels",
            )
