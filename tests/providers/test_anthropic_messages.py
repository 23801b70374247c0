"""The provider over a real connection: whole replies, every failed reply, and cancellation."""

import asyncio
import gzip
import json
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager, suppress
from typing import Any

import pytest

from agent_cli.contracts.errors import ContextOverflow, ModelError
from agent_cli.contracts.provider import (
    BlockEnd,
    ReplyEnd,
    ReplyStart,
    Retrying,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    ToolCallStart,
)
from agent_cli.contracts.timeline import Usage
from agent_cli.contracts.tooling import ToolSpec
from agent_cli.providers.anthropic.connection import Connection, base_url
from agent_cli.providers.anthropic.messages import AnthropicMessages
from agent_cli.providers.events import joined
from agent_cli.providers.failures import SPEND_LIMITS
from agent_cli.providers.retries import RetryPolicy
from tests.messages_api import (
    Answer,
    FakeMessagesApi,
    Gate,
    broken,
    error,
    raw,
    redacted_thinking,
    reply,
    serve_in_thread,
    text,
    thinking,
    tool_use,
)
from tests.providers.asking import Asked, asker, request
from tests.records import captured_records
from tests.tables import each_row
from tests.waiting import at_growing_limits

CALL = tool_use("read", {"path": "a"}, id="t1")


async def test_reply_is_streamed_as_deltas_and_then_returned_complete() -> None:
    """S1-17: tool calls are an ordered part of the message."""
    figures = {"input_tokens": 10, "cache_read_input_tokens": 100, "output_tokens": 7}
    said = reply(thinking("hm", "s"), "see:", CALL, usage=figures, chunk_chars=8)
    async with FakeMessagesApi(said) as api, asker(api) as it:
        asked = await it.ask()

    blocks = (thinking("hm", "s"), text("see:"), CALL)
    assert [*joined(asked.events[:-1])] == [
        ReplyStart("claude-sonnet-5-5", asked.reply.usage),
        ThinkingDelta(0, "hm"),
        BlockEnd(0, blocks[0]),
        TextDelta(1, "see:"),
        BlockEnd(1, blocks[1]),
        ToolCallStart(2, "t1", "read"),
        ToolCallDelta(2, '{"path": "a"}'),
        BlockEnd(2, blocks[2]),
    ]
    assert asked.reply.content == blocks
    assert asked.reply.stop_reason == "tool_use"
    assert asked.reply.request_id == "req_000001"
    # 10 fresh at 2 $, 100 cached at 0.1 $, 7 written at 10 $ per million.
    assert asked.reply.usage == Usage(10, 7, 100, cost_microdollars=100)


async def test_blocks_are_kept_exactly_as_received() -> None:
    """Unknown kinds, omitted thinking, order of keys: the blocks sent back must verify."""
    blocks = (
        thinking("", "sig"),
        redacted_thinking("x1"),
        {"type": "future_block", "z": 1, "a": None},
        {"type": "text", "text": "hi", "citations": None},
        {"type": "tool_use", "id": "t", "name": "n", "input": {"b": 1.0, "a": "é"}, "caller": {}},
    )
    async with FakeMessagesApi(reply(*blocks, chunk_chars=3)) as api, asker(api) as it:
        asked = await it.ask()

    assert [list(block.items()) for block in asked.reply.content] == [
        list(block.items()) for block in blocks
    ]


async def test_unknown_events_and_deltas_are_skipped() -> None:
    """Pings, and event and delta types of later API versions."""
    delta = {"type": "content_block_delta", "index": 0, "delta": {"type": "new_delta", "n": 1}}
    later = ((0, {"type": "prelude"}), (4, {"type": "new_event", "x": 1}), (4, delta))
    said = reply("hello", pings=True, extra_events=later)
    async with FakeMessagesApi(said) as api, asker(api) as it:
        asked = await it.ask()

    assert asked.text == "hello"
    assert asked.retries == []


