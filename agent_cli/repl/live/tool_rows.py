"""Tool calls on the screen: a live row each, in call order, and a permanent row at the end."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import islice, takewhile
from typing import Final

from agent_cli.contracts import events
from agent_cli.contracts.side_events import ToolAttemptStart, ToolAttemptUpdate
from agent_cli.contracts.timeline import FileOutput, Json, Pending, ToolOutput, WidgetOutput
from agent_cli.contracts.tooling import Tool, ToolResult
from agent_cli.contracts.wording import counted, seconds, whole_seconds
from agent_cli.repl.live.paint import Paint, row_width, rows_of, shortened
from agent_cli.repl.live.results import Details, SideOutput, progress_of
from agent_cli.repl.markdown.styles import wrapped
from agent_cli.system.records import dataclass, field
from agent_cli.system.sanitize import clean, overwritten
from agent_cli.terminal.narration import (
    describe_call,
    describe_failure,
    has_failed,
    label_of,
    outcome_of,
)

# The last lines of a running call: more of them if it is the only one.
_UPDATE_ROWS_MAX: Final = 3
_ONLY_UPDATE_ROWS_MAX: Final = 5
_MARK_CELLS: Final = 2
# Tools that only look; several calls of them are of little interest one by one.
_LOOKS: Final = frozenset({"read", "grep", "glob"})
# A person has read its output by then, and wonders where it went.
_LONG_TRIED_S: Final = 3.0
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
        """Whether the call can share its row: it only read, and has no further rows."""
        return self.looks and bool(self.line) and not self.side_outputs

    @property
    def looks_still(self) -> bool:
        """Whether it only looks and has not ended."""
        return self.looks and self.ended_s is None

    @property
    def elapsed_s(self) -> float:
        """The time it ran, in seconds; 0 before its end."""
        if self.started_s is None or self.ended_s is None:
            return 0.0
        return self.ended_s - self.started_s

    def attach(self, output: SideOutput) -> None:
        """Add a side output; only the latest of the same progress is kept."""
        earlier = _label(self.side_outputs[-1]) if self.side_outputs else None
        if earlier is not None and earlier == _label(output):
            self.side_outputs.pop()
        self.side_outputs.append(output)


class ToolRows:
    """The calls of a run. Finished rows leave in call order.

    Calls that only look stay, also those of earlier replies, and share one row until something
    else is to be printed.

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
        self._thought = ""
        self._tried: dict[str, _Call] = {}
        self.listed: Callable[[], Collection[str]] = tuple
        # A run that asks ends; its calls are announced again by the run after the answer.
        self._asked: set[str] = set()
        # Why the call before never began: several share one sentence.
        self._refused = ""

    @property
    def is_running(self) -> bool:
        """Whether any call on the screen has not ended."""
        return any(call.ended_s is None for call in self._calls.values())

    def show(self, event: events.Event) -> bool:
        """Update from *event*; return False if it is not about tools."""
        match event:
            case events.ToolCallsAnnounced(calls=calls):
                self._refused = ""
                for call in calls:
                    self._call(call.id, call.name, call.input)
            case ToolAttemptStart():
                self._try(event)
            case events.ApprovalRequested(call=call):
                self._asked.add(call.id)
                self._give_up_trying(call.id)
            case events.PromptOutput(
                output=ToolOutput(decision="approved", result=Pending()) as output
            ):
                # After a restart the question is put again without a request.
                self._asked.add(output.tool_call_id)
            case events.ToolExecutionStart():
                call_row = self._call(event.tool_call_id, event.tool_name, event.args)
                if event.tool_call_id not in self._tried or call_row.started_s is None:
                    call_row.started_s = self._clock()
            case events.ToolExecutionUpdate() | ToolAttemptUpdate():
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

    def fold_thought(self, row: str) -> bool:
        """Keep the *row* of folded thinking if it can share the row of calls; return whether.

        It is dropped if more calls that only look follow, and printed behind the row otherwise.
        """
        if not self._calls or self.is_running:
            return False
        self._thought = row
        return True

    def finished(self, *, releases: bool = False) -> list[str]:
        """Return the rows of ended calls, up to the first that is still running.

        Args:
            releases: Something else is to be printed, so calls that only look wait no longer.
        """
        rows, self._late = self._late, []
        while self._calls:
            looks = self._looks()
            following = next(islice(self._calls.values(), len(looks), None), None)
            if looks and not releases and (following is None or following.looks_still):
                break
            first = next(iter(self._calls.values()))
            if first.ended_s is None:
                break
            rows += self._together(looks) if len(looks) > 1 else first.rows
            for call_id in [*islice(self._calls, max(len(looks), 1))]:
                del self._calls[call_id]
            if self._thought:
                rows.append(self._thought)
                self._thought = ""
        return rows

    def _looks(self) -> list[_Call]:
        """Return the first calls, as far as they can share a row."""
        return [*takewhile(lambda call: call.is_folded, self._calls.values())]

    def _together(self, looks: Sequence[_Call]) -> list[str]:
        """Return one row for several calls that only look; Ctrl-O shows their outcomes."""
        self._details.keep_sentences("\n".join(call.line for call in looks))
        return [self._shared_row(looks, " · Ctrl-O")]

    def _shared_row(self, looks: Sequence[_Call], hint: str = "") -> str:
        targets: dict[str, list[str]] = {}
        for call in looks:
            targets.setdefault(call.label, []).append(call.text[len(call.label) :].strip())
        end = f" · {seconds(sum(call.elapsed_s for call in looks))}{hint}"
        room = max(self._columns() - _MARK_CELLS - len(end), 1)
        texts = (_named_targets(targets, most) for most in (None, 3, 2, 1, 0))
        text = next((text for text in texts if row_width(text) <= room), "")
        text = text or shortened(_named_targets(targets, 0), room)
        named = self._named(looks[0], text)
        return f"{self._paint.text('✓', 'good')} {named}{self._paint.text(end, 'dim')}"

    def tail(self, spinner: str) -> list[str]:
        """Return one row for each call, with the latest update of a running one."""
        looks = self._looks()
        shared = len(looks) if len(looks) > 1 else 0
        rows: list[str] = [self._shared_row(looks)] if shared else []
        listed = self.listed()
        for call_id, call in islice(self._calls.items(), shared, None):
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

    def _call(self, call_id: str, name: str, arguments: Json) -> _Call:
        tools = self._tools()
        label, text = clean(label_of(tools, name)), clean(describe_call(tools, name, arguments))
        if call_id not in self._calls:
            self._calls[call_id] = _Call(label, text, looks=name in _LOOKS)
            self._thought = "" if name in _LOOKS else self._thought
        return self._calls[call_id]

    def _try(self, event: ToolAttemptStart) -> None:
        """Show a call as running; its attempt may be its run."""
        tried = self._call(event.tool_call_id, event.tool_name, None)
        tried.started_s, tried.beside = self._clock(), "read-only"
        self._tried[event.tool_call_id] = tried

    def _give_up_trying(self, asked_id: str) -> None:
        """Have the tried calls wait; say so of the one in question if a person watched it for long.

        Those behind it are tried again later.
        """
        tried, self._tried = self._tried, {}
        for call_id, call in tried.items():
            if call.started_s is None or call.ended_s is not None:
                continue
            tried_s = self._clock() - call.started_s
            call.started_s, call.beside, call.update = None, "", ()
            if call_id == asked_id and tried_s >= _LONG_TRIED_S:
                words = f"was tried read-only for {whole_seconds(int(tried_s))}; Yes runs it anew"
                named = shortened(call.text, self._columns() - row_width(words) - 1)
                self._late.append(self._paint.text(f"{named} {words}", "dim"))

    def _named(self, call: _Call, text: str) -> str:
        label = text[: len(call.label)]
        return self._paint.text(label, "label") + text[len(label) :]

    def _drawn(self, output: SideOutput) -> list[str]:
        """Return the rows of a live side output: progress."""
        return self._details.side_output(output) if _label(output) is not None else []

    def _attach(self, output: SideOutput) -> None:
        call = self._calls.get(output.tool_call_id)
        if call and call.ended_s is None:
            call.attach(output)
        else:
            self._late += self._details.side_output(output)

    def _update(self, event: events.ToolExecutionUpdate | ToolAttemptUpdate) -> None:
        call = self._call(event.tool_call_id, event.tool_name, None)
        details = event.partial_result.details
        if isinstance(details, dict) and isinstance(status := details.get("status"), str):
            call.beside = clean(status)
            return
        rows = rows_of(overwritten(event.partial_result.text.rstrip("\n")))
        running = sum(
            call.started_s is not None for call in self._calls.values() if not call.ended_s
        )
        rows_max = _UPDATE_ROWS_MAX if running > 1 else _ONLY_UPDATE_ROWS_MAX
        hidden = max(_printed(event.partial_result), len(rows)) - rows_max
        note = [f"… {counted(hidden, 'line')} above"] if hidden > 0 else []
        shown = [*note, *rows[-rows_max:]]
        call.update = tuple(self._paint.text(f"  {row}", "dim") for row in shown)

    def _end(self, event: events.ToolExecutionEnd) -> None:
        call = self._call(event.tool_call_id, event.tool_name, None)
        call.ended_s = self._clock()
        was_asked = event.tool_call_id in self._asked
        self._asked.discard(event.tool_call_id)
        call.rows = [*self._last_rows(call, event)]
        below = self._details.result(event.result, is_error=event.is_error, was_asked=was_asked)
        call.rows += below
        if not (below or event.is_error or was_asked):
            call.line = " · ".join(filter(None, (call.text, outcome_of(event.result.details))))
        for output in call.side_outputs:
            call.rows += self._details.side_output(output)

    def _last_rows(self, call: _Call, event: events.ToolExecutionEnd) -> Iterator[str]:
        """Yield the permanent row, wrapped between words."""
        details = event.result.details
        is_bad = event.is_error or has_failed(details)
        mark = self._paint.text("✗", "bad") if is_bad else self._paint.text("✓", "good")
        if event.is_error:
            first_line, *_ = clean(event.result.text).split("\n", 1)
            outcome, reason = describe_failure(first_line, call.elapsed_s)
            if reason.endswith("…"):
                self._details.keep_sentences(event.result.text)
                reason = f"{reason}{_NO_BREAK}·{_NO_BREAK}Ctrl-O"  # never alone on a row
            is_shown_already = call.started_s is None and reason == self._refused
            words = outcome if is_shown_already else f"{outcome}: {reason}"
            self._refused = reason if call.started_s is None else ""
        else:
            passed = seconds(call.elapsed_s).replace(" ", _NO_BREAK)
            words = " · ".join(filter(None, (outcome_of(details), passed)))
        text, words_begin = f"{call.text} · {words}", len(call.text) + 1
        for start, end in wrapped(text, max(self._columns() - _MARK_CELLS, 1)):
            middle = min(max(words_begin, start), end)
            name = text[start:middle] if start else self._named(call, text[:middle])
            words = text[middle:end].replace(_NO_BREAK, " ")
            outcome = self._paint.text(words, "bad" if is_bad else "dim")
            yield f"{mark} {name}{outcome}"
            mark = " "


def _named_targets(targets: Mapping[str, Sequence[str]], most: int | None) -> str:
    """Return "read a, b · grep x" with each target once, at most *most* of each tool by name."""
    parts: list[str] = []
    for label, named in targets.items():
        names = [*dict.fromkeys(named)]
        shown = names[:most]
        more = len(names) - len(shown)
        if shown:
            rest = f" and {more} more" if more else ""
            parts.append(f"{label} {', '.join(shown)}{rest}")
        else:
            parts.append(f"{label} {len(named)} times" if len(named) > 1 else label)
    return " · ".join(parts)


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
