"""The limits on time and tokens of one run without a REPL."""

import asyncio
from collections.abc import Callable, Generator
from contextlib import contextmanager

from agent_cli.contracts.events import Event, ToolCallsAnnounced, TurnStart, UsageChanged, innermost
from agent_cli.system.records import dataclass


@dataclass(frozen=True, slots=True)
class RunLimits:
    """The time and tokens a run may use; None is no limit."""

    time_s: float | None = None
    tokens: int | None = None


class LimitWatch:
    """Stops a run at the first limit it reaches.

    A run that has used up its tokens is stopped before its next tool call or model call, so that a
    finished answer is not lost.

    Attributes:
        reached: The stop reason of the limit that stopped the run; "" while none has.
    """

    def __init__(self, limits: RunLimits, stop: Callable[[str], None]) -> None:
        """Watch nothing yet; *stop* is called at most once, with a sentence."""
        self.reached = ""
        self._limits = limits
        self._stop = stop
        self._tokens = 0

    @contextmanager
    def running(self) -> Generator[None]:
        """Apply the time limit to the body."""
        seconds = self._limits.time_s
        if seconds is None:
            yield
            return
        reason = f"stopped after {seconds:g} s, the limit --time-limit: go on with --continue"
        timer = asyncio.get_running_loop().call_later(seconds, self._reach, "time_limit", reason)
        try:
            yield
        finally:
            timer.cancel()

    def note(self, event: Event) -> None:
        """Count the tokens reported by *event*, including tokens of agents."""
        match innermost(event):
            case UsageChanged(reply=usage):
                self._tokens += usage.prompt_tokens + usage.output_tokens
            case ToolCallsAnnounced() | TurnStart() if self._has_used_all():
                reason = (
                    f"stopped after {self._tokens} tokens, the limit --max-tokens-total is"
                    f" {self._limits.tokens}: go on with --continue"
                )
                self._reach("max_tokens_total", reason)
            case _:
                pass

    def _has_used_all(self) -> bool:
        return self._limits.tokens is not None and self._tokens >= self._limits.tokens

    def _reach(self, limit: str, sentence: str) -> None:
        if not self.reached:
            self.reached = limit
            self._stop(sentence)