async def test_refusal_is_a_reply_with_stop_details() -> None:
    details = {"type": "refusal", "category": "cyber", "explanation": "no"}
    async with (
        FakeMessagesApi(reply("I", stop_reason="refusal", stop_details=details)) as api,
        asker(api) as it,
    ):
        asked = await it.ask()

    assert (asked.reply.stop_reason, asked.reply.stop_details) == ("refusal", details)


@each_row(
    ("fault", "reason"),
    [
        ("drop", "the connection broke in the reply"),
        ("reset", "the connection broke in the reply"),
        ("eof", "the reply ended before it was complete"),
        ("error", "API overloaded during the reply"),
        ("rate_limit", "the API broke the reply off (Too many requests)"),
        ("error_text", "the API broke the reply off (upstream went away)"),
        ("bad_json", "the reply was garbled"),
        ("bad_utf8", "the reply was garbled"),
        ("bad_index", "the reply was garbled"),
        ("stall", "the reply stopped: nothing for {limit_s:g} s"),
    ],
)
async def test_broken_reply_is_requested_again_from_the_start(fault: str, reason: str) -> None:
    """S1-22, C16: the text shown is void, marked as such, and no incomplete block is kept."""

    async def ask(longer: int) -> tuple[Asked, bool]:
        limit_s = 0.2 * longer if fault == "stall" else 90
        half = broken(reply("half of it", chunk_chars=4), fault, after=4)
        # More replies than needed: on a busy machine a good one may look stalled, too.
        async with (
            FakeMessagesApi(half, *[reply("whole")] * 5) as api,
            asker(api, read_timeout_s=limit_s) as it,
        ):
            asked = await it.ask()
        return asked, asked.retries[0].reason.startswith(reason.format(limit_s=limit_s))

    # There, even its begin may come too late.
    asked, _ = await at_growing_limits(ask, lambda found: found[1])

    retry = asked.retries[0]
    assert retry.restarted
    shown = asked.events[: asked.events.index(retry)]
    deltas = [event.delta for event in shown if isinstance(event, TextDelta)]
    assert "".join(deltas).startswith("half")
    assert asked.reply.content == (text("whole"),)


async def test_retry_before_the_first_delta_is_not_marked_as_a_restart() -> None:
    """Nothing was shown, so nothing must be revoked."""
    early = broken(reply("never"), "drop", after=1)
    async with FakeMessagesApi(early, reply("whole")) as api, asker(api) as it:
        asked = await it.ask()

    assert [retry.restarted for retry in asked.retries] == [False]


async def test_an_invalid_request_inside_a_stream_ends_the_call() -> None:
    async with FakeMessagesApi(broken(reply("x"), "invalid")) as api, asker(api) as it:
        asked = await it.ask()

    assert isinstance(asked.error, ModelError)
    assert asked.error.kind == "invalid_request_error"
    assert len(api.requests) == 1


async def test_a_reply_without_a_stop_reason_is_not_complete() -> None:
    """Complete means message_stop and a stop reason; otherwise tools would run on partial input."""
    unfinished = broken(reply("x"), "eof", after=5)
    async with FakeMessagesApi(unfinished, reply("whole")) as api, asker(api) as it:
        asked = await it.ask()

    assert asked.text == "whole"
    assert len(asked.retries) == 1


async def test_request_without_any_response_times_out_and_is_retried() -> None:
    """Silence before the headers counts like silence in the reply."""
    silent = reply("late", gate=Gate(), hold_at=0)
    async with (
        FakeMessagesApi(silent, *[reply("whole")] * 5) as api,
        asker(api, read_timeout_s=0.2) as it,
    ):
        asked = await it.ask()

    assert asked.text == "whole"
    assert asked.retries[0].reason == f"no answer from {api.base_url} in time"


@asynccontextmanager
async def dripping(first: bytes, piece: bytes) -> AsyncGenerator[str]:
    """Serve *first*, then *piece* endlessly, to every client; yield the base URL."""
    handlers: set[asyncio.Task[object]] = set()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task
        handlers.add(task)
        try:
            # A client whose limit has passed may not have sent its request yet.
            with suppress(ConnectionError, EOFError, asyncio.CancelledError):
                await reader.readuntil(b"\r\n\r\n")
                writer.write(first)
                while True:
                    writer.write(piece)
                    await writer.drain()
                    await asyncio.sleep(0.02)
        finally:
            writer.transport.abort()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        for handler in handlers:
            handler.cancel()
        await asyncio.gather(*handlers)


