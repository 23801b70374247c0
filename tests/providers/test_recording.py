"""Recordings: a recorded run is replayed without network, server or key."""

import gzip
import json
import os
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from types import SimpleNamespace

import httpx2
import pytest

from agent_cli.contracts.errors import ModelError
from agent_cli.providers import recording
from agent_cli.providers.anthropic.connection import Connection
from agent_cli.providers.anthropic.messages import AnthropicMessages
from agent_cli.providers.events import joined
from agent_cli.providers.recording import RecordTransport, ReplayTransport
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
    """Record three replies, with an error and a break in between."""
    async with FakeMessagesApi(*SCRIPT) as api, asker(api, record=path) as it:
        return [await it.ask() for _ in range(3)]


async def test_recording_replays_the_same_events_offline(tmp_path: Path) -> None:
    """Without a key, and with an address that has no server."""
    tape = tmp_path / "tape.jsonl"
    live = await recorded(tape)

    async with asker(base_url="http://127.0.0.1:1", replay=tape) as it:
        played = [await it.ask() for _ in range(3)]

    assert [_comparable(asked) for asked in played] == [_comparable(asked) for asked in live]
    assert it.waits_s == [2, 1]


def _comparable(asked: Asked) -> list[object]:
    """Return the events without the wording of a break, and without what came together."""
    retries = {id(event) for event in asked.retries}
    events = [*joined(asked.events)]
    return [type(event) if id(event) in retries else event for event in events]


async def test_recording_contains_nothing_of_the_requests(tmp_path: Path) -> None:
    """It has neither key nor prompt; of the response only the relevant headers."""
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


async def test_recording_file_is_readable_by_the_user_only(tmp_path: Path) -> None:
    """A recording holds the model's side of the conversation; the umask is ignored."""
    before = os.umask(0)
    try:
        await recorded(tmp_path / "tape.jsonl")
    finally:
        os.umask(before)

    assert (tmp_path / "tape.jsonl").stat().st_mode & 0o777 == 0o600


async def test_invalid_utf8_bytes_are_recorded_and_replayed(tmp_path: Path) -> None:
    """A chunk may end inside a character."""
    tape = tmp_path / "tape.jsonl"
    bad = broken(reply("x"), "bad_utf8", after=1)
    async with FakeMessagesApi(bad, reply("fine")) as api, asker(api, record=tape) as it:
        await it.ask()

    async with asker(replay=tape) as it:
        played = await it.ask()

    assert '"base64"' in tape.read_text()
    assert played.text == "fine"
    assert len(played.retries) == 1


async def test_compressed_reply_is_recorded_and_replayed(tmp_path: Path) -> None:
    """Some proxies compress; the recording keeps the encoding header."""
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


async def test_recording_to_an_unwritable_path_is_an_error(tmp_path: Path) -> None:
    async with asker(api_key="k", record=tmp_path / "missing" / "tape.jsonl") as it:
        asked = await it.ask()

    assert str(asked.error).endswith("tape.jsonl cannot be written: No such file or directory")


async def test_full_disk_while_recording_ends_the_call_and_names_the_file() -> None:
    """This error used to be reported as a bug, and retried five times on a full disk."""
    full = Path("/dev/full")
    async with FakeMessagesApi(reply("hi")) as api, asker(api, record=full) as it:
        asked = await it.ask()

    assert str(asked.error) == "the recording /dev/full cannot be written: No space left on device"
    assert asked.retries == []


async def test_exhausted_recording_is_an_error_without_retries(tmp_path: Path) -> None:
    """The error names the file and the number of replies."""
    tape = tmp_path / "tape.jsonl"
    async with FakeMessagesApi(reply("one")) as api, asker(api, record=tape) as it:
        await it.ask()

    async with asker(replay=tape) as it:
        await it.ask()
        again = await it.ask(request())

    assert str(again.error).startswith(f"the recording {tape} holds 1 replies and the run asked")
    assert again.retries == []


