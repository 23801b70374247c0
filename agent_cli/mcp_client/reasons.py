"""Reasons for failed connections and calls, as sentences a person or the model can act on."""

import re
from collections.abc import Iterator, Mapping, Sequence
from http import HTTPStatus
from urllib.parse import urlsplit

import httpx2
from mcp import MCPError
from mcp.client.auth import OAuthFlowError, OAuthRegistrationError
from mcp.client.auth.utils import extract_field_from_www_auth
from pydantic import ValidationError

from agent_cli.contracts.errors import SettingsError
from agent_cli.contracts.input_faults import fault_line
from agent_cli.contracts.wording import first_named, printable, requested_duration
from agent_cli.mcp_client.config import ServerConfig, is_header
from agent_cli.system.http_requests import (
    FORBIDDEN_HEADER,
    HttpSettingsError,
    reason_of,
    why_unreached,
)
from agent_cli.system.json_text import json_object
from agent_cli.system.logger import logger
from agent_cli.system.shapes import is_group, is_object

CONNECTION_CLOSED = -32000
REQUEST_TIMEOUT = -32001
HTTP_FAILED = -32098
"""Ours: a request over HTTP was not sent; from the range left to implementations."""

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

NO_ANSWER = -32092
"""Ours: a request was sent, and what came back is no answer to it."""

NO_SIGN_IN = (401, 403)
"""HTTP: not signed in, or without permission."""

_NO_SCOPE = "insufficient_scope"
"""The error of a request that the sign-in does not cover."""

_CLOSED = (CONNECTION_CLOSED, "Connection closed")
"""The SDK's message for a stream that ended."""
INVALID_REQUEST = -32600
_BEHIND_PROXY = re.compile(
    r"Error POSTing to endpoint(?! \(HTTP 5).*"
    r"(\b(no|invalid|valid|unknown|missing) session|\bsession (id|not found|expired)"
    r"|not initialized)",
    re.IGNORECASE | re.DOTALL,
)
"""The TypeScript SDK's error in a proxy such as mcp-remote, whose own server was restarted.

A server that answers 5xx, e.g. for its database session, may have executed the request. Newer
versions of the SDK do not say which status it was.
"""
_TEXT_MAX = 500
_QUOTED_CHARS = 200
_SECONDS = re.compile(r"[0-9]{1,9}")
_READABLE = ("text/", "application/json", "application/problem")
_UNREACHED = (
    httpx2.ConnectError,
    httpx2.ConnectTimeout,
    httpx2.PoolTimeout,
    httpx2.ProxyError,
    httpx2.UnsupportedProtocol,
    HttpSettingsError,
)
_OWN_CLIENT = (
    "register a client with that service yourself, and set the server's oauth.client_id to its id"
)
OTHER_ISSUERS = "agent_cli.other_issuers"
"""The extension of a request with the authorization servers that the sign-in could use instead."""

_ISSUERS_MAX = 3
_OTHER_WAY = '; correct its url, or its type: "http", or "sse" for older servers'


_log = logger(__name__)


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
        _log.error("mcp server failed", server=config.name, exc_info=error)
    where = shown_address(config.url)
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
            return f"{where}: {error_line(cause)}; {_how_to_sign_in(config, cause)}"
        case _ if refused in NO_SIGN_IN:
            way = _how_to_sign_in(config)
            return f"{where} asks for a sign-in: {refusal}; set its headers, or {way}"
        case MCPError() if refused is not None:
            return f"{where} answered with {refusal or error_line(cause)}{_other_way(refused)}"
        case MCPError():
            return _by_error(cause, where, ended)
        case httpx2.HTTPStatusError(response=response):
            status = response.status_code
            answer = f"HTTP {status} ({response.reason_phrase})"
            return f"{where} answered with {answer}{_other_way(status)}"
        case ValidationError():
            return f"its answer is not valid MCP ({fault_line(cause)})"
        case httpx2.UnsupportedProtocol() | httpx2.InvalidURL():
            return f"{where} is not a web address; begin it with http:// or https://"
        case httpx2.TransportError():
            return f"{_unreached(config, cause, where)}{_other_issuers(_others(cause))}"
        case _:
            return error_line(cause)


