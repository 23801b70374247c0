"""Deferred tools: beyond a token budget the model gets one tool that finds the others.

The result of a search refers to the tools that it found, and the model reads their definitions
there: a search changes nothing that was sent before, and so costs no cached token. The tools of
servers that come up later are told in a message, for the same reason.
"""

import asyncio
from collections.abc import Collection, MutableMapping, Sequence
from dataclasses import replace

from pydantic import BaseModel, Field

from agent_cli.contracts.cancel import CancelToken
from agent_cli.contracts.found_tools import reference_to
from agent_cli.contracts.timeline import Json, text_block
from agent_cli.contracts.tooling import Tool, ToolContext, ToolResult
from agent_cli.mcp_client.tokens import tool_tokens
from agent_cli.mcp_client.tool_search import ToolIndex, own_name, server_of

SEARCH_TOOL = "find_tools"
_STATE = "mcp_found_tools"
_HITS_MAX = 5
_LINE_MAX = 160
_OVERVIEW_CHARS = 4_000
_NEWS_CHARS = 2_000
_DESCRIPTION = (
    "Find further tools by what they do; those found can be called next. Servers and their tools:"
)


class _FindInput(BaseModel):
    query: str = Field(
        min_length=1, max_length=500, description="Words of what is needed, or exact tool names"
    )


class Deferral:
    """Selects the servers' tools for each request.

    With a budget of 0 tokens, or within it, it selects all. Tools once offered stay: taking them
    away would cost the prompt cache, and so would a search tool whose description changes.
    """

    def __init__(self, budget_tokens: int) -> None:
        self._budget_tokens = budget_tokens
        self._inline: frozenset[str] = frozenset()
        self._deferred: tuple[Tool, ...] = ()
        self._description = ""
        self._known: set[str] = set()

    def offered(
        self,
        tools: Sequence[Tool],
        state: MutableMapping[str, Json],
        *,
        always: Collection[str] = (),
    ) -> tuple[Tool, ...]:
        """Return the *tools* to offer now, in a stable order.

        Args:
            tools: All tools of the servers, sorted by name.
            state: The conversation's state, which stores the found tools.
            always: Names of tools that are always offered, and not counted.
        """
        others = [tool for tool in tools if tool.name not in always]
        within = sum(map(tool_tokens, others)) <= self._budget_tokens
        if self._budget_tokens == 0 or within:
            self._inline = frozenset(tool.name for tool in others)
            return tuple(tools)
        shown = {*always, *self._inline}
        self._deferred = tuple(
            replace(tool, is_deferred=True) for tool in tools if tool.name not in shown
        )
        found = {*_found(state)}
        if not self._description:
            self._description = f"{_DESCRIPTION} {_overview(self._deferred, _OVERVIEW_CHARS)}"
            self._known = {tool.name for tool in self._deferred}
        return (
            self._search_tool(),
            *(tool for tool in tools if tool.name in shown),
            *(tool for tool in self._deferred if tool.name in found),
        )

    def news(self) -> str:
        """Return a sentence for the model about the tools that came later, each once, or ""."""
        new = [tool for tool in self._deferred if tool.name not in self._known]
        self._known |= {tool.name for tool in new}
        if not new:
            return ""
        return f"[agent-cli: {SEARCH_TOOL} finds more tools now: {_overview(new, _NEWS_CHARS)}]"

    def _search_tool(self) -> Tool:
        return Tool(
            name=SEARCH_TOOL,
            label="Find tools",
            description=self._description,
            parameters=_FindInput,
            execute=self._find,
            parallel_safe=False,  # it writes state
            changes=False,
            finds_tools=True,
            summary=lambda params: params.query,
        )

    async def _find(
        self, _tool_call_id: str, params: _FindInput, _cancel: CancelToken, context: ToolContext
    ) -> ToolResult:
        hits = await asyncio.to_thread(_best, self._deferred, params.query)
        if not hits:
            names = _overview(self._deferred, _NEWS_CHARS)
            return ToolResult.of(f"Nothing fits. Names of further tools: {names}")
        # Those of earlier searches again: what referred to them may be summarised by now.
        found: dict[str, None] = dict.fromkeys(
            (*_found(context.state), *(tool.name for tool in hits))
        )
        context.state[_STATE] = [*found]
        lines = [f"{tool.name}: {' '.join(tool.description.split())[:_LINE_MAX]}" for tool in hits]
        text = "These can be called now:\n" + "\n".join(lines)
        return ToolResult((text_block(text), *(reference_to(tool.spec) for tool in hits)))


def _best(tools: Sequence[Tool], query: str) -> list[Tool]:
    return ToolIndex(tools).best(query, _HITS_MAX)


def _overview(tools: Sequence[Tool], chars: int) -> str:
    """Return the names of *tools* by server, in about *chars*: each server gets its share."""
    by_server: dict[str, list[str]] = {}
    for tool in tools:
        by_server.setdefault(server_of(tool), []).append(own_name(tool))
    parts: list[str] = []
    # The shortest first, so that what they leave is there for the long ones.
    for left, (server, names) in enumerate(
        sorted(by_server.items(), key=lambda each: (len(", ".join(each[1])), each[0])),
        start=-len(by_server),
    ):
        part = _shortened(names, chars // -left)
        chars -= len(part)
        parts.append(f"{server}: {part}")
    return "; ".join(sorted(parts))


def _shortened(names: Sequence[str], chars: int) -> str:
    kept: list[str] = []
    for name in names:
        if sum(map(len, kept)) + 2 * len(kept) + len(name) > chars:
            break
        kept.append(name)
    more = len(names) - len(kept)
    return ", ".join([*kept, f"{more} more"] if more else kept)


def _found(state: MutableMapping[str, Json]) -> list[str]:
    names = state.get(_STATE)
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []
