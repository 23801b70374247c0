"""Call a tool of a server, if need be as a task; every outcome becomes a result for the model."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from http import HTTPStatus
from typing import Protocol, TypeVar

from mcp import Client, InputRequiredRoundsExceededError, MCPError
from mcp.shared.exceptions import UrlElicitationRequiredError
from mcp_types import CallToolResult, ResourceLink
from pydantic import ValidationError

from agent_cli.contracts.errors import ToolError
from agent_cli.contracts.input_faults import fault_line
from agent_cli.contracts.schema_check import UncheckableSchema, schema_faults
from agent_cli.contracts.servers import READ_TOOL
from agent_cli.contracts.timeline import Json, text_block
from agent_cli.contracts.tooling import ToolContext, ToolResult
from agent_cli.contracts.wording import one_line, printable
from agent_cli.mcp_client.callbacks import Callbacks
from agent_cli.mcp_client.config import ServerConfig
from agent_cli.mcp_client.content import structured_content, tool_result
from agent_cli.mcp_client.host import Host
from agent_cli.mcp_client.limits import ConnectionEnded, SilenceLimits, TotalTimeReached, Uses
from agent_cli.mcp_client.reasons import (
    CONNECTION_CLOSED,
    CONNECTION_ERRORS,
    HTTP_FAILED,
    HTTP_REFUSED,
    INVALID_REQUEST,
    NO_ANSWER,
    NOT_ASKED,
    REQUEST_TIMEOUT,
    SIGN_IN_FAILED,
    TOO_LONG,
    error_line,
    is_session_loss,
)
from agent_cli.mcp_client.task_calls import call_as_task
from agent_cli.system.shapes import is_object

_MISSING_CAPABILITY = -32021
_URL_ELICITATION_REQUIRED = -32042
_CALL_TO_SILENCE = 12
"""The limit of a whole call, as a multiple of the longest silence."""
_PROGRESS_CHARS_MAX = 1000
_DATA_CHARS_MAX = 1000
_UNKNOWN_EFFECT = "The call may have taken effect: check before you repeat it."
Reply = TypeVar("Reply")


class Server(Protocol):
    """The part of a connection that calls need."""

    config: ServerConfig
    host: Host
    silence_limits: SilenceLimits
    uses: Uses

    @property
    def connected(self) -> bool:
        """Whether there is a client right now."""
        ...

    @property
    def fault(self) -> str:
        """Why we ended the last connection, as a clause; "" if we did not."""
        ...

    @property
    def stderr_quote(self) -> str:
        """The end of its standard error as a clause, "" if it is empty."""
        ...

    async def client(self) -> Client:
        """Return the connected client, or raise `ToolError`."""
        ...

    def lose(self, client: Client) -> None:
        """Note that *client* is no longer usable; requests that run may still be answered."""

    def doubt(self, client: Client, *, is_cancelled: bool) -> None:
        """Note that a request got no answer: the server is pinged before the next one."""

    def note_end(
        self, client: Client, *, needs_sign_in: bool | None = None, fault: str = ""
    ) -> None:
        """Note how a request over *client* ended.

        Args:
            client: The client of the request.
            needs_sign_in: Whether it was refused because the user has to sign in; None if it was
                not answered.
            fault: Why it was not sent, "" if it was.
        """


async def call_tool(
    server: Server,
    tool: str,
    arguments: dict[str, Json],
    on_update: ToolContext,
    *,
    output_schema: Mapping[str, Json] | None = None,
    as_task: bool = False,
) -> ToolResult:
    """Call *tool*, as a task or not; return its result, or an error result with the reason."""
    name = server.config.name
    try:
        result = await in_session(
            server,
            lambda client: _call(client, server, tool, arguments, on_update, as_task=as_task),
        )
        if fault := await asyncio.to_thread(_output_fault, result, output_schema):
            return ToolResult.error(
                f"MCP server '{name}' answered {tool} with something its own output schema does not"
                f" allow: {fault}. The call may have taken effect."
            )
        converted = await asyncio.to_thread(tool_result, result, server.host.files_dir())
        if any(isinstance(part, ResourceLink) for part in result.content):
            hint = f'(A link can be read with {READ_TOOL}, server "{name}".)'
            converted = replace(converted, content=(*converted.content, text_block(hint)))
        return converted
    except ToolError as error:
        return ToolResult.error(str(error))
    except MCPError as error:
        if error.code == _URL_ELICITATION_REQUIRED:
            return ToolResult.error(await _sent_to_pages(server, error))
        return ToolResult.error(_protocol_error(server, error))
    except ValidationError as error:
        return ToolResult.error(
            f"MCP server '{name}' answered {tool} with something that is not valid MCP:"
            f" {fault_line(error)}. The call may have taken effect."
        )
    except ConnectionEnded:
        return ToolResult.error(
            f"MCP server '{name}' was disconnected by the user during the call. {_UNKNOWN_EFFECT}"
        )
    except TotalTimeReached:
        total_s = server.config.call_timeout_s * _CALL_TO_SILENCE
        return ToolResult.error(
            f"{tool} of MCP server '{name}' took {total_s:g}"
            " s in all, and is no longer waited for. It may have run: check before you repeat it."
        )
    except TimeoutError:
        return ToolResult.error(
            f"{tool} of MCP server '{name}' gave no sign of life for "
            f"{server.config.call_timeout_s:g} s, and is no longer waited for. It may have run: "
            "check before you repeat it."
        )
    except InputRequiredRoundsExceededError:
        return ToolResult.error(f"{tool} of MCP server '{name}' keeps asking questions; stopped.")
    except (RuntimeError, ValueError, ExceptionGroup) as error:
        return ToolResult.error(f"{tool} of MCP server '{name}' failed: {error_line(error)}")


def _output_fault(result: CallToolResult, schema: Mapping[str, Json] | None) -> str:
    structured = structured_content(result)
    if schema is None or result.is_error or structured is None:
        return ""
    try:
        return next(iter(schema_faults(schema, structured)), "")
    except UncheckableSchema:
        # The schema is faulty, not the result, so the model can still use that.
        return ""


async def in_session(server: Server, do: Callable[[Client], Awaitable[Reply]]) -> Reply:
    """Run *do* with the client; again in a new session if the server forgot this one.

    Headers that a helper made may have expired: it is asked anew, once.
    """
    client = await server.client()
    try:
        return await _used(server, client, do)
    except MCPError as error:
        is_expired = (
            bool(server.config.headers_helper) and _status(error) == HTTPStatus.UNAUTHORIZED
        )
        if not (is_session_loss(error) or is_expired):
            raise
    # It refused because it does not know the session or us, so it has done nothing yet.
    server.lose(client)
    return await _used(server, await server.client(), do)


async def _used(server: Server, client: Client, do: Callable[[Client], Awaitable[Reply]]) -> Reply:
    try:
        with server.uses.one():
            reply = await do(client)
        server.note_end(client, needs_sign_in=False)
        return reply
    except MCPError as error:
        is_lost = error.code == SIGN_IN_FAILED or _status(error) == HTTPStatus.UNAUTHORIZED
        fault = error_line(error) if error.code == HTTP_FAILED else ""
        server.note_end(client, needs_sign_in=is_lost or None, fault=fault)
        raise
    except (TimeoutError, asyncio.CancelledError) as error:
        server.doubt(client, is_cancelled=isinstance(error, asyncio.CancelledError))
        raise


async def _call(
    client: Client,
    server: Server,
    tool: str,
    arguments: dict[str, Json],
    on_update: ToolContext,
    *,
    as_task: bool,
) -> CallToolResult:
    """Call with a limit on silence, and one on the whole time: progress extends only the first.

    The SDK's own limit is not used. It begins anew with each round of questions.
    """
    silence_s = server.config.call_timeout_s
    running = True
    async with server.silence_limits.limited(
        silence_s, total_s=silence_s * _CALL_TO_SILENCE
    ) as heard:

        async def on_progress(progress: float, total: float | None, message: str | None) -> None:
            # A late report may arrive after the end of the call.
            if running:
                heard()
                on_update(_progress_text(progress, total, message))

        def on_status(message: str) -> None:
            heard()
            if message:
                on_update(message[:_PROGRESS_CHARS_MAX])

        try:
            return await _cancelled_once(
                call_as_task(client, tool, arguments, on_progress=on_progress, on_status=on_status)
                if as_task
                else client.call_tool(tool, arguments, progress_callback=on_progress)
            )
        finally:
            running = False


async def _cancelled_once(call: Awaitable[Reply]) -> Reply:
    """Run *call* in its own task, which is cancelled with us, but only once.

    The SDK informs the server of a cancellation; a second one would interrupt that.
    """

    async def run() -> Reply | Exception:
        try:
            return await call
        except (*CONNECTION_ERRORS, ToolError) as error:
            return error  # a task group would wrap it

    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(run())
    outcome = task.result()
    if isinstance(outcome, Exception):
        raise outcome
    return outcome


async def _sent_to_pages(server: Server, error: MCPError) -> str:
    """Show the user the pages a server wants visited first; return the outcome."""
    try:
        pages = UrlElicitationRequiredError.from_error(error.error).elicitations
    except (ValueError, TypeError, AttributeError):
        pages = []  # the error's data may be any JSON
    if not pages:
        return _protocol_error(server, error)
    asked = Callbacks(server.config.name, server.host, server.silence_limits)
    answers = [await asked.visit(page.message, page.url) for page in pages]
    urls = ", ".join(page.url for page in pages)
    if all(answer.action == "accept" for answer in answers):
        state = "which is open in the user's browser now: ask whether they are done"
    else:
        state = "which they have not opened"
    name = server.config.name
    return f"MCP server '{name}' needs the user to visit {urls} first, {state}; then call again."


def _progress_text(progress: float, total: float | None, message: str | None) -> str:
    share = f"{progress:g} of {total:g}" if total is not None else f"{progress:g}"
    return f"{message[:_PROGRESS_CHARS_MAX]} ({share})" if message else share


def _protocol_error(server: Server, error: MCPError) -> str:
    """Return an MCP error as a sentence for the model."""
    name, message = server.config.name, error_line(error)
    # Servers also use the code of a closed connection for their own errors.
    if error.code == CONNECTION_CLOSED and not server.connected:
        why = f": {server.fault}" if server.fault else ""
        ended = f"MCP server '{name}' ended during the call{why}{server.stderr_quote}"
        return f"{ended}. {_UNKNOWN_EFFECT}"
    if error.code == HTTP_FAILED:
        return f"MCP server '{name}' did not get the call: {message}."
    if error.code == NO_ANSWER:
        return f"MCP server '{name}' gave no result: {message}. {_UNKNOWN_EFFECT}"
    if error.code == TOO_LONG:
        return (
            f"MCP server '{name}' answered with {message}, which is not read. The call has probably"
            " taken effect: ask for less, in parts."
        )
    if error.code == NOT_ASKED:
        return f"MCP server '{name}' was not asked: {message}"
    if error.code == SIGN_IN_FAILED:
        return f"MCP server '{name}' was not asked ({message}); the user can run /mcp login {name}"
    if error.code == HTTP_REFUSED:
        return f"MCP server '{name}' answered with {message}. {_after_refusal(name, error)}"
    if error.code == REQUEST_TIMEOUT and "timed out" in message:
        return f"MCP server '{name}' did not finish the call in time. {_UNKNOWN_EFFECT}"
    if error.code == INVALID_REQUEST and "back-channel" in message:
        return (
            f"the user can set protocol = \"legacy\" for MCP server '{name}': it has a question,"
            " which this protocol revision does not carry"
        )
    if error.code == _MISSING_CAPABILITY:
        return f"MCP server '{name}' needs a feature that this program does not offer: {message}"
    return f"MCP server '{name}' refused the call: {message}{_data_of(error)}"


def _data_of(error: MCPError) -> str:
    """Return the data of an error as a clause, e.g. which argument is wrong; "" without."""
    if error.data is None:
        return ""
    try:
        written = json.dumps(error.data, ensure_ascii=False)
    except RecursionError:
        return ""
    text = error.data if isinstance(error.data, str) else written
    clause = printable(one_line(text, _DATA_CHARS_MAX))
    return f" ({clause})" if clause and clause not in str(error) else ""


def _status(error: MCPError) -> object:
    """Return the HTTP status with which a request was refused, or None.

    Servers put the status of a service that they asked themselves into the data of their errors.
    """
    is_ours = error.code == HTTP_REFUSED and is_object(error.data)
    return error.data.get("status") if is_ours else None


def _after_refusal(name: str, error: MCPError) -> str:
    """Return the advice for an HTTP error status."""
    match _status(error):
        case 401:
            return f"It asks for a sign-in: the user can run /mcp login {name}."
        case 403:
            return f"The sign-in does not allow this: the user can run /mcp login {name} again."
        case 429:
            return "It has too many requests: wait before you call again."
        case int(status) if status >= 500:
            return "The fault is the server's; the call may have taken effect."
        case _:
            return "It did not accept the call."
