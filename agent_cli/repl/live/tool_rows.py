"""Tool calls on the screen: a live row each, in call order, and a permanent row at the end."""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice, takewhile
from typing import Final

from agent_cli.contracts import events
from agent_cli.contracts.timeline import FileOutput, Json, WidgetOutput
from agent_cli.contracts.tooling import Tool, ToolResult
from agent_cli.contracts.wording import counted
from agent_cli.repl.approval.refusals import failure
from agent_cli.repl.live.cells import row_width, shortened
from agent_cli.repl.live.paint import Paint, rows_of
from agent_cli.repl.live.results import has_failed, outcome_of
from agent_cli.repl.live.widgets import Details, SideOutput, progress_of
from agent_cli.repl.markdown.cells import wrapped
from agent_cli.terminal.narration import describe_call, label_of, seconds, whole_seconds
from agent_cli.terminal.sanitize import clean

_UPDATE_ROWS_MAX: Final = 3
_MARK_CELLS: Final = 2
# Tools that only look; several calls of them are of little interest one by one.
_LOOKS: Final = frozenset({"read", "grep", "glob"})
_NO_BREAK: Final = "\xa0"


@dataclass(slots=True)
class _Call:
    """A call on the screen: waiting, running or ended."""

    label: str
    text: str
    started_s: float | None = None
    ended_s: float | None = None
    update: tuple[str, ...] = ()
    beside: str = ""
    side_outputs: list[SideOutput] = field(default_factory=list[SideOutput])
    rows: list[str] = field(default_factory=list[str])
    looks: bool = False
    line: str = ""

    @property
    def is_folded(self) -> bool:
        """Whether it can share its row: it only looked, and nothing else is to be shown of it."""
        return self.looks and bool(self.line) and not self.side_outputs

    def attach(self, output: SideOutput) -> None:
        """Add a side output; only the latest of the same progress is kept."""
        earlier = _label(self.side_outputs[-1]) if self.side_outputs else None
        if earlier is not None and earlier == _label(output):
            self.side_outputs.pop()
        self.side_outputs.append(output)


