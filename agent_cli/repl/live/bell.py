"""A bell or a notification after a long run, for a user who looked away."""

from collections.abc import Callable
from typing import Final

from agent_cli.contracts.events import AgentEnd, AgentStart, Event

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
