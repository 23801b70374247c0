"""The activity line: current action, elapsed time, tokens received; and the bell after a long run.

It follows events as they happen, not as they are shown, because thinking may be folded and text
held back.
"""

import re
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from math import ceil
from typing import TYPE_CHECKING, Final

from agent_cli.contracts import events
from agent_cli.contracts.events import AgentEnd, AgentStart, Event
from agent_cli.contracts.messages import AssistantMessage
from agent_cli.contracts.options import Notify
from agent_cli.contracts.provider import (
    StreamEvent,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    ToolCallStart,
)
from agent_cli.contracts.side_events import ModelCallDelayed, ToolAttemptStart
from agent_cli.contracts.wording import WAITS_FOR_LIMIT, one_line, short_count, whole_seconds
from agent_cli.core.run import Phase
from agent_cli.repl.live.paint import row_width, shortened
from agent_cli.system.loading import late_pattern
from agent_cli.system.sanitize import clean, reveal

if TYPE_CHECKING:
    from agent_cli.contracts.agents import AgentInfo


_PREPARING: Final = "preparing the request"
_WAITING: Final = "waiting for the model"
_WAITING_FOR_YOU: Final = "waiting for your answer"
_STOP: Final = " · Ctrl-C stops"
# A stream pauses briefly between blocks; only longer pauses are shown.
_STALLED_S: Final = 3.0
# Shorter activities would only flicker.
_COMMAND_SHOWN_S: Final = 0.3
_CHARS_PER_TOKEN: Final = 4
_DOING_CELLS_MIN: Final = 6
_COMMAND_CHARS_MAX: Final = 40
_HOOK_CHARS_MAX: Final = 80
# A command that runs longer may be worth moving to the background.
_MOVABLE_S: Final = 3.0
_MOVES: Final = " · Ctrl-B goes on without it"
_SHELL: Final = "bash"
_SELECTS: Final = " · ↓ selects an agent"
# A line break in the input of a call, which is JSON; a backslash before another escape is no part.
_ESCAPE: Final = late_pattern(r"\\(.?)", re.DOTALL)
# An activity that ends with a time of its own, which matters more than the time of the run.
_TIMED: Final = late_pattern(r".*\d s")


