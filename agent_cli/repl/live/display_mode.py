"""Which events reach the screen, and in what pieces: live, or an answer once it is complete."""

from collections.abc import Iterator

from agent_cli.contracts.events import Event, MessageEnd, MessageUpdate, StateChanged, TurnEnd
from agent_cli.contracts.messages import AssistantMessage
from agent_cli.contracts.options import Streaming
from agent_cli.contracts.provider import TextDelta
from agent_cli.core.phase import CONTENT_STREAMED, Phase
from agent_cli.terminal.narration import words


class Sequence:
    """Makes of each event those that are shown.

    Live, a reply passes as it comes. Sequential, its text is held while the stream runs: an answer
    is told word by word once the run is responding, what was said on the way to a tool comes whole
    before the tools, and a reply that broke off is never shown.
    """

    def __init__(self, streaming: Streaming) -> None:
        self._live = streaming == "live"
        self._answer: MessageEnd | None = None

    def __call__(self, event: Event) -> Iterator[Event]:
        """Yield what is shown of *event*, now that it happened."""
        match event:
            case MessageUpdate(event=TextDelta()) if not self._live:
                pass
            case MessageEnd(message=AssistantMessage()) if not self._live:
                self._answer = event
            case StateChanged(after=after) if after in CONTENT_STREAMED:
                yield event
                yield from self._tell(in_words=True)
            case StateChanged(before=Phase.THINKING) | TurnEnd():
                yield from self._tell(in_words=False)
                yield event
            case _:
                yield event

    def _tell(self, *, in_words: bool) -> Iterator[Event]:
        held, self._answer = self._answer, None
        if held is None or not isinstance(message := held.message, AssistantMessage):
            return
        if in_words and not message.broke_off:
            for word in words(message.text):
                yield MessageUpdate(lambda: message, TextDelta(0, word))
        yield held
