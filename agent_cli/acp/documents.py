"""The client's editor as `Documents`: tools work on its unsaved text."""

import asyncio
from collections.abc import Coroutine
from concurrent.futures import CancelledError
from pathlib import Path
from typing import Any, Final, TypeVar

from agent_cli.acp.client import EditorClient
from agent_cli.acp.faults import ConnectionLost, RpcFault
from agent_cli.contracts.errors import ToolError

_LIMIT_S: Final = 10.0
T = TypeVar("T")


class EditorDocuments:
    """Asks the client from a tool's thread; goes on without an editor that does not answer."""

    def __init__(self, client: EditorClient, loop: asyncio.AbstractEventLoop) -> None:
        """Ask *client*, whose connection lives in *loop*."""
        self._client = client
        self._loop = loop

    def read(self, path: Path) -> str | None:
        """Return the text of *path* as the editor has it; None if it cannot tell."""
        if not self._client.reads_files:
            return None
        try:
            return self._wait(self._client.read_file(str(path)))
        except (RpcFault, ConnectionLost, TimeoutError, CancelledError):
            return None

    def write(self, path: Path, text: str) -> bool:
        """Make *text* the content of *path*; False if the editor cannot, and changed nothing.

        Raises:
            ToolError: The editor did not answer.
        """
        if not self._client.writes_files:
            return False
        try:
            self._wait(self._client.write_file(str(path), text))
        except RpcFault:
            return False
        except (ConnectionLost, TimeoutError, CancelledError) as error:
            raise ToolError(
                f"The editor did not say whether it wrote {path.name}. Read it before going on."
            ) from error
        return True

    # Any: the yield and send types of a coroutine are internal to asyncio.
    def _wait(self, asking: Coroutine[Any, Any, T]) -> T:
        asked = asyncio.run_coroutine_threadsafe(_limited(asking), self._loop)
        return asked.result(_LIMIT_S + 1.0)


async def _limited(asking: Coroutine[Any, Any, T]) -> T:
    async with asyncio.timeout(_LIMIT_S):
        return await asking
