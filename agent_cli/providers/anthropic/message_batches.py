"""The Message Batches API: many requests at once, answered within a day at half the price.

It imports the SDK, which takes over a second; load it in a thread.
"""

import json
from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from anthropic.resources.beta.messages import AsyncBatches

from agent_cli.contracts.timeline import Json
from agent_cli.providers.anthropic.connection import Connection
from agent_cli.providers.anthropic.sdk_client import SdkClient
from agent_cli.providers.encoding import encodable
from agent_cli.providers.failures import CallFailed


class MessageBatches:
    """Creates Message Batches and reads their results.

    Every method raises `ModelError` if the request failed.
    """

    def __init__(self, connection: Connection) -> None:
        """Connect to nothing yet."""
        self._client = SdkClient(connection)

    async def create(self, requests: Mapping[str, Mapping[str, Json]], betas: Sequence[str]) -> str:
        """Send *requests*, the parameters of each by its custom id; return the id of the batch."""
        sent: Any = [  # JSON: the SDK describes each parameter
            {"custom_id": id, "params": {name: encodable(each) for name, each in params.items()}}
            for id, params in requests.items()
        ]
        with self._asking() as batches:
            return (await batches.create(requests=sent, betas=[*betas])).id

    async def has_ended(self, id: str) -> bool:
        """Return whether each request of a batch has its result."""
        with self._asking() as batches:
            return (await batches.retrieve(id)).processing_status == "ended"

    async def results(self, id: str) -> AsyncGenerator[tuple[str, Mapping[str, Json]], None]:
        """Yield the custom id and the result of each request of a batch that has ended."""
        with self._asking() as batches:
            async for line in await batches.results(id):
                result: dict[str, Json] = json.loads(line.result.to_json())
                yield line.custom_id, result

    async def aclose(self) -> None:
        """Close the idle connections."""
        await self._client.aclose()

    @contextmanager
    def _asking(self) -> Generator[AsyncBatches]:
        try:
            with self._client.failures():
                yield self._client.sdk.beta.messages.batches
        except CallFailed as failed:
            raise failed.error from failed