class ActivityLine:
    """An event sink; `text` is the line, "" when idle.

    Attributes:
        can_move: Returns whether the running command can be moved to the background.
        has_agents: Returns whether any agent works that can be selected.
        agents: Returns the session's agents.
        hook: Returns the status message of a running lifecycle hook, or "".
    """

    def __init__(self, clock: Callable[[], float], asks: Callable[[], bool] = bool) -> None:
        """Start idle.

        Args:
            clock: A monotonic clock, in seconds.
            asks: Returns whether a question is open, for which everything else waits.
        """
        self._clock = clock
        self._asks = asks
        self._began_s: float | None = None
        self._command: tuple[str, float] | None = None
        self._is_hidden: Callable[[], bool] = bool
        self._is_stopping = False
        self._doing = _PREPARING
        self._streams = False
        self._heard_s = 0.0
        self._retry: events.Retry | None = None
        self.can_move: Callable[[], bool] = bool
        self.has_agents: Callable[[], bool] = bool
        self.agents: Callable[[], Sequence[AgentInfo]] = tuple
        self.hook: Callable[[], str] = str
        self._running: dict[str, tuple[str, float]] = {}
        self._tokens = 0
        self._chars = 0
        self._lines = _WrittenLines()

    @property
    def is_running(self) -> bool:
        """Whether a run is active."""
        return self._began_s is not None

    @property
    def is_busy(self) -> bool:
        """Whether a run or a command is active."""
        return self.is_running or self._command is not None

    @property
    def only_waits(self) -> bool:
        """Whether a question is open and nothing goes on meanwhile, neither calls nor agents."""
        if self._command is not None or not self._asks():
            return False
        working = [agent for agent in self.agents() if agent.is_running]
        asking = {agent.tool_call_id for agent in working if agent.is_asking}
        others = self._running.keys() - asking
        # Without an asking agent, the question may be that of the only call.
        return all(agent.is_asking for agent in working) and len(others) <= (not asking)

    @contextmanager
    def command(self, line: str, *, unless: Callable[[], bool]) -> Generator[None]:
        """Show *line* as the activity while the body runs, except while *unless* returns True."""
        self._command, self._is_hidden = (one_line(line, _COMMAND_CHARS_MAX), self._clock()), unless
        try:
            yield
        finally:
            self._command, self._is_stopping = None, False

    def stop(self) -> None:
        """Show that the activity is being stopped."""
        self._is_stopping = self.is_busy

    def __call__(self, event: events.Event) -> None:
        """Update from *event*."""
        match event:
            case events.AgentStart():
                self._began_s = self._clock()
                self._tokens, self._chars = 0, 0
                self._running.clear()
                self._do(_PREPARING)
            case events.AgentEnd():
                self._began_s, self._is_stopping = None, False
            case events.TurnStart() if self._retry is None:
                self._do(_PREPARING)
            case events.StateChanged(after=Phase.THINKING):
                self._do(_WAITING, streams=True)
            case events.MessageUpdate(event=piece):
                self._take(piece)
            case events.MessageEnd(message=AssistantMessage()):
                self._do("reading the reply")
            case events.TurnEnd():
                self._do("finishing the turn")  # hooks and the check of a goal may take long
            case events.UsageChanged(reply=used):
                self._tokens += used.output_tokens
                self._chars = 0
            case events.Retry():
                self._do(_WAITING, streams=True)
                self._heard_s += event.wait_s
                self._retry, self._chars = event, 0
            case ModelCallDelayed():
                self._do(WAITS_FOR_LIMIT)
            case events.UsageHeld() if self._doing == WAITS_FOR_LIMIT:
                self._do(_WAITING, streams=True)
            case _:
                self._call(event)

    def _call(self, event: events.Event) -> None:
        """Update from *event*, if it is about calls of tools."""
        match event:
            case events.ToolCallsAnnounced():
                self._do("checking the calls")
            case events.StateChanged(after=Phase.EXECUTING_TOOLS):
                self._do("waiting for other calls")  # unless one runs
            case ToolAttemptStart(tool_name=name):
                self._do(f"trying {_named(name)} read-only")
            case events.ToolExecutionStart():
                self._running[event.tool_call_id] = (event.tool_name, self._clock())
            case events.ToolExecutionEnd():
                self._running.pop(event.tool_call_id, None)
            case _:
                pass

    def text(self, columns: int) -> str:
        """Return activity, elapsed time, tokens received and the key to stop; "" when idle.

        In a narrow window the tokens are left out first, then the time if the activity ends with
        one of its own; then the activity is shortened, and at last the key is left out.
        """
        now_s = self._clock()
        if self._began_s is not None:
            doing, began_s = self._now(now_s), self._began_s
            tokens = self._tokens + self._chars // _CHARS_PER_TOKEN
            if self._asks():
                return shortened(_WAITING_FOR_YOU, columns)
        elif self._command is not None and not self._is_hidden():
            (doing, began_s), tokens = self._command, 0
            if now_s - began_s < _COMMAND_SHOWN_S:
                return ""
        else:
            return ""
        doing = clean(doing)  # the name of a tool may be any text
        if self._is_stopping:
            return shortened(f"stopping: {doing}", columns)
        count_text = f" · {short_count(tokens)} tokens" if tokens > 1 else ""
        passed = f" · {whole_seconds(int(now_s - began_s))}"
        rest = f"{passed}{count_text}{_STOP}"
        if row_width(doing) + len(rest) > columns:
            rest = f"{passed}{_STOP}"
        if row_width(doing) + len(rest) > columns and _TIMED.fullmatch(doing):
            rest = _STOP
        if columns - len(rest) < _DOING_CELLS_MIN:
            rest = passed
        hint = _SELECTS if self.has_agents() else _MOVES if self._is_movable(now_s) else ""
        if row_width(doing) + len(rest) + len(hint) <= columns:
            rest += hint
        return f"{shortened(doing, max(columns - len(rest), 1))}{rest}"

    def _is_movable(self, now_s: float) -> bool:
        """Return whether a call has run long enough to suggest moving it to the background."""
        began_s = (began_s for _name, began_s in self._running.values())
        return now_s - min(began_s, default=now_s) >= _MOVABLE_S and self.can_move()

    def _now(self, now_s: float) -> str:
        if hook := self.hook():
            return one_line(reveal(hook), _HOOK_CHARS_MAX)
        if self._running:
            names = [name for name, _began_s in self._running.values()]
            return (
                f"running {_named(names[0])}" if len(names) == 1 else f"running {len(names)} tools"
            )
        if self._retry and self._heard_s > now_s:
            left = whole_seconds(ceil(self._heard_s - now_s))
            return f"retry {self._retry.attempt} of {self._retry.max_attempts} in {left}"
        doing = f"{self._doing}{self._lines}"
        silent_s = int(now_s - self._heard_s)
        if self._streams and self._doing != _WAITING and silent_s >= _STALLED_S:
            return f"{doing}, no data for {whole_seconds(silent_s)}"
        return doing

    def _do(self, doing: str, *, streams: bool = False) -> None:
        self._doing, self._streams = doing, streams
        self._heard_s, self._retry = self._clock(), None
        self._lines = _WrittenLines()

    def _take(self, piece: StreamEvent) -> None:
        self._heard_s, self._retry = self._clock(), None
        if not isinstance(piece, ToolCallDelta):
            self._lines = _WrittenLines()
        match piece:
            case TextDelta(delta=delta):
                self._doing = "writing"
            case ThinkingDelta(delta=delta):
                self._doing = "thinking"
            case ToolCallStart(name=name):
                doing = "a command" if name == _SHELL else f"a call of {one_line(name)}"
                self._doing, delta = f"writing {doing}", ""
            case ToolCallDelta(delta=delta):
                self._lines.take(delta)
            case _:
                return
        self._chars += len(delta)


