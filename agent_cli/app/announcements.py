"""Buffer events of the program itself until a front end listens."""

from agent_cli.contracts.events import Event, EventSink, Notice


class Announcements:
    """An event sink that holds events back until `release`."""

    def __init__(self, publish: EventSink) -> None:
        """Hold events back; after `release` pass them to *publish*."""
        self._publish = publish
        self._early: list[Event] | None = []

    def __call__(self, event: Event) -> None:
        """Pass *event* on, or hold it back."""
        if self._early is None:
            self._publish(event)
        else:
            self._early.append(event)

    def warn(self, text: str) -> None:
        """Announce a warning."""
        self(Notice("warning", text))

    def release(self) -> None:
        """Pass on the events held back, and every event from now on."""
        early, self._early = self._early, None
        for event in early or ():
            self._publish(event)
