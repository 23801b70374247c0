"""Send the schema of the answer with the requests of one agent; a `stream_fn` around another."""

from collections.abc import AsyncIterator, Mapping
from dataclasses import replace

from agent_cli.contracts.provider import ModelRequest, StreamEvent, StreamFn
from agent_cli.contracts.timeline import Json


class AnswerFormat:
    """The form of the text of all replies.

    Attributes:
        schema: A JSON Schema; None for any text. Set before the first request, since a change makes
            the model read the conversation anew.
    """

    def __init__(self, stream: StreamFn) -> None:
        self._ask = stream
        self.schema: Mapping[str, Json] | None = None

    def stream(self, request: ModelRequest) -> AsyncIterator[StreamEvent]:
        """Stream one reply, as the function within; see `provider.Provider`."""
        if self.schema is not None:
            request = replace(request, output_schema=dict(self.schema))
        return self._ask(request)
