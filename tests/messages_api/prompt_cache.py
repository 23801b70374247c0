"""A simulated prompt cache: the tokens of a request that were read, written or neither.

Order, lookback and markers as documented: tools, then system, then messages; a marker reads the
longest entry at most 20 blocks before it and writes one at its own place. Deferred tools stand
where a result refers to them; the first one adds a preamble before everything else, and so does
the first that a message adds.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from tests.messages_api.script import Payload

LOOKBACK_BLOCKS = 20
_written = json.JSONEncoder(ensure_ascii=False).encode


@dataclass(slots=True)
class Segment:
    """One block of the prompt, for whom it speaks, and its marker's TTL."""

    role: str
    block: Payload
    ttl: str | None
    cacheable: bool = True

    @property
    def content(self) -> bytes:
        """Return it without markers. Made when it is asked for: who counts markers does not."""
        return self.role.encode() + b":" + canonical(self.block)


@dataclass(slots=True)
class PromptCache:
    """Entries of earlier requests. Never expires; prefixes below `minimum_tokens` are not kept."""

    minimum_tokens: int = 0
    _known: set[bytes] = field(default_factory=set[bytes])

    def usage(self, body: Payload) -> Payload:
        """Return the input side of `usage` for *body*, and remember its cache writes."""
        segments = segments_of(body)
        hashes, tokens = _prefixes(body, segments)
        markers = [at for at, segment in enumerate(segments) if segment.ttl]
        found = [
            back
            for at in markers
            for back in range(at, max(-1, at - LOOKBACK_BLOCKS), -1)
            if hashes[back] in self._known
        ]
        read = tokens[max(found)] if found else 0
        written = {"5m": 0, "1h": 0}
        reached = read
        for at in markers:
            if tokens[at] < self.minimum_tokens:
                continue
            self._known.add(hashes[at])
            written[segments[at].ttl or "5m"] += max(0, tokens[at] - reached)
            reached = max(reached, tokens[at])
        return {
            "input_tokens": (tokens[-1] if tokens else 0) - reached,
            "cache_read_input_tokens": read,
            "cache_creation_input_tokens": written["5m"] + written["1h"],
            "cache_creation": {
                "ephemeral_5m_input_tokens": written["5m"],
                "ephemeral_1h_input_tokens": written["1h"],
            },
        }


def segments_of(body: Payload) -> list[Segment]:
    """Return the prompt's blocks in cache order, with the automatic marker in its place."""
    system = body.get("system") or []
    if isinstance(system, str):
        system = [{"type": "text", "text": system}]
    tools = body.get("tools") or []
    deferred = {tool["name"]: tool for tool in tools if tool.get("defer_loading")}
    adds = any(
        re.search("tool_(addition|removal)", str(m["content"]))
        for m in body["messages"]
        if "system" in m["role"]
    )
    blocks: list[tuple[str, Payload]] = [("tools", {"preamble": True})] if deferred or adds else []
    blocks += [("tools", tool) for tool in tools if not tool.get("defer_loading")]
    blocks += [("system", block) for block in system]
    for message in body["messages"]:
        if "output_config" in message:
            config: Payload = {"type": "text", "text": "", "config": message["output_config"]}
            blocks.append((message["role"], config))
        blocks += [(message["role"], _loaded(block, deferred)) for block in blocks_of(message)]
    segments = [_segment(role, block) for role, block in blocks]
    automatic = body.get("cache_control")
    if automatic:
        for segment in reversed(segments):
            if segment.cacheable:
                segment.ttl = segment.ttl or automatic.get("ttl", "5m")
                break
    return segments


def _loaded(block: Payload, deferred: Mapping[str, Payload]) -> Payload:
    """Return *block* with the definitions that it refers to."""
    if "tool_reference" not in str(block.get("content")):
        return block
    inner = [{**deferred.get(str(each.get("tool_name")), {}), **each} for each in blocks_of(block)]
    return {**block, "content": inner}


def blocks_of(message: Payload) -> list[Payload]:
    """Return the content of *message* as a list of blocks."""
    content = message.get("content")
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content or [])


def without_markers(value: Any) -> Any:
    """Return *value* without any `cache_control` in it."""
    if isinstance(value, dict):
        return {key: without_markers(v) for key, v in value.items() if key != "cache_control"}
    return [without_markers(item) for item in value] if isinstance(value, list) else value


def canonical(value: Any) -> bytes:
    """Return *value* as bytes, without markers; key order counts, as it does for the API."""
    text = _written(value)
    if "cache_control" in text:
        text = _written(without_markers(value))
    return text.encode()


def _segment(role: str, block: Payload) -> Segment:
    marker = block.get("cache_control")
    thinks = block.get("type") in ("thinking", "redacted_thinking")
    empty = block.get("type") == "text" and not block.get("text")
    return Segment(
        role,
        block,
        marker.get("ttl", "5m") if marker else None,
        cacheable=not thinks and not empty,
    )


def _prefixes(body: Payload, segments: list[Segment]) -> tuple[list[bytes], list[int]]:
    """Return, for each segment, the hash of the prompt up to it and its size in tokens."""
    digest = sha256(str(body.get("model")).encode())
    # Thinking, effort and tool choice change the cache key of the messages, not the system's.
    settings = canonical([body.get(key) for key in ("thinking", "output_config", "tool_choice")])
    hashes: list[bytes] = []
    tokens: list[int] = []
    size = 0
    in_messages = False
    for segment in segments:
        if not in_messages and segment.role in ("user", "assistant"):
            digest.update(settings)
            in_messages = True
        content = segment.content
        digest.update(content)
        size += len(content)
        hashes.append(digest.copy().digest())
        tokens.append(size // 4)
    return hashes, tokens