class _WrittenLines:
    """Counts the lines in the input of a call while it is written, which may take minutes."""

    def __init__(self) -> None:
        self._count = 0
        self._begun = ""

    def take(self, piece: str) -> None:
        """Count the line breaks in the next *piece* of the input's JSON."""
        escapes = _ESCAPE.findall(f"{self._begun}{piece}")
        self._begun = "" if escapes[-1:] != [""] else "\\"
        self._count += escapes.count("n")

    def __str__(self) -> str:
        return f", {self._count + 1:,} lines" if self._count else ""


def _named(tool: str) -> str:
    """Return the name of *tool* in a sentence."""
    return "a command" if tool == _SHELL else one_line(tool)


LONG_S: Final = 10.0


class Bell:
    """An event sink; rings when a run of more than ten seconds ends or stops to ask."""

    def __init__(self, ring: Callable[[str], None], clock: Callable[[], float]) -> None:
        """Stay silent yet; *ring* gets a sentence, for terminals that can show one."""
        self._ring = ring
        self._clock = clock
        self._began_s: float | None = None

    def __call__(self, event: Event) -> None:
        """Update from *event*."""
        match event:
            case AgentStart():
                self._began_s = self._clock()
            case AgentEnd(stop_reason=reason):
                waits = reason == "waiting_for_approval"
                self._ring_if_long("a question waits" if waits else "the run has ended")
                self._began_s = None
            case _:
                pass

    def question(self) -> None:
        """Ring if a long run stops to ask."""
        self._ring_if_long("a question waits")

    def _ring_if_long(self, why: str) -> None:
        if self._began_s is not None and self._clock() - self._began_s > LONG_S:
            self._ring(f"agent-cli: {why}")


# Terminals whose documentation lists OSC 9. Others give it another meaning (ConEmu) or ignore it;
# they get the bell.
_PROGRAMS: Final = frozenset(("iTerm.app", "WezTerm", "ghostty", "WarpTerminal"))
_TERMS: Final = ("xterm-kitty", "xterm-ghostty", "foot")
_BELL: Final = "\a"


def alert(text: str, notify: Notify, environment: Mapping[str, str]) -> str:
    """Return the sequence that makes the terminal show *text* or ring; "" for no alert."""
    in_tmux = bool(environment.get("TMUX"))
    match notify:
        case "off":
            return ""
        case "osc9":
            return _through_tmux(_notification(text)) if in_tmux else _notification(text)
        case "auto" if not in_tmux and _knows_osc9(environment):
            return _notification(text)
        case _:  # tmux hides the outer terminal's type, and passes on a bell of a background window
            return _BELL


def _knows_osc9(environment: Mapping[str, str]) -> bool:
    term = environment.get("TERM", "")
    if term.startswith(("screen", "tmux")):
        return False
    return (
        environment.get("TERM_PROGRAM", "") in _PROGRAMS
        or term.startswith(_TERMS)
        or bool(environment.get("KITTY_WINDOW_ID"))
    )


def _notification(text: str) -> str:
    return f"\x1b]9;{text}\x1b\\"


def _through_tmux(sequence: str) -> str:
    """Wrap *sequence* for the outer terminal; tmux passes it on if `allow-passthrough` is set."""
    doubled = sequence.replace("\x1b", "\x1b\x1b")
    return f"\x1bPtmux;{doubled}\x1b\\"
