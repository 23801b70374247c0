"""Notifications that replace each other, as a process and as a server of the web send them."""

import json
from collections.abc import AsyncIterator, Sequence

import httpx2
from mcp.shared.message import SessionMessage

from agent_cli.contracts.timeline import Json
from agent_cli.mcp_client.event_streams import MendedStream
from agent_cli.mcp_client.mended_messages import latest, parsed
from tests.tables import each_row

CHANGED: dict[str, Json] = {"method": "notifications/tools/list_changed"}
PROMPTS_CHANGED: dict[str, Json] = {"method": "notifications/prompts/list_changed"}
ANSWER: dict[str, Json] = {"id": 7, "result": {"content": list[Json]()}}


def progress(of: int | str, step: int) -> dict[str, Json]:
    params: Json = {"progressToken": of, "progress": step}
    return {"method": "notifications/progress", "params": params}


def updated(uri: str) -> dict[str, Json]:
    return {"method": "notifications/resources/updated", "params": {"uri": uri}}


def logged(line: str) -> dict[str, Json]:
    return {"method": "notifications/message", "params": {"level": "info", "data": line}}


ROWS: dict[str, tuple[Sequence[dict[str, Json]], Sequence[dict[str, Json]]]] = {
    "steps of two calls": (
        [progress(1, 1), progress("1", 5), progress(1, 2), progress(1, 3)],
        [progress("1", 5), progress(1, 3)],
    ),
    "a step before the answer stays before it": (
        [progress(7, 1), progress(7, 2), ANSWER],
        [progress(7, 2), ANSWER],
    ),
    "changes": ([CHANGED, PROMPTS_CHANGED, CHANGED], [PROMPTS_CHANGED, CHANGED]),
    "resources": ([updated("a:1"), updated("a:2")], [updated("a:2")]),
    "log lines": ([logged("same"), logged("same")], [logged("same"), logged("same")]),
    "answers": ([ANSWER, ANSWER], [ANSWER, ANSWER]),
}


@each_row(("sent", "left"), ROWS.values(), ids=ROWS)
async def test_notification_that_a_later_one_replaces_is_left_out(
    sent: Sequence[dict[str, Json]], left: Sequence[dict[str, Json]]
) -> None:
    """The SDK starts tasks for each, so ten thousand held back the answer for seconds."""
    lines = [json.dumps({"jsonrpc": "2.0", **each}).encode() for each in sent]
    events = b"".join(b"data: " + line + b"\n\n" for line in lines)

    of_lines = latest([item for line in lines for item in parsed(line)])
    of_events = b"".join([each async for each in MendedStream(_OneChunk(events), None)])

    of_stream = [
        parsed(event.removeprefix(b"data: "))[0] for event in of_events.split(b"\n\n")[:-1]
    ]
    assert [_written(item) for item in of_lines] == list(left)
    assert [_written(item) for item in of_stream] == list(left)


def _written(item: SessionMessage | Exception) -> Json:
    assert isinstance(item, SessionMessage)
    written: dict[str, Json] = item.message.model_dump(by_alias=True, exclude_unset=True)
    del written["jsonrpc"]
    return written


class _OneChunk(httpx2.AsyncByteStream):
    def __init__(self, chunk: bytes) -> None:
        self._chunk = chunk

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self._chunk
