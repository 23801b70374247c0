"""Every way a call can end, with the answers a server may send on the wire."""

import asyncio
import json
import os
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from agent_cli.contracts.cancel import CancelToken
from agent_cli.contracts.errors import Aborted
from agent_cli.contracts.servers import ServerPhase, ServerState
from agent_cli.contracts.timeline import Json, text_block
from agent_cli.contracts.tooling import ToolResult
from agent_cli.mcp_client import Elicitation, ElicitationAnswer, Host, McpServers, ServerConfig
from agent_cli.mcp_client.limits import SilenceLimits, TotalTimeReached
from tests.waiting import GROWING_LIMITS_S, at_growing_limits
from tests.waiting import until as waiting_until

if TYPE_CHECKING:
    from tests.mcp_client.conftest import Call, HttpServer, RawServer

Until = Callable[[Callable[[], object]], Awaitable[None]]
LIMIT_S = 40


def error(code: int, message: str, data: Json = None) -> dict[str, Json]:
    return {"error": {"code": code, "message": message, "data": data}}


def result(*content: dict[str, Json], **more: Json) -> dict[str, Json]:
    return {"result": {"content": list(content), **more}}


FAILURES: list[tuple[dict[str, Json], str]] = [
    (result({"type": "text", "text": "no such file"}, isError=True), "no such file"),
    (error(-32602, "a is missing"), "MCP server 'raw' refused the call: a is missing"),
    (error(0, ""), "MCP server 'raw' refused the call: MCPError without a message"),
    (
        error(-32000, "upstream is gone"),
        "MCP server 'raw' refused the call: upstream is gone",
    ),
    (
        error(-32001, "timed out"),
        "MCP server 'raw' did not finish the call in time. The call may have taken effect: "
        "check before you repeat it.",
    ),
    (
        error(-32600, "the client has no back-channel"),
        "the user can set protocol = \"legacy\" for MCP server 'raw': it has a question,"
        " which this protocol revision does not carry",
    ),
    (
        error(-32021, "sampling wanted", {"requiredCapabilities": {}}),
        "MCP server 'raw' needs a feature that this program does not offer: sampling wanted",
    ),
    (
        error(
            -32042,
            "visit us",
            {
                "elicitations": [
                    {
                        "mode": "url",
                        "message": "Sign in",
                        "url": "https://example.com/in",
                        "elicitationId": "1",
                    }
                ]
            },
        ),
        "MCP server 'raw' needs the user to visit https://example.com/in first, "
        "which they have not opened; then call again.",
    ),
    (
        error(-32042, "visit us", {"elicitations": 7}),
        "MCP server 'raw' refused the call: visit us ({\"elicitations\": 7})",
    ),
    (
        error(-32602, "invalid", "unit must be °C\x1b[2J\nor °F"),
        "MCP server 'raw' refused the call: invalid (unit must be °C[2J or °F)",
    ),
    (
        error(-32602, "a is missing", "a is missing"),
        "MCP server 'raw' refused the call: a is missing",
    ),
    (
        error(-32602, "invalid", ["x" * 2000]),
        f"MCP server 'raw' refused the call: invalid ([\"{'x' * 997}…)",
    ),
    (
        {"result": {"content": [], "isError": 7}},
        "MCP server 'raw' answered reply with something that is not valid MCP: "
        "isError must be true or false. The call may have taken effect.",
    ),
]


async def test_failed_call_returns_an_error_that_says_what_happened(
    raw_server: "RawServer", call: "Call"
) -> None:
    """S1-42: it raises no exception, and the connection stays usable."""
    found = list[tuple[str, bool]]()
    async with McpServers(os.environ) as servers:
        servers.start([raw_server()])
        await servers.wait_started(LIMIT_S)
        for reply, _text in FAILURES:
            failed = await call(servers, "mcp__raw__reply", {"reply": reply})
            after = await call(servers, "mcp__raw__reply")
            assert (after.text, after.is_error) == ("answered", False), reply
            found.append((failed.text, failed.is_error))

    assert found == [(text, True) for _reply, text in FAILURES]