HEADERS = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"
REFUSAL = b"HTTP/1.1 500 Broken\r\ncontent-type: text/plain\r\n\r\n"
BEGUN = b'data: {"type": "message_start", "message": {"id": "m", "model": "m", "usage": {}}}\n\n'


PING = b'event: ping\ndata: {"type": "ping"}\n\n'
# The beginning of an answer, and the piece that follows it again and again.
NOISE = {
    "pings": (HEADERS, PING),
    "pings in a reply": (HEADERS + BEGUN, PING),
    "unknown events": (HEADERS + BEGUN, b'data: {"type": "news"}\n\n'),
    "comments": (HEADERS + BEGUN, b": a comment\n\n"),
    "headers": (b"HTTP/1.1 200 OK\r\n", b"x"),
    "an error's body": (REFUSAL, b"x"),
}


async def test_server_that_sends_only_pings_or_noise_hits_the_stall_timeout() -> None:
    """The read timeout never fires, because each piece arrives before it."""

    async def outcome(first: bytes, piece: bytes) -> tuple[int, str]:
        retry = RetryPolicy(max=1)
        async with (
            dripping(first, piece) as place,
            asker(base_url=place, api_key="k", stall_timeout_s=0.3, retry=retry) as it,
        ):
            asked = await it.ask()
        return len(asked.retries), str(asked.error).replace(place, "it").partition(";")[0]

    async with asyncio.timeout(30):
        outcomes = await asyncio.gather(*(outcome(*noise) for noise in NOISE.values()))

    expected = (1, "it sent no piece of the reply for 0.3 s")
    assert dict(zip(NOISE, outcomes, strict=True)) == dict.fromkeys(NOISE, expected)


