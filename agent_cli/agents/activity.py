"""An agent's current activity, in one line: a tool, tokens, cost."""

from collections.abc import Callable, Mapping
from typing import Final

from agent_cli.contracts import events
from agent_cli.contracts.events import AgentEvent
from agent_cli.contracts.money import dollars
from agent_cli.contracts.timeline import NO_USAGE, Json, Usage
from agent_cli.contracts.wording import short_count
from agent_cli.terminal.narration import one_line

_GIVEN_CHARS_MAX: Final = 60


class AgentActivity:
    """Turns an agent's events into its status line; an event sink."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        """Report nothing yet; *tell* receives the line whenever it changes."""
        self._show = tell
        self._usage = NO_USAGE
        self._doing = "starting"
        self._calls: dict[str, str] = {}

    def __call__(self, event: events.Event) -> None:
        """Update the line for *event*."""
        match event:
            case events.AgentStart():
                self._doing = "thinking"
            case events.ToolExecutionStart():
                self._calls[event.tool_call_id] = _described(event.tool_name, event.args)
            case events.ToolExecutionEnd():
                self._calls.pop(event.tool_call_id, None)
            case events.ApprovalRequested():
                self._doing = "waits for your decision"
            case (
                events.UsageChanged(reply=used) | AgentEvent(event=events.UsageChanged(reply=used))
            ):
                self._usage += used
                self._doing = "thinking"
            case _:
                return
        self._tell()

    def _tell(self) -> None:
        doing = next(reversed(self._calls.values()), self._doing)
        self._show(f"{doing} · {used(self._usage)}")


def used(usage: Usage) -> str:
    """Return tokens and cost in the shortest form."""
    shown = f"{short_count(usage.prompt_tokens + usage.output_tokens)} tokens"
    cost = usage.cost_microdollars
    return shown if cost is None else f"{shown} · {dollars(cost, decimals=4)}"


def _described(name: str, given: Json) -> str:
    values = given.values() if isinstance(given, Mapping) else ()
    first = next((value for value in values if isinstance(value, str)), "")
    return one_line(f"{name} {first}", _GIVEN_CHARS_MAX)
