"""Between a transport and the SDK: notice the end of the stream, and repair what comes through."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from types import TracebackType
from typing import TYPE_CHECKING, TypeAlias

from mcp.client import Transport
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCResponse
from mcp_types.methods import validate_server_result
from pydantic import ValidationError

if TYPE_CHECKING:
    from mcp.client._transport import ReadStream, TransportStreams

Item: TypeAlias = SessionMessage | Exception


@asynccontextmanager
async def watched(
    transport: Transport, *, on_end: Callable[[], None], on_note: Callable[[str], None]
) -> AsyncIterator["TransportStreams"]:
    """Open *transport* with our eyes on what is read.

    Args:
        transport: Opened and closed here.
        on_end: Called when the server's stream ends; the SDK has no callback for it.
        on_note: Called with a sentence for each tool that had to be left out.
    """
    async with transport as (reading, writing):
        yield WatchedStream(reading, on_end=on_end, on_note=on_note), writing


class WatchedStream:
    """A read stream that tells when it ends and drops malformed tools from lists of tools."""

    def __init__(
        self,
        inner: "ReadStream[Item]",
        *,
        on_end: Callable[[], None],
        on_note: Callable[[str], None],
    ) -> None:
        self._inner = inner
        self._on_end = on_end
        self._on_note = on_note

    @property
    def last_context(self) -> object:
        """The sender's context of the last item; the SDK looks for it by this name."""
        return getattr(self._inner, "last_context", None)

    async def receive(self) -> Item:
        """Return the next item."""
        return repaired(await self._inner.receive(), self._on_note)

    async def aclose(self) -> None:
        """Close the stream."""
        await self._inner.aclose()

    def __aiter__(self) -> "WatchedStream":
        return self

    async def __anext__(self) -> Item:
        try:
            item = await self._inner.__anext__()
        except BaseException:
            self._on_end()
            raise
        return repaired(item, self._on_note)

    async def __aenter__(self) -> "WatchedStream":
        await self._inner.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        return await self._inner.__aexit__(kind, error, traceback)


def repaired(item: Item, on_note: Callable[[str], None]) -> Item:
    """Return *item* without malformed tools: the SDK refuses a whole list for one of them."""
    if not isinstance(item, SessionMessage) or not isinstance(item.message, JSONRPCResponse):
        return item
    tools = item.message.result.get("tools")
    if isinstance(tools, list):
        mended = [_mended(tool) for tool in tools]
        item.message.result["tools"] = [tool for tool in mended if _is_valid(tool, on_note)]
    return item


def _mended(tool: object) -> object:
    """Return *tool* without what only the strictness of its revision makes a fault."""
    if not isinstance(tool, dict):
        return tool
    mended = dict(tool)
    if isinstance(schema := tool.get("inputSchema"), dict):
        mended["inputSchema"] = {"type": "object"} | schema
    # Before 2026-07-28 the output had to be an object; without a schema it is just not checked.
    output = tool.get("outputSchema")
    if not isinstance(output, dict) or output.get("type") != "object":
        mended.pop("outputSchema", None)
    return mended


def _is_valid(tool: object, on_note: Callable[[str], None]) -> bool:
    if not isinstance(tool, dict):
        on_note("a tool is left out: it is not an object")
        return False
    try:
        # The strictest revision's rules; which one was agreed on is not known here.
        validate_server_result("tools/list", "2025-11-25", {"tools": [tool]})
    except ValidationError as error:
        fault = error.errors()[0]
        # The first two steps of the way to it are our own: tools, 0.
        where = ".".join(str(part) for part in fault["loc"][2:])
        name = tool.get("name", "without a name")
        on_note(f"tool {name} is left out: {where}: {fault['msg'].lower()}")
        return False
    return True
