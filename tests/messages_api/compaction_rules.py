"""Summaries that the API makes and signs: what it refuses, and the form of its answer."""

import json
import re
from dataclasses import replace
from hashlib import sha256

from tests.messages_api.prompt_cache import blocks_of
from tests.messages_api.refusals import Refusals, bad
from tests.messages_api.script import Payload, Reply
from tests.messages_api.tool_rules import INLINE_TOOLS_BETA, TOOL_CHANGES_BETA

COMPACTION_BETA = "compact-2026-09-04"
_MODEL = re.compile(r"claude-((fable|mythos)-5(-[12])?|opus-(4-[678]|5|5-5)|sonnet-(4-6|5|5-5))$")
_INSTRUCTIONS_MAX = 16_384


def compaction(body: Payload, betas: set[str]) -> Refusals:
    """The request for a summary, and the block in later requests."""
    yield from _blocks(body, betas)
    config = body.get("compaction")
    if config is None:
        return
    if COMPACTION_BETA not in betas:
        yield bad("compaction", f"`compaction` requires anthropic-beta: {COMPACTION_BETA}")
    if not _MODEL.match(body["model"]):
        yield bad("compaction", "compaction: not supported for this model")
    if config.get("type") != "summarize" or set(config) - {"type", "instructions"}:
        yield bad("compaction", "compaction: Extra inputs are not permitted")
    if len(config.get("instructions") or "") > _INSTRUCTIONS_MAX:
        yield bad("compaction", f"compaction.instructions: at most {_INSTRUCTIONS_MAX} characters")
    for name in ("context_management", "stop_sequences"):
        if name in body:
            yield bad("compaction", f"compaction: cannot be combined with {name}")
    if (body.get("tool_choice") or {}).get("type") in ("any", "tool"):
        yield bad("compaction", "compaction: cannot be combined with a forced tool_choice")
    output = body.get("output_config") or {}
    if "format" in output or "remaining" in (output.get("task_budget") or {}):
        yield bad("compaction", "compaction: cannot be combined with this output_config")
    last = body["messages"][-1]
    if last["role"] == "assistant" and any(b["type"] == "tool_use" for b in blocks_of(last)):
        yield bad("compaction", "compaction_incomplete_turn")


def _blocks(body: Payload, betas: set[str]) -> Refusals:
    found = [
        (index, at, block)
        for index, message in enumerate(body["messages"])
        for at, block in enumerate(blocks_of(message))
        if block["type"] == "compaction"
    ]
    for index, at, block in found:
        place = f"messages.{index}.content.{at}"
        if COMPACTION_BETA not in betas:
            tags = "Input tag 'compaction' does not match any of the expected tags"
            yield bad("compaction", f"{place}: {tags}")
        if (index, at) != (0, 0):
            yield bad("compaction", f"{place}: compaction_block_misplaced")
        extra = set(block) - {"type", "content", "signature", "encrypted_content", "tool_changes"}
        if extra - {"cache_control"}:
            yield bad("compaction", f"{place}.compaction: Extra inputs are not permitted")
        if block.get("signature") != _signature(body["model"], block):
            refusal = bad("compaction", f"{place}: the block does not verify")
            yield replace(refusal, code="compaction_signature_invalid")
        for change in block.get("tool_changes") or ():
            is_inline = change["tool"]["type"] == "tool_definition"
            needed = INLINE_TOOLS_BETA if is_inline else TOOL_CHANGES_BETA
            if needed not in betas:
                yield bad("compaction", f"{place}: Input tag '{change['type']}' does not match")
    if len(found) > 1:
        yield bad("compaction", "messages: more than one compaction block")


def signed(body: Payload, answer: Reply, usage: Payload) -> tuple[Reply, Payload]:
    """Return *answer* to a request for a summary as the API gives it, and its usage.

    The text becomes one block, with the changes of the tools. A reply that calls a tool, or is cut
    off, has no block at all.
    """
    text = "".join(block["text"] for block in answer.blocks if block["type"] == "text")
    is_whole = answer.stop_reason == "end_turn" and text.strip()
    block: Payload = {"type": "compaction", "content": text, "tool_changes": _changes(body)}
    block["signature"] = _signature(body["model"], block)
    made = replace(
        answer,
        blocks=(block,) if is_whole else (),
        stop_reason="compaction" if is_whole else answer.stop_reason,
    )
    figures = {name: value for name, value in usage.items() if name != "_output_tokens"}
    one = {"type": "compaction", **figures, "output_tokens": usage.get("_output_tokens", 1)}
    return made, {"input_tokens": 0, "output_tokens": 0, "_output_tokens": 0, "iterations": [one]}


def _changes(body: Payload) -> list[Payload]:
    """Return the changes that take the tools of *body* to those at the end of its messages."""
    declared = {tool["name"] for tool in body.get("tools") or []}
    definitions: dict[str, Payload] = {}
    net: dict[str, Payload] = {}
    blocks = [block for message in body["messages"] for block in blocks_of(message)]
    for change in (each for block in blocks for each in block.get("tool_changes") or [block]):
        if change["type"] not in ("tool_addition", "tool_removal"):
            continue
        name = change["tool"].get("name") or change["tool"]["definition"]["name"]
        is_addition = change["type"] == "tool_addition"
        if is_addition and "definition" in change["tool"]:
            definitions[name] = change
        net.pop(name, None)
        if is_addition != (name in declared):
            net[name] = definitions.get(name, change) if is_addition else change
    return [*net.values()]


def _signature(model: str, block: Payload) -> str:
    signed = json.dumps([model, block.get("content"), block.get("tool_changes")])
    return "cmp_" + sha256(signed.encode()).hexdigest()[:24]
