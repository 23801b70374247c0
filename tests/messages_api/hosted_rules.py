"""Web searches and pages that the API reads itself: their blocks, and the rules about them.

    reply(*search("python 3.15", ("What's new", "https://docs.python.org/3.15")), cited(...))

What was found is sealed: sent back changed, it is refused. Only the basic versions of the tools
are known, which run without code.
"""

import json
import re
from collections.abc import Iterator, Mapping
from hashlib import sha256

from tests.messages_api.refusals import Refusals, bad, is_older, merged_messages
from tests.messages_api.script import Payload

FIELDS = {
    "web_search_20250305": {
        "type", "name", "max_uses", "allowed_domains", "blocked_domains", "user_location",
        "cache_control", "defer_loading", "allowed_callers", "strict",
    },
    "web_fetch_20250910": {
        "type", "name", "max_uses", "allowed_domains", "blocked_domains", "citations",
        "max_content_tokens", "url_sources", "use_cache", "cache_control", "defer_loading",
        "allowed_callers", "strict",
    },
}  # fmt: skip
_DOMAIN = re.compile(r"[a-z0-9-]+(\.[a-z0-9-]+)+(/\S*)?")


def seal(*parts: str) -> str:
    """Return what this server encrypts *parts* to."""
    return "enc_" + sha256("\n".join(parts).encode()).hexdigest()


def search(
    query: str, *found: tuple[str, str], id: str = "", error: str = ""
) -> tuple[Payload, Payload]:
    """Return a search and its result: pages of (title, address), or an *error* code."""
    use_id = id or f"srvtoolu_{sha256(query.encode()).hexdigest()[:16]}"
    content: object = [
        {
            "type": "web_search_result",
            "title": title,
            "url": url,
            "encrypted_content": seal(title, url),
            "page_age": None,
        }
        for title, url in found
    ]
    if error:
        content = {"type": "web_search_tool_result_error", "error_code": error}
    return (
        {
            "type": "server_tool_use",
            "id": use_id,
            "name": "web_search",
            "input": {"query": query},
        },
        {"type": "web_search_tool_result", "tool_use_id": use_id, "content": content},
    )


def fetched(url: str, text: str, *, title: str = "", error: str = "") -> tuple[Payload, Payload]:
    """Return a page that was read, or an *error* code."""
    use_id = f"srvtoolu_{sha256(url.encode()).hexdigest()[:16]}"
    source = {"type": "text", "media_type": "text/plain", "data": text}
    content: Payload = {
        "type": "web_fetch_result",
        "url": url,
        "retrieved_at": "2026-11-26T00:00:00Z",
        "content": {"type": "document", "source": source, "title": title, "citations": None},
    }
    if error:
        content = {"type": "web_fetch_tool_result_error", "error_code": error}
    return (
        {"type": "server_tool_use", "id": use_id, "name": "web_fetch", "input": {"url": url}},
        {"type": "web_fetch_tool_result", "tool_use_id": use_id, "content": content},
    )


def cited(text: str, *found: tuple[str, str]) -> Payload:
    """Return a block of text that cites pages of (title, address)."""
    citations = [
        {
            "type": "web_search_result_location",
            "title": title,
            "url": url,
            "encrypted_index": seal("index", url, text),
            "cited_text": text,
        }
        for title, url in found
    ]
    return {"type": "text", "text": text, "citations": citations}


def usage_of(blocks: tuple[Payload, ...]) -> Payload:
    """Return the part of `usage` about *blocks*: what failed is not charged."""
    failed = {b.get("tool_use_id") for b in blocks if "error_code" in str(b.get("content"))}
    made = [b for b in blocks if b["type"] == "server_tool_use" and b["id"] not in failed]
    counts = {
        f"{name}_requests": sum(each["name"] == name for each in made)
        for name in ("web_search", "web_fetch")
    }
    return {"server_tool_use": counts} if made else {}


def runs(body: Payload, name: str) -> bool:
    """Return whether the API may run the tool *name* for *body*: declared, and loaded."""
    declared = next((t for t in body.get("tools") or [] if t["name"] == name and "type" in t), None)
    if declared is None:
        return False
    reference = json.dumps({"type": "tool_reference", "tool_name": name})
    return not declared.get("defer_loading") or reference in json.dumps(body["messages"])


