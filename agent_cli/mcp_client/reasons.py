"""Reasons for failed connections and calls, as sentences a person or the model can act on."""

from collections.abc import Iterator
from http import HTTPStatus
from urllib.parse import urlsplit

import httpx2
from mcp import MCPError
from mcp.client.auth import OAuthFlowError
from pydantic import ValidationError

from agent_cli.contracts.errors import SettingsError
from agent_cli.contracts.input_faults import fault_line
from agent_cli.contracts.wording import printable
from agent_cli.mcp_client.config import ServerConfig
from agent_cli.system.logger import logger
from agent_cli.system.shapes import is_group

CONNECTION_CLOSED = -32000
REQUEST_TIMEOUT = -32001
HTTP_FAILED = -32098
"""Ours: a request over HTTP got no response; from the range left to implementations."""

SIGN_IN_FAILED = -32097
"""Ours, too: a request was not sent because the user is not signed in."""

HTTP_REFUSED = -32096
"""Ours: the server answered a request with an HTTP status that is an error; `data` holds it."""

SESSION_LOST = -32095
"""Ours: the server does not know the session any more, so it has not executed the request."""

NOT_ASKED = -32094
"""Ours: a request was not sent because the sign-in cannot be renewed now."""

TOO_LONG = -32093
"""Ours: the answer was longer than is read; the request was executed."""

NO_SIGN_IN = (401, 403)
"""HTTP: not signed in, or without permission."""

_CLOSED = (CONNECTION_CLOSED, "Connection closed")
"""The SDK's message for a stream that ended."""
_INVALID_REQUEST = -32600
_TEXT_MAX = 500
_OTHER_WAY = '; correct its url, or its type: "http", or "sse" for older servers'


log = logger(__name__)


class SignInUnavailable(OAuthFlowError):
    """A sign-in would not help: the authorization server or a setting is faulty."""


# The SDK's context managers wrap every exception in groups.
CONNECTION_ERRORS = (
    MCPError,
    OSError,
    RuntimeError,
    ValueError,
    httpx2.HTTPError,
    httpx2.InvalidURL,
    OAuthFlowError,
    SettingsError,
    ExceptionGroup,
)


def leaves(error: BaseException) -> Iterator[BaseException]:
    """Yield the exceptions inside *error*, which may be a group of groups."""
    if is_group(error):
        for part in error.exceptions:
            yield from leaves(part)
    else:
        yield error


def why_not_connected(
    config: ServerConfig,
    error: BaseException,
    *,
    ended: str = "it ended",
    refused: int | None = None,
    refusal: str = "",
) -> str:
    """Return why a server could not be connected to, as a clause.

    Args:
        config: The server.
        error: The error that ended the attempt.
        ended: How the server's process ended, if it did.
        refused: The HTTP status with which the server refused the last message.
        refusal: The server's message, with the status.
    """
    cause = next(leaves(error))
    if not isinstance(error, CONNECTION_ERRORS):
        log.error("mcp server failed", server=config.name, exc_info=error)
    where = _address(config)
    match cause:
        case TimeoutError():
            return f"no answer within {config.startup_timeout_s:g} s"
        case NotADirectoryError():
            return f"its directory '{config.cwd}' does not exist; create it or correct cwd"
        case FileNotFoundError():
            return config.no_command
        case SignInUnavailable():
            return f"{where}: {error_line(cause)}"
        case OAuthFlowError():
            return f"{where}: {error_line(cause)}; {_how_to_sign_in(config)}"
        case _ if refused in NO_SIGN_IN:
            way = _how_to_sign_in(config)
            return f"{where} asks for a sign-in (HTTP {refused}); set its headers, or {way}"
        case MCPError() if refused is not None:
            return f"{where} answered with {refusal or error_line(cause)}{_other_way(refused)}"
        # Servers also use the code for their own errors.
        case MCPError(code=code, message=message) if (code, message) == _CLOSED:
            return f"{ended} before it was ready"
        case httpx2.HTTPStatusError(response=response):
            status = response.status_code
            answer = f"HTTP {status} ({response.reason_phrase})"
            return f"{where} answered with {answer}{_other_way(status)}"
        case MCPError():
            return f"it answered: {error_line(cause)}"
        case ValidationError():
            return f"its answer is not valid MCP ({fault_line(cause)})"
        case httpx2.ConnectError():
            return f"nothing answers at {where} ({error_line(cause)})"
        case httpx2.UnsupportedProtocol() | httpx2.InvalidURL():
            return f"{where} is not a web address; begin it with http:// or https://"
        case _:
            return error_line(cause)


def _other_way(status: int) -> str:
    """Return further advice when a server refuses with *status*."""
    if status == HTTPStatus.TOO_MANY_REQUESTS or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return "; try again later"
    return _OTHER_WAY


def _how_to_sign_in(config: ServerConfig) -> str:
    return f"sign in with /mcp login {config.name} (in a shell: agent-cli mcp login {config.name})"


def needs_sign_in(error: BaseException) -> bool:
    """Return whether a sign-in is missing."""
    return any(
        isinstance(leaf, OAuthFlowError) and not isinstance(leaf, SignInUnavailable)
        for leaf in leaves(error)
    )


def is_session_loss(error: BaseException) -> bool:
    """Return whether the server forgot the session, and so has not executed the request."""
    if not isinstance(error, MCPError):
        return False
    forgotten = error.code == _INVALID_REQUEST and error.message.lower().startswith("session ")
    return error.code == SESSION_LOST or forgotten


def error_line(error: BaseException) -> str:
    """Return the text of *error* (of all in a group) as one short printable line."""
    texts = [_text_of(leaf) for leaf in leaves(error)]
    return printable(" ".join("; ".join(texts).split()))[:_TEXT_MAX]


def _text_of(error: BaseException) -> str:
    if isinstance(error, ValidationError):
        return f"its answer is not valid MCP ({fault_line(error)})"
    return str(error) or f"{type(error).__name__} without a message"


def _address(config: ServerConfig) -> str:
    """Return the URL without user name, password and query: they may be secrets."""
    try:
        parts = urlsplit(config.url)
    except ValueError:
        return config.url.rpartition("@")[2].partition("?")[0]
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}{parts.path}" if host else config.url.partition("?")[0]
