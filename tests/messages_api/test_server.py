"""The fake server's own parts: pacing, faults, the cache simulation, the thread and the command."""

import asyncio
import gc
import json
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.messages_api import (
    Answer,
    FakeMessagesApi,
    Gate,
    ReceivedRequest,
    Reply,
    broken,
    error,
    raw,
    reply,
    serve_in_thread,
    tool_use,
)
from tests.messages_api.prompt_cache import PromptCache
from tests.messages_api.script import Payload
from tests.messages_api.server import NO_LINGER
from tests.messages_api.test_rules import HEADERS, LONG, SHORT, post, request, text, user
from tests.messages_api.wire_format import steps_of
from tests.tables import each_row

ROOT = Path(__file__).parents[2]
BODY = json.dumps(request()).encode()
HEAD = [f"{name}: {value}" for name, value in HEADERS.items()] + [f"content-length: {len(BODY)}"]
RAW_REQUEST = "\r\n".join(["POST /v1/messages HTTP/1.1", *HEAD, "", ""]).encode() + BODY


async def test_fake_api_plays_its_script_in_order_and_reports_the_end() -> None:
    """An entry may be a function of the request; clients do not retry the final 500."""
    async with FakeMessagesApi(reply("one"), lambda got: reply(got.body["model"])) as api:
        answers = [(await post(api, request()))[1] for _ in range(3)]

    assert '"one"' in answers[0]
    assert '"claude-sonnet-5' in answers[1]
    assert "x-should-retry: false" in answers[2]
    assert "script has run out at request 3" in answers[2]


async def test_refused_request_does_not_consume_a_script_entry() -> None:
    async with FakeMessagesApi(reply("one")) as api:
        await post(api, request(messages=[user("")]))
        _, answer = await post(api, request())

    assert '"one"' in answer


async def test_exception_in_an_answer_function_fails_the_test() -> None:
    """The client gets an answer at once, and the exception is raised in the test."""

    def answer(_request: object) -> Answer:
        raise AssertionError("not what I expected")

    with pytest.raises(AssertionError, match="not what I expected"):
        async with FakeMessagesApi(answer=answer) as api:
            status, _ = await post(api, request())
            assert status == 500


async def test_closed_gate_holds_the_stream() -> None:
    """The test lets events pass one by one, without a clock."""
    gate = Gate()
    async with FakeMessagesApi(reply("a" * 48, gate=gate)) as api:
        answer = asyncio.create_task(post(api, request()))
        await asyncio.to_thread(gate.reached.wait, 60)
        gate.open(2)
        assert not answer.done()
        gate.open()

        assert (await answer)[1].count("text_delta") == 3


def test_value_in_the_input_of_a_tool_is_held_back_until_it_is_whole() -> None:
    """Unless the tool asks for its input as it is written; a value that was cut is never sent."""
    written: Payload = {"path": "a,b", "edits": [{"old": "}"}], "x": "y" * 20}
    said = reply(tool_use("write", written, id="t1"), gate=Gate(), chunk_chars=8)
    cut = tool_use("write", id="t1", raw='{"path": "a", "content": "half of it')
    ended = reply(cut, stop_reason="max_tokens")

    # A full stop for each piece that the model writes.
    assert _input_of(said, ["write"]) == (
        '.{"path":. "a,b", ."edits":. [{"old".: "}"}],. "x": "y.yyyyyyyy.yyyyyyyy.yyy"}'
    )
    assert _input_of(said, []) == (
        '..{"path": "a,b", ..."edits": [{"old": "}"}],.... "x": "yyyyyyyyyyyyyyyyyyyy"}'
    )
    assert _input_of(ended, ["write"]) == '{"path": "a", "content": "half of it'
    assert _input_of(ended, []) == '{"path": "a", "c'


def _input_of(said: Reply, eager: list[str]) -> str:
    """Return the input of the call as it is sent, with a full stop for each wait at the gate."""
    sent = ""
    for step in steps_of(said, {}, eager=eager):
        if isinstance(step, bytes):
            event: Payload = json.loads(step.partition(b"data: ")[2])
            sent += event.get("delta", {}).get("partial_json", "")
        else:
            sent += "."
    return sent


async def test_disconnect_of_a_client_is_noticed() -> None:
    gate = Gate()
    async with FakeMessagesApi(reply("a", gate=gate)) as api:
        answer = asyncio.create_task(post(api, request()))
        await asyncio.to_thread(gate.reached.wait, 60)
        answer.cancel()
        with pytest.raises(asyncio.CancelledError):
            await answer

        assert await asyncio.to_thread(api.requests[0].disconnected.wait, 60)


@each_row(("fault", "ended_by"), [("drop", b""), ("reset", ConnectionResetError)])
def test_scripted_fault_breaks_the_connection(fault: str, ended_by: object) -> None:
    """The fault is a FIN in the middle of a chunk, or an RST; everything before it arrives."""
    with (
        serve_in_thread(broken(reply("abc"), fault, after=2)) as api,
        socket.create_connection(("127.0.0.1", api.port)) as client,
    ):
        client.sendall(RAW_REQUEST)
        got, end = _read_all(client)

    assert got.count(b"\nevent: ") == 2 + (fault == "drop")
    assert end == ended_by


