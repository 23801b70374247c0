"""What a server can be in, for the status line, `/mcp` and warnings, and when it starts again."""

from dataclasses import dataclass
from enum import StrEnum


class ServerPhase(StrEnum):
    """Where a server is in its life.

    disabled
    misconfigured                                      its entry cannot be used
    connecting -> ready -> lost -> connecting ...      at most three restarts in a row
    connecting | lost -> failed
    any -> closed
    """

    DISABLED = "disabled"
    MISCONFIGURED = "misconfigured"
    CONNECTING = "connecting"
    READY = "ready"
    LOST = "lost"
    FAILED = "failed"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class ServerState:
    """One server at one moment.

    Attributes:
        reason: For `lost` and `failed`, the sentence a person reads; it quotes standard error.
        tools: Number of tools it offers.
        notes: What was left out and why, one sentence each (a tool with an invalid schema).
        restarts: Restarts since it last ran for a while.
        tokens: What its tools add to every request, about (bytes / 4).
        needs_sign_in: It failed for want of a sign-in.
        changed: Tools that are withheld because they changed since they were approved.
        stderr: The last lines of its standard error when it last ended, printable.
        last_end: Why it last ended, "" when it never did; `reason` is gone after a restart.
    """

    name: str
    phase: ServerPhase
    reason: str = ""
    tools: int = 0
    notes: tuple[str, ...] = ()
    restarts: int = 0
    tokens: int = 0
    needs_sign_in: bool = False
    changed: tuple[str, ...] = ()
    stderr: tuple[str, ...] = ()
    last_end: str = ""

    @property
    def offer(self) -> str:
        """What it offers and what that costs, in words."""
        return f"{self.tools} tool{'' if self.tools == 1 else 's'}, about {self.tokens:,} tokens"

    @property
    def unquoted(self) -> tuple[str, ...]:
        """`stderr`, unless `reason` holds all of it."""
        return () if all(line in self.reason for line in self.stderr) else self.stderr


@dataclass(frozen=True, slots=True)
class RestartPolicy:
    """How often a server that was ready is started again after its end.

    Attributes:
        delays_s: Wait before each restart; their number is the limit.
        stable_s: A server that ran so long gets all its restarts back.
    """

    delays_s: tuple[float, ...] = (0.5, 2.0, 8.0)
    stable_s: float = 60.0


NORMAL_RESTARTS = RestartPolicy()
NO_RESTARTS = RestartPolicy(delays_s=())
