"""A tool that searches and reads what the model is no longer sent: what was summarised or left out.

It is there from the first request: a tool that came with the first summary would change the prefix.
"""

import re
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Annotated, Final, TypeAlias

from agent_cli.contracts.cancel import CancelToken
from agent_cli.contracts.errors import ToolError
from agent_cli.contracts.late_models import BaseModel, ConfigDict, Field
from agent_cli.contracts.timeline import (
    CustomOutput,
    Error,
    Output,
    Success,
    TextOutput,
    ToolOutput,
    UserOutput,
    text_of,
)
from agent_cli.contracts.tooling import (
    RECALL_TOOL,
    Tool,
    ToolContext,
    ToolResult,
    without_docstring,
)
from agent_cli.core.conversation import Conversation
from agent_cli.core.projection import numbered
from agent_cli.plugins.api import Plugin, PluginContext

_HITS_MAX: Final = 20
_AROUND_CHARS: Final = 160
_READ_CHARS: Final = 20_000
_QUERY_CHARS_MAX: Final = 500


MatchLines: TypeAlias = Callable[[str, Sequence[str]], Awaitable[Sequence[int]]]
"""Returns the indexes of the lines that match a regular expression; raises `ToolError`."""


class RecallInput(BaseModel):
    """The input of `recall`: words or an expression to look for, or the entry to read."""

    model_config = ConfigDict(json_schema_extra=without_docstring)

    words: Annotated[str, Field(max_length=_QUERY_CHARS_MAX)] = ""
    regex: Annotated[str, Field(max_length=_QUERY_CHARS_MAX)] = ""
    entry: Annotated[int, Field(ge=0)] = 0
    offset: Annotated[int, Field(ge=0)] = 0


def recall(matching: MatchLines) -> Plugin:
    """Return the plugin; *matching* searches for regular expressions."""

    def prepare(ctx: PluginContext) -> None:
        ctx.add_tool(_tool(ctx.conversation, matching))

    return Plugin(name=RECALL_TOOL, prepare=prepare)


def _tool(conversation: Conversation, matching: MatchLines) -> Tool:
    async def execute(
        _call_id: str, params: RecallInput, _cancel: CancelToken, _context: ToolContext
    ) -> ToolResult:
        if params.entry:
            return ToolResult.of(_read(conversation, params.entry, params.offset))
        hits = _with_words(conversation, params.words)
        if params.regex:
            hits = await _with_match(conversation, params.words, params.regex, matching)
        return ToolResult.of(_listed(hits, f"{params.words} {params.regex}".strip()))

    return Tool(
        name=RECALL_TOOL,
        label="Recall",
        description="Search or read (by entry number) this conversation's record, also what was"
        " summarized or left out.",
        parameters=RecallInput,
        execute=execute,
        changes=False,
        summary=lambda params: (
            f"entry {params.entry}" if params.entry else f"{params.words} {params.regex}".strip()
        ),
    )


def _with_words(conversation: Conversation, query: str) -> list[str]:
    """Return a line for each entry that has all words of *query*, in any case."""
    words = query.casefold().split()
    return [
        f"[{number}] {kind}: {_excerpt(text, words)}"
        for number, kind, text in _texts(conversation)
        if words and all(word in text.casefold() for word in words)
    ]


async def _with_match(
    conversation: Conversation, query: str, regex: str, matching: MatchLines
) -> list[str]:
    """Return a line for each entry with a line that matches *regex*, and with the words of *query*.

    Raises:
        ToolError: This is not a regular expression.
    """
    words = query.casefold().split()
    lines = [
        (number, kind, line)
        for number, kind, text in _texts(conversation)
        if all(word in text.casefold() for word in words)
        for line in text.splitlines()
    ]
    found = await matching(f"(?i){regex}", [line for _, _, line in lines])
    first = {lines[at][0]: lines[at] for at in reversed(found)}
    return [
        f"[{number}] {kind}: {' '.join(line.split())[: 2 * _AROUND_CHARS]}"
        for number, kind, line in sorted(first.values())
    ]


def _listed(hits: Sequence[str], query: str) -> str:
    if not query:
        raise ToolError("recall needs words or a regex to look for, or the number of an entry")
    if not hits:
        return f"No entry has all of: {query}. Try fewer or other words."
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
        if text and kind != RECALL_TOOL:
            yield number, kind, text


def _text(output: Output) -> tuple[str, str]:
    match output:
        case UserOutput():
            return output.author, text_of(output.content)
        case TextOutput():
            return "assistant", output.text
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