async def test_client_is_loaded_even_if_no_thread_can_be_started(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The request used to wait for the client without end."""

    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    async with FakeMessagesApi(reply("whole")) as api, asker(api) as it:
        monkeypatch.setattr(threading.Thread, "start", refuse)
        it.provider.preload()
        monkeypatch.undo()
        asked = await it.ask()

    assert asked.text == "whole"


async def test_refused_connection_is_retried() -> None:
    """C15: the waits start at one second, as for all failures but rate limits."""
    with socket.socket() as bound:  # nobody listens there, and nobody else gets the port
        bound.bind(("127.0.0.1", 0))
        port = bound.getsockname()[1]
        async with asker(base_url=f"http://127.0.0.1:{port}", api_key="k") as it:
            asked = await it.ask()

    assert it.waits_s == [1, 2, 4, 8, 16]
    assert str(asked.error).startswith(f"cannot reach http://127.0.0.1:{port}")


async def test_tls_failure_is_reported_with_its_cause() -> None:
    """The message used to be "cannot be reached ()"; its cause is in the underlying error."""

    async def answer(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, asker(base_url=f"https://127.0.0.1:{port}", api_key="k") as it:
        asked = await it.ask()

    assert it.waits_s == []
    assert str(asked.error).startswith("no TLS connection to https://127.0.0.1:")
    assert "()" not in str(asked.error)


@each_row(
    "answer",
    [
        raw(200, b"<html><body>Welcome</body></html>", content_type="text/html; charset=utf-8"),
        raw(200, b'{"type": "message", "content": []}', content_type="application/json"),
        raw(200, b"", content_type="text/plain"),
        raw(200, b"<html><body>Welcome</body></html>"),
    ],
    ids=["html", "json", "empty", "html called a stream"],
)
async def test_web_page_instead_of_a_stream_names_the_base_url(answer: Answer) -> None:
    """Retrying does not correct a wrong address."""
    async with FakeMessagesApi(answer) as api, asker(api) as it:
        asked = await it.ask()

    assert "check ANTHROPIC_BASE_URL" in str(asked.error)
    assert api.base_url in str(asked.error)
    assert len(api.requests) == 1


@pytest.mark.parametrize(
    "body",
    [
        b'{"type": "error", "error": {"type": "api_error", "message": "no channel for opus"}}',
        b'{"error": "no channel for opus"}',
    ],
)
async def test_error_of_a_gateway_with_status_200_is_shown(body: bytes) -> None:
    """Some send every error so; the address was blamed, and the reason hidden."""
    answer = raw(200, body, content_type="application/json; charset=utf-8")
    async with FakeMessagesApi(answer) as api, asker(api) as it:
        asked = await it.ask()

    assert str(asked.error) == (
        f"{api.base_url} answered with an error and status 200 (no channel for opus);"
        " look into that server, or change ANTHROPIC_BASE_URL"
    )
    assert len(api.requests) == 1


GZIP = gzip.compress(b'event: message_start\ndata: {"type": "message_start"}\n\n' * 9)


@pytest.mark.parametrize("kept_bytes", [0, 5, len(GZIP) // 2])
async def test_compressed_reply_that_is_cut_short_is_retried(kept_bytes: int) -> None:
    """However early: with nothing to decompress it looks like no reply at all."""
    cut = raw(200, GZIP[:kept_bytes], headers={"content-encoding": "gzip"})
    async with FakeMessagesApi(cut, reply("Here.")) as api, asker(api) as it:
        asked = await it.ask()

    assert asked.reply.content == (text("Here."),)
    assert [retry.may_have_cost for retry in asked.retries] == [True]


async def test_stream_without_event_lines_is_accepted() -> None:
    """Some compatible servers send only data lines."""
    async with FakeMessagesApi(reply("hi", event_lines=False)) as api, asker(api) as it:
        asked = await it.ask()

    assert asked.text == "hi"


async def test_blank_events_are_skipped_and_a_number_too_long_is_asked_for_again() -> None:
    """Compatible servers keep connections alive with the first; Python refuses to parse the other.

    The limit is that of Python: 4,300 digits.
    """
    start = b'data: {"type": "message_start", "message": {"usage": {"input_tokens": %b}}}\n\n'
    end = b'data: {"type": "message_delta", "delta": {"stop_reason": "end_turn"}}\n\n'
    stop = b'data: {"type": "message_stop"}\n\n'
    answers = [
        raw(200, b"data:\n\nevent: ping\ndata: \n\n" + start % tokens + end + stop)
        for tokens in (b"1" * 5_000, b"7")
    ]
    async with FakeMessagesApi(*answers) as api, asker(api) as it:
        asked = await it.ask()

    assert [retry.reason[:23] for retry in asked.retries] == ["the reply was garbled: "]
    assert asked.reply.usage.input_tokens == 7


async def test_long_input_of_a_tool_arrives_while_it_is_written() -> None:
    """The API would hold it back until it is whole, which takes minutes for a large file."""
    gate = Gate()
    written = {"path": "a", "content": "x" * 64}
    said = reply(tool_use("write", written), gate=gate)
    tool = ToolSpec("write", "Write a file", {"type": "object"})
    arrived = ""
    gate.open(4)
    async with FakeMessagesApi(said) as api, asker(api) as it:
        async for event in it.provider.stream(request(tools=(tool,))):
            if isinstance(event, ToolCallDelta):
                arrived += event.delta
                if len(arrived) == 4 * said.chunk_chars:
                    gate.open()

    assert arrived == json.dumps(written)


async def test_invalid_json_in_tool_arguments_reaches_the_caller_as_text() -> None:
    """The turn must continue: validation reports them, and the model corrects itself."""
    call = tool_use("read", id="t1", raw='{"path": "a"')
    async with FakeMessagesApi(reply(call)) as api, asker(api) as it:
        asked = await it.ask()

    assert asked.reply.content[0]["input"] == {"INVALID_JSON": '{"path": "a"'}


async def test_a_base_url_may_end_in_v1() -> None:
    """The SDK would ask for /v1/v1/messages."""
    async with (
        FakeMessagesApi(reply("hi"), reply("ho")) as api,
        asker(api, base_url=f"{api.base_url}/v1/") as it,
    ):
        await it.ask()

    assert [got.path for got in api.requests] == ["/v1/messages"]


async def test_base_url_from_the_environment_may_end_in_v1(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with FakeMessagesApi(reply("hi")) as api:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", f"{api.base_url}/v1")
        async with asker(api, base_url=None) as it:
            asked = await it.ask()

    assert asked.text == "hi"


async def test_it_is_told_that_a_request_was_sent_before_the_reply_begins() -> None:
    """What the first reply needs is imported then, while the model thinks."""
    gate, sent = Gate(), asyncio.Event()
    held = reply("done", gate=gate, hold_at=0)
    async with FakeMessagesApi(held) as api, asker(api, on_sent=sent.set) as it:
        asking = asyncio.create_task(it.ask())
        async with asyncio.timeout(20):
            await sent.wait()
        gate.open()
        asked = await asking

    assert asked.text == "done"


async def test_cancelling_closes_the_connection_at_once() -> None:
    """The server sees the disconnect, and stops generating."""
    gate = Gate()
    async with FakeMessagesApi(reply("a" * 40, gate=gate)) as api, asker(api) as it:
        asking = asyncio.create_task(it.ask())
        await asyncio.to_thread(gate.reached.wait, 60)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking

        assert await asyncio.to_thread(api.requests[0].disconnected.wait, 60)


async def test_closing_the_stream_closes_the_connection() -> None:
    """A caller that needs no more closes the iterator."""
    gate = Gate()
    gate.open(1)
    async with FakeMessagesApi(reply("a" * 40, gate=gate)) as api, asker(api) as it:
        async with aclosing(it.provider.stream(request())) as events:
            async for event in events:
                if isinstance(event, TextDelta):
                    break

        assert await asyncio.to_thread(api.requests[0].disconnected.wait, 60)


async def test_request_works_after_one_cancelled_while_the_client_loads() -> None:
    """The thread continues, and the next request uses the modules it loaded."""
    async with FakeMessagesApi(reply("hi")) as api, asker(api) as it:
        first = asyncio.create_task(it.ask())
        await asyncio.sleep(0)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        asked = await it.ask()

    assert asked.text == "hi"
    assert len(api.requests) == 1


async def test_closing_an_unused_provider_does_nothing() -> None:
    """Leaving at once must not wait for an import."""
    await AnthropicMessages().aclose()


async def test_wait_before_a_retry_can_be_cancelled() -> None:
    """Ctrl-C during `waiting 10 s` does not wait ten seconds."""
    seen: list[object] = []
    waiting = asyncio.Event()

    async def never(_seconds: float) -> None:
        waiting.set()
        await asyncio.Event().wait()

    async with FakeMessagesApi(error(429, "rate_limit_error", "slow")) as api:
        provider = AnthropicMessages(Connection(base_url=api.base_url, api_key="k"), sleep=never)

        async def ask() -> None:
            async for event in provider.stream(request()):
                seen.append(event)

        asking = asyncio.create_task(ask())
        await waiting.wait()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        await provider.aclose()

    assert [type(event) for event in seen] == [Retrying]


async def test_connection_is_reused_for_the_next_request() -> None:
    """No new handshake per turn: the end of the body is read."""
    async with FakeMessagesApi(reply("one"), reply("two")) as api, asker(api) as it:
        await it.ask()
        await it.ask()

        assert api.connections_made == 1


@each_row(
    ("answer", "sentence"),
    [
        (
            error(400, "invalid_request_error", "messages: no."),
            "the API refused the request (400: messages: no); change it, or start over",
        ),
        (
            error(401, "authentication_error", "invalid bearer token"),
            "API key rejected (invalid bearer token); check ANTHROPIC_API_KEY",
        ),
        (
            error(402, "billing_error", "Unpaid"),
            "no credit left (Unpaid); check the billing settings",
        ),
        (
            error(403, "permission_error", "Not you"),
            "the API key has no permission for this (Not you); check its workspace and limits",
        ),
        (
            error(404, "not_found_error", "model: x"),
            "unknown model 'claude-sonnet-5-5' or wrong URL (model: x); "
            "check the model id and ANTHROPIC_BASE_URL",
        ),
        (
            error(413, "request_too_large", "Too large"),
            "the conversation is too large for the model (Too large); start over with a shorter"
            " message, or use a model with a larger window",
        ),
        (
            error(429, "rate_limit_error", "Spent", code=min(SPEND_LIMITS)),
            "spending limit reached (Spent); raise it in the API's console",
        ),
        (
            error(400, "invalid_request_error", "You have reached your specified API usage limits"),
            "spending limit reached (You have reached your specified API usage limits); "
            "raise it in the API's console",
        ),
        (
            error(400, "invalid_request_error", "Your credit balance is too low to go on."),
            "no credit left (Your credit balance is too low to go on); check the billing settings",
        ),
        (
            raw(403, b"blocked by proxy", headers={"request-id": "req_scripted_error"}),
            "the API key has no permission for this (blocked by proxy); check its workspace and"
            " limits",
        ),
    ],
    ids=["400", "401", "402", "403", "404", "413", "spend", "own spend", "credit", "no JSON"],
)
async def test_permanent_failure_is_reported_at_once_in_one_sentence(
    answer: Answer, sentence: str
) -> None:
    """S1-20, S1-46: never retried; the cause, the next step, and the request's id."""
    async with FakeMessagesApi(answer) as api, asker(api) as it:
        asked = await it.ask()

    assert str(asked.error) == f"{sentence} (request req_scripted_error)"
    assert asked.error is not None
    assert asked.error.request_id == "req_scripted_error"
    assert (len(api.requests), it.waits_s) == (1, [])


async def test_too_long_prompt_raises_context_overflow() -> None:
    """S1-46: the loop compacts on this error."""
    async with FakeMessagesApi(context_window=10) as api, asker(api) as it:
        asked = await it.ask()

    assert isinstance(asked.error, ContextOverflow)


async def test_missing_api_key_error_names_the_variable_to_set() -> None:
    """S1-46: the error comes before any connection attempt."""
    async with asker(base_url="http://127.0.0.1:1") as it:
        asked = await it.ask()

    assert str(asked.error).startswith("there is no API key; set ANTHROPIC_API_KEY")
    assert asked.retries == []


@pytest.mark.parametrize(
    ("raised", "told"),
    [
        (
            ImportError("No module named 'httpx2'"),
            "a package of the model's client is missing (No module named 'httpx2'); install again",
        ),
        (
            OSError(24, "Too many open files", "a.py"),
            "the model's client cannot be loaded: [Errno 24] Too many open files: 'a.py';"
            " ask again",
        ),
    ],
)
@pytest.mark.filterwarnings("error")
async def test_error_about_a_client_that_cannot_be_loaded_names_the_remedy(
    monkeypatch: pytest.MonkeyPatch, raised: Exception, told: str
) -> None:
    """S1-46: the installation is damaged, or `ulimit -n` low; no traceback of the thread."""

    def load(_module: str) -> None:
        raise raised

    monkeypatch.setattr("agent_cli.providers.anthropic.loop_clients.load", load)
    async with asker(base_url="http://127.0.0.1:1", api_key="k") as it:
        asked = await it.ask()

    assert str(asked.error) == told


async def test_error_about_missing_certificates_names_the_variables(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """This error used to be a traceback, with a sentence that named no remedy."""
    monkeypatch.setenv("SSL_CERT_FILE", "/nowhere.pem")

    async with asker(base_url="https://127.0.0.1:1", api_key="k") as it:
        asked = await it.ask()

    assert str(asked.error) == (
        "the certificates cannot be read (No such file or directory); check SSL_CERT_FILE and"
        " SSL_CERT_DIR"
    )


async def test_client_is_loaded_again_once_the_cause_of_a_failure_is_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The session had to be left although the user had repaired a profile or a proxy."""
    async with FakeMessagesApi(reply("whole")) as api, asker(api) as it:
        monkeypatch.setenv("ALL_PROXY", "ftp://127.0.0.1:1")
        failed = await it.ask()
        monkeypatch.delenv("ALL_PROXY")
        asked = await it.ask()

    assert "the proxy settings cannot be used" in str(failed.error)
    assert asked.text == "whole"


async def test_socks_proxy_error_names_the_package_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """This error used to be reported as a damaged installation."""
    monkeypatch.setenv("ALL_PROXY", "socks5://127.0.0.1:1")
    monkeypatch.setitem(sys.modules, "socksio", None)

    async with asker(base_url="http://127.0.0.1:1", api_key="k") as it:
        asked = await it.ask()

    assert str(asked.error) == (
        "a SOCKS proxy needs one more package: pip install socksio, or set another proxy"
    )


async def test_proxy_that_no_proxy_excepts_this_address_from_is_not_needed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A SOCKS proxy for everything else ended each request: its package was missing."""
    monkeypatch.setenv("ALL_PROXY", "socks5://127.0.0.1:1")
    monkeypatch.setenv("NO_PROXY", "localhost,127.0.0.1")
    monkeypatch.setitem(sys.modules, "socksio", None)

    async with FakeMessagesApi(reply("here")) as api, asker(api) as it:
        asked = await it.ask()

    assert asked.text == "here"


@pytest.mark.parametrize("key", ["secret-1\nkey", "secret-\u043a"])
async def test_api_key_invalid_in_a_header_is_refused_without_showing_the_key(key: str) -> None:
    """The HTTP library would print the key."""
    async with asker(base_url="http://127.0.0.1:1", api_key=key) as it:
        asked = await it.ask()

    assert str(asked.error).endswith("is not ASCII; copy it again")
    assert "secret" not in str(asked.error)


@each_row(
    ("base_url", "fault"),
    [
        ("localhost:1", "does not begin with http:// or https://"),
        ("http://127.0.0.1:65536", "has a port above 65535"),
        ("http://[::1", "is not a valid address"),
        ("http://127.0.0.1/caf\udce9", "is not a valid address"),
    ],
)
async def test_invalid_base_url_is_an_error_without_retries(base_url: str, fault: str) -> None:
    async with asker(base_url=base_url, api_key="k") as it:
        asked = await it.ask(request(session_id="s1"))  # could be held by the API

    assert str(asked.error) == f"the base URL {base_url!r} {fault}; check ANTHROPIC_BASE_URL"
    assert it.waits_s == []


def test_empty_base_url_means_the_default_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """`ANTHROPIC_BASE_URL=` in a file unsets it; the SDK would use the empty address."""
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "")
    assert base_url(Connection(base_url="", api_key="k")) == "https://api.anthropic.com"


async def test_error_page_of_a_proxy_is_shortened_to_one_line() -> None:
    """S1-46: one line, whatever the server sends."""
    page = raw(403, b"<html>\n" + b"<p>blocked</p>\n" * 500, content_type="text/html")
    async with FakeMessagesApi(page) as api, asker(api) as it:
        asked = await it.ask()

    assert "\n" not in str(asked.error)
    assert len(str(asked.error)) < 500


async def test_log_record_of_a_request_has_session_and_request_id() -> None:
    """S0-27: one line of the log has both."""
    async with FakeMessagesApi(reply("a")) as api, asker(api) as it:
        with captured_records() as lines:
            await it.ask(request(session_id="s1"))

    assert [(line["session_id"], line["request_id"]) for line in lines] == [("s1", "req_000001")]


async def test_events_of_a_long_reply_are_pieces_of_it() -> None:
    """No event grows with the length so far; pieces that came together are one, of bounded size."""
    long = "0123456789" * 20_000
    with serve_in_thread(reply(long, chunk_chars=20)) as api:
        async with asker(api) as it:
            asked = await it.ask()

    assert asked.text == long
    deltas = [event.delta for event in asked.events if isinstance(event, TextDelta)]
    assert "".join(deltas) == long
    assert max(map(len, deltas)) <= 1_020
    assert len(deltas) < len(long) // 20


async def test_api_key_of_the_request_overrides_that_of_the_connection() -> None:
    """S0-25: a key may change while the program runs."""
    async with FakeMessagesApi(reply("a"), reply("b"), reply("c")) as api, asker(api) as it:
        await it.ask(request(api_key="fresh"))
        await it.ask()
        async with asker(api, api_key=None, auth_token="token") as other:
            await other.ask()

    keys = [got.headers["authorization"] for got in api.requests]
    assert keys == ["Bearer fresh", "Bearer secret-key", "Bearer token"]


async def test_sdk_does_not_retry_and_requests_carry_our_user_agent() -> None:
    """S1-19: the SDK's retries would multiply with ours."""
    async with (
        FakeMessagesApi(answer=lambda _got: error(529, "overloaded_error", "busy")) as api,
        asker(api) as it,
    ):
        await it.ask()

    assert len(api.requests) == 6
    assert {got.headers["user-agent"].split("/")[0] for got in api.requests} == {"agent-cli"}


async def test_compatible_server_gets_only_the_core_fields() -> None:
    """No betas, no cache markers, no thinking, no metadata; any key is accepted."""
    async with (
        FakeMessagesApi(reply("a")) as api,
        asker(api, compat=True, api_key=None) as it,
    ):
        await it.ask(request(system=("be brief",), session_id="s1"))

    (got,) = api.requests
    assert set(got.body) == {"model", "max_tokens", "messages", "system", "stream"}
    assert "anthropic-beta" not in got.headers
    assert b"cache_control" not in got.raw


@pytest.mark.parametrize(
    ("field", "options"),
    [
        ("output_config", {"thinking_level": "high"}),
        ("thinking", {"thinking_level": "high"}),
        ("temperature", {"temperature": 0.5, "model": "local-model"}),
    ],
)
async def test_field_refused_by_a_compatible_server_is_not_sent_again(
    field: str, options: dict[str, Any]
) -> None:
    """One 400 that names the field is enough; the other fields are still sent."""
    refusal = error(400, "invalid_request_error", f"{field}: Extra inputs are not permitted")
    wanted = request(**options)
    async with (
        FakeMessagesApi(refusal, reply("a"), reply("b")) as api,
        asker(api, compat=True) as it,
    ):
        asked = await it.ask(wanted)
        await it.ask(wanted)

    assert asked.retries == []
    first, *later = (got.body for got in api.requests)
    assert [{**body, field: first[field]} for body in later] == [first] * 2
    assert all(field not in body for body in later)


async def test_tokens_of_thinking_are_a_part_of_the_output_s() -> None:
    """They cost what the output costs, once."""
    figures = {"output_tokens": 7, "output_tokens_details": {"thinking_tokens": 5}}
    async with FakeMessagesApi(reply("a", usage=figures)) as api, asker(api) as it:
        asked = await it.ask()

    assert asked.reply.usage == Usage(output_tokens=7, thinking_tokens=5, cost_microdollars=70)


async def test_usage_figures_missing_from_a_reply_count_as_zero() -> None:
    async with FakeMessagesApi(reply("a", usage={})) as api, asker(api) as it:
        asked = await it.ask(request(model="local-model"))

    assert asked.reply.usage == Usage(cost_microdollars=None)


async def test_stream_has_exactly_one_reply_end() -> None:
    async with FakeMessagesApi(reply("a")) as api, asker(api) as it:
        asked = await it.ask()

    assert [type(event) for event in asked.events].count(ReplyEnd) == 1


def test_creating_the_provider_does_not_import_the_sdk() -> None:
    """The import takes over a second, and the prompt must not wait."""
    code = (
        "import sys, agent_cli.providers.anthropic.messages as m; m.AnthropicMessages();"
        "print(sorted({'anthropic', 'httpx2', 'mcp'} & set(sys.modules)))"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )

    assert run.stdout == "[]\n"
