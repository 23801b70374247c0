"""Keep the tools that the requests of a conversation declare: a change would rewrite the cache.

A server caches the tools before all messages. So a message at the end adds a tool that appears
later, and withdraws one that disappears; that tool stays declared.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Final

from agent_cli.contracts.found_tools import (
    ADDITIONS,
    CALL_FOUND,
    added_by,
    addition,
    changes_to_tell,
    is_added,
    reference_to,
)
from agent_cli.contracts.messages import Message
from agent_cli.contracts.tooling import Tool
from agent_cli.core.projection import has_reply
from agent_cli.core.turn import Turn

AUTHOR: Final = "tools"
_NAMES_CHARS: Final = 2_000


class LastingTools:
    """The tools of one source, such as the plugins, in the requests of an agent."""

    def __init__(self) -> None:
        self._conversation_id = ""
        self._adds = False
        self._declared: dict[str, Tool] = {}
        self._late: dict[str, Tool] = {}

    def offered(
        self,
        turn: Turn,
        tools: Sequence[Tool],
        *,
        may_change: bool,
        refused: Collection[str] = (),
    ) -> list[Tool]:
        """Return the tools to add to *turn* for *tools*, and tell its model of changes.

        Args:
            turn: The next turn.
            tools: The source's present tools.
            may_change: Whether the source's tools may come and go. Counts at the first request: the
                API takes additions without a loss only if that request announced some.
            refused: Names that are declared no more: the model's API refuses them.
        """
        conversation = turn.conversation
        if conversation.id != self._conversation_id or not has_reply(conversation.prompts):
            self._conversation_id, self._adds = conversation.id, may_change
            earlier = added_by(conversation.context()) if may_change else {}
            self._declared = {tool.name: tool for tool in tools if tool.name not in earlier}
            self._late = {}
        if not self._adds:
            return list(tools)
        present = {tool.name: tool for tool in tools}
        kept = {
            name: present.get(name) or replace(tool, is_withdrawn=True)
            for name, tool in self._declared.items()
            if name not in refused
        }
        late = {
            name: present.get(name) or replace(tool, is_withdrawn=True)
            for name, tool in {**self._late, **present}.items()
            if name not in kept and name not in refused
        }
        self._late = {name: replace(tool, is_deferred=True) for name, tool in late.items()}
        self._declared = kept
        if not conversation.open_calls():
            _tell(turn, [*kept.values()], [*self._late.values()])
        is_announced = any(tool.name == CALL_FOUND for tool in turn.tools)
        return [*kept.values(), *self._late.values(), *(() if is_announced else (ADDITIONS,))]


def tell_again(turn: Turn, before: Sequence[Message]) -> None:
    """Tell the model of *turn* of the tools that only messages of *before* had added.

    A cut of the history removes these messages, after every contributor has told of its tools.
    """
    lost = added_by(before).keys() - added_by(turn.conversation.context()).keys()
    if tools := [tool for tool in turn.tools if tool.name in lost and not tool.is_withdrawn]:
        blocks = [reference_to(tool.spec) for tool in tools]
        turn.tell_model(addition(_names(tools)), author=AUTHOR, blocks=blocks)


def _tell(turn: Turn, declared: Sequence[Tool], late: Sequence[Tool]) -> None:
    """Tell the model of *turn* what its conversation does not say about the tools yet."""
    context = turn.conversation.context()
    added = added_by(context)
    new = [tool for tool in late if not (tool.is_withdrawn or is_added(tool, added))]
    known = [tool for tool in late if tool.name in added and tool not in new]
    lines, blocks = changes_to_tell([*declared, *known], context, _names)
    if new:
        lines.append(addition(_names(new)))
        blocks += [reference_to(tool.spec) for tool in new]
    if lines:
        turn.tell_model("\n".join(lines), author=AUTHOR, blocks=blocks)


def _names(tools: Sequence[Tool]) -> str:
    names = ", ".join(tool.name for tool in tools)
    return names if len(names) <= _NAMES_CHARS else f"{names[:_NAMES_CHARS]} …"
