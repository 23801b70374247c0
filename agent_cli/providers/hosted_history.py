"""Make the calls that a server ran itself valid in a history, for that server or another; pure."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from agent_cli.contracts.found_tools import names_hosted
from agent_cli.contracts.hosted_blocks import (
    error_of,
    has_hosted,
    inputs_of,
    is_result,
    is_use,
    sources,
    tool_of,
)
from agent_cli.contracts.messages import (
    AssistantMessage,
    LlmMessage,
    ToolResultMessage,
)
from agent_cli.contracts.timeline import Block, text_block
from agent_cli.contracts.wording import one_line

_SOURCES_MAX: Final = 10


def is_hosted(history: Iterable[LlmMessage]) -> bool:
    """Return whether a server ran calls for replies of *history*, or put its citations there."""
    return any(isinstance(each, AssistantMessage) and _is_foreign(each) for each in history)


def hosted_names(history: Iterable[LlmMessage]) -> set[str]:
    """Return the names of the tools that a server ran for *history*."""
    blocks = [block for each in history for block in _blocks(each)]
    used = {str(block.get("name")) for block in blocks if is_use(block)}
    return used | {tool_of(block) for block in blocks if is_result(block)}


def mended(history: Sequence[LlmMessage]) -> tuple[LlmMessage, ...]:
    """Return *history* in which each call of the server has its result, and the other way round.

    A pause in the middle of a call is valid only as long as nothing but results of tools follows.
    """
    if not is_hosted(history):
        return tuple(history)
    end = _paused_at(history)
    answered = {_of(block) for each in history for block in _blocks(each) if is_result(block)}
    asked: set[str] = set()
    kept: list[LlmMessage] = []
    for at, message in enumerate(history):
        if not isinstance(message, AssistantMessage):
            kept.append(message)
            continue
        content: list[Block] = []
        for block in message.content:
            if is_use(block) and not (_id(block) in answered or at == end):
                continue
            if is_result(block) and _of(block) not in asked:
                continue
            if is_use(block):
                asked.add(_id(block))
            content.append(block)
        same = len(content) == len(message.content)
        kept.append(message if same else replace(message, content=tuple(content)))
    return tuple(kept)


def as_text(history: Sequence[LlmMessage]) -> tuple[LlmMessage, ...]:
    """Return *history* for a server that did not run its calls: what they found as text.

    Of a page only its title and address are given: its words would stand in the model's own voice.
    """
    return tuple(
        replace(each, content=tuple(_blocks_as_text(each.content)))
        if isinstance(each, AssistantMessage) and _is_foreign(each)
        else without_references(each)
        for each in history
    )


def without_references(message: LlmMessage, names: Collection[str] | None = None) -> LlmMessage:
    """Return *message* without references to the server's own tools *names*, by default to any."""
    if not isinstance(message, ToolResultMessage):
        return message
    kept = tuple(
        each
        for each in message.content
        if not (names_hosted(each) and (names is None or each["tool_name"] in names))
    )
    return message if len(kept) == len(message.content) else replace(message, content=kept)


def _is_foreign(message: AssistantMessage) -> bool:
    cites = any("citations" in block for block in message.content)
    return cites or has_hosted(message.content)


def _blocks_as_text(content: Sequence[Block]) -> Iterator[Block]:
    uses = {_id(block): block for block in content if is_use(block)}
    for block in content:
        if is_result(block):
            yield text_block(_sentence(uses.get(_of(block)), block))
        elif is_use(block):
            continue
        elif "citations" in block:
            yield {key: value for key, value in block.items() if key != "citations"}
        else:
            yield block


def _sentence(use: Block | None, result: Block) -> str:
    words = inputs_of(use) if use else []
    call = " ".join((tool_of(result), *words[:1])).strip()
    if error := error_of(result):
        return f"[{call}: {error}]\n"
    found = [
        f"- {one_line(each.title)} {one_line(each.url, 300)}"
        for each in sources(result)[:_SOURCES_MAX]
    ]
    return "\n".join((f"[{call} found:", *found)) + "]\n"


def _paused_at(history: Sequence[LlmMessage]) -> int:
    """Return the position of the last reply, if a call of the server may go on behind it; or -1."""
    for at in reversed(range(len(history))):
        if isinstance(history[at], AssistantMessage):
            return at
        if not isinstance(history[at], ToolResultMessage):
            return -1
    return -1


def _blocks(message: LlmMessage) -> Sequence[Block]:
    return message.content if isinstance(message, AssistantMessage) else ()


def _id(block: Block) -> str:
    return str(block.get("id"))


def _of(block: Block) -> str:
    return str(block.get("tool_use_id"))
