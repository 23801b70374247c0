"""Report the cost of changes to the parts that precede the conversation in every request.

Servers cache the prefix of a request: tools, then system prompt, then messages. After a change the
model reads everything behind it again, at full price.
"""

from collections.abc import Iterable, Sequence

from agent_cli.contracts.events import Notice
from agent_cli.contracts.money import dollars
from agent_cli.contracts.provider import Price
from agent_cli.contracts.timeline import Usage
from agent_cli.contracts.tooling import Tool
from agent_cli.core.turn import Turn
from agent_cli.policies.estimate import estimate_fixed, estimate_tokens


class PrefixWatch:
    """A `prepare` contributor; the last one, so that it sees the changes of the others."""

    def __init__(self, price: Price) -> None:
        self._price = price
        self._asked = ("", "")
        self._tools: list[Tool] = []
        self._system: list[str] = []

    def __call__(self, turn: Turn) -> None:
        """Report the changes since the last call of this conversation, and their price."""
        if turn.conversation.open_calls():
            return  # the model is not asked
        asked = (turn.conversation.id, turn.model.id)
        if asked == self._asked:
            self._compare(turn)
        self._asked = asked
        self._tools, self._system = _sent(turn.tools), list(turn.system)

    def forget_tool(self, name: str) -> None:
        """Note that the last request was answered without the tool *name*."""
        self._tools = [tool for tool in self._tools if tool.name != name]

    def _compare(self, turn: Turn) -> None:
        same = _common(turn.system, self._system)
        stable_tokens = 0
        tools = _sent(turn.tools)
        if _keys(tools) != _keys(self._tools):
            what, same = f"the tools changed ({_difference(self._tools, tools)})", 0
            stable_tokens = estimate_fixed((), [tool.spec for tool in tools])
        elif turn.system != self._system:
            what = "the system prompt changed" if same == 0 else "the context of plugins changed"
        else:
            return
        anew = turn.system[same:]
        if same == 0 and anew:
            stable_tokens += estimate_fixed([anew.pop(0)], ())
        behind_tokens = estimate_fixed(anew, ()) + estimate_tokens(turn.conversation.context())
        # The parts that rarely change are cached for an hour, at a higher price.
        written = Usage(cache_write_5m_tokens=behind_tokens, cache_write_1h_tokens=stable_tokens)
        cost = self._price(turn.model.id, written)
        price = "" if cost is None else f" ({dollars(cost)})"
        tokens = f"about {written.prompt_tokens:,} tokens"
        text = f"{what}: {tokens} not read from the cache{price}"
        turn.emit(Notice("info", text))


def _sent(tools: Iterable[Tool]) -> list[Tool]:
    """Return the tools that stand before the conversation."""
    return [tool for tool in tools if not tool.is_deferred]


def _keys(tools: Iterable[Tool]) -> list[object]:
    """Return keys that identify *tools* for the model, without building every schema."""
    return [(tool.name, tool.description, tool.parameters) for tool in tools]


def _difference(before: Iterable[Tool], now: Iterable[Tool]) -> str:
    old, new = {tool.name for tool in before}, {tool.name for tool in now}
    changes = [f"+{name}" for name in sorted(new - old)]
    changes += [f"-{name}" for name in sorted(old - new)]
    return ", ".join(changes) or "their order or definitions"


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    """Return the length of the common prefix."""
    for index, (left, right) in enumerate(zip(one, other, strict=False)):
        if left != right:
            return index
    return min(len(one), len(other))
