"""Keep the tools of servers that went away declared: taking them out would rewrite the whole cache.

The model is told, in a message behind what is cached, that it cannot call them, and once it can
again. A request that names another definition of a tool still costs the cache.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from agent_cli.contracts.found_tools import (
    added_by,
    definition_in,
    reference_to,
    unsaid_changes,
)
from agent_cli.contracts.messages import Message
from agent_cli.contracts.timeline import Block
from agent_cli.contracts.tooling import Tool
from agent_cli.mcp_client.deferral import overview

_NAMES_CHARS: Final = 2_000


class Withdrawals:
    """The servers' tools that the requests of one agent declare."""

    def __init__(self) -> None:
        self._declared: dict[str, Tool] = {}
        self._late: dict[str, Tool] = {}

    def declared(self, tools: Sequence[Tool], *, is_new: bool) -> tuple[Tool, ...]:
        """Return *tools*, the declared tools that are gone in their old places, and added ones.

        Args:
            tools: The tools that are there.
            is_new: Whether nothing has been cached: the conversation has no reply yet.
        """
        there = {tool.name: tool for tool in tools if not tool.is_deferred}
        before = {} if is_new else self._declared
        kept = [
            there.pop(name) if name in there else replace(tool, is_withdrawn=True)
            for name, tool in before.items()
        ]
        self._declared = {tool.name: tool for tool in (*kept, *there.values())}
        late = {tool.name: tool for tool in tools if tool.is_deferred}
        left = [
            replace(tool, is_withdrawn=True)
            for name, tool in ({} if is_new else self._late).items()
            if name not in late and name not in self._declared
        ]
        self._late = {**late, **{tool.name: tool for tool in left}}
        if not any(tool.is_withdrawn for tool in kept):
            return (*tools, *left)
        return (*self._declared.values(), *self._late.values())

    def forget(self, name: str) -> None:
        """Declare the tool *name* no more: the model's API refuses it."""
        self._declared.pop(name, None)
        self._late.pop(name, None)

    def news(self, context: Sequence[Message]) -> tuple[str, Sequence[Block]]:
        """Return the changes that *context* does not hold: as text, and as blocks for the API."""
        added = added_by(context)
        # One that was defined anew is added by a message of its own.
        late = [
            tool
            for name, tool in self._late.items()
            if name in added
            and (tool.is_withdrawn or definition_in(reference_to(tool.spec)) == added[name])
        ]
        tools = (*self._declared.values(), *late)
        lines, blocks = unsaid_changes(tools, context, lambda those: overview(those, _NAMES_CHARS))
        return "\n".join(lines), blocks
