"""What a run came to, kept while its events pass by."""

from dataclasses import dataclass, field

from agent_cli.contracts.events import Event, EventSink, MessageEnd, TurnStart
from agent_cli.contracts.messages import AssistantMessage, Message


@dataclass(frozen=True, slots=True)
class RunResult:
    """What a run came to; see `AgentEnd` for `stop_reason`. `iterations` counts model calls."""

    messages: tuple[Message, ...]
    final_message: AssistantMessage | None
    iterations: int
    stop_reason: str
    error: str | None = None


@dataclass(slots=True)
class Tally:
    """Passes events on to `sink` and keeps what the run's end has to tell.

    `message` is the reply of the current turn; `messages` are those the run added so far.
    """

    sink: EventSink
    messages: list[Message] = field(default_factory=list[Message])
    message: AssistantMessage | None = None
    iterations: int = 0

    def __call__(self, event: Event) -> None:
        """Take note of *event* and pass it on."""
        match event:
            case TurnStart():
                self.message = None
            case MessageEnd():
                self.messages.append(event.message)
                if isinstance(event.message, AssistantMessage):
                    self.message = event.message
            case _:
                pass
        self.sink(event)

    def result(self, stop_reason: str, error: str | None) -> RunResult:
        """Return the result of a run that ended so."""
        replies = [message for message in self.messages if isinstance(message, AssistantMessage)]
        final = replies[-1] if replies else None
        return RunResult(tuple(self.messages), final, self.iterations, stop_reason, error)
