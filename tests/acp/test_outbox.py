"""Updates queued for a slow reader: merged without loss, in order."""

import asyncio
import json
from typing import Any

from agent_cli.acp.connection import WireOutbox
from agent_cli.contracts.timeline import Json


def update(**fields: Json) -> dict[str, Json]:
    return {
        "jsonrpc": "2.0",
        "method": "session/update",
        "params": {"sessionId": "s", "update": fields},
    }


def chunk(text: str, id: str = "m", kind: str = "agent_message_chunk") -> dict[str, Json]:
    return update(sessionUpdate=kind, messageId=id, content={"type": "text", "text": text})


async def written(*messages: dict[str, Json]) -> list[Any]:
    """Return the output for a reader that starts once all of *messages* were put."""
    lines: list[bytes] = []

    async def write(data: bytes) -> None:
        lines.append(data)

    outbox = WireOutbox(write)
    for message in messages:
        outbox.put(message)
    async with asyncio.TaskGroup() as group:
        group.create_task(outbox.run())
        await outbox.flushed()
        await outbox.close()
    return [json.loads(line) for line in b"".join(lines).splitlines()]


async def test_queued_chunks_of_one_message_are_merged() -> None:
    told = await written(chunk("a"), chunk("b"), chunk("c"))

    assert told == [chunk("abc")]


async def test_chunks_of_different_messages_are_not_merged() -> None:
    messages = [chunk("a"), chunk("b", id="n"), chunk("c", kind="agent_thought_chunk", id="n")]

    assert await written(*messages) == messages


async def test_later_tool_call_update_is_merged_into_the_queued_update() -> None:
    """Each update holds only the changed fields."""
    call = {"sessionUpdate": "tool_call_update", "toolCallId": "t"}

    told = await written(
        update(**call, status="in_progress", content=[]), update(**call, status="completed")
    )

    assert told == [update(**call, status="completed", content=[])]


async def test_chunks_are_not_merged_across_another_update() -> None:
    messages = [chunk("a"), update(sessionUpdate="plan", entries=[]), chunk("b")]

    assert await written(*messages) == messages


async def test_outbox_does_not_block_after_the_reader_is_gone() -> None:
    async def write(_data: bytes) -> None:
        raise BrokenPipeError

    outbox = WireOutbox(write)
    outbox.put(chunk("a"))
    try:
        await outbox.run()
    except BrokenPipeError:
        outbox.put(chunk("b"))
        await outbox.flushed()


async def test_closing_waits_only_briefly_for_a_stalled_reader() -> None:
    async def write(_data: bytes) -> None:
        await asyncio.Event().wait()

    outbox = WireOutbox(write)
    outbox.put(chunk("a"))
    async with asyncio.TaskGroup() as group:
        writing = group.create_task(outbox.run())
        await asyncio.sleep(0)
        await outbox.close()
        writing.cancel()
