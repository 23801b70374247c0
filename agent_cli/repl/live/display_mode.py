"""The streaming modes: "live" shows replies as they arrive, "sequential" once complete."""

from collections.abc import Iterator

from agent_cli.contracts.events import Event, MessageEnd, MessageUpdate, StateChanged, TurnEnd
from agent_cli.contracts.messages import AssistantMessage
from agent_cli.contracts.options import Streaming
from agent_cli.contracts.provider import TextDelta
from agent_cli.core.phase import CONTENT_STREAMED, Phase
from agent_cli.terminal.narration import words


class Sequence:
    """Filters and splits events for display.

    Live, a reply passes unchanged. Sequential, its text is held back while it streams: an answer is
    shown word by word once the run is responding, text before tool calls is shown whole before
    them, and a reply that broke off is never shown.
    """

    def __init__(self, streaming: Streaming) -> None:
        self._live = streaming == "live"
        self._answer: MessageEnd | None = None

    def __call__(self, event: Event) -> Iterator[Event]:
        """Yield the events to show for *event*."""
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
