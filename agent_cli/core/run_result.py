"""The result of a run, collected from its events."""

from agent_cli.contracts.errors import AgentCliError, Trouble, trouble_of
from agent_cli.contracts.events import Event, EventSink, MessageEnd, TurnStart
from agent_cli.contracts.messages import AssistantMessage, Message
from agent_cli.system.records import dataclass, field


@dataclass(frozen=True, slots=True)
class RunResult:
    """The result of a run; see `AgentEnd` for `stop_reason`. `iterations` counts model calls.

    `trouble` is the part of the world that ended it, or None.
    """

    messages: tuple[Message, ...]
    final_message: AssistantMessage | None
    iterations: int
    stop_reason: str
    error: str | None = None
    trouble: Trouble | None = None


@dataclass(slots=True)
class Tally:
    """Passes events on to `sink` and collects the result of the run.

    `message` is the reply of the current turn; `messages` are those the run added so far;
    `has_turn` says whether a turn began.
    """

    sink: EventSink
    messages: list[Message] = field(default_factory=list[Message])
    message: AssistantMessage | None = None
    iterations: int = 0
    has_turn: bool = False
    trouble: Trouble | None = None

    def __call__(self, event: Event) -> None:
        """Update from *event* and pass it on."""
        match event:
            case TurnStart():
                self.message = None
                self.has_turn = True
            case MessageEnd():
                self.messages.append(event.message)
                if isinstance(event.message, AssistantMessage):
                    self.message = event.message
            case _:
                pass
        self.sink(event)

    def ended_by(self, error: AgentCliError) -> tuple[str, str | None]:
        """Note that *error* ends the run; return the stop reason and the sentence."""
        self.trouble = trouble_of(error)
        return error.stop_reason, str(error) or None

    def result(self, stop_reason: str, error: str | None) -> RunResult:
        """Return the result of a run that ended for *stop_reason*."""
        replies = [message for message in self.messages if isinstance(message, AssistantMessage)]
        final = replies[-1] if replies else None
        return RunResult(
            tuple(self.messages), final, self.iterations, stop_reason, error, self.trouble
        )
