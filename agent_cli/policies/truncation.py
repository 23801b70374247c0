"""The final limit on the length of a tool's result; a truncated result has a notice.

A result that is already an excerpt (`full_chars`) gets the same notice with the full length.
"""

from dataclasses import replace

from agent_cli.contracts.events import EventSink, Notice, ToolCall
from agent_cli.contracts.timeline import Block, text_block
from agent_cli.contracts.tooling import ToolResult
from agent_cli.contracts.wording import CUT

DEFAULT_LIMIT_CHARS = 40_000


def truncate_tool_result(text: str, tool_name: str, limit: int = DEFAULT_LIMIT_CHARS) -> str:
    """Return *text*, or its first *limit* characters and a notice; 0 is no limit."""
    if not limit or len(text) <= limit:
        return text
    return text[: _whole(text, limit)] + _notice(tool_name, limit, len(text))


class Truncation:
    """Fills `finish_result`: the text blocks of a result are one text, images stay as they are."""

    def __init__(self, emit: EventSink, *, limit_chars: int = DEFAULT_LIMIT_CHARS) -> None:
        self._emit = emit
        self._limit = limit_chars

    def __call__(self, call: ToolCall, result: ToolResult) -> ToolResult:
        """Return *result* within the limit; a warning is issued if it was cut."""
        length = len(result.text)
        shown = min(length, self._limit or length)
        total = length if result.full_chars is None else max(length, result.full_chars)
        if shown == total:
            return result
        warning = f"the result of {call.name} was cut to {shown:,} of {total:,} characters"
        self._emit(Notice("warning", warning))
        notice = _notice(call.name, shown, total)
        if shown < length:
            content = _cut(result.content, shown, notice)
        else:
            content = (*result.content, text_block(notice))
        return replace(result, content=content)


def _cut(content: tuple[Block, ...], limit: int, notice: str) -> tuple[Block, ...]:
    """Cut the text at *limit* and append *notice* there."""
    kept: list[Block] = []
    left, ended = limit, False
    for block in content:
        if block["type"] != "text":
            kept.append(block)
            continue
        text = str(block.get("text", ""))
        if len(text) <= left:
            kept.append(block)
        elif not ended:
            kept.append({**block, "text": text[: _whole(text, left)] + notice})
            ended = True
        left = 0 if ended else left - len(text)
    return tuple(kept)


def _notice(tool_name: str, limit: int, length: int) -> str:
    shown = f"Showing {limit:,} of {length:,} characters from {tool_name}"
    return f"{CUT}{shown}]"


def _whole(text: str, limit: int) -> int:
    """Return *limit*, or one less if it would split a surrogate pair."""
    splits = "\ud800" <= text[limit - 1 : limit] <= "\udbff" and "\udc00" <= text[limit] <= "\udfff"
    return limit - 1 if splits else limit
