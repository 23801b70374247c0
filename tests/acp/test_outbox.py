"""Updates queued for a slow reader: merged without loss, in order."""

import asyncio
import json
from typing import Any

from agent_cli.acp.outbox import WireOutbox
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


async def test_pieces_of_one_text_become_one_piece() -> None:
    told = await written(chunk("a"), chunk("b"), chunk("c"))

    assert told == [chunk("abc")]


async def test_pieces_of_different_messages_stay_apart() -> None:
    messages = [chunk("a"), chunk("b", id="n"), chunk("c", kind="agent_thought_chunk", id="n")]

    assert await written(*messages) == messages


async def test_a_later_state_of_a_call_takes_the_place_of_the_one_before() -> None:
    """Each update has only the changes."""
    call = {"sessionUpdate": "tool_call_update", "toolCallId": "t"}

    told = await written(
        update(**call, status="in_progress", content=[]), update(**call, status="completed")
    )

    assert told == [update(**call, status="completed", content=[])]


async def test_nothing_passes_a_message_in_between() -> None:
    messages = [chunk("a"), update(sessionUpdate="plan", entries=[]), chunk("b")]

    assert await written(*messages) == messages


async def test_a_reader_that_is_gone_ends_the_writing() -> None:
    async def write(_data: bytes) -> None:
        raise BrokenPipeError

    outbox = WireOutbox(write)
    outbox.put(chunk("a"))
    try:
        await outbox.run()
    except BrokenPipeError:
        outbox.put(chunk("b"))
        await outbox.flushed()


async def test_a_reader_that_does_not_read_holds_up_the_end_for_a_moment_only() -> None:
    async def write(_data: bytes) -> None:
        await asyncio.Event().wait()

    outbox = WireOutbox(write)
    outbox.put(chunk("a"))
    async with asyncio.TaskGroup() as group:
        writing = group.create_task(outbox.run())
        await asyncio.sleep(0)
        await outbox.close()
        writing.cancel()