class ToolRows:
    """The calls of one reply. Finished rows leave in call order.

    Attributes:
        listed: Returns the ids of the calls with a row elsewhere on the screen, for now.
    """

    def __init__(
        self,
        tools: Callable[[], Sequence[Tool]],
        *,
        paint: Paint,
        clock: Callable[[], float],
        columns: Callable[[], int],
        details: Details,
    ) -> None:
        """Show nothing yet.

        Args:
            tools: The available tools, for their labels.
            paint: The colours.
            clock: A monotonic clock, in seconds.
            columns: The width of the terminal.
            details: Makes the rows below a call.
        """
        self._tools = tools
        self._paint = paint
        self._clock = clock
        self._columns = columns
        self._details = details
        self._calls: dict[str, _Call] = {}
        self._late: list[str] = []
        self.listed: Callable[[], Collection[str]] = tuple
        # A run that asks ends; its calls are announced again by the run after the answer.
        self._asked: set[str] = set()

    @property
    def is_running(self) -> bool:
        """Whether any call on the screen has not ended."""
        return bool(self._calls)

    def show(self, event: events.Event) -> bool:
        """Update from *event*; return False if it is not about tools."""
        match event:
            case events.ToolCallsAnnounced(calls=calls):
                for call in calls:
                    self._call(call.id, call.name, call.input)
            case events.ApprovalRequested(call=call):
                self._asked.add(call.id)
            case events.ToolExecutionStart():
                call_row = self._call(event.tool_call_id, event.tool_name, event.args)
                call_row.started_s = self._clock()
            case events.ToolExecutionUpdate():
                self._update(event)
            case events.PromptOutput(output=FileOutput() | WidgetOutput() as output):
                self._attach(output)
            case events.ToolExecutionEnd():
                self._end(event)
            case _:
                return False
        return True

    def end(self) -> None:
        """Drop calls that never started: they wait for approval, or the run was stopped."""
        for call_id in [key for key, call in self._calls.items() if call.ended_s is None]:
            del self._calls[call_id]

    def finished(self) -> list[str]:
        """Return the rows of ended calls, up to the first that is still running.

        Calls side by side that only look have one row. It waits for those of them that still run.
        """
        rows, self._late = self._late, []
        while self._calls:
            looks = [*takewhile(lambda call: call.is_folded, self._calls.values())]
            following = next(islice(self._calls.values(), len(looks), None), None)
            if looks and following and following.ended_s is None and following.looks:
                break
            first = next(iter(self._calls.values()))
            if first.ended_s is None:
                break
            rows += self._folded(looks) if len(looks) > 1 else first.rows
            for call_id in [*islice(self._calls, max(len(looks), 1))]:
                del self._calls[call_id]
        return rows

    def _folded(self, looks: Sequence[_Call]) -> list[str]:
        """Return one row for several calls that only look; Ctrl-O shows what each came to."""
        targets: dict[str, list[str]] = {}
        for call in looks:
            targets.setdefault(call.label, []).append(call.text[len(call.label) :].strip())
        text = " · ".join(f"{label} {', '.join(names)}" for label, names in targets.items())
        began_s = min(call.started_s or 0.0 for call in looks)
        passed = seconds(max(call.ended_s or 0.0 for call in looks) - began_s)
        self._details.keep("\n".join(call.line for call in looks))
        end = f" · {passed} · Ctrl-O"
        text = shortened(text, max(self._columns() - _MARK_CELLS - len(end), 1))
        named = self._named(looks[0], text)
        return [f"{self._paint.text('✓', 'good')} {named}{self._paint.text(end, 'dim')}"]

    def tail(self, spinner: str) -> list[str]:
        """Return one row for each call, with the latest update of a running one."""
        rows: list[str] = []
        listed = self.listed()
        for call_id, call in self._calls.items():
            if call.ended_s is None and call_id in listed:
                continue
            if call.ended_s is not None:
                rows.append(call.rows[0])
            elif call.started_s is None:
                rows.append(self._paint.text(f"· {call.text}", "dim"))
            else:
                passed = whole_seconds(int(self._clock() - call.started_s))
                room = self._columns() - len(passed) - len(spinner) - 3
                if call.beside:
                    room -= len(" · ")
                    most = max(room - row_width(call.text), room // 2)
                    beside = shortened(call.beside, most)
                    passed, room = f"{beside} · {passed}", room - row_width(beside)
                text = self._named(call, shortened(call.text, room))
                rows.append(f"{spinner} {text} {self._paint.text(passed, 'dim')}")
                rows += call.update
                rows += [row for out in call.side_outputs[-1:] for row in self._drawn(out)]
        return rows

    def _call(self, call_id: str, name: str, given: Json) -> _Call:
        tools = self._tools()
        label, text = clean(label_of(tools, name)), clean(describe_call(tools, name, given))
        return self._calls.setdefault(call_id, _Call(label, text, looks=name in _LOOKS))

    def _named(self, call: _Call, text: str) -> str:
        label = text[: len(call.label)]
        return self._paint.text(label, "label") + text[len(label) :]

    def _drawn(self, output: SideOutput) -> list[str]:
        """Return the rows of a live side output: progress."""
        return self._details.side_output(output) if _label(output) is not None else []

    def _attach(self, output: SideOutput) -> None:
        if call := self._calls.get(output.tool_call_id):
            call.attach(output)
        else:
            self._late += self._details.side_output(output)

    def _update(self, event: events.ToolExecutionUpdate) -> None:
        call = self._call(event.tool_call_id, event.tool_name, None)
        details = event.partial_result.details
        if isinstance(details, dict) and isinstance(status := details.get("status"), str):
            call.beside = clean(status)
            return
        rows = rows_of(event.partial_result.text.rstrip("\n"))
        hidden = max(_printed(event.partial_result), len(rows)) - _UPDATE_ROWS_MAX
        note = [f"… {counted(hidden, 'line')} above"] if hidden > 0 else []
        shown = [*note, *rows[-_UPDATE_ROWS_MAX:]]
        call.update = tuple(self._paint.text(f"  {row}", "dim") for row in shown)

    def _end(self, event: events.ToolExecutionEnd) -> None:
        call = self._call(event.tool_call_id, event.tool_name, None)
        call.ended_s = self._clock()
        begun_s = call.ended_s if call.started_s is None else call.started_s
        elapsed_s = call.ended_s - begun_s
        was_asked = event.tool_call_id in self._asked
        self._asked.discard(event.tool_call_id)
        call.rows = [*self._last_rows(call, event, elapsed_s)]
        below = self._details.result(event.result, is_error=event.is_error, was_asked=was_asked)
        call.rows += below
        if not (below or event.is_error or was_asked):
            call.line = " · ".join(filter(None, (call.text, outcome_of(event.result.details))))
        for output in call.side_outputs:
            call.rows += self._details.side_output(output)

    def _last_rows(
        self, call: _Call, event: events.ToolExecutionEnd, elapsed_s: float
    ) -> Iterator[str]:
        """Yield the permanent row, wrapped between words."""
        details = event.result.details
        is_bad = event.is_error or has_failed(details)
        mark = self._paint.text("✗", "bad") if is_bad else self._paint.text("✓", "good")
        if event.is_error:
            first_line, *_ = clean(event.result.text).split("\n", 1)
            words = ": ".join(failure(first_line, elapsed_s))
        else:
            passed = seconds(elapsed_s).replace(" ", _NO_BREAK)
            words = " · ".join(filter(None, (outcome_of(details), passed)))
        text, words_begin = f"{call.text} · {words}", len(call.text) + 1
        for start, end in wrapped(text, max(self._columns() - _MARK_CELLS, 1)):
            middle = min(max(words_begin, start), end)
            name = text[start:middle] if start else self._named(call, text[:middle])
            words = text[middle:end].replace(_NO_BREAK, " ")
            outcome = self._paint.text(words, "bad" if is_bad else "dim")
            yield f"{mark} {name}{outcome}"
            mark = " "


def _printed(partial: ToolResult) -> int:
    """Return how many lines a running command has printed, without blank ones at the end; or 0."""
    match partial.details:
        case {"lines": int(lines)}:
            blank = len(partial.text) - len(partial.text.rstrip("\n")) - 1
            return lines - max(blank, 0)
        case _:
            return 0


def _label(output: SideOutput) -> str | None:
    """Return the label of the progress in *output*; None if it is not progress."""
    if isinstance(output, WidgetOutput) and output.widget == "progress":
        progress = progress_of(output.data)
        return progress.label if progress else None
    return None