async def test_sign_in_that_a_server_lacks_elsewhere_is_not_one_to_it(
    raw_server: "RawServer", call: "Call"
) -> None:
    """A server that asks a service puts its status into the error; it needs no `/mcp login`."""
    async with McpServers(os.environ) as servers:
        servers.start([raw_server()])
        await servers.wait_started(LIMIT_S)
        refused = error(-32603, "the tracker answered 401", {"status": 401})

        failed = await call(servers, "mcp__raw__reply", {"reply": refused})

        said = 'refused the call: the tracker answered 401 ({"status": 401})'
        assert failed.text == f"MCP server 'raw' {said}"
        assert not servers.states()[0].needs_sign_in


async def test_call_from_another_event_loop_is_one_sentence(
    raw_server: "RawServer", call: "Call"
) -> None:
    """It hung for good: the loop of the servers never learned of it."""
    async with McpServers(os.environ) as servers:
        servers.start([raw_server()])
        await servers.wait_started(LIMIT_S)

        async def elsewhere() -> ToolResult:
            return await call(servers, "mcp__raw__reply")

        answer = await asyncio.to_thread(lambda: asyncio.run(elsewhere()))

    assert answer.is_error
    assert answer.text == (
        "MCP server 'raw' belongs to another event loop: call its tools in the one that opened the"
        " session"
    )


ANSWERED: dict[str, Json] = {"type": "text", "text": "answered"}


RESULTS: list[tuple[dict[str, Json], str]] = [
    ({"result": {"content": "answered"}}, "answered"),
    ({"result": {"content": ["answered"]}}, "answered"),
    ({"result": {"content": ANSWERED}}, "answered"),
    ({"result": {"output": "answered"}}, '{"output": "answered"}'),
    ({"result": {}}, "The tool returned nothing."),
    (result({**ANSWERED, "annotations": {"audience": ["model"]}}), "answered"),
    (result({"type": "text", "text": 5}), "5"),
    (
        result({"type": "resource", "resource": {"uri": "a b.txt", "text": "answered"}}),
        "a b.txt:\nanswered",
    ),
    (result({"type": "resource", "resource": {"text": "answered"}}), ":\nanswered"),
    (result(structuredContent={"sum": 5}), '{"sum": 5}'),
    (result(structuredContent=[5]), "[5]"),
    (result(ANSWERED, structuredContent={"sum": 5}), 'answered{"sum": 5}'),
    (result(ANSWERED, structuredContent=[5]), "answered[5]"),
    (result(ANSWERED, structuredContent={"result": "answered"}), "answered"),
    (result({"type": "text", "text": "5"}, structuredContent={"result": 5}), "5"),
    (result({"type": "text", "text": '{\n"a": 1}'}, structuredContent={"a": 1}), '{\n"a": 1}'),
    ({"result": {"structuredContent": {"a": 1}}}, '{"a": 1}'),
    (
        {"result": {"content": None, "structuredContent": {"a": 1}, "isError": None}},
        '{"a": 1}',
    ),
    ({"result": {"content": None}}, "The tool returned nothing."),
    (
        result({"type": "text", "text": "ok"}, {"text": "untyped"}),
        "ok(content, which this program cannot read)",
    ),
    (result(structuredContent={"größe": 3}), '{"größe": 3}'),
]


async def test_result_reaches_the_model_whatever_its_form(
    raw_server: "RawServer", call: "Call"
) -> None:
    """S1-42: what a call did would be unknown, though its server has said it.

    What structured content alone says is not dropped for a word beside it.
    """
    async with McpServers(os.environ) as servers:
        servers.start([raw_server()])
        await servers.wait_started(LIMIT_S)
        outcomes = [
            await call(servers, "mcp__raw__reply", {"reply": reply}) for reply, _text in RESULTS
        ]

    assert [(each.text, each.is_error) for each in outcomes] == [
        (text, False) for _reply, text in RESULTS
    ]
    assert outcomes[-1].content == (text_block('{"größe": 3}'),)


