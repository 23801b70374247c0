"""Recordings: what a run wrote down is played again without network, server or key."""

import gzip
import json
import os
import time
from pathlib import Path

import pytest

from agent_cli.contracts.errors import ModelError
from agent_cli.providers.anthropic_messages import AnthropicMessages
from agent_cli.providers.connection import Connection
from tests.messages_api import FakeMessagesApi, broken, error, raw, reply, thinking, tool_use
from tests.providers.asking import Asked, asker, request

SCRIPT = (
    reply(thinking("hm"), "déjà vu", tool_use("read", {"path": "é"}, id="t1"), chunk_chars=3),
    error(529, "overloaded_error", "busy", headers={"retry-after": "2"}),
    reply("second"),
    broken(reply("half"), "drop"),
    reply("third"),
)


async def recorded(path: Path) -> list[Asked]:
    """Record three replies, an error and a break on the way."""
    async with FakeMessagesApi(*SCRIPT) as api, asker(api, record=path) as it:
        return [await it.ask() for _ in range(3)]


async def test_a_recording_plays_the_same_events_offline(tmp_path: Path) -> None:
    """No key, and an address where nobody listens."""
    tape = tmp_path / "tape.jsonl"
    live = await recorded(tape)

    async with asker(base_url="http://127.0.0.1:1", replay=tape) as it:
        played = [await it.ask() for _ in range(3)]

    assert [_comparable(asked) for asked in played] == [_comparable(asked) for asked in live]
    assert it.waits_s == [2, 1]


def _comparable(asked: Asked) -> list[object]:
    """Return the events; how a break is described differs, the break itself does not."""
    retries = {id(event) for event in asked.retries}
    return [type(event) if id(event) in retries else event for event in asked.events]


async def test_a_recording_holds_nothing_of_the_requests(tmp_path: Path) -> None:
    """Neither the key nor the prompt; of the response only the headers that matter."""
    tape = tmp_path / "tape.jsonl"
    await recorded(tape)

    written = tape.read_text(encoding="utf-8")
    lines = [json.loads(line) for line in written.splitlines()]

    assert "secret-key" not in written
    assert "authorization" not in written.lower()
    assert {line["type"] for line in lines} == {"response", "chunk", "end", "broken"}
    headers = {name for line in lines for name in line.get("headers", {})}
    assert headers == {"content-type", "request-id", "retry-after"}
    times = [line["at_s"] for line in lines if line["type"] == "chunk"]
    assert min(times) >= 0


async def test_a_recording_is_the_users_alone(tmp_path: Path) -> None:
    """It holds the model's side of the conversation; the umask is not asked."""
    before = os.umask(0)
    try:
        await recorded(tmp_path / "tape.jsonl")
    finally:
        os.umask(before)

    assert (tmp_path / "tape.jsonl").stat().st_mode & 0o777 == 0o600


async def test_bytes_that_are_no_text_are_recorded_too(tmp_path: Path) -> None:
    """A chunk may end in the middle of a character."""
    tape = tmp_path / "tape.jsonl"
    bad = broken(reply("x"), "bad_utf8", after=1)
    async with FakeMessagesApi(bad, reply("fine")) as api, asker(api, record=tape) as it:
        await it.ask()

    async with asker(replay=tape) as it:
        played = await it.ask()

    assert '"base64"' in tape.read_text()
    assert played.text == "fine"
    assert len(played.retries) == 1


async def test_a_compressed_reply_is_recorded_as_it_came(tmp_path: Path) -> None:
    """Some proxies compress; the recording keeps the header that says so."""
    tape = tmp_path / "tape.jsonl"
    body = gzip.compress(
        b'data: {"type": "message_start", "message": {}}\n\n'
        b'data: {"type": "message_delta", "delta": {"stop_reason": "end_turn"}}\n\n'
        b'data: {"type": "message_stop"}\n\n'
    )
    answer = raw(200, body, headers={"content-encoding": "gzip"})
    async with FakeMessagesApi(answer) as api, asker(api, record=tape) as it:
        live = await it.ask()

    async with asker(replay=tape) as it:
        played = await it.ask()

    assert played.reply.stop_reason == live.reply.stop_reason == "end_turn"


async def test_a_recording_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    async with asker(api_key="k", record=tmp_path / "missing" / "tape.jsonl") as it:
        asked = await it.ask()

    assert str(asked.error).endswith("tape.jsonl cannot be written: No such file or directory")


async def test_a_disk_that_fills_up_ends_the_call_with_its_name() -> None:
    """It was a bug of ours, and asked five times again where the disk was full at once."""
    full = Path("/dev/full")
    async with FakeMessagesApi(reply("hi")) as api, asker(api, record=full) as it:
        asked = await it.ask()

    assert str(asked.error) == "the recording /dev/full cannot be written: No space left on device"
    assert asked.retries == []


async def test_a_recording_that_is_used_up_says_so(tmp_path: Path) -> None:
    """At once, without retries, naming the file and the count."""
    tape = tmp_path / "tape.jsonl"
    async with FakeMessagesApi(reply("one")) as api, asker(api, record=tape) as it:
        await it.ask()

    async with asker(replay=tape) as it:
        await it.ask()
        again = await it.ask(request())

    assert str(again.error).startswith(f"the recording {tape} holds 1 replies and the run asked")
    assert again.retries == []


async def test_a_file_that_is_no_recording_is_refused(tmp_path: Path) -> None:
    """When the run begins, not in the middle of it."""
    other = tmp_path / "notes.txt"
    other.write_text("hello\n")

    assert (await _refusal(other)).startswith(f"{other} is not a recording made with --record")
    assert "cannot be read" in await _refusal(tmp_path / "missing")


async def _refusal(path: Path) -> str:
    provider = AnthropicMessages(Connection(replay=path))
    with pytest.raises(ModelError) as refused:
        async for _ in provider.stream(request()):
            pass
    return str(refused.value)


async def test_a_recording_can_be_played_at_its_own_pace(tmp_path: Path) -> None:
    """The demo plays with pauses; a pace of 0 has none."""
    tape = tmp_path / "tape.jsonl"
    async with FakeMessagesApi(reply("one")) as api, asker(api, record=tape) as it:
        await it.ask()
    lines = [json.loads(line) for line in tape.read_text().splitlines()]
    chunks = [line for line in lines if line["type"] == "chunk"]
    for number, line in enumerate(chunks):
        line["at_s"] = number * 0.02
    tape.write_text("".join(json.dumps(line) + "\n" for line in lines))

    async with asker(replay=tape, replay_pace=1.0) as it:
        begun_s = time.monotonic()
        played = await it.ask()

    assert played.text == "one"
    assert time.monotonic() - begun_s >= 0.02 * (len(chunks) - 1)
