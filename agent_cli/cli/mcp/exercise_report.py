"""The report of `agent-cli mcp exercise`: lines during the run, a table at its end, or JSON."""

import json
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from agent_cli.cli.mcp.context import CommandContext
from agent_cli.contracts.servers import ServerPhase, ServerState
from agent_cli.contracts.timeline import Json
from agent_cli.contracts.wording import one_line
from agent_cli.mcp_client.stderr_tail import printable
from agent_cli.terminal.sanitize import reveal

_SHOWN_CHARS = 300


@dataclass(frozen=True, slots=True)
class ExercisedCall:
    """One call: its tool, its arguments, and the tool's answer."""

    tool: str
    arguments: Mapping[str, Json]
    is_error: bool
    text: str

    @property
    def outcome(self) -> str:
        """The outcome, in one word."""
        return "error" if self.is_error else "ok"

    @property
    def arguments_shown(self) -> str:
        """The arguments as short JSON."""
        return json.dumps(self.arguments, ensure_ascii=False)[:_SHOWN_CHARS]


class ExerciseReport:
    """Collects the outcome of the calls to a server.

    A pipe gets each line at once, so that a script sees where a server hangs.
    """

    def __init__(self, context: CommandContext, *, as_json: bool) -> None:
        self.context = context
        self._as_json = as_json
        self._at_once = not as_json and not context.out.isatty()
        self._calls: list[ExercisedCall] = []
        self._state: ServerState | None = None
        self._notes: list[str] = []

    @contextmanager
    def calling(self, count: int) -> Generator[Callable[[], None]]:
        """Show a progress bar on a terminal for *count* calls; yield a function that counts one."""
        from agent_cli.terminal.views.progress import counting  # noqa: PLC0415 - rich

        before = len(self._calls)
        with counting("calling tools", total=count, stream=self.context.err) as show:
            yield lambda: show(len(self._calls) - before)

    def state(self, state: ServerState) -> None:
        """Record the state of the server: ready, or no longer usable."""
        self._state = state
        if not self._at_once:
            return
        if state.phase is not ServerPhase.READY:
            self.context.explain(state)
            return
        self.context.say(f"{state.name}: ready, {state.offer}")
        for note in state.notes:
            self.context.say(f"  {note}")

    def note(self, text: str) -> None:
        """Record a remark about the whole run."""
        self._notes.append(text)
        if self._at_once:
            self.context.say(text)

    def partial(self, tool: str, text: str) -> None:
        """Report partial output of a tool; only a pipe gets it."""
        if self._at_once:
            self.context.say(f"  {tool}: … {_shown(text)}")

    def call(self, call: ExercisedCall) -> None:
        """Record the outcome of a call."""
        self._calls.append(call)
        if self._at_once:
            self.context.say(
                f"  {call.tool} {call.arguments_shown}: {call.outcome}: {_shown(call.text)}"
            )

    def finish(self, *, survived: bool) -> None:
        """Print the rest of the report."""
        if self._as_json:
            self.context.print_json(self._entry(survived=survived))
        elif not self._at_once:
            self._show()

    def _entry(self, *, survived: bool) -> Json:
        return {
            "survived": survived,
            "state": str(self._state.phase) if self._state else None,
            "reason": self._state.reason if self._state else "",
            "tools": self._state.tools if self._state else 0,
            "notes": list[Json]([*(self._state.notes if self._state else ()), *self._notes]),
            "calls": [
                {
                    "tool": call.tool,
                    "arguments": dict(call.arguments),
                    "outcome": call.outcome,
                    "text": call.text,
                }
                for call in self._calls
            ],
        }

    def _show(self) -> None:
        from agent_cli.terminal.views.table import Column, Table  # noqa: PLC0415 - rich

        if self._calls:
            columns = [Column("tool"), Column("arguments"), Column("outcome"), Column("answer")]
            rows = [
                (reveal(each.tool), reveal(each.arguments_shown), each.outcome, _shown(each.text))
                for each in self._calls
            ]
            styles = ["red" if each.is_error else "" for each in self._calls]
            self.context.show(Table(columns, rows, styles=styles))
        if self._state:
            from agent_cli.cli.mcp.reports import tested_view  # noqa: PLC0415 - rich

            self.context.show(tested_view([self._state]))
        for note in self._notes:
            self.context.say(note)


def _shown(text: str) -> str:
    """Return a server's text as one short line without control characters."""
    return printable(one_line(text, _SHOWN_CHARS))
