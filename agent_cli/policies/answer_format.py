"""Send the schema of the answer with the requests of one agent; a `stream_fn` around another."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import replace

from agent_cli.contracts.provider import ModelRequest, StreamEvent, StreamFn, closable
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

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamEvent, None]:
        """Stream one reply, as the function within; see `provider.Provider`."""
        if self.schema is not None:
            request = replace(request, output_schema=dict(self.schema))
        async with aclosing(closable(self._ask(request))) as events:
            async for event in events:
                yield event