async def test_file_that_is_not_a_recording_is_refused(tmp_path: Path) -> None:
    """The refusal comes at the start of the run, not in the middle."""
    other = tmp_path / "notes.txt"
    other.write_text("hello\n")

    assert (await _refusal(other)).startswith(f"{other} is not a recording made with --record")
    assert "cannot be read" in await _refusal(tmp_path / "missing")
    (empty := tmp_path / "tape.jsonl").touch()
    assert await _refusal(empty) == f"the recording {empty} holds no reply; record the run again"


async def _refusal(path: Path) -> str:
    provider = AnthropicMessages(Connection(replay=path))
    with pytest.raises(ModelError) as refused:
        async for _ in provider.stream(request()):
            pass
    return str(refused.value)


START = {"type": "response", "status": 200, "headers": {"content-type": "text/event-stream"}}


def chunk(at_s: float, text: str) -> dict[str, object]:
    return {"type": "chunk", "at_s": at_s, "text": text}


def tape_of(path: Path, *lines: Mapping[str, object]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n\n" for line in lines))
    return path


async def answer_of(transport: httpx2.AsyncBaseTransport) -> list[bytes]:
    """Return the pieces of one response's body."""
    response = await transport.handle_async_request(httpx2.Request("POST", "http://x"))
    assert isinstance(response.stream, httpx2.AsyncByteStream)
    return [piece async for piece in response.stream]


async def test_replay_pauses_are_scaled_by_the_pace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The demo plays with pauses; at a pace of 0 there are none."""
    lines: list[Mapping[str, object]] = [
        START,
        chunk(0.5, "a"),
        chunk(0.75, "é"),
        chunk(0.7, "c"),
        {"type": "end"},
    ]
    tape = tape_of(tmp_path / "tape.jsonl", *lines)
    waits_s: list[float] = []

    async def sleep(seconds: float) -> None:
        waits_s.append(seconds)

    monkeypatch.setattr(recording, "asyncio", SimpleNamespace(sleep=sleep))

    played = [await answer_of(ReplayTransport(tape, pace=pace)) for pace in (2.0, 0.0)]

    assert played == [[b"a", "é".encode(), b"c"]] * 2
    assert waits_s == [1.0, 0.5, 0.0, 0.0, 0.0, 0.0]


async def test_truncated_or_broken_recording_replays_up_to_the_break(tmp_path: Path) -> None:
    """A recorded break is raised again; after a kill the recording just ends."""
    killed = ReplayTransport(
        tape_of(tmp_path / "killed.jsonl", START, chunk(0, "a"), START, chunk(0, "b"))
    )
    cut = {"type": "broken", "error": "RemoteProtocolError"}
    broke = ReplayTransport(tape_of(tmp_path / "broke.jsonl", START, chunk(0, "a"), cut))

    assert [await answer_of(killed), await answer_of(killed)] == [[b"a"], [b"b"]]
    with pytest.raises(httpx2.ReadError, match="recorded: RemoteProtocolError"):
        await answer_of(broke)


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ({**START, "url": "http://x"}, "Extra inputs are not permitted"),
        ({"type": "chunk", "text": "a"}, "Field required"),
        ({"type": "request"}, "does not match any of the expected tags"),
    ],
)
def test_recording_with_an_invalid_line_is_refused(
    line: dict[str, object], fault: str, tmp_path: Path
) -> None:
    """A recording of another version is not replayed in part."""
    tape = tape_of(tmp_path / "tape.jsonl", START, line)

    with pytest.raises(ModelError, match=rf"tape\.jsonl is not a recording .*: .*{fault}"):
        ReplayTransport(tape)


ACTED_ON = {
    "Content-Type": "text/plain",
    "Content-Encoding": "identity",
    "Request-Id": "req_1",
    "Retry-After": "3",
    "Retry-After-Ms": "2500",
    "X-Should-Retry": "true",
}


class Served(httpx2.AsyncBaseTransport, httpx2.AsyncByteStream):
    """A server that answers with *pieces*; an exception among them is raised."""

    def __init__(self, *pieces: bytes | Exception) -> None:
        self._pieces = pieces
        self.closed = 0

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        headers = {"Set-Cookie": "CANARY", **ACTED_ON}
        return httpx2.Response(429, headers=headers, stream=self, request=request)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            if isinstance(piece, Exception):
                raise piece
            yield piece

    async def aclose(self) -> None:
        self.closed += 1


async def test_recording_contains_chunks_with_times_and_relevant_headers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No secret, and nothing of an older recording in the file."""
    clock = iter([10.0, 10.25, 10.333333])
    monkeypatch.setattr(recording, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    tape = tmp_path / "tape.jsonl"
    tape.write_text("an older recording")
    recording.start_recording(tape)
    served = Served("é sk-CANARY".encode(), b"\xff")
    transport = RecordTransport(served, tape, lambda text: text.replace("sk-CANARY", "***"))

    response = await transport.handle_async_request(httpx2.Request("POST", "http://x"))
    assert isinstance(response.stream, httpx2.AsyncByteStream)
    passed = [piece async for piece in response.stream]
    await response.stream.aclose()
    await transport.aclose()

    assert passed == ["é sk-CANARY".encode(), b"\xff"]
    assert served.closed == 2
    assert [json.loads(line) for line in tape.read_text(encoding="utf-8").splitlines()] == [
        {
            "type": "response",
            "status": 429,
            "headers": {name.lower(): value for name, value in ACTED_ON.items()},
        },
        {"type": "chunk", "at_s": 0.25, "text": "é ***"},
        {"type": "chunk", "at_s": 0.3333, "base64": "/w=="},
        {"type": "end"},
    ]


async def test_broken_connection_is_recorded_and_raised(tmp_path: Path) -> None:
    """The break is replayed as a break, not as an end."""
    tape = tmp_path / "tape.jsonl"
    transport = RecordTransport(Served(b"a", httpx2.ReadTimeout("late")), tape)

    with pytest.raises(httpx2.ReadTimeout):
        await answer_of(transport)

    assert tape.read_text().splitlines()[-1] == '{"type": "broken", "error": "ReadTimeout"}'
    with pytest.raises(httpx2.ReadError, match="recorded: ReadTimeout"):
        await answer_of(ReplayTransport(tape))


async def test_line_separators_in_a_reply_do_not_end_a_line_of_the_recording(
    tmp_path: Path,
) -> None:
    """Servers write U+2028 and U+0085 unescaped, and replies quote any text of the web."""
    tape = tmp_path / "tape.jsonl"
    said = "a\u2028b\u2029c\x85d".encode()

    await answer_of(RecordTransport(Served(said), tape))

    assert await answer_of(ReplayTransport(tape)) == [said]


async def test_replies_that_arrive_at_the_same_time_are_replayed_apart(tmp_path: Path) -> None:
    """Agents at work at the same time asked; their lines were replayed as one reply."""
    tape = tmp_path / "tape.jsonl"
    transport = RecordTransport(Served(b"a", b"b", b"c"), tape)
    request = httpx2.Request("POST", "http://x")
    first, second = [await transport.handle_async_request(request) for _ in range(2)]
    both = [each.aiter_raw() for each in (first, second)]
    for _ in range(3):
        assert len({await anext(each) for each in both}) == 1
    await second.aclose()
    [piece async for piece in both[0]]
    await first.aclose()
    third = await transport.handle_async_request(request)
    await third.aread()

    replayed = ReplayTransport(tape)

    assert [await answer_of(replayed) for _ in range(3)] == [[b"a", b"b", b"c"]] * 3
    assert "reply" not in tape.read_text().splitlines()[-1]
