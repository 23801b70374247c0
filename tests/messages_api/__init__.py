"""A Messages API on 127.0.0.1 for tests, with real sockets, SSE, and the real refusals.

In an asynchronous test:

    async with FakeMessagesApi(reply(tool_use("read", {"path": "a"})), reply("done")) as api:
        ...                                 # point the client at api.base_url; any key will do
    assert api.refusals == []
    assert api.requests[1].body["messages"][2]["content"][0]["type"] == "tool_result"

For a child process or a pty, in a plain test (the server runs in a separate thread and event loop):

    with serve_in_thread(reply("hi")) as api:
        subprocess.run([...], env={"ANTHROPIC_BASE_URL": api.base_url, "ANTHROPIC_API_KEY": "k"})
        api.wait_for_requests(1)

Or `python -m tests.messages_api script.json`, which prints the base URL as its first line.

`door=` puts a cloud in front of it: see tests/messages_api/clouds.py.

The script is a sequence of answers, consumed in order; an entry may be a function of the request,
and `FakeMessagesApi(answer=function)` asks the function for every one. Answers are

    reply("text", thinking("..."), tool_use("name", {...}, id="toolu_1"), {"type": "anything"},
          stop_reason=..., usage={...}, chunk_chars=20, pings=True, gate=Gate(), hold_at=3)
    error(429, "rate_limit_error", "Slow down", headers={"retry-after": "3"}, code=None)
    broken(reply("half an answer"), "drop", after=2)      after two SSE events; see FAULTS
    raw(200, b"<html>", content_type="text/html")         any body at all

`gate=Gate()` holds the stream before every delta until `gate.open()`, or `gate.open(2)` for two;
`gate=Pace(0.02)` pauses there. `hold_at=n` holds it only before event n; at 0 not even the status
is sent. A value in the input of a tool without `eager_input_streaming` arrives when it is whole.
`gate.reached` is a threading.Event set when the server waits there. An exhausted script
answers 500.

Requests are kept in `api.requests` (headers, body, raw, at_s, answered, disconnected), refusals in
`api.refusals`, thinking that no longer matched in `api.dropped_thinking`. Usage figures simulate
the prompt cache (bytes / 4) unless the reply specifies them.
"""

from tests.messages_api.gate import Gate, Pace
from tests.messages_api.hosted_rules import cited, fetched, search
from tests.messages_api.received import ReceivedRequest
from tests.messages_api.script import (
    FAULTS,
    Answer,
    Reply,
    broken,
    error,
    raw,
    redacted_thinking,
    reply,
    text,
    thinking,
    tool_use,
)
from tests.messages_api.server import FakeMessagesApi
from tests.messages_api.threaded import serve_in_thread

__all__ = [
    "FAULTS",
    "Answer",
    "FakeMessagesApi",
    "Gate",
    "Pace",
    "ReceivedRequest",
    "Reply",
    "broken",
    "cited",
    "error",
    "fetched",
    "raw",
    "redacted_thinking",
    "reply",
    "search",
    "serve_in_thread",
    "text",
    "thinking",
    "tool_use",
]
