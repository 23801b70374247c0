"""Log the events that the user sees."""

from typing import Final

from agent_cli.contracts import events
from agent_cli.system.logger import logger

SHOWN: Final = "agent_cli.shown"
"""The logger of what the terminal shows anyway; the console leaves it out."""
_log, _shown = logger(__name__), logger(SHOWN)


class EventLog:
    """Logs the events that the user sees during a run; an event sink.

    Events are held back until `release`: the first record imports structlog, which would delay the
    first request by 50 ms.
    """

    def __init__(self) -> None:
        self._kept: list[events.Event] | None = []

    def __call__(self, event: events.Event) -> None:
        """Log *event*, or hold it back."""
        if self._kept is None:
            _record(event)
        else:
            self._kept.append(event)

    def release(self) -> None:
        """Log the events held back, and from now on every event at once."""
        kept, self._kept = self._kept, None
        for event in kept or ():
            _record(event)


def _record(event: events.Event) -> None:
    """Log *event*; at level info, even warnings."""
    match event:
        case events.SessionOpened():
            _log.info("session opened", session_id=event.session_id, resumed=event.resumed)
        case events.Notice():
            _shown.info("notice", notice_level=event.level, text=event.text)
        case events.ErrorShown():
            _shown.info("error shown", text=event.text)
        case events.Retry():
            _shown.info("retry", attempt=event.attempt, wait_s=event.wait_s, reason=event.reason)
        case events.Compacted():
            _shown.info(
                "compacted",
                removed_messages=event.removed_messages,
                tokens_before=event.tokens_before,
                tokens_after=event.tokens_after,
            )
        case events.AgentEnd():
            _log.info("run ended", stop_reason=event.stop_reason, error=event.error)
        case _:
            pass