def _other_issuers(named: Sequence[str]) -> str:
    """Return advice to use another of the authorization servers that a server *named*, if any."""
    if not named:
        return ""
    others = first_named([*map(printable, named)], _ISSUERS_MAX)
    return f"; set the server's oauth.issuer to another one that it names: {others}"


def without_metadata(issuer: str, others: Sequence[str]) -> SignInUnavailable:
    """Return the error of a sign-in at *issuer*, which offers no metadata."""
    what = f"its authorization server {printable(issuer)} offers no metadata"
    return SignInUnavailable(f"{what}{_other_issuers(others)}")


def _others(error: httpx2.RequestError) -> Sequence[str]:
    try:
        named: Sequence[str] = error.request.extensions.get(OTHER_ISSUERS, ())
    except RuntimeError:  # it is not known
        return ()
    return named


def _unreached(config: ServerConfig, error: httpx2.TransportError, where: str) -> str:
    why = failed_request(error, where)[1]
    if _is_elsewhere(config, error):
        return f"{where} leads elsewhere: {why}"
    return why if where in why else f"{where}: {why}"


def _is_elsewhere(config: ServerConfig, error: httpx2.RequestError) -> bool:
    """Return whether a request went to another host or port than the server's."""
    asked, own = _asked(error), httpx2.URL(config.url)
    return asked is not None and (asked.host, asked.port) != (own.host, own.port)


def _asked(error: httpx2.RequestError) -> httpx2.URL | None:
    try:
        return error.request.url
    except RuntimeError:  # it is not known
        return None


def _by_error(error: MCPError, where: str, ended: str) -> str:
    # Servers also use the code for their own errors.
    if (error.code, error.message) == _CLOSED:
        return f"{ended} before it was ready"
    if error.code == NO_ANSWER:
        return f"{where}: {error_line(error)}{_OTHER_WAY}" if where else error_line(error)
    return f"it answered: {error_line(error)}"


def _other_way(status: int) -> str:
    """Return further advice when a server refuses with *status*."""
    if status == HTTPStatus.TOO_MANY_REQUESTS or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return "; try again later"
    return _OTHER_WAY


def _how_to_sign_in(config: ServerConfig, failed: OAuthFlowError | None = None) -> str:
    if isinstance(failed, OAuthRegistrationError):
        return _OWN_CLIENT
    return f"sign in with /mcp login {config.name} (in a shell: agent-cli mcp login {config.name})"


def missing_scope(response: httpx2.Response) -> str | None:
    """Return the scope that a request was refused for, "" for an unnamed one, None for no scope.

    Source: RFC 6750 section 3.1, and RFC 6749 section 3.3 for the characters.
    """
    is_forbidden = response.status_code == HTTPStatus.FORBIDDEN
    if not is_forbidden or extract_field_from_www_auth(response, "error") != _NO_SCOPE:
        return None
    scope = (extract_field_from_www_auth(response, "scope") or "").strip('"')
    return scope if is_header("scope", scope) else ""


def without_scope(request: httpx2.Request, scope: str) -> httpx2.Response:
    """Return the refusal of an earlier request, for lack of *scope*, as an answer to *request*."""
    challenge = f'Bearer error="{_NO_SCOPE}", scope="{scope}"'
    headers = {"www-authenticate": challenge}
    return httpx2.Response(HTTPStatus.FORBIDDEN, headers=headers, request=request)


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
    forgotten = error.code == INVALID_REQUEST and error.message.lower().startswith("session ")
    return error.code == SESSION_LOST or forgotten or bool(_BEHIND_PROXY.search(error.message))


def failed_request(error: httpx2.RequestError, where: str) -> tuple[int, str]:
    """Return our error code for a request to the server at *where* that failed, and the reason."""
    if isinstance(error, httpx2.LocalProtocolError):
        # Its text holds the whole header, e.g. a token with a line break behind it.
        return HTTP_FAILED, FORBIDDEN_HEADER
    if isinstance(error, _UNREACHED):
        asked = _asked(error)
        return HTTP_FAILED, why_unreached(error, shown_address(str(asked)) if asked else where).line
    return NO_ANSWER, f"the connection broke off before the answer ({reason_of(error)})"


