"""A tool that searches and reads what the model is no longer sent: what was summarised or left out.

It is offered from the first of these on, which changes the request's prefix anyway.
"""

import re
from collections.abc import Iterator
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field

from agent_cli.contracts.cancel import CancelToken
from agent_cli.contracts.errors import ToolError
from agent_cli.contracts.messages import LEFT_OUT
from agent_cli.contracts.timeline import (
    CompactionOutput,
    CustomOutput,
    Error,
    Output,
    Success,
    TextOutput,
    ToolOutput,
    TrimOutput,
    UserOutput,
    text_of,
)
from agent_cli.contracts.tooling import Tool, ToolContext, ToolResult, without_docstring
from agent_cli.core.conversation import Conversation
from agent_cli.core.projection import entries, numbered
from agent_cli.plugins.api import Plugin, PluginContext

TOOL: Final = "recall"
_HITS_MAX: Final = 20
_AROUND_CHARS: Final = 160
_READ_CHARS: Final = 20_000
_QUERY_CHARS_MAX: Final = 500


class RecallInput(BaseModel):
    """The input of `recall`: words to look for, or the number of an entry to read."""

    model_config = ConfigDict(json_schema_extra=without_docstring)

    words: Annotated[str, Field(max_length=_QUERY_CHARS_MAX, description="All must occur")] = ""
    entry: Annotated[int | None, Field(ge=1, description="Read this entry instead")] = None
    offset: Annotated[int, Field(ge=0, description="Characters to skip")] = 0


def recall() -> Plugin:
    """Return the plugin."""

    def prepare(ctx: PluginContext) -> None:
        if _has_left_out(ctx.conversation):
            ctx.add_tool(_tool(ctx.conversation))

    return Plugin(name=TOOL, prepare=prepare)


def _has_left_out(conversation: Conversation) -> bool:
    found = entries(conversation.prompts)
    return any(
        isinstance(output, CompactionOutput | TrimOutput)
        or (isinstance(output, CustomOutput) and output.name == LEFT_OUT)
        for output in found
    )


def _tool(conversation: Conversation) -> Tool:
    async def execute(
        _call_id: str, params: RecallInput, _cancel: CancelToken, _context: ToolContext
    ) -> ToolResult:
        if params.entry is not None:
            return ToolResult.of(_read(conversation, params.entry, params.offset))
        return ToolResult.of(_search(conversation, params.words))

    return Tool(
        name=TOOL,
        label="Recall",
        description="Search this conversation's record, including what was summarized or dropped."
        " Returns entry numbers; then read one with entry.",
        parameters=RecallInput,
        execute=execute,
        changes=False,
        summary=lambda params: params.words or f"entry {params.entry}",
    )


def _search(conversation: Conversation, query: str) -> str:
    words = query.casefold().split()
    if not words:
        raise ToolError("recall needs words to look for, or the number of an entry")
    hits = [
        f"[{number}] {kind}: {_excerpt(text, words)}"
        for number, kind, text in _texts(conversation)
        if all(word in text.casefold() for word in words)
    ]
    if not hits:
        return f"No entry has all of: {' '.join(words)}. Try fewer or other words."
    newest = hits[-_HITS_MAX:]
    more = f"{len(hits) - len(newest)} older entries match too; use more words to see them.\n"
    return (more if len(newest) < len(hits) else "") + "\n".join(newest)


def _read(conversation: Conversation, entry: int, offset: int) -> str:
    found = next((text for number, _, text in _texts(conversation) if number == entry), None)
    if found is None:
        raise ToolError(f"Entry {entry} has no text: search with words first")
    shown = found[offset : offset + _READ_CHARS]
    left = len(found) - offset - len(shown)
    more = f"\n[{left:,} characters follow; offset={offset + len(shown)}]"
    return shown + (more if left > 0 else "")


def _texts(conversation: Conversation) -> Iterator[tuple[int, str, str]]:
    """Yield the number, the kind and the text of each entry that has one."""
    for number, output in numbered(conversation.prompts):
        kind, text = _text(output)
        # An answer of this tool repeats what it found.
        if text and kind != TOOL:
            yield number, kind, text


def _text(output: Output) -> tuple[str, str]:
    match output:
        case UserOutput():
            return output.author, text_of(output.content)
        case TextOutput():
            return "assistant", str(output.block.get("text", ""))
        case ToolOutput(result=Success(content) | Error(content)):
            return output.name, f"{output.input}\n{text_of(content)}"
        case CustomOutput(data=str(text)):
            return output.name, text
        case _:
            return "", ""


def _excerpt(text: str, words: list[str]) -> str:
    """Return *text* around the first of *words*, on one line."""
    found = re.search("|".join(map(re.escape, words)), text, re.IGNORECASE)
    middle = found.start() if found else 0
    start = max(0, middle - _AROUND_CHARS)
    cut = " ".join(text[start : middle + _AROUND_CHARS].split())
    before = "… " if start else ""
    after = " …" if middle + _AROUND_CHARS < len(text) else ""
    return f"{before}{cut}{after}"
