"""The clients of one server, one for each event loop that asks; loaded in a thread.

A connection belongs to the loop that opened it. A program may call `asyncio.run` more than once, or
ask from several threads, with one provider: each loop has its own connections, which close with it.
"""

import asyncio
import threading
from asyncio import AbstractEventLoop
from collections.abc import AsyncGenerator
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from agent_cli.contracts.errors import ModelError
from agent_cli.providers.anthropic.connection import Connection, known_credential
from agent_cli.providers.anthropic.platforms import ANTHROPIC
from agent_cli.system.event_loop import closed_with_loop
from agent_cli.system.loading import load
from agent_cli.system.records import dataclass, field

if TYPE_CHECKING:
    from agent_cli.providers.transport import OpenReply


class Client(Protocol):
    """A client of one server.

    `WireClient` needs a key; `SdkClient` finds credentials, `CloudClient` those of other clouds.
    """

    @property
    def base_url(self) -> str:
        """The address of the server, for messages."""
        ...

    def post(
        self, parameters: dict[str, Any], *, api_key: str | None
    ) -> "AbstractAsyncContextManager[OpenReply]":
        """Send a request and yield the open reply; leaving the block closes the connection.

        Args:
            parameters: Arguments of the SDK's `messages.create`, as `wire.parameters` makes them.
            api_key: Replaces the connection's for this request.

        Raises:
            CallFailed: There was no reply, an error status, or the reply broke off.
        """
        ...

    async def count_tokens(self, parameters: dict[str, Any], *, api_key: str | None) -> int:
        """Return the tokens of a prompt; the server charges nothing for the count.

        Args:
            parameters: Arguments of the SDK's `messages.count_tokens`.
            api_key: Replaces the connection's for this request.

        Raises:
            CallFailed: There was no count.
        """
        ...

    async def aclose(self) -> None:
        """Close the connections that are kept for the next request."""


_LOAD_LIMIT_S = 120


@dataclass(slots=True, eq=False)
class _LoopClient:
    """A client that is being loaded or was loaded; `closing` closes it with its loop."""

    loaded: "Future[Client]" = field(default_factory=lambda: Future())
    closing: AsyncGenerator[None] | None = None

    @property
    def has_failed(self) -> bool:
        return self.loaded.done() and self.loaded.exception() is not None


class LoopClients:
    """Loads a client at a loop's first request; any thread may ask.

    The small client if the key is known, else the SDK's, whose import takes over a second.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._lock = threading.RLock()
        self._clients: dict[AbstractEventLoop | None, _LoopClient] = {}
        self._is_recording = False

    def preload(self) -> None:
        """Begin to load a client; the first loop that asks takes it. A second call does nothing."""
        with self._lock:
            if all(each.has_failed for each in self._clients.values()):
                self._clients[None] = self._begun()

    async def get(self) -> "Client":
        """Return the running loop's client.

        After a failure it is loaded again: the user may have removed the cause.

        Raises:
            ModelError: It could not be loaded; the message says what to do.
        """
        loop = asyncio.get_running_loop()
        # Not awaited once it is loaded: another task could close it meanwhile.
        while not (entry := self._of_loop(loop)).loaded.done():
            try:
                async with asyncio.timeout(_LOAD_LIMIT_S):
                    await asyncio.wrap_future(entry.loaded)
            except TimeoutError as error:
                raise ModelError(
                    f"the model's client was not loaded within {_LOAD_LIMIT_S} s; check the disk it"
                    " is installed on, then ask again"
                ) from error
        client = entry.loaded.result()
        if entry.closing is None and self._connection.replay is None:
            entry.closing = await closed_with_loop(client)
        return client

    async def aclose(self) -> None:
        """Close the running loop's client; the next request loads another one."""
        with self._lock:
            entry = self._clients.pop(asyncio.get_running_loop(), None)
        if entry and entry.closing:
            await entry.closing.aclose()

    def _of_loop(self, running: AbstractEventLoop) -> _LoopClient:
        # A replayed recording has one position, and no connection.
        loop = running if self._connection.replay is None else None
        with self._lock:
            for other in [each for each in self._clients if each and each.is_closed()]:
                del self._clients[other]
            entry = self._clients.get(loop) or self._clients.pop(None, None)
            if entry is None or entry.has_failed:
                entry = self._begun()
            self._clients[loop] = entry
            return entry

    def _begun(self) -> _LoopClient:
        entry = _LoopClient()
        # Eagerly: a task that has not started would be cancelled together with its waiter.
        entry.loaded.set_running_or_notify_cancel()
        # A daemon thread, so that an early exit does not wait for the import.
        thread = threading.Thread(
            target=self._load, args=(entry.loaded,), name="load client", daemon=True
        )
        try:
            thread.start()
        except RuntimeError:  # the user's thread limit may be reached
            self._load(entry.loaded)
        return entry

    def _load(self, loaded: "Future[Client]") -> None:
        """Build a client; errors are raised where it is awaited."""
        try:
            loaded.set_result(self._client())
        except ImportError as error:
            loaded.set_exception(
                ModelError(f"a package of the model's client is missing ({error}); install again")
            )
        except OSError as error:
            loaded.set_exception(
                ModelError(f"the model's client cannot be loaded: {error}; ask again")
            )
        except ModelError as error:
            loaded.set_exception(error)
        finally:
            if not loaded.done():
                # A bug of ours: the thread's traceback has the details, but waiters must not hang.
                loaded.set_exception(ModelError("the connection to the model could not be set up"))

    def _client(self) -> "Client":
        connection = self._connection
        if connection.record is not None:
            self._start_recording(connection.record)
        if connection.platform is not ANTHROPIC and connection.replay is None:
            load("agent_cli.providers.anthropic.clouds")
            from agent_cli.providers.anthropic.clouds import CloudClient  # as below

            return CloudClient(connection)
        credential = known_credential(connection)
        if credential is not None:
            load("agent_cli.providers.anthropic.wire_client")
            from agent_cli.providers.anthropic.wire_client import WireClient  # the thread's

            return WireClient(connection, credential)
        load("agent_cli.providers.anthropic.sdk_client")
        from agent_cli.providers.anthropic.sdk_client import SdkClient  # the thread's work

        return SdkClient(connection)

    def _start_recording(self, path: Path) -> None:
        """Empty the file once: the clients of all loops add to one recording."""
        load("agent_cli.providers.recording")
        from agent_cli.providers.recording import start_recording  # rare

        with self._lock:
            if not self._is_recording:
                start_recording(path)
            self._is_recording = True
