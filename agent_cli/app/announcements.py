"""Events of the program itself: kept until a front end listens, passed on from then on."""

from agent_cli.contracts.events import Event, EventSink, Notice


class Announcements:
    """An event sink; what happens before `release` waits for it."""

    def __init__(self, publish: EventSink) -> None:
        """Keep what happens; later, hand it to *publish*."""
        self._publish = publish
        self._early: list[Event] | None = []

    def __call__(self, event: Event) -> None:
        """Pass *event* on, or keep it."""
        if self._early is None:
            self._publish(event)
        else:
            self._early.append(event)

    def warn(self, text: str) -> None:
        """Announce a warning."""
        self(Notice("warning", text))

    def release(self) -> None:
        """Pass on what was kept, and everything from now on."""
        early, self._early = self._early, None
        for event in early or ():
            self._publish(event)
