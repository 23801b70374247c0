"""Answer requests of servers: forms, pages, sampling, roots; and record their log messages."""

import math
import time
from collections.abc import Callable, Iterator, Mapping

import mcp_types
from mcp.client.session import ClientRequestContext
from mcp_types import AudioContent, ImageContent, TextContent

from agent_cli.contracts.errors import AgentCliError
from agent_cli.contracts.servers import SamplingRequest
from agent_cli.contracts.timeline import Block
from agent_cli.contracts.wording import printable
from agent_cli.mcp_client.content import content_blocks
from agent_cli.mcp_client.forms import form_fault, with_defaults
from agent_cli.mcp_client.host import Elicitation, ElicitationAnswer, Host, Sampled
from agent_cli.mcp_client.limits import NobodyWaits, SilenceLimits
from agent_cli.system.logger import logger

_MESSAGE_MAX = 4000
_LOGGED_MAX = 1000
_LEVEL_MAX = 20
_LINES_MAX = 1000
_WINDOW_S = 10.0
_REFUSED = -1
"""MCP: the user rejected a sampling request."""
_log = logger(__name__)


class Callbacks:
    """Answers one server's requests through the host, with an error if the host fails.

    An exception would end the call, or the connection, of the request.
    """

    def __init__(self, server: str, host: Host, silence_limits: SilenceLimits) -> None:
        self._server = server
        self._host = host
        self._silence_limits = silence_limits

    async def elicit(
        self,
        context: ClientRequestContext,  # noqa: ARG002 - the SDK names it
        params: mcp_types.ElicitRequestParams,
    ) -> mcp_types.ElicitResult:
        """Let the user fill in a form or visit a page; an invalid answer declines."""
        if isinstance(params, mcp_types.ElicitRequestURLParams):
            answer = await self._ask(self._page(params.message, params.url))
            return mcp_types.ElicitResult(action=answer.action)
        message = _shown(params.message)
        schema = dict(params.requested_schema)
        answer = await self._ask(Elicitation(server=self._server, message=message, schema=schema))
        if answer.action != "accept":
            return mcp_types.ElicitResult(action=answer.action)
        filled = with_defaults(schema, answer.content)
        content = {name: value for name, value in filled.items() if value is not None}
        if fault := form_fault(schema, content):
            _log.warning("mcp answer does not fit", server=self._server, fault=fault)
            return mcp_types.ElicitResult(action="decline")
        return mcp_types.ElicitResult.model_validate({"action": "accept", "content": content})

    async def visit(self, message: str, url: str) -> ElicitationAnswer:
        """Ask the user to visit a page that a call was refused for.

        "accept" says only that they went there.
        """
        with self._silence_limits.asking():
            return await self._answered(self._page(message, url))

    async def sample(
        self,
        context: ClientRequestContext,  # noqa: ARG002 - the SDK names it
        params: mcp_types.CreateMessageRequestParams,
    ) -> mcp_types.CreateMessageResult | mcp_types.ErrorData:
        """Ask a model on behalf of the server; the host asks the user first."""
        if self._host.sample is None:
            return mcp_types.ErrorData(code=_REFUSED, message="sampling is not offered")
        request = SamplingRequest(
            server=self._server,
            messages=tuple(
                (message.role, tuple(_sampling_blocks(message))) for message in params.messages
            ),
            system_prompt=params.system_prompt or "",
            max_tokens=params.max_tokens,
            temperature=params.temperature,
        )
        try:
            reply: Sampled = await self._silence_limits.ask(self._host.sample(request))
        except (AgentCliError, NobodyWaits) as error:
            return mcp_types.ErrorData(code=_REFUSED, message=str(error))
        return mcp_types.CreateMessageResult(
            role="assistant",
            content=mcp_types.TextContent(type="text", text=reply.text),
            model=reply.model,
            stop_reason=reply.stop_reason,
        )

    async def roots(
        self,
        context: ClientRequestContext,  # noqa: ARG002 - the SDK names it
    ) -> mcp_types.ListRootsResult:
        """Return the roots: the directories we work in."""
        return mcp_types.ListRootsResult(
            roots=[
                mcp_types.Root.model_validate({"uri": root.absolute().as_uri(), "name": root.name})
                for root in (self._host.roots() if self._host.roots else ())
            ]
        )

    def _page(self, message: str, url: str) -> Elicitation:
        return Elicitation(server=self._server, message=_shown(message), url=url)

    async def _ask(self, question: Elicitation) -> ElicitationAnswer:
        try:
            return await self._silence_limits.ask(self._answered(question))
        except NobodyWaits:
            return ElicitationAnswer("cancel")

    async def _answered(self, question: Elicitation) -> ElicitationAnswer:
        try:
            return await self._host.elicit(question)
        except AgentCliError as error:
            _log.info("mcp question refused", server=self._server, reason=str(error))
            return ElicitationAnswer("decline")


class ServerLog:
    """Writes one server's log messages to our log, never to the screen.

    At most `_LINES_MAX` in `_WINDOW_S`, and then the number of those left out: a record costs as
    much time as the ten messages that are only counted.
    """

    def __init__(self, server: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._server = server
        self._clock = clock
        self._ends_at = -math.inf
        self._lines = 0
        self._left_out = 0

    def write(self, params: Mapping[str, object]) -> None:
        """Write the message with *params*, or count it."""
        if (now := self._clock()) >= self._ends_at:
            self.settle()
            self._ends_at, self._lines = now + _WINDOW_S, 0
        if self._lines == _LINES_MAX:
            self._left_out += 1
            return
        self._lines += 1
        level = printable(str(params.get("level")))[:_LEVEL_MAX]
        text = printable(str(params.get("data"))[:_LOGGED_MAX])
        # A server's errors are not ours, so none reaches the console's level.
        tell = _log.debug if level == "debug" else _log.info
        tell("mcp server says", server=self._server, server_level=level, text=text)

    def settle(self) -> None:
        """Write how many messages were left out since the last time, if any."""
        if self._left_out:
            _log.info("mcp server says too much", server=self._server, left_out=self._left_out)
            self._left_out = 0


def _shown(message: str) -> str:
    return printable(message, keep="\n\t")[:_MESSAGE_MAX]


def _sampling_blocks(message: mcp_types.SamplingMessage) -> Iterator[Block]:
    """Yield the content of a message for a model; tool calls and results are left out."""
    for part in message.content_as_list:
        if isinstance(part, TextContent | ImageContent | AudioContent):
            yield from content_blocks([part])