async def test_url_required_by_a_call_is_shown_to_the_user(
    raw_server: "RawServer", call: "Call"
) -> None:
    """In the older way of asking, the call fails and is repeated after the visit."""
    asked: list[Elicitation] = []

    async def agree(question: Elicitation) -> ElicitationAnswer:
        asked.append(question)
        return ElicitationAnswer("accept")

    page: Json = {"mode": "url", "message": "Sign in", "url": "https://x/in", "elicitationId": "1"}
    async with McpServers(os.environ, host=Host(elicit=agree)) as servers:
        servers.start([raw_server()])
        await servers.wait_started(LIMIT_S)
        refusal = error(-32042, "visit us", {"elicitations": [page]})
        failed = await call(servers, "mcp__raw__reply", {"reply": refusal})

    assert asked == [Elicitation(server="raw", message="Sign in", url="https://x/in")]
    assert failed.is_error
    assert "open in the user's browser now: ask whether they are done; then call" in failed.text


async def test_result_that_violates_its_own_output_schema_is_an_error(
    raw_server: "RawServer", call: "Call"
) -> None:
    tool: Json = {
        "name": "reply",
        "inputSchema": {"type": "object"},
        "outputSchema": {"type": "object", "required": ["sum"]},
    }
    async with McpServers(os.environ) as servers:
        servers.start([raw_server({"tools": [tool]})])
        await servers.wait_started(LIMIT_S)

        outcome = await call(
            servers, "mcp__raw__reply", {"reply": result(structuredContent={"total": 3})}
        )

        assert outcome.is_error
        assert outcome.text == (
            "MCP server 'raw' answered reply with something its own output schema does not allow: "
            "input: 'sum' is a required property. The call may have taken effect."
        )


async def test_silent_call_is_cancelled_after_the_idle_limit(
    raw_server: "RawServer", call: "Call", tmp_path: Path
) -> None:
    """The server is told to stop, and the next call works."""
    record = tmp_path / "record"

    async def after_silence(limit_s: int) -> str:
        record.unlink(missing_ok=True)
        async with McpServers(os.environ) as servers:
            servers.start([raw_server({"record": str(record)}, call_timeout_s=limit_s)])
            await servers.wait_started(LIMIT_S)

            silent = await call(servers, "mcp__raw__reply", {"reply": None})
            after = await call(servers, "mcp__raw__reply")

        assert (silent.text, silent.is_error) == (
            f"reply of MCP server 'raw' gave no sign of life for {limit_s} s, and is no longer "
            "waited for. It may have run: check before you repeat it.",
            True,
        )
        return after.text

    await at_growing_limits(after_silence, "answered".__eq__)

    assert methods(record).count("notifications/cancelled") == 1


async def test_call_that_a_reconnect_ends_does_not_blame_the_server(
    raw_server: "RawServer", call: "Call"
) -> None:
    """So does a sign-in while calls wait: the server was said to have been silent for 300 s."""
    updates: list[str] = []
    async with McpServers(os.environ) as servers:
        servers.start([raw_server()])
        await servers.wait_started(LIMIT_S)
        waits: dict[str, Json] = {"reply": None, "progress": "begun"}
        waiting = asyncio.ensure_future(call(servers, "mcp__raw__reply", waits, updates=updates))
        await waiting_until(lambda: updates)
        await servers.reconnect("raw")
        ended = await waiting

    assert (ended.text, ended.is_error) == (
        "MCP server 'raw' was disconnected by the user during the call. The call may have taken"
        " effect: check before you repeat it.",
        True,
    )


def quick_to_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    for limit in ("_ANSWER_LIMIT_S", "_BUSY_LIMIT_S"):
        monkeypatch.setattr(f"agent_cli.mcp_client.requests.{limit}", 1.0)


