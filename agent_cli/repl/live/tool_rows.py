"""Tool calls on the screen: one live row each, in call order, and one for good when it ends."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from agent_cli import events
from agent_cli.repl.live.paint import Paint, rows_of
from agent_cli.terminal.narration import describe_call, one_line, seconds
from agent_cli.terminal.sanitize import clean
from agent_cli.timeline import Json
from agent_cli.tooling import Tool, ToolResult

_DIM: Final = "2"
_GOOD: Final = "32"
_BAD: Final = "31"
_UPDATE_ROWS_MAX: Final = 3


@dataclass(slots=True)
class _Call:
    """A call on the screen; it waits until it has started and runs until it has ended."""

    text: str
    started_s: float | None = None
    ended_s: float | None = None
    update: tuple[str, ...] = ()
    rows: list[str] = field(default_factory=list)


class ToolRows:
    """The calls of one reply, and what is done of them. Rows leave in call order."""

    def __init__(
        self,
        tools: Callable[[], Sequence[Tool]],
        *,
        paint: Paint,
        clock: Callable[[], float],
        details: Callable[[ToolResult, bool], list[str]] = lambda _result, _is_error: [],
    ) -> None:
        """Show nothing yet.

        Args:
            tools: The tools there are, for their labels.
            paint: The colours.
            clock: Seconds that only grow.
            details: Makes rows of a result, to stand below its call.
        """
        self._tools = tools
        self._paint = paint
        self._clock = clock
        self._details = details
        self._calls: dict[str, _Call] = {}

    @property
    def is_running(self) -> bool:
        """Whether calls are on the screen that have not ended."""
        return bool(self._calls)

    def show(self, event: events.Event) -> bool:
        """Take in *event*; False when it is none about tools."""
        match event:
            case events.ToolCallsAnnounced(calls=calls):
                for call in calls:
                    self._call(call.id, call.name, call.input)
            case events.ToolExecutionStart():
                call_row = self._call(event.tool_call_id, event.tool_name, event.args)
                call_row.started_s = self._clock()
            case events.ToolExecutionUpdate():
                self._update(event)
            case events.ToolExecutionEnd():
                self._end(event)
            case _:
                return False
        return True

    def end(self) -> None:
        """Forget calls that never started: they wait for an approval, or the run was stopped."""
        for call_id in [key for key, call in self._calls.items() if call.ended_s is None]:
            del self._calls[call_id]

    def finished(self) -> list[str]:
        """Return the rows of calls that ended, as far as no earlier call still runs."""
        rows: list[str] = []
        while self._calls:
            call_id, call = next(iter(self._calls.items()))
            if call.ended_s is None:
                break
            rows += call.rows
            del self._calls[call_id]
        return rows

    def tail(self, spinner: str) -> list[str]:
        """Return one row for each call, with what a running one told last."""
        rows: list[str] = []
        for call in self._calls.values():
            if call.ended_s is not None:
                rows.append(call.rows[0])
            elif call.started_s is None:
                rows.append(self._paint.text(f"· {call.text}", _DIM))
            else:
                passed = seconds(int(self._clock() - call.started_s))
                rows.append(f"{spinner} {call.text} {self._paint.text(passed, _DIM)}")
                rows += call.update
        return rows

    def _call(self, call_id: str, name: str, given: Json) -> _Call:
        text = clean(describe_call(self._tools(), name, given))
        return self._calls.setdefault(call_id, _Call(text))

    def _update(self, event: events.ToolExecutionUpdate) -> None:
        call = self._call(event.tool_call_id, event.tool_name, None)
        rows = rows_of(event.partial_result.text.rstrip("\n"), "")[-_UPDATE_ROWS_MAX:]
        call.update = tuple(self._paint.text(f"  {row}", _DIM) for row in rows)

    def _end(self, event: events.ToolExecutionEnd) -> None:
        call = self._call(event.tool_call_id, event.tool_name, None)
        call.ended_s = self._clock()
        begun_s = call.ended_s if call.started_s is None else call.started_s
        passed = seconds(call.ended_s - begun_s)
        if event.is_error:
            mark, outcome = self._paint.text("✗", _BAD), f"failed after {passed}"
            reason = clean(one_line(event.result.text))
            call.rows = [f"{mark} {call.text} · {self._paint.text(f'{outcome}: {reason}', _BAD)}"]
        else:
            mark = self._paint.text("✓", _GOOD)
            call.rows = [f"{mark} {call.text} · {self._paint.text(passed, _DIM)}"]
        call.rows += self._details(event.result, event.is_error)