def hosted(body: Payload) -> Refusals:
    """The definitions, the pairs of calls and results, and the seals."""
    yield from _definitions(body)
    merged = merged_messages(body["messages"])
    yield from _pairs(body, merged)
    yield from _seals(body["messages"])
    tools = [tool for tool in body.get("tools") or [] if "type" in tool]
    if tools and (body.get("output_config") or {}).get("format"):
        yield bad("citations", "output_config.format: citations cannot be used with a format")


def continues(message: Payload) -> bool:
    """Return whether a request may end with *message*, because the API paused in it."""
    content = message["content"] if isinstance(message["content"], list) else []
    return any(block["type"] == "server_tool_use" for block in content)


def _definitions(body: Payload) -> Refusals:
    for index, tool in enumerate(body.get("tools") or []):
        if "type" not in tool:
            continue
        kind = tool["type"]
        if kind not in FIELDS:
            yield bad("R1", f"tools.{index}: Input tag '{kind}' found using 'type' does not match")
        where = f"tools.{index}.{kind}"
        if is_older(body["model"]) and "defer_loading" in tool:
            yield bad("hosted", f"{where}.defer_loading: not supported on this model")
        if extra := set(tool) - FIELDS[kind]:
            yield bad("hosted", f"{where}: Extra inputs are not permitted: {sorted(extra)}")
        if tool.get("name") != kind.rpartition("_")[0]:
            yield bad("hosted", f"{where}.name: Input should be '{kind.rpartition('_')[0]}'")
        if tool.get("allowed_domains") and tool.get("blocked_domains"):
            yield bad("hosted", f"{where}: only one of allowed_domains and blocked_domains")
        for domain in [*(tool.get("allowed_domains") or []), *(tool.get("blocked_domains") or [])]:
            if not _DOMAIN.fullmatch(domain):
                yield bad("hosted", f"{where}: {domain!r} is not a domain")
        if type(tool.get("max_uses", 1)) is not int or tool.get("max_uses", 1) < 1:
            yield bad("hosted", f"{where}.max_uses: Input should be greater than 0")


def _pairs(body: Payload, merged: list[Payload]) -> Refusals:
    """R16: a call before its result, a result for each call."""
    asked: dict[str, tuple[str, int]] = {}
    for index, message in enumerate(merged):
        for at, block in enumerate(message["content"]):
            kind, place = block["type"], f"messages.{index}.content.{at}"
            if kind == "server_tool_use":
                if message["role"] != "assistant" or not isinstance(block.get("input"), dict):
                    yield bad("R16", f"{place}: Input tag 'server_tool_use' does not match")
                asked[block["id"]] = (block["name"], index)
            elif kind in ("web_search_tool_result", "web_fetch_tool_result"):
                if block["tool_use_id"] not in asked:
                    yield bad(
                        "R16",
                        f"unexpected `tool_use_id` found in `{kind}` blocks: "
                        f"{block['tool_use_id']}. Each `{kind}` block must have a corresponding "
                        "`server_tool_use` block before it.",
                    )
                asked.pop(block["tool_use_id"])
    for use_id, (name, index) in asked.items():
        behind = [block for message in merged[index + 1 :] for block in message["content"]]
        if any(block["type"] != "tool_result" for block in behind):
            yield bad(
                "R16",
                f"`{name}` tool use with id `{use_id}` was found without a corresponding "
                f"`{name}_tool_result` block",
            )
        if not runs(body, name):
            yield bad("R16", f"`{name}` tool use with id `{use_id}`: no `{name}` tool was provided")


def _seals(messages: list[Payload]) -> Refusals:
    for index, message in enumerate(messages):
        content = message["content"] if isinstance(message["content"], list) else []
        for at, block in enumerate(content):
            place = f"messages.{index}.content.{at}"
            for found in _found(block):
                if found.get("encrypted_content") != seal(found["title"], found["url"]):
                    yield bad("seal", f"{place}.{block['type']}: Invalid encrypted_content")
            for each in block.get("citations") or []:
                if each["type"] != "web_search_result_location":
                    continue
                if each.get("encrypted_index") != seal("index", each["url"], each["cited_text"]):
                    yield bad("seal", f"{place}.text.citations: Invalid encrypted_index")


def _found(block: Payload) -> Iterator[Mapping[str, str]]:
    if block["type"] == "web_search_tool_result" and isinstance(block["content"], list):
        yield from block["content"]
