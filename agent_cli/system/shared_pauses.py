"""The state of a pause that many processes share while a server struggles.

After a failure that passes by itself all wait, and one of them at a time asks again. Its success
lets the others go on, one after the other. Where the state is kept, a file or a process, is up to
the user of this module.
"""

import random
from typing import Final, Literal, TypeAlias

from agent_cli.system.records import dataclass

FIRST_PAUSE_S: Final = 1.0
PAUSE_MAX_S: Final = 15.0
ASKED_MAX_S: Final = 300.0
# A probe that says nothing for so long was killed, or its machine is gone.
PROBE_S: Final = 30.0
# After a pause the waiting calls start at this distance, for this time.
DISTANCE_S: Final = 0.25
PACED_S: Final = 30.0
LOOK_EVERY_S: Final = 1.0

Step: TypeAlias = Literal["wait", "failed", "answered"]
"""What a caller says: that it wants to start, or how its call went."""


@dataclass(slots=True)
class PauseState:
    """The state; times are seconds since the epoch, by the clocks of all machines.

    `pause_s` is 0 while the server answers; `next` is the start of the next call after a pause.
    """

    pause_s: float = 0.0
    closed_until: float = 0.0
    probe_until: float = 0.0
    paced_until: float = 0.0
    next: float = 0.0

    def take(self, step: Step, asked_delay_s: float | None, now: float) -> float:
        """Note *step*; return the seconds until a caller that waits should ask again.

        *asked_delay_s* is how long the server asks to wait after a failure, if it does. A caller
        that gets 0 may start.
        """
        if step == "wait":
            return self._wait(now)
        if step == "failed":
            self._close(now, asked_delay_s)
        elif self.pause_s:
            self.pause_s = self.closed_until = self.probe_until = 0.0
            self.next, self.paced_until = now, now + PACED_S
        return 0.0

    def _wait(self, now: float) -> float:
        # A time too far ahead is that of a clock that was set back: it must not stop everything.
        if not self.pause_s:
            if now >= self.paced_until or self.next - now > PACED_S:
                return 0.0
            if self.next > now:
                return self.next - now
            self.next = now + DISTANCE_S
            return 0.0
        left = max(self.closed_until, self.probe_until) - now
        if 0 < left <= ASKED_MAX_S:
            return min(left, LOOK_EVERY_S) * random.uniform(0.5, 1.0)
        self.probe_until = now + PROBE_S
        return 0.0

    def _close(self, now: float, asked_delay_s: float | None) -> None:
        # Calls that were under way when it began say nothing new.
        if now >= self.closed_until:
            self.pause_s = min(max(self.pause_s * 2, FIRST_PAUSE_S), PAUSE_MAX_S)
        asked_s = min(asked_delay_s or self.pause_s, ASKED_MAX_S)
        self.closed_until = max(self.closed_until, now + asked_s)
        self.probe_until = 0.0
