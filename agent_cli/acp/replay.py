"""Replay a saved conversation to a client that loads it."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from agent_cli.acp.content import image, message_chunk, text
from agent_cli.acp.updates import CallView
from agent_cli.contracts.events import ToolCall
from agent_cli.contracts.messages import typed_in
from agent_cli.contracts.timeline import (
    Block,
    DiscardedOutput,
    Error,
    Json,
    Pending,
    Prompt,
    TextOutput,
    ThinkingOutput,
    ToolOutput,
    UserOutput,
)
from agent_cli.contracts.tooling import Tool, ToolResult
from agent_cli.core.projection import entries
from agent_cli.terminal.sanitize import clean


def replayed(
    prompts: Sequence[Prompt], tools: Sequence[Tool], workspace: Path
) -> Iterator[dict[str, Json]]:
    """Yield the updates that show *prompts* as in the original session."""
    calls = CallView(lambda: tools, workspace)
    for output in entries([prompt for prompt in prompts if prompt.visible]):
        match output:
            case UserOutput() if output.is_typed:
                yield from _user_update(output)
            case TextOutput():
                words = clean(str(output.block.get("text", "")))
                if words:
                    yield message_chunk("agent_message", text(words), output.reply_id)
            case ThinkingOutput():
                if words := clean(str(output.block.get("thinking", ""))):
                    yield message_chunk("agent_thought", text(words), output.reply_id)
            case ToolOutput():
                yield from _call(calls, output)
            case DiscardedOutput(text=words) if words:
                yield message_chunk("agent_message", text(clean(words)), output.id)
            case _:
                pass


def _user_update(output: UserOutput) -> Iterator[dict[str, Json]]:
    pictures = [shown for block in output.content if (shown := image(block))]
    for shown in [*pictures, text(typed_in(output.content))]:
        yield message_chunk("user_message", shown, output.id)


def _call(calls: CallView, output: ToolOutput) -> Iterator[dict[str, Json]]:
    """Yield a call and its outcome; the file it changed may have different content now."""
    call = ToolCall.of(output)
    shown = calls.described(call)
    yield {"sessionUpdate": "tool_call", **shown, "content": [], "status": "pending"}
    result = output.result
    if isinstance(result, Pending):
        return
    content: tuple[Block, ...] = result.content
    ended = calls.ended(
        call.id, ToolResult(content, result.details, is_error=isinstance(result, Error))
    )
    if "content" not in ended and (diffs := calls.fragments(call)):
        ended["content"] = diffs
    yield {"sessionUpdate": "tool_call_update", **ended}