def rpc_error(body: bytes) -> Mapping[str, object] | None:
    """Return the JSON-RPC error in *body*, None without one."""
    error = (json_object(body) or {}).get("error")
    if not (is_object(error) and isinstance(error.get("code"), int)):
        return None
    return error if isinstance(error.get("message"), str) else None


def message_in(response: httpx2.Response, body: bytes) -> str:
    """Return the text for people in *body*, shortened; a page is not worth quoting."""
    # Express and others call a bare text a page.
    kind = response.headers.get("content-type", "text/plain").lower()
    is_readable = kind.startswith(_READABLE) and not body.lstrip().startswith(b"<")
    text = body[: _QUOTED_CHARS * 4].decode(errors="replace") if is_readable else ""
    if (found := json_object(body)) is not None:
        text = _message_of(found) or (text if found else "")
    return " ".join(printable(text).split())[:_QUOTED_CHARS]


def _message_of(found: Mapping[str, object]) -> str:
    """Return the message in the JSON of a refusal: of JSON-RPC, OAuth, FastAPI and others."""
    if is_object(error := found.get("error")):
        return _message_of(error)
    keys = ("error_description", "message", "detail", "title", "error")
    return next((text for key in keys if isinstance(text := found.get(key), str) and text), "")


def refusal_line(response: httpx2.Response, message: str) -> str:
    """Return the text of a refusal, e.g. "HTTP 429 (Too Many Requests: slow down)"."""
    parts = [response.reason_phrase, message if message != response.reason_phrase else ""]
    if _SECONDS.fullmatch(wait := response.headers.get("retry-after", "")):
        parts.append(f"it asks to wait {requested_duration(int(wait))}")
    details = ": ".join(part for part in parts if part)
    return f"HTTP {response.status_code} ({details})" if details else f"HTTP {response.status_code}"


def sign_in_refusal(response: httpx2.Response, body: bytes, outcome: str) -> str:
    """Return the *outcome* at the authorization server and why, without the rest of its answer."""
    message = _message_of(json_object(body) or {})
    short = " ".join(printable(message).split())[:_QUOTED_CHARS]
    return f"its authorization server {outcome}: {refusal_line(response, short)}"


def no_answer_line(response: httpx2.Response, body: bytes) -> str:
    """Return why the *body* of a response without an error status is no answer."""
    status = refusal_line(response, "")
    if not body.strip():
        return f"its answer, {status}, is empty"
    kind = response.headers.get("content-type", "").partition(";")[0]
    named = "not MCP" if kind == "application/json" else f"{printable(kind) or 'untyped'}, not MCP"
    quoted = message_in(response, body)
    return f"its answer, {status}, is {named[:_QUOTED_CHARS]}" + (f": {quoted}" if quoted else "")


def error_line(error: BaseException) -> str:
    """Return the text of *error* (of all in a group) as one short printable line."""
    texts = [_text_of(leaf) for leaf in leaves(error)]
    return printable(" ".join("; ".join(texts).split()))[:_TEXT_MAX]


def _text_of(error: BaseException) -> str:
    if isinstance(error, ValidationError):
        return f"its answer is not valid MCP ({fault_line(error)})"
    if isinstance(error, OAuthFlowError) and isinstance(error.__context__, ValidationError):
        # The SDK's text holds pydantic's, with its address.
        return f"the authorization server's answer is not valid ({fault_line(error.__context__)})"
    return str(error) or f"{type(error).__name__} without a message"


def shown_address(url: str) -> str:
    """Return *url* without user name, password and query: they may be secrets."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return url.rpartition("@")[2].partition("?")[0]
    host = parts.netloc.rpartition("@")[2]
    return printable(f"{parts.scheme}://{host}{parts.path}" if host else url.partition("?")[0])
