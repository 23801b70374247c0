"""Deferred tools: beyond a token budget the model gets one tool that finds the others.

It works with any model and server: found tools are offered in full from the next model call on, for
the rest of the conversation. The cost is reported like that of any change of tools.
"""

import re
from collections.abc import Collection, MutableMapping, Sequence

from pydantic import BaseModel, Field

from agent_cli.contracts.cancel import CancelToken
from agent_cli.contracts.timeline import Json
from agent_cli.contracts.tooling import Tool, ToolContext, ToolResult
from agent_cli.mcp_client.tokens import tool_tokens

SEARCH_TOOL = "find_tools"
_STATE = "mcp_found_tools"
_HITS_MAX = 5
_LINE_MAX = 160
_WORD_MIN = 3
_WORD = re.compile(r"[a-z0-9]+")


class _FindInput(BaseModel):
    query: str = Field(
        min_length=1, max_length=500, description="Words of what is needed, or exact tool names"
    )


class Deferral:
    """Selects the servers' tools for each request.

    With a budget of 0 tokens, or within it, it selects all.
    """

    def __init__(self, budget_tokens: int) -> None:
        self._budget_tokens = budget_tokens
        self._deferred: tuple[Tool, ...] = ()

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
            return tuple(tools)
        shown = {*always, *_found(state)}
        self._deferred = tuple(tool for tool in tools if tool.name not in shown)
        return (self._search_tool(others), *(tool for tool in tools if tool.name in shown))

    def _search_tool(self, tools: Sequence[Tool]) -> Tool:
        servers = sorted({tool.label.partition(":")[0] for tool in tools})
        return Tool(
            name=SEARCH_TOOL,
            label="Find tools",
            description=(
                f"Find further tools by what they do; those found can be called next. Servers: "
                f"{', '.join(servers)}"
            ),
            parameters=_FindInput,
            execute=self._find,
            parallel_safe=False,  # it writes state
            changes=False,
            summary=lambda params: params.query,
        )

    async def _find(
        self, _tool_call_id: str, params: _FindInput, _cancel: CancelToken, context: ToolContext
    ) -> ToolResult:
        hits = _best(self._deferred, params.query)
        if not hits:
            names = ", ".join(tool.name for tool in self._deferred)
            return ToolResult.of(f"Nothing fits. Names of all further tools: {names}")
        found: list[Json] = [*_found(context.state), *(tool.name for tool in hits)]
        context.state[_STATE] = found
        lines = [f"{tool.name}: {' '.join(tool.description.split())[:_LINE_MAX]}" for tool in hits]
        return ToolResult.of("These can be called now:\n" + "\n".join(lines))


def _found(state: MutableMapping[str, Json]) -> list[str]:
    names = state.get(_STATE)
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []


def _best(tools: Sequence[Tool], query: str) -> list[Tool]:
    """Return the tools that share the most words with *query*, names counting double."""
    wanted = _words(query)
    scored: list[tuple[int, str, Tool]] = []
    for tool in tools:
        name = _words(tool.name)
        score = 2 * len(wanted & name) + len(wanted & _words(tool.description))
        if tool.name in query:
            score += len(wanted) * 3
        scored.append((-score, tool.name, tool))
    return [tool for score, _, tool in sorted(scored, key=lambda each: each[:2]) if score < 0][
        :_HITS_MAX
    ]


def _words(text: str) -> set[str]:
    """Return the significant words of *text*, without plural endings."""
    found = {word.rstrip("s") for word in _WORD.findall(text.lower())}
    return {word for word in found if len(word) >= _WORD_MIN} - {"mcp"}
