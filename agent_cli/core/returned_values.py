"""Normalise the values that tools and hooks return: results, paths, messages; bound reasons.

A plugin's tool may return anything. One malformed block in the record would make every later
request of the session fail.
"""

import json
from asyncio import CancelledError, current_task
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final, TypeAlias, TypeVar, cast

from agent_cli.contracts.errors import AgentCliError, ToolError
from agent_cli.contracts.events import ToolCall
from agent_cli.contracts.messages import (
    AssistantMessage,
    CustomMessage,
    Message,
    ToolResultMessage,
    UserMessage,
)
from agent_cli.contracts.options import all_of, require
from agent_cli.contracts.timeline import Json, ToolOutput
from agent_cli.contracts.tooling import Tool, ToolResult
from agent_cli.system.logger import logger, traceback_of
from agent_cli.system.shapes import is_group, is_sequence

_MESSAGES: Final = (UserMessage, AssistantMessage, ToolResultMessage, CustomMessage)
_NO_JSON: Final = (TypeError, ValueError, RecursionError)
T = TypeVar("T")
Maybe: TypeAlias = T | Awaitable[T]
_log = logger(__name__)


def as_result(tool_name: str, returned: object) -> ToolResult:
    """Return *returned* as a result; an error result if it cannot be one."""
    if isinstance(returned, str):
        return ToolResult.of(returned)
    if not isinstance(returned, ToolResult):
        return _refused(tool_name, f"{type(returned).__name__}, which is not a result")
    if not _is_content(returned.content):
        return _refused(tool_name, "content that does not consist of text and image blocks")
    details = as_json(returned.details)
    return returned if details is returned.details else replace(returned, details=details)


def failure(call: ToolOutput, error: BaseException) -> ToolResult:
    """Return the result for the model of a tool that raised; the log has the traceback."""
    if isinstance(error, SystemExit):
        message = f"{call.name} tried to end the program with sys.exit({error.code!r})."
        return ToolResult.error(message)
    _log.error(
        "tool failed",
        tool=call.name,
        tool_call_id=call.tool_call_id,
        exception=traceback_of(error),
    )
    return ToolResult.error(_text_of(error))


def _text_of(error: BaseException) -> str:
    """Return the text of a tool's *error* for the model; of a group, the texts of all its errors.

    The group's own text is only their number, and a `ToolError` in it may say what to do.
    """
    if is_group(error):
        return "; ".join(dict.fromkeys(map(_text_of, error.exceptions)))
    # The text of a KeyError is the key alone, from which the model learns nothing.
    text = "" if isinstance(error, KeyError) else str(error)
    return text or f"{type(error).__name__}: {error}".removesuffix(": ")


def as_json(value: object) -> Json:
    """Return *value*, with text in place of parts that JSON cannot hold.

    Listeners write it as JSON: one that fails loses the event.
    """
    with suppress(*_NO_JSON):
        json.dumps(value)
        return cast("Json", value)
    with suppress(*_NO_JSON):
        text: Json = json.loads(json.dumps(value, default=str, skipkeys=True))
        return text
    return None


def _is_content(content: object) -> bool:
    return is_sequence(content) and all(map(_is_block, content))


def _is_block(block: object) -> bool:
    """Return whether *block* has the shape that the API requires of its type."""
    match block:
        case (
            {"type": "text", "text": str()}
            | {"type": "image" | "document", "source": dict()}
            | {"type": "tool_reference", "tool_name": str()}
            | {"type": "search_result", "source": str(), "title": str(), "content": list()}
        ):
            return isinstance(block, dict)
        case _:
            return False


def _refused(tool_name: str, what: str) -> ToolResult:
    return ToolResult.error(f"{tool_name} returned {what}: report this to the tool's author.")


# Reasons why a call did not run or did not end, worded for the model.

REASON_CHARS_MAX: Final = 4_000
_TAIL_CHARS: Final = 1_000


def bounded(reason: str) -> str:
    """Return *reason*, with its middle left out where it is too long.

    A reason may quote a model, a tool or a hook; the length limit of results does not cover it.
    """
    left_out = len(reason) - REASON_CHARS_MAX
    if left_out <= 0:
        return reason
    head, tail = reason[: REASON_CHARS_MAX - _TAIL_CHARS], reason[-_TAIL_CHARS:]
    return f"{head}\n[… {left_out:,} characters left out …]\n{tail}"


def shortened(result: ToolResult) -> ToolResult:
    """Return *result* without the middle of long texts, where no `finish_result` shortens it."""
    content = tuple(
        {**block, "text": bounded(str(block["text"]))} if block["type"] == "text" else block
        for block in result.content
    )
    return replace(result, content=content)


def is_stopped() -> bool:
    """Return whether the task is being cancelled; else a CancelledError came from within it."""
    task = current_task()
    return task is not None and task.cancelling() > 0


async def settled(value: "Maybe[T]") -> T:
    """Return *value*, awaited if it must be.

    Raises:
        AgentCliError: The awaitable was cancelled and the caller was not; a CancelledError would
            look like an abort of the run.
    """
    if not isinstance(value, Awaitable):
        return value
    try:
        return await cast("Awaitable[T]", value)
    except CancelledError:
        if is_stopped():
            raise
        raise AgentCliError("it was cancelled from within") from None


async def settled_messages(value: "Maybe[Sequence[Message]]", *, what: str) -> Sequence[Message]:
    """Return the messages that the hook *what* returned, awaited if they must be.

    Raises:
        AgentCliError: They are no messages, or the hook was cancelled.
    """
    return all_of(await settled(value), *_MESSAGES, what=f"the messages of {what}")


FinishResult: TypeAlias = Callable[[ToolCall, ToolResult], Maybe[ToolResult]]


async def revised(finish: FinishResult | None, call: ToolCall, result: ToolResult) -> ToolResult:
    """Return *result* as *finish*, the hook `finish_result`, revises it.

    Raises:
        AgentCliError: *finish* returned something else.
    """
    if finish is None:
        return result
    returned = await settled(finish(call, result))
    require(returned, ToolResult, what="what finish_result returns")
    return returned


TakeMessages: TypeAlias = Callable[[], Maybe[Sequence[UserMessage] | None]]


async def queued(take: TakeMessages | None) -> Sequence[UserMessage]:
    """Return the messages of *take*; a missing hook and None both count as no messages.

    Raises:
        AgentCliError: They are no sequence: a text would be one message for each character.
    """
    messages = await settled(take()) if take else None
    return () if messages is None else all_of(messages, what="steering and follow-up messages")


def declared_paths(tool: Tool, params: object) -> tuple[Sequence[str], Sequence[str]]:
    """Return the paths that *tool* reads and writes with *params*.

    Raises:
        ToolError: The tool's own function failed, or returned something else.
    """
    try:
        return _as_paths(tool.reads(params)), _as_paths(tool.writes(params))
    except (Exception, SystemExit) as error:
        _log.error("paths of a call are unknown", tool=tool.name, exception=traceback_of(error))
        raise ToolError(f"{tool.name} cannot tell which files it would touch: {error}") from error


def is_solo(tool: Tool, params: object) -> bool:
    """Return whether a call with *params* must not run beside another; True if it is unknown."""
    if not callable(tool.parallel_safe):
        return not tool.parallel_safe
    try:
        return not tool.parallel_safe(params)
    except (Exception, SystemExit) as error:
        _log.error("order of a call is unknown", tool=tool.name, exception=traceback_of(error))
        return True


def only_reads(tool: Tool, params: object) -> bool:
    """Return whether a call with *params* has no effect; False if it is unknown.

    A tool without a slot waits for others, such as agents, which may change something.
    """
    if tool.changes or tool.asks_person or not tool.takes_slot:
        return False
    try:
        return not tool.doubt(params)
    except (Exception, SystemExit) as error:
        _log.error("effect of a call is unknown", tool=tool.name, exception=traceback_of(error))
        return False


def _as_paths(returned: Sequence[str]) -> Sequence[str]:
    return all_of(returned, str, what="paths")


def fix_paths(tool: Tool) -> Tool:
    """Return *tool* with paths that stay the same for the same input.

    The policy decides about them, and the call may use no others: a symlink may change meanwhile.
    """
    known: list[tuple[object, Sequence[str], Sequence[str]]] = []

    def paths(params: object) -> tuple[Sequence[str], Sequence[str]]:
        for earlier, *found in known:
            if earlier == params:
                return found[0], found[1]
        known.append((params, _as_paths(tool.reads(params)), _as_paths(tool.writes(params))))
        return known[-1][1:]

    def reads(params: object) -> Sequence[str]:
        return paths(params)[0]

    def writes(params: object) -> Sequence[str]:
        return paths(params)[1]

    return replace(tool, reads=reads, writes=writes)