async def test_server_that_hangs_in_a_call_is_restarted_before_the_next_one(
    raw_server: "RawServer",
    call: "Call",
    tmp_path: Path,
    until: Until,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """S1-42: each further call took the whole limit of silence, or Ctrl-C."""
    quick_to_answer(monkeypatch)

    async def after_hang(*, is_stopped: bool) -> tuple[bool, list[str]]:
        record = tmp_path / f"record-{is_stopped}"
        cancel, changes = CancelToken(), list[ServerState]()
        limit_s = LIMIT_S if is_stopped else 1
        async with McpServers(os.environ, on_change=changes.append) as servers:
            servers.start([raw_server({"record": str(record)}, call_timeout_s=limit_s)])
            await servers.wait_started(LIMIT_S)

            async with asyncio.TaskGroup() as group:
                hangs = call(servers, "mcp__raw__reply", {"reply": "stop"}, cancel=cancel)
                task = group.create_task(stopped(hangs))
                await until(lambda: "tools/call" in methods(record))
                if is_stopped:
                    cancel.cancel()
            await asyncio.gather(*(answered(servers, call) for _ in range(3)))
        return task.result(), [state.reason for state in changes if state.hung]

    timed_out, cancelled = await asyncio.gather(
        after_hang(is_stopped=False), after_hang(is_stopped=True)
    )

    lost = ["MCP server 'raw' was lost: it answers nothing since a request that got no answer"]
    assert timed_out == (False, lost)
    assert cancelled == (True, lost)


async def test_server_has_longer_to_answer_after_a_cancelled_call(
    raw_server: "RawServer",
    call: "Call",
    tmp_path: Path,
    until: Until,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One that answers nothing while it works was ended 10 s after Ctrl-C, with all it held."""
    monkeypatch.setattr("agent_cli.mcp_client.requests._ANSWER_LIMIT_S", 0.0)
    record, cancel = tmp_path / "record", CancelToken()
    async with McpServers(os.environ) as servers:
        servers.start([raw_server({"record": str(record)})])
        await servers.wait_started(LIMIT_S)

        async with asyncio.TaskGroup() as group:
            waits = call(servers, "mcp__raw__reply", {"reply": None}, cancel=cancel)
            task = group.create_task(stopped(waits))
            await until(lambda: "tools/call" in methods(record))
            cancel.cancel()
        await answered(servers, call)
        [state] = servers.states()

    assert (task.result(), state.restarts, state.last_end) == (True, 0, "")


async def test_hanging_server_is_not_restarted_while_others_wait_for_it(
    raw_server: "RawServer",
    call: "Call",
    tmp_path: Path,
    until: Until,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Their calls may be at work: each ends by its own limit."""
    quick_to_answer(monkeypatch)
    record, stops = tmp_path / "record", [CancelToken(), CancelToken()]
    async with McpServers(os.environ) as servers:
        servers.start([raw_server({"record": str(record)})])
        await servers.wait_started(LIMIT_S)

        async with asyncio.TaskGroup() as group:
            tasks = list[asyncio.Task[bool]]()
            for reply, cancel in zip((None, "stop"), stops, strict=True):
                waits = call(servers, "mcp__raw__reply", {"reply": reply}, cancel=cancel)
                tasks.append(group.create_task(stopped(waits)))
                await until(partial(has_calls, record, len(tasks)))
            stops[1].cancel()
            await tasks[1]
            early = await call(servers, "mcp__raw__reply")
            stops[0].cancel()
        late = await call(servers, "mcp__raw__reply")

    assert (early.is_error, late.text) == (True, "answered")
    assert early.text.endswith("The user can restart it with /mcp reconnect raw")


async def test_web_server_that_hangs_costs_a_later_call_little(
    http_server: "HttpServer", call: "Call", monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new connection to it would hang as well; it is used again once it answers."""
    quick_to_answer(monkeypatch)
    config = ServerConfig(name="web", transport="http", url=http_server.url, call_timeout_s=1)
    async with McpServers(os.environ) as servers:
        servers.start([config])
        await servers.wait_started(LIMIT_S)

        with http_server.suspended():
            hung = [await call(servers, "mcp__web__add", {"a": 1, "b": 2}) for _ in range(2)]
        [state] = servers.states()
        async with asyncio.timeout(LIMIT_S):
            while (after := await call(servers, "mcp__web__add", {"a": 1, "b": 2})).is_error:
                pass

    assert "gave no sign of life for 1 s" in hung[0].text
    assert hung[1].text == (
        "MCP server 'web' is not available: it answers nothing since a request that got no answer."
        " Try later, or go on without it"
    )
    assert (state.phase, after.text) == (ServerPhase.READY, "3")


async def test_progress_is_shown_and_keeps_a_long_call_alive(
    sdk_server: ServerConfig, call: "Call"
) -> None:
    """The call takes longer than the idle limit."""

    async def count(limit_s: int) -> str:
        updates.clear()
        params: dict[str, Json] = {"to": 12 * limit_s}  # ten a second
        async with McpServers(os.environ) as servers:
            servers.start([replace(sdk_server, call_timeout_s=limit_s)])
            await servers.wait_started(LIMIT_S)
            started = asyncio.get_running_loop().time()

            outcome = await call(servers, "mcp__fixture__count", params, updates=updates)

            assert asyncio.get_running_loop().time() - started > limit_s
        return outcome.text

    updates: list[str] = []

    await at_growing_limits(count, "counted".__eq__)

    assert (updates[0], updates[-1]) in [
        (f"counting (1 of {to})", f"counting ({to} of {to})")
        for to in (12 * limit_s for limit_s in GROWING_LIMITS_S)
    ]


async def test_progress_does_not_extend_the_whole_time_of_a_call(
    sdk_server: ServerConfig, call: "Call", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent_cli.mcp_client.calls._CALL_TO_SILENCE", 0.01)
    async with McpServers(os.environ) as servers:
        servers.start([replace(sdk_server, call_timeout_s=100)])
        await servers.wait_started(LIMIT_S)

        outcome = await call(servers, "mcp__fixture__count", {"to": 1_000_000})

    assert (outcome.text, outcome.is_error) == (
        "count of MCP server 'fixture' took 1 s in all, and is no longer waited for. "
        "It may have run: check before you repeat it.",
        True,
    )


async def test_whole_time_does_not_run_while_a_user_is_asked() -> None:
    limits, loop = SilenceLimits(), asyncio.get_running_loop()
    ended_at, limits_held = loop.time() + 0.05, True

    with pytest.raises(TotalTimeReached):
        async with limits.limited(LIMIT_S, total_s=0.05):
            with limits.asking():
                await waiting_until(lambda: loop.time() > ended_at)
            limits_held = False
            await asyncio.Event().wait()

    assert not limits_held


async def test_progress_and_result_of_excessive_length_are_cut(
    raw_server: "RawServer", call: "Call"
) -> None:
    """A result of 300,000 parts stopped the program for seconds, and went to the model as such."""
    updates: list[str] = []
    parts: list[dict[str, Json]] = [{"type": "text", "text": "a"}] * 1003
    async with McpServers(os.environ) as servers:
        servers.start([raw_server()])
        await servers.wait_started(LIMIT_S)
        params: dict[str, Json] = {"reply": result(*parts), "progress": "p" * 5000}
        outcome = await call(servers, "mcp__raw__reply", params, updates=updates)

    assert updates == [f"{'p' * 1000} (1 of 2)"]
    assert len(outcome.content) == 1001
    assert outcome.text.endswith("a(3 more parts of this result are left out)")


async def test_cancellation_of_a_call_reaches_the_server(
    raw_server: "RawServer", call: "Call", tmp_path: Path, until: Until
) -> None:
    """The server learns which call to stop; the run sees a cancellation, not a failure."""
    record = tmp_path / "record"
    cancel = CancelToken()
    async with McpServers(os.environ) as servers:
        servers.start([raw_server({"record": str(record)})])
        await servers.wait_started(LIMIT_S)

        async with asyncio.TaskGroup() as group:
            task = group.create_task(
                stopped(call(servers, "mcp__raw__reply", {"reply": None}, cancel=cancel))
            )
            await until(lambda: "tools/call" in methods(record))
            cancel.cancel()

        assert task.result()
        await until(lambda: "notifications/cancelled" in methods(record))
        assert (await call(servers, "mcp__raw__reply")).text == "answered"


async def test_images_links_and_resources_reach_the_model(
    sdk_server: ServerConfig, call: "Call"
) -> None:
    async with McpServers(os.environ) as servers:
        servers.start([sdk_server])
        await servers.wait_started(LIMIT_S)

        picture = await call(servers, "mcp__fixture__picture")
        papers = await call(servers, "mcp__fixture__papers")
        failure = await call(servers, "mcp__fixture__explode")

        (image,) = picture.content
        assert isinstance(image["source"], dict)
        assert (image["type"], image["source"]["media_type"]) == ("image", "image/png")
        assert papers.content == (
            text_block("[a.txt](file:///a.txt): A file"),
            text_block("note://1:\na note"),
            text_block('(A link can be read with read_mcp_resource, server "fixture".)'),
        )
        assert failure.is_error


async def answered(servers: McpServers, call: "Call") -> None:
    """Call until there is an answer: on a busy machine it may come later than the limit."""
    async with asyncio.timeout(LIMIT_S):
        while (await call(servers, "mcp__raw__reply")).is_error:
            pass


async def stopped(running: Awaitable[object]) -> bool:
    try:
        await running
    except Aborted:
        return True
    return False


def has_calls(record: Path, count: int) -> bool:
    return methods(record).count("tools/call") == count


def methods(record: Path) -> list[str]:
    lines = record.read_text().splitlines() if record.exists() else []
    return [json.loads(line)["method"] for line in lines]


TASK_TOOL: Json = {
    "name": "slow",
    "inputSchema": {"type": "object"},
    "execution": {"taskSupport": "required"},
}


async def test_argument_of_a_name_that_the_api_refuses_reaches_the_server(
    raw_server: "RawServer", call: "Call", tmp_path: Path
) -> None:
    """The model writes the name that it was shown; the server gets its own."""
    record = tmp_path / "record"
    schema: Json = {
        "type": "object",
        "properties": {"$filter": {"type": "string"}},
        "required": ["$filter"],
    }
    options: dict[str, Json] = {
        "tools": [{"name": "rows", "inputSchema": schema}],
        "record": str(record),
    }
    async with McpServers(os.environ) as servers:
        servers.start([raw_server(options)])
        await servers.wait_started(LIMIT_S)
        notes = servers.states()[0].notes

        await call(servers, "mcp__raw__rows", {"_filter": "a eq 1"})

    called = next(line for line in record.read_text().splitlines() if "tools/call" in line)
    assert (json.loads(called)["params"]["arguments"], notes) == ({"$filter": "a eq 1"}, ())


async def test_tool_that_only_runs_as_a_task_is_waited_for(
    raw_server: "RawServer", call: "Call", tmp_path: Path
) -> None:
    """A status is a sign of life: the task may take longer than the limit of silence."""
    record, updates = tmp_path / "record", list[str]()
    options: dict[str, Json] = {"tools": [TASK_TOOL], "works": 4, "record": str(record)}
    async with McpServers(os.environ) as servers:
        servers.start([raw_server(options)])
        await servers.wait_started(LIMIT_S)

        outcome = await call(servers, "mcp__raw__slow", {"a": 1}, updates=updates)

    assert (outcome.text, outcome.is_error) == ("answered", False)
    assert updates[:1] == ["at it"]
    calls = [m for m in methods(record) if m.startswith("tasks/")]
    assert calls == ["tasks/get"] * 4 + ["tasks/result"]
    started = next(line for line in record.read_text().splitlines() if "tools/call" in line)
    assert json.loads(started)["params"]["task"] == {}


async def test_cancelled_call_cancels_its_task(
    raw_server: "RawServer", call: "Call", tmp_path: Path, until: Until
) -> None:
    record, cancel = tmp_path / "record", CancelToken()
    options: dict[str, Json] = {"tools": [TASK_TOOL], "works": 1000, "record": str(record)}
    async with McpServers(os.environ) as servers:
        servers.start([raw_server(options)])
        await servers.wait_started(LIMIT_S)

        async with asyncio.TaskGroup() as group:
            task = group.create_task(stopped(call(servers, "mcp__raw__slow", cancel=cancel)))
            await until(lambda: "tasks/get" in methods(record))
            cancel.cancel()

        assert task.result()
        assert "tasks/cancel" in methods(record)
