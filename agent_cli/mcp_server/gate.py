"""Two wrappers around every HTTP request: the token check, and a watch for a client that leaves.

Plain ASGI, so that no request body is read before the token check.
"""

import hmac
import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final, TypeAlias

from agent_cli.contracts.cancel import CancelToken
from agent_cli.contracts.errors import Aborted

# Types of the ASGI specification; the values are of any type.
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
AsgiApp: TypeAlias = Callable[[Message, Receive, Send], Awaitable[None]]

_LEFT: Final = "agent_cli.client_left"
_DISCONNECT: Final = "http.disconnect"


class TokenGate:
    """Answers 401 to every request without the token, whatever its path."""

    def __init__(self, app: AsgiApp, token: str) -> None:
        """Pass requests with `Authorization: Bearer TOKEN` on to *app*."""
        self._app = app
        self._token = token.encode()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http" or self._is_allowed(scope):
            await self._app(scope, receive, send)
            return
        body = json.dumps({"error": "invalid_token"}).encode()
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(body)).encode()),
            (b"www-authenticate", b"Bearer"),
        ]
        await send({"type": "http.response.start", "status": 401, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    def _is_allowed(self, scope: Message) -> bool:
        headers = [value for name, value in scope["headers"] if name == b"authorization"]
        if len(headers) != 1:
            return False
        scheme, _, token = headers[0].partition(b" ")
        return scheme.lower() == b"bearer" and hmac.compare_digest(token.strip(), self._token)


class Presence:
    """Gives each request a token that is cancelled when its client leaves or the server stops."""

    def __init__(self, app: AsgiApp) -> None:
        """Watch the requests of *app*."""
        self._app = app
        self._open: set[CancelToken] = set()
        self._is_ending = False

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        left = CancelToken()
        if self._is_ending:
            left.cancel()

        async def watched() -> Message:
            try:
                async with left.scope():
                    message = await receive()
            except Aborted:
                return {"type": _DISCONNECT}
            if message["type"] == _DISCONNECT:
                left.cancel()
            return message

        self._open.add(left)
        try:
            await self._app({**scope, _LEFT: left}, watched, send)
        finally:
            self._open.discard(left)

    def end(self) -> None:
        """Treat every client as gone: its runs stop, and open streams end."""
        self._is_ending = True
        for left in self._open:
            left.cancel()


def left_token(scope: Message) -> CancelToken:
    """Return the token that is cancelled when the client of this request leaves."""
    token = scope[_LEFT]
    assert isinstance(token, CancelToken)
    return token
