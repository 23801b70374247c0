"""A bell or a notification after a long run, for a user who looked away."""

from collections.abc import Callable, Mapping
from typing import Final

from agent_cli.contracts.events import AgentEnd, AgentStart, Event
from agent_cli.contracts.options import Notify

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
