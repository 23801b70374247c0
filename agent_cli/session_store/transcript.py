"""A conversation as plain text, for `sessions show` and `replay`; deterministic.

Pure: no clock, no terminal, no network. Hidden prompts and control characters are left out.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import assert_never

from agent_cli.contracts.hosted_blocks import is_result, is_use, written
from agent_cli.contracts.timeline import (
    Block,
    BlockOutput,
    CompactionOutput,
    CustomOutput,
    DiscardedOutput,
    Error,
    FileOutput,
    Output,
    Pending,
    Prompt,
    Success,
    TextOutput,
    ThinkingOutput,
    ToolOutput,
    TrimOutput,
    UserOutput,
    WidgetOutput,
    text_block,
)
from agent_cli.terminal.sanitize import clean

_INDENT = "    "


def transcript(prompts: Iterable[Prompt]) -> str:
    """Return *prompts* as text with the content of each entry; hidden prompts are left out."""
    shown = (part for prompt in prompts if prompt.visible for part in _parts(prompt))
    return clean("\n\n".join(shown) + "\n")


def call_line(call: ToolOutput) -> str:
    """Return a call on one line, its input as JSON."""
    return f"{call.name} {json.dumps(call.input, ensure_ascii=False, default=str)}"


def result_line(call: ToolOutput) -> str:
    """Return the outcome of a call in a word or two, with the decision about it."""
    match call.result:
        case Pending(why="approval"):
            outcome = "waits for a decision"
        case Pending():
            outcome = "has not run" if call.started_at_ms is None else "at work"
        case Error():
            outcome = "error"
        case Success():
            outcome = "done"
        case _:
            assert_never(call.result)
    return f"{call.decision}, {outcome}" if call.decision else outcome


def result_text(call: ToolOutput) -> str:
    """Return the result text of a call, or why it waits."""
    if isinstance(call.result, Pending):
        return call.result.reason
    return content_text(call.result.content)


def content_text(content: Sequence[Block]) -> str:
    """Return the text of *content*, with a word in place of each other block."""
    texts = (
        str(block.get("text", "")) if block["type"] == "text" else f"[{block['type']}]"
        for block in content
    )
    return "\n".join(text for text in texts if text)


def _parts(prompt: Prompt) -> Iterator[str]:
    if prompt.input is not None:
        yield _user_entry(prompt.input)
    for output in with_joined_text(prompt.output):
        part = entry_text(output)
        if part:
            yield part


def with_joined_text(outputs: Iterable[Output]) -> Iterator[Output]:
    """Yield *outputs*, with the text of a reply that citations break into blocks as one."""
    held: TextOutput | None = None
    for output in outputs:
        if held and isinstance(output, TextOutput) and output.reply_id == held.reply_id:
            texts = (str(each.block.get("text", "")) for each in (held, output))
            held = replace(held, block=text_block("".join(texts)))
            continue
        if held:
            yield held
        held = output if isinstance(output, TextOutput) else None
        if held is None:
            yield output
    if held:
        yield held


def entry_text(output: Output) -> str:
    """Return one entry as text; "" for entries that are only marks."""
    match output:
        case UserOutput():
            return _user_entry(output)
        case TextOutput():
            return str(output.block.get("text", "")).strip()
        case ThinkingOutput():
            thought = str(output.block.get("thinking", "")).strip()
            return _indented("(thinking)", thought) if thought else ""
        case ToolOutput():
            return _indented(f"* {call_line(output)}: {result_line(output)}", result_text(output))
        case BlockOutput(block=block) if is_use(block) or is_result(block):
            return written(block)
        case BlockOutput():
            return f"[{output.block['type']}]"
        case FileOutput():
            return f"[file] {output.path}: {output.summary}"
        case WidgetOutput():
            return _indented(f"[{output.widget}]", output.fallback)
        case DiscardedOutput():
            why = f"[reply not kept: {output.error or output.reason}]"
            return f"{output.text}\n{why}" if output.text else why
        case CompactionOutput():
            return _indented("[older messages were replaced by a summary]", output.summary)
        case TrimOutput():
            return f"[{output.removed_messages} older messages are no longer sent]"
        case CustomOutput(data={"text": str(text), **more}) if not more:
            return f"[{output.name}] {text}"
        case CustomOutput():
            return f"[{output.name}] {json.dumps(output.data, ensure_ascii=False, default=str)}"
        case _:
            return ""


def _user_entry(entry: UserOutput) -> str:
    if not entry.is_typed:
        return _indented(f"[said by {entry.author}]", content_text(entry.content))
    first, *rest = content_text(entry.content).split("\n")
    return "\n".join([f"you> {first}", *(f"     {line}".rstrip() for line in rest)])


def _indented(head: str, body: str) -> str:
    return "\n".join([head, *(f"{_INDENT}{line}".rstrip() for line in body.splitlines())])