def _read_all(client: socket.socket) -> tuple[bytes, object]:
    client.settimeout(60)
    got = b""
    try:
        while piece := client.recv(65536):
            got += piece
    except ConnectionResetError as end:
        return got, type(end)
    return got, b""


def test_nothing_is_written_to_a_client_that_has_left(caplog: pytest.LogCaptureFixture) -> None:
    """After five writes in vain, asyncio warns: `socket.send() raised exception.`"""
    client = socket.socket()

    def answer(_request: ReceivedRequest) -> Reply:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, NO_LINGER)
        client.close()
        return reply("a long answer " * 50)

    with serve_in_thread(answer=answer) as api:
        client.connect(("127.0.0.1", api.port))
        client.sendall(RAW_REQUEST)
        api.wait_for_requests(1)
        assert api.requests[0].disconnected.wait(60)

    assert caplog.messages == []


async def test_connection_is_kept_alive_for_a_second_request() -> None:
    """A request may arrive in pieces."""
    async with FakeMessagesApi(reply("one"), error(529, "overloaded_error", "busy")) as api:
        reader, writer = await asyncio.open_connection("127.0.0.1", api.port)
        writer.write(RAW_REQUEST[:50])
        await writer.drain()
        writer.write(RAW_REQUEST[50:])
        first = await reader.readuntil(b"\r\n0\r\n\r\n")
        writer.write(RAW_REQUEST)
        second = await reader.readuntil(b"\r\n0\r\n\r\n")
        writer.close()

    assert (first[:12], second[:12]) == (b"HTTP/1.1 200", b"HTTP/1.1 529")


async def test_raw_answer_is_sent_unchanged() -> None:
    async with FakeMessagesApi(raw(200, b"<html>", content_type="text/html")) as api:
        status, answer = await post(api, request())

    assert (status, "text/html" in answer, "<html>" in answer) == (200, True, True)


def test_simulated_cache_reads_the_longest_known_prefix() -> None:
    """Written at markers, read at most 20 blocks before one; the rest is input."""
    cache = PromptCache()
    system = [text("s" * 400, cache_control=LONG)]
    first: Payload = request(system=system, messages=[user("a" * 400)], cache_control=SHORT)
    longer = request(
        system=system, messages=[user("a" * 400), user("b" * 400)], cache_control=SHORT
    )

    begun = cache.usage(first)
    again = cache.usage(longer)
    unmarked = cache.usage(request(messages=[user("b" * 400)]))

    written = begun["cache_creation"]
    assert begun["cache_read_input_tokens"] == 0
    assert written["ephemeral_1h_input_tokens"] > 100
    assert written["ephemeral_5m_input_tokens"] > 100
    assert again["cache_read_input_tokens"] == sum(written.values())
    assert unmarked["input_tokens"] > 100
    assert unmarked["cache_creation_input_tokens"] == 0


def test_simulated_cache_misses_changed_or_too_distant_prefixes() -> None:
    cache = PromptCache()
    parts = [str(n) * 40 for n in range(30)]
    cache.usage(request(messages=[user(*parts[:5])], cache_control=SHORT))

    near = cache.usage(request(messages=[user(*parts[:24])], cache_control=SHORT))
    changed = cache.usage(request(messages=[user("x", *parts[1:24])], cache_control=SHORT))
    far = PromptCache()
    far.usage(request(messages=[user(*parts[:5])], cache_control=SHORT))
    missed = far.usage(request(messages=[user(*parts[:25])], cache_control=SHORT))

    assert near["cache_read_input_tokens"] > 0
    assert changed["cache_read_input_tokens"] == 0
    assert missed["cache_read_input_tokens"] == 0


@each_row("turns", range(5))
async def test_connection_being_accepted_is_closed_with_the_server(turns: int) -> None:
    """Otherwise the garbage collector would report it in a later test."""
    async with FakeMessagesApi() as api:
        client = socket.create_connection(("127.0.0.1", api.port), timeout=60)
        for _ in range(turns):
            await asyncio.sleep(0)

    with client:
        client.setblocking(False)
        answer = asyncio.get_running_loop().sock_recv(client, 1)
        with suppress(ConnectionResetError):
            assert await asyncio.wait_for(answer, 20) == b""
    gc.collect()


def test_messages_api_command_serves_a_script_to_another_process(tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    script.write_text(json.dumps([{"reply": ["hi"]}, {"error": [529, "overloaded_error", "busy"]}]))
    command = [sys.executable, "-m", "tests.messages_api", str(script)]
    with subprocess.Popen(
        command, cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as server:
        assert server.stdin and server.stdout
        port = int(server.stdout.readline().rsplit(":", 1)[1])
        with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
            client.sendall(RAW_REQUEST)
            answer = b""
            while b"\r\n0\r\n\r\n" not in answer:
                answer += client.recv(65536)
        server.stdin.close()

        assert server.wait(60) == 0
    assert b'"text": "hi"' in answer
