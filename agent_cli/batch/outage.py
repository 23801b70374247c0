"""Tell an outage, in which every run fails alike, from the failure of a single run."""

from collections.abc import Callable
from typing import Final

from agent_cli.system.records import dataclass

ALIKE: Final = 3
"""So many runs in a row that fail for the same reason are an outage."""
_WAIT_MAX_S: Final = 60.0


@dataclass(slots=True)
class Outage:
    """The runs that failed alike since the last run with another end.

    Attributes:
        wait_max_s: How long an outage is waited for; 0 ends the batch at once.
        probe_after_s: The wait before the first probe; each later one is twice as long.
        clock: Seconds, from any moment.
        trouble: What the runs failed for, or "".
    """

    wait_max_s: float
    probe_after_s: float
    clock: Callable[[], float]
    trouble: str = ""
    _alike: int = 0
    _began_s: float = 0.0
    _wait_s: float = 0.0
    _probe_at_s: float = 0.0

    def note(self, trouble: str) -> None:
        """Note the end of a run, and the failed part of the world; "" if none failed."""
        now = self.clock()
        if not trouble or trouble != self.trouble:
            self._alike, self._began_s, self._wait_s = 0, now, self.probe_after_s
        self.trouble = trouble
        self._alike += bool(trouble)
        # The runs that were under way when it began say nothing new.
        if self.is_on and now >= self._probe_at_s:
            self._probe_at_s = now + self._wait_s
            self._wait_s = min(self._wait_s * 2, _WAIT_MAX_S)

    @property
    def is_on(self) -> bool:
        """Whether all runs fail."""
        return self._alike >= ALIKE

    @property
    def is_hopeless(self) -> bool:
        """Whether it has lasted longer than the batch waits."""
        return self.is_on and self.clock() - self._began_s >= self.wait_max_s

    def probe_in_s(self) -> float:
        """Return the seconds until one run may try whether it is over; 0 if it may now."""
        return max(0.0, self._probe_at_s - self.clock()) if self.is_on else 0.0
