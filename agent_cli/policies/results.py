"""Limits on results of tools: the length of each, and how long old, large ones stay in the request.

A truncated result has a notice; one that is already an excerpt (`full_chars`) gets the same notice
with the full length.

Old results are left out while that saves money; a line says where they are. Taking something out of
the middle makes the model read all behind it anew, at a price that the smaller requests rarely earn
back. After a pause the cache is gone anyway: whatever is left out then is not paid for again, and
the change itself costs nothing.
"""

import re
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from agent_cli.contracts.events import EventSink, Notice, ToolCall
from agent_cli.contracts.messages import LEFT_OUT, CustomMessage
from agent_cli.contracts.provider import Price
from agent_cli.contracts.timeline import (
    Block,
    Output,
    Pending,
    ReplyOutput,
    ToolOutput,
    Usage,
    text_block,
)
from agent_cli.contracts.tooling import ToolResult
from agent_cli.contracts.wording import CUT, counted, dollars
from agent_cli.core.projection import noted, numbered
from agent_cli.core.turn import Turn
from agent_cli.policies.cache_watch import CACHE_LIFE_S
from agent_cli.policies.estimate import content_tokens
from agent_cli.system.event_loop import in_background
from agent_cli.system.loading import late_pattern
from agent_cli.system.paths import real_path

DEFAULT_LIMIT_CHARS = 40_000

KEPT: Final = 10
"""The newest results stay, however large."""
LARGE_TOKENS: Final = 1_000
LEAST_TOKENS: Final = 10_000


def truncate_tool_result(text: str, tool_name: str, limit: int = DEFAULT_LIMIT_CHARS) -> str:
    """Return *text*, or its first *limit* characters and a notice; 0 is no limit."""
    if not limit or len(text) <= limit:
        return text
    return text[: _whole(text, limit)] + _notice(tool_name, limit, len(text))


_MAY_SHOW = late_pattern(r"://[^/\s@]+@|(?:authorization|-token)\s*:", re.IGNORECASE)
MASK: Final = "[hidden: a credential of git]"


class HiddenCredentials:
    """Fills part of `finish_result`: the model reads no credential of the repository.

    `git remote -v` and `.git/config` show the token in the address of a remote, or the header that
    a checkout in a workflow leaves there.
    """

    def __init__(self, root: Path) -> None:
        """Know the repository around *root*, as it is at each result."""
        self._root = root

    async def __call__(self, result: ToolResult) -> ToolResult:
        """Return *result* without credentials that the configuration of git holds."""
        if not _MAY_SHOW.search(result.text):
            return result
        known = await in_background(self._known)  # of a thousand submodules, too
        return replace(result, content=tuple(_without(known, block) for block in result.content))

    def _known(self) -> Collection[str]:
        from agent_cli.sandbox.git_config import credentials  # few results may show one
        from agent_cli.sandbox.git_folders import configuration

        texts = configuration(real_path(self._root))
        return {each for text in texts for each in credentials(text)}


def _without(known: Collection[str], block: Block) -> Block:
    from agent_cli.sandbox.git_config import credentials_replaced

    if block["type"] != "text":
        return block
    return {**block, "text": credentials_replaced(str(block.get("text", "")), known, MASK)}


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


class OldResults:
    """A `prepare` contributor."""

    def __init__(
        self,
        price: Price,
        *,
        used_s: Callable[[], float] = lambda: 0.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Weigh the prices of *price*.

        Args:
            price: Prices tokens.
            used_s: Returns when the cache was last read, as far as this program knows.
            clock: Returns the time in seconds.
        """
        self._price = price
        self._used_s = used_s
        self._clock = clock

    def __call__(self, turn: Turn) -> None:
        """Leave out old results if the cache is gone and that saves money; tell the user."""
        conversation = turn.conversation
        if conversation.open_calls() or not self._is_cold(turn):
            return
        found = _old(conversation.shown())
        tokens = sum(map(_tokens, found))
        saved = self._price(turn.model.id, Usage(cache_write_5m_tokens=tokens))
        if tokens < LEAST_TOKENS or not saved:
            return
        ids = {call.id for call in found}
        numbers = {out.id: at for at, out in numbered(conversation.prompts) if out.id in ids}
        conversation.note(CustomMessage(LEFT_OUT, {**numbers}))
        turn.emit(
            Notice(
                "info",
                f"{counted(len(found), 'old tool result')} left out (about {tokens:,} tokens,"
                f" {dollars(saved)} with this request): the cache was gone. The model reads them"
                " with recall; history.leave_out_old_results = false keeps them",
            )
        )

    def _is_cold(self, turn: Turn) -> bool:
        prompts = reversed(turn.conversation.prompts)
        outputs = (output for prompt in prompts for output in reversed(prompt.output))
        last = next((output for output in outputs if isinstance(output, ReplyOutput)), None)
        used_s = max(last.at_ms / 1_000, self._used_s()) if last else self._clock()
        return self._clock() - used_s > CACHE_LIFE_S


def _old(outputs: Sequence[Output]) -> list[ToolOutput]:
    calls = [each for each in outputs if isinstance(each, ToolOutput)]
    notes = noted(outputs, LEFT_OUT)
    gone = {entry for note in notes if isinstance(note, dict) for entry in note}
    return [call for call in calls[:-KEPT] if call.id not in gone and _tokens(call) > LARGE_TOKENS]


def _tokens(call: ToolOutput) -> int:
    """Return the tokens of a result's text and of its PDFs, which can be read again.

    An image does not count: what it showed may be gone.
    """
    if isinstance(call.result, Pending):
        return 0
    return content_tokens(block for block in call.result.content if block["type"] != "image")
