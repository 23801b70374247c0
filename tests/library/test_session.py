"""Sessions as Python objects: the whole program against a test server."""

import asyncio
import copy
import json
import math
import os
import pickle
import sys
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from agent_cli import (
    Agent,
    AgentBusy,
    AgentCliError,
    AgentDefinition,
    AgentSession,
    Allow,
    AssistantMessage,
    BlockEnd,
    ConversationError,
    Deny,
    GuardsChanged,
    Hook,
    HookEvent,
    Model,
    ModelError,
    ModelRequest,
    Notice,
    PromptResult,
    Reply,
    ReplyEnd,
    ReplyStart,
    Retrying,
    RunFailed,
    ServerPhase,
    SessionError,
    SessionNotFound,
    SessionOptions,
    SettingsError,
    StreamEvent,
    TextDelta,
    ToolCall,
    ToolOutput,
    Usage,
    UsageError,
    UserMessage,
    list_sessions,
    query,
    read_session,
    text_block,
    tool,
)
from agent_cli.contracts.timeline import Block, Json, ModelUsage
from agent_cli.trust.store import TrustStore, fingerprint
from tests.app.agents.test_agents import Script, started
from tests.e2e.program import results_in, text_of
from tests.fakes import wrong
from tests.mcp_client.conftest import RAW_SERVER
from tests.messages_api import (
    Answer,
    FakeMessagesApi,
    Gate,
    error,
    reply,
    serve_in_thread,
    tool_use,
)
from tests.tables import each_row
from tests.waiting import until

SAID = (UserMessage, AssistantMessage)
WRITES = tool_use("write", {"path": "a.txt", "content": "a\n"})


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    monkeypatch.setenv("AGENT_CLI_RETRY__MAX", "0")


def at(api: FakeMessagesApi, key: str = "k") -> dict[str, str]:
    """Return the variables that lead to *api*."""
    return {"ANTHROPIC_BASE_URL": api.base_url, "ANTHROPIC_API_KEY": key}


async def asked(
    *answers: Answer,
    prompt: str = "go",
    **options: Any,  # Any: by name
) -> tuple[PromptResult, FakeMessagesApi]:
    """Answer one prompt; return the result and the server."""
    with serve_in_thread(*answers) as api:
        return await query(prompt, SessionOptions(environment=at(api), **options)), api


def told(api: FakeMessagesApi, request: int = 1) -> str:
    """Return what the model read of the first call in a request."""
    return text_of(results_in(api.requests[request].body)[0])


def server(**options: Json) -> dict[str, Json]:
    """Return the entry of a server; see raw_server.py for the options."""
    return {"command": sys.executable, "args": ["-I", "-S", RAW_SERVER, json.dumps(options)]}


async def test_stored_session_is_read_while_it_is_open_and_without_a_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A viewer had to open it, with a key and its servers, and could not if it was open."""
    with serve_in_thread(reply("one"), reply("two")) as api:
        async with AgentSession(SessionOptions(environment=at(api))) as session:
            await session.prompt("first")
            monkeypatch.delenv("ANTHROPIC_API_KEY")
            assert session.id

            read = read_session(session.id[:8])
            await session.prompt("second")

            assert [m.text for m in read.messages() if m.text] == ["first", "one"]
            assert (read.id, len(read.prompts)) == (session.id, 1)
            assert read.usage == session.agent.conversation.prompts[0].usage
    with pytest.raises(SessionNotFound):
        read_session("nosuch")


async def test_conversations_of_subagents_are_listed_and_read() -> None:
    """Only an export had them: a viewer of a run could not show what its agents did."""
    answers = Script(go=[started("look around"), reply("all done")], look_around=[reply("a room")])
    with serve_in_thread(answer=answers) as api:
        result = await query("go", SessionOptions(environment=at(api)))
    assert result.session_id

    (info,) = list_sessions(agents_of=result.session_id[:8])

    assert (info.agent, info.title) == ("explore", "look around")
    call = read_session(result.session_id).prompts[0].output
    assert info.parent_call in [each.tool_call_id for each in call if isinstance(each, ToolOutput)]
    assert [m.text for m in read_session(info.id).messages() if m.text] == ["look around", "a room"]
    assert list_sessions(agents_of=info.id) == ()
    with pytest.raises(SessionNotFound):
        list_sessions(agents_of="nosuch")


async def test_next_prompt_waits_for_the_end_of_one_that_was_aborted() -> None:
    """It was refused with the advice to abort, although nothing else says when that is done."""
    pause = Gate()
    with serve_in_thread(reply("slow", gate=pause), reply("next")) as api:
        async with AgentSession(SessionOptions(environment=at(api))) as session:
            first = asyncio.create_task(session.prompt("one"))
            await asyncio.to_thread(pause.reached.wait)
            session.abort()

            second = await session.prompt("two")

            assert ((await first).stop_reason, second.text) == ("aborted", "next")


async def test_prompt_beside_one_that_runs_is_refused_with_what_to_do() -> None:
    """Nothing stops a run but `abort`."""
    pause = Gate()
    with serve_in_thread(reply("slow", gate=pause)) as api:
        async with AgentSession(SessionOptions(environment=at(api))) as session:
            first = asyncio.create_task(session.prompt("one"))
            await asyncio.to_thread(pause.reached.wait)

            with pytest.raises(AgentBusy, match="wait for its end"):
                await session.prompt("two")

            pause.open()
            assert (await first).text == "slow"


async def test_question_that_nobody_can_answer_is_a_denial_that_the_result_names() -> None:
    """Safe by default: without options a program changes nothing."""
    result, api = await asked(reply(WRITES), reply("It was not written."))

    assert [call.name for call in result.declined] == ["write"]
    assert (result.text, result.stop_reason) == ("It was not written.", "end_turn")
    assert "nobody can be asked" in told(api)
    assert not Path("a.txt").exists()


@pytest.mark.parametrize(
    ("verdict", "text", "read"),
    [
        (Allow(), "a\n", "a.txt"),
        (Allow(input={"path": "a.txt", "content": "b\n"}), "b\n", "a.txt"),
        (Deny("Not today."), None, "Not today."),
    ],
)
async def test_approve_decides_about_a_call(
    verdict: Allow | Deny, text: str | None, read: str
) -> None:
    """It may change the input, or give the model a reason."""
    calls: list[tuple[str, str]] = []

    async def approve(call: ToolCall) -> Allow | Deny:
        calls.append((call.name, call.reason))
        return verdict

    result, api = await asked(reply(WRITES), reply("Done."), approve=approve)

    assert calls == [("write", "changes files")]
    assert read in told(api)
    assert (Path("a.txt").read_text() if Path("a.txt").exists() else None) == text
    assert (result.rounds, result.declined) == (2, ())


async def test_approve_may_be_a_plain_function() -> None:
    """Its verdict was awaited: a TypeError, after the first call of the model."""
    result, api = await asked(reply(WRITES), reply("Done."), approve=lambda _call: Deny("Not me."))

    assert (result.text, "Not me." in told(api)) == ("Done.", True)


async def test_approve_that_raises_leaves_the_call_waiting_and_the_session_usable() -> None:
    """The error is the program's own; the next prompt asks about the same call first."""
    verdicts: list[Allow | Exception] = [LookupError("no database"), Allow()]

    async def approve(_call: ToolCall) -> Allow:
        match verdicts.pop(0):
            case Allow() as verdict:
                return verdict
            case failure:
                raise failure

    with serve_in_thread(reply(WRITES), reply("Written."), reply("Yes.")) as api:
        async with AgentSession(SessionOptions(environment=at(api), approve=approve)) as session:
            with pytest.raises(LookupError, match="no database"):
                await session.prompt("go")
            assert not Path("a.txt").exists()
            result = await session.prompt("and?")

    assert (result.text, Path("a.txt").read_text()) == ("Yes.", "a\n")


async def test_approve_that_raises_is_not_asked_again_about_the_call_before() -> None:
    """Of one reply, each decision is recorded at once; they used to be lost together."""
    calls = [tool_use("write", {"path": name, "content": "a\n"}, id=name) for name in ("a", "b")]
    verdicts: list[Allow | Deny | Exception] = [Allow(), LookupError("no database"), Deny("No.")]
    asked_about: list[str] = []

    async def approve(call: ToolCall) -> Allow | Deny:
        asked_about.append(call.id)
        match verdicts.pop(0):
            case Exception() as failure:
                raise failure
            case verdict:
                return verdict

    with serve_in_thread(reply(*calls), reply("Written."), reply("Yes.")) as api:
        async with AgentSession(SessionOptions(environment=at(api), approve=approve)) as session:
            with pytest.raises(LookupError, match="no database"):
                await session.prompt("go")
            await session.prompt("and?")

    assert asked_about == ["a", "b", "b"]
    assert (Path("a").exists(), Path("b").exists()) == (True, False)


async def test_call_that_waits_in_a_resumed_session_is_not_answered_without_an_approve() -> None:
    """As with `-p`: what an earlier person was asked must not be declined by a program."""

    async def approve(_call: ToolCall) -> Allow:
        raise LookupError

    with serve_in_thread(reply(WRITES)) as api:
        with pytest.raises(LookupError):
            await query("go", SessionOptions(environment=at(api), approve=approve))
        [session] = list_sessions()
        assert session.waiting
        with pytest.raises(ConversationError, match="a decision is due first"):
            await query("and?", SessionOptions(environment=at(api), resume=session.id))

    assert [each.waiting for each in list_sessions()] == [True]


async def test_result_names_the_calls_that_a_rule_denied_those_of_subagents_too() -> None:
    """What was not done, apart from what a person could have approved."""
    answers = Script(
        go=[reply(WRITES), started("do write", agent="hand"), reply("ok")],
        do_write=[reply(WRITES), reply("x")],
    )
    hand = AgentDefinition(name="hand", description="Writes.", prompt="You write.")
    with serve_in_thread(answer=answers) as api:
        result = await query(
            "go", SessionOptions(environment=at(api), deny=["write(a.*)"], agents=[hand])
        )

    assert [(call.name, call.input) for call in result.denied] == [("write", WRITES["input"])] * 2
    assert all("The rule write(a.*) denies this call" in call.reason for call in result.denied)
    assert result.declined == ()


async def test_approve_decides_about_calls_of_subagents_and_without_it_they_are_declined() -> None:
    """A subagent of the program's own has the program's tools and hooks, and asks like it."""
    heard: list[tuple[Json, str]] = []

    async def hear(event: HookEvent) -> None:
        heard.append((event.payload.get("agent_type"), event.tool))

    @tool
    async def ring(times: int) -> str:
        """Ring the bell."""
        return f"rang {times} times"

    async def approve(_call: ToolCall) -> Allow:
        return Allow()

    bell = AgentDefinition(name="bell", description="Rings.", prompt="You ring.", tools=("ring",))

    def script() -> Script:
        rings = reply(tool_use("ring", {"times": 3}))
        return Script(
            go=[started("do ring", agent="bell"), reply("ok")], do_ring=[rings, reply("x")]
        )

    for answers, allowed in ((script(), True), (script(), False)):
        with serve_in_thread(answer=answers) as api:
            result = await query(
                "go",
                SessionOptions(
                    environment=at(api),
                    tools=[ring],
                    hooks=[Hook(event="PreToolUse", function=hear)],
                    agents=[bell],
                    approve=approve if allowed else None,
                ),
            )
        read = text_of(results_in(answers.bodies("do ring")[1])[0])
        assert answers.tools("do ring") == ["ring"]
        assert ("rang 3 times" in read) is allowed
        assert [call.name for call in result.declined] == ([] if allowed else ["ring"])
        assert heard == [(None, "agent"), ("bell", "ring")]
        heard.clear()


async def test_two_sessions_at_once_use_each_their_own_key_server_and_workspace(
    tmp_path: Path,
) -> None:
    """Nothing of one is the other's: not even the process's variables are changed."""
    folders = [tmp_path / "one", tmp_path / "two"]
    before = dict(os.environ)
    with (
        serve_in_thread(reply(WRITES), reply("1")) as one,
        serve_in_thread(reply(WRITES), reply("2")) as two,
    ):
        options: list[SessionOptions] = []
        for folder, api, key in zip(folders, (one, two), ("k1", "k2"), strict=True):
            folder.mkdir()
            options.append(
                SessionOptions(
                    workspace=folder, permission_mode="auto-edit", environment=at(api, key)
                )
            )
        results = await asyncio.gather(*(query("go", each) for each in options))

    assert [result.text for result in results] == ["1", "2"]
    keys = [each.headers["authorization"] for each in (*one.requests, *two.requests)]
    assert keys == ["Bearer k1", "Bearer k1", "Bearer k2", "Bearer k2"]
    assert [(folder / "a.txt").read_text() for folder in folders] == ["a\n", "a\n"]
    assert dict(os.environ) == before


def test_threads_with_their_own_event_loops_ask_side_by_side() -> None:
    """`asyncio.run(query(...))` in any number of threads, again and again in each."""
    texts: list[str] = []
    with serve_in_thread(answer=lambda _request: reply("ok")) as api:

        def ask_twice() -> None:
            for _ in range(2):
                texts.append(asyncio.run(query("go", SessionOptions(environment=at(api)))).text)

        threads = [threading.Thread(target=ask_twice) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)

    assert texts == ["ok"] * 6


async def test_session_belongs_to_its_event_loop_and_to_its_block() -> None:
    """Each misuse is one sentence."""
    with serve_in_thread(reply("ok")) as api:
        session = AgentSession(SessionOptions(environment=at(api)))
        with pytest.raises(UsageError, match="not open"):
            await session.prompt("go")
        async with session:
            elsewhere = asyncio.to_thread(lambda: asyncio.run(session.prompt("go")))
            with pytest.raises(UsageError, match="another event loop"):
                await elsewhere
            with pytest.raises(UsageError, match="opened before"):
                await session.__aenter__()
            assert (await session.prompt("go")).text == "ok"
        with pytest.raises(UsageError, match="not open"):
            await session.prompt("go")
        session.abort()


async def test_closing_stops_a_prompt_that_runs_and_a_question_that_waits() -> None:
    """Also a second prompt meanwhile is refused; nothing is left running."""
    gate, waits = Gate(), asyncio.Event()

    async def approve(_call: ToolCall) -> Allow:
        waits.set()
        await asyncio.Event().wait()
        return Allow()

    with serve_in_thread(reply("late", gate=gate, hold_at=0), reply(WRITES)) as api:
        options = SessionOptions(environment=at(api), approve=approve)
        async with AgentSession(options) as session:
            running = asyncio.ensure_future(session.prompt("go"))
            await until(gate.reached.is_set)
            with pytest.raises(AgentBusy):
                await session.prompt("and?")
        assert (await running).stop_reason == "aborted"
        gate.open()
        async with AgentSession(options) as session:
            running = asyncio.ensure_future(session.prompt("go"))
            await waits.wait()
        assert (await running).stop_reason == "aborted"

    assert not Path("a.txt").exists()


async def test_leaving_a_stream_early_stops_its_run() -> None:
    """The session can be used again at once; the last item of a stream is the result."""
    gate = Gate()
    with serve_in_thread(reply("one two", gate=gate, hold_at=4), reply("ok")) as api:
        async with AgentSession(SessionOptions(environment=at(api))) as session:
            stream = session.stream("go")
            async for event in stream:
                if event.type == "message_update":
                    break
            await stream.aclose()
            gate.open()
            last = [event async for event in session.stream("again")][-1]

    assert isinstance(last, PromptResult)
    assert (last.type, last.text, last.cost_usd is not None) == ("app.result", "ok", True)


async def test_next_prompt_waits_for_a_stream_that_was_left() -> None:
    """Python closes what a loop has left a moment later: until then the session was busy."""
    gate = Gate()
    held = reply("one two", gate=gate, hold_at=4)
    with serve_in_thread(held, held, reply("ok")) as api:
        async with AgentSession(SessionOptions(environment=at(api))) as session:
            for prompt in ("go", "go on"):
                async for event in session.stream(prompt):
                    if event.type == "message_update":
                        break
            result = await session.prompt("again")
        gate.open()

    assert result.text == "ok"


async def test_stream_behind_one_that_was_left_has_only_its_own_events() -> None:
    """It began to listen while the left run still ended, and yielded the end of that first."""
    gate = Gate()
    with serve_in_thread(reply("one two", gate=gate, hold_at=4), reply("ok")) as api:
        async with AgentSession(SessionOptions(environment=at(api))) as session:
            async for event in session.stream("go"):
                if event.type == "message_update":
                    break
            types = [event.type async for event in session.stream("again")]
        gate.open()

    assert types[0] == "agent_start"
    assert types.count("agent_end") == 1


async def test_stream_that_is_stopped_before_its_run_begins_sends_nothing() -> None:
    """It waited for the end of a stream that was left, and ran when nobody read it any more."""
    gate = Gate()
    with serve_in_thread(reply("one two", gate=gate, hold_at=4), reply("unread")) as api:
        async with AgentSession(SessionOptions(environment=at(api))) as session:
            async for event in session.stream("go"):
                if event.type == "message_update":
                    break
            waiting = asyncio.ensure_future(anext(session.stream("again")))
            await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.wait([waiting])
        gate.open()

    assert len(api.requests) == 1


async def test_prompt_waits_for_a_left_stream_also_behind_one_that_was_cancelled() -> None:
    """The cancelled one had taken the wait upon itself, and the next one found the session busy."""
    gate = Gate()
    with serve_in_thread(reply("one two", gate=gate, hold_at=4), reply("ok")) as api:
        async with AgentSession(SessionOptions(environment=at(api))) as session:
            async for event in session.stream("go"):
                if event.type == "message_update":
                    break
            waiting = asyncio.ensure_future(session.prompt("never mind"))
            await asyncio.sleep(0)
            waiting.cancel()
            result = await session.prompt("again")
        gate.open()

    assert result.text == "ok"


async def test_a_stream_that_a_variable_holds_still_runs() -> None:
    """Its reader may read on, so that another prompt is refused; so is one beside a prompt."""
    gate = Gate()
    held = reply("one two", gate=gate, hold_at=4)
    with serve_in_thread(held, reply("ok")) as api:
        async with AgentSession(SessionOptions(environment=at(api))) as session:
            stream = session.stream("go")
            async for event in stream:
                if event.type == "message_update":
                    break
            session.stream("never read")
            with pytest.raises(AgentBusy):
                await session.prompt("and?")
            gate.open()
            rest = [event async for event in stream]

    assert isinstance(rest[-1], PromptResult) and rest[-1].text == "one two"


async def test_session_that_is_open_elsewhere_is_refused_and_can_be_forked() -> None:
    """Two writers would damage the record; a copy goes its own way."""
    with serve_in_thread(reply("1"), reply("2"), reply("3")) as api:
        async with AgentSession(SessionOptions(environment=at(api))) as session:
            first = await session.prompt("go")
            with pytest.raises(SessionError, match="open"):
                await query("x", SessionOptions(environment=at(api), resume=first.session_id))
            copy = await query("x", SessionOptions(environment=at(api), fork=first.session_id))
            assert (await session.prompt("y")).text == "3"

    assert copy.text == "2"
    assert copy.session_id != first.session_id
    assert len(list_sessions()) == 2
    assert "go" in str(api.requests[1].body["messages"])


@each_row(
    ("options", "failure", "sentence"),
    [
        ({"resume": "nowhere"}, SessionNotFound, "nowhere"),
        ({"resume": ""}, UsageError, "need the id"),
        ({"resume": "a", "fork": "b"}, UsageError, "exclude each other"),
        ({"workspace": "missing"}, UsageError, "missing is not a directory"),
        ({"max_rounds": -1}, SettingsError, "argument max_rounds: max_rounds must be"),
        ({"settings": {"retry.maxx": 1}}, SettingsError, "argument settings: unknown setting"),
        ({"allow": "bash"}, UsageError, "allow must be a list"),
        ({"allow": ["bash("]}, SettingsError, "argument allow: 'bash\\(' is not a rule"),
        ({"tools": [len]}, AgentCliError, "each of tools must be Tool, not builtin"),
        ({"hooks": len}, AgentCliError, "hooks must be a sequence"),
        (
            {"hooks": [Hook(event="Stop", function=wrong(5))]},
            AgentCliError,
            "its function must be a fun",
        ),
        (
            {"hooks": [Hook(event="Stop", url="http://h", timeout_s=wrong("5"))]},
            AgentCliError,
            "timeout",
        ),
        ({"deny": True}, AgentCliError, "deny must be a sequence, not bool"),
        *(
            ({name: iter(["bash"])}, AgentCliError, f"{name} must be a sequence, not list_iter")
            for name in ("deny", "ask", "hooks")
        ),
        ({"add_dirs": 5}, AgentCliError, "add_dirs must be a sequence, not int"),
        ({"provider": object()}, AgentCliError, "provider.stream must be a function, not None"),
        (
            {"agents": [AgentDefinition(name=wrong(5), description="", prompt="")]},
            AgentCliError,
            "the name of an agent must be str, not int",
        ),
        ({"approve": True}, AgentCliError, "approve must be a function or None, not bool"),
        ({"agents": [{}]}, AgentCliError, "each of agents must be AgentDefinition, not dict"),
        ({"system_prompt": 3}, AgentCliError, "system_prompt must be str or None, not int"),
        ({"trust": "no"}, AgentCliError, "trust must be bool, not str"),
        ({"environment": ["A=1"]}, AgentCliError, "environment must be Mapping, not list"),
        ({"mcp_servers": {"x": {"args": []}}}, SettingsError, '"command" is missing'),
        (
            {"agents": [AgentDefinition(name="A b", description="", prompt="")]},
            SettingsError,
            "A b",
        ),
        ({"environment": {"ANTHROPIC_API_KEY": ""}}, SettingsError, "key"),
    ],
)
async def test_option_that_cannot_be_used_is_one_sentence_before_anything_is_sent(
    options: dict[str, Any], failure: type[Exception], sentence: str
) -> None:
    with pytest.raises(failure, match=sentence) as caught:
        await query("go", SessionOptions(**options))

    assert "\n" not in str(caught.value)
    assert list_sessions() == []


async def test_model_of_a_prompt_is_given_by_its_name() -> None:
    """A `Model`, as an agent takes it, was an AttributeError."""
    async with AgentSession(SessionOptions(provider=Parrot(), model="parrot")) as session:
        with pytest.raises(AgentCliError, match=r"^model must be str or None, not Model$"):
            await session.prompt("go", model=wrong(Model("parrot")))


def test_agent_and_session_are_neither_copied_nor_pickled() -> None:
    """A copy shared locks and the run; the error named a lock of a thread."""
    for what in (Agent(), AgentSession()):
        for copied in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(
                AgentCliError, match=r"^an Agent(Session)? is not copied and not pi"
            ):
                copied(what)


def test_value_in_place_of_a_session_or_its_options_is_one_sentence() -> None:
    """A dict of options, or an entry of `list_sessions()`, was an AttributeError."""
    for door, sentence in (
        (lambda: AgentSession(wrong({"model": "high"})), "options must be SessionOptions or None"),
        (lambda: list_sessions(agents_of=wrong(5)), "agents_of must be str or None, not int"),
        (lambda: read_session(wrong({})), "the id of a session must be str, not dict"),
    ):
        with pytest.raises(AgentCliError, match=sentence):
            door()


@each_row(
    ("answer", "options", "stop_reason"),
    [
        (error(404, "not_found_error", "model: nothing-1"), {"model": "nothing-1"}, "error"),
        (error(401, "authentication_error", "invalid x-api-key"), {}, "error"),
        (reply("much"), {"max_cost_usd": 0.000001}, "max_cost"),
        (reply(tool_use("glob", {"pattern": "*"})), {"max_rounds": 1}, "max_rounds"),
    ],
)
async def test_prompt_that_does_not_come_to_its_end_raises_with_its_result(
    answer: Answer, options: dict[str, Any], stop_reason: str
) -> None:
    """Unknown model, wrong key, budget, rounds: no empty text that looks like an answer."""
    with pytest.raises(RunFailed) as caught:
        await asked(answer, **options)

    assert caught.value.result.stop_reason == stop_reason
    assert caught.value.trouble == ("auth" if "API key" in str(caught.value) else None)
    cost = caught.value.result.usage.cost_microdollars
    assert cost == 0 or stop_reason == "max_rounds"


class Parrot:
    """Calls a tool first, then says what the tool returned."""

    async def stream(self, request: ModelRequest) -> AsyncIterator[StreamEvent]:
        last = request.messages[-1]
        yield ReplyStart("parrot")
        if isinstance(last, UserMessage):
            call: Block = {"type": "tool_use", "id": "t1", "name": "read", "input": {"path": "a"}}
            yield ReplyEnd(Reply("r1", "parrot", (call,), "tool_use", Usage(1, 1)))
            return
        yield TextDelta(0, last.text)
        yield ReplyEnd(Reply("r2", "parrot", (text_block(last.text),), "end_turn", Usage(1, 1)))


async def test_provider_of_the_program_answers_in_place_of_a_server() -> None:
    """No key and no server: the tools and the stored session are those of any other."""
    Path("a").write_text("hello")
    options = SessionOptions(provider=Parrot(), model="parrot")

    result = await query("go", options)

    assert (result.text.splitlines()[0], result.rounds) == ("1\thello", 2)
    assert result.session_id
    assert len(read_session(result.session_id).messages()) == 4 + 1
    wrong: Any = {"provider": object()}
    with pytest.raises(AgentCliError, match=r"provider\.stream must be"):
        await query("go", SessionOptions(**wrong))
    wrong = {"provider": Parrot}
    with pytest.raises(AgentCliError, match=r"an object with a stream, not a class: Parrot\(\)"):
        await query("go", SessionOptions(**wrong))
    with pytest.raises(UsageError, match="exclude each other"):
        await query("go", SessionOptions(provider=Parrot(), replay=Path("x")))


def unknown(value: object) -> Any:
    return value


@each_row(
    ("event", "sentence"),
    [
        (ReplyEnd(unknown("x")), "the reply of a ReplyEnd must be Reply, not str"),
        (
            ReplyEnd(Reply("r", "m", (), "end_turn", unknown(None))),
            "usage of a Reply must be Usage",
        ),
        (ReplyEnd(Reply("r", "m", unknown("hi"), "end_turn")), "content of a Reply must be tuple"),
        (
            ReplyEnd(Reply("r", "m", ({"type": "tool_use", "id": "t1"},), "tool_use")),
            "a tool_use block needs the name of the tool",
        ),
        (ReplyStart("m", unknown(None)), "usage of a ReplyStart must be Usage, not NoneType"),
        (TextDelta(0, unknown(5)), "delta of a TextDelta must be str, not int"),
        (BlockEnd(0, unknown("hi")), "block of a BlockEnd must be one, as text_block"),
        (unknown("hi"), "the stream_fn, or the provider's stream, yielded str"),
    ],
)
async def test_what_no_provider_may_yield_fails_the_prompt_in_a_sentence(
    event: StreamEvent, sentence: str
) -> None:
    """A session prices and books what comes before the agent looks at it."""
    with pytest.raises(RunFailed, match=f"^{sentence}"):
        await query("go", SessionOptions(provider=Yielding(event), model="parrot"))


class NoStream:
    """Answers with a list, as a provider does that was written as a plain `async def`."""

    async def stream(self, _request: ModelRequest) -> list[StreamEvent]:
        return []


async def test_stream_that_is_none_fails_the_prompt_in_a_sentence() -> None:
    """And warns of no coroutine that was never awaited."""
    with pytest.raises(RunFailed, match=r"^the stream_fn, or the provider's stream, returned co"):
        await query("go", SessionOptions(provider=unknown(NoStream()), model="parrot"))


class Counted:
    """Answers as a model of the server's own name, with the usage that it is given."""

    def __init__(self, usage: Usage) -> None:
        self._usage = usage

    async def stream(self, request: ModelRequest) -> AsyncIterator[StreamEvent]:
        yield ReplyStart(request.model.id)
        content = (text_block("done"),)
        yield ReplyEnd(Reply("r1", "their-name", content, "end_turn", self._usage))


@each_row(
    ("model", "usage", "cost_usd"),
    [
        ("claude-haiku-4-5", Usage(1_000_000, 100_000), 1.5),
        ("gateway", Usage(1_000_000, 100_000), 4.0),
        ("gateway", Usage(1_000_000, 100_000, cost_microdollars=70), 0.00007),
        ("gateway", Usage(1_000_000, 100_000, cost_microdollars=None), None),
        ("unpriced", Usage(1_000_000, 100_000), None),
        ("free", Usage(1_000_000, 100_000), 0.0),
        ("unpriced", Usage(), 0.0),
    ],
)
async def test_reply_of_the_programs_provider_costs_what_the_prices_say(
    model: str, usage: Usage, cost_usd: float | None
) -> None:
    """A provider that counts tokens only seemed free, and a limit of cost never came."""
    settings: dict[str, Json] = {"prices": {"gateway": "2/20", "free": "0/0"}}

    result = await query(
        "go", SessionOptions(provider=Counted(usage), model=model, settings=settings)
    )

    assert result.cost_usd == cost_usd


class Yielding:
    """Yields the given events; the connection breaks where no reply ends."""

    def __init__(self, *events: Any) -> None:
        self._events = events

    async def stream(
        self,
        request: ModelRequest,
    ) -> AsyncIterator[StreamEvent]:
        for event in self._events:
            yield event
        if not isinstance(self._events[-1], ReplyEnd):
            raise ModelError("the connection broke")


_HALF = (ReplyStart("their-name", Usage(1_000_000)), TextDelta(0, "half"))
_AGAIN = Retrying(1, 2, 0, "busy", restarted=True)
_DECLINED = ModelUsage("other", Usage(1_000_000))
_ANSWERED = Reply("r", "x", (text_block("done"),), "end_turn", beside=(_DECLINED,))


@each_row(
    ("events", "cost_usd", "error"),
    [
        (_HALF, 2.0, "the connection broke"),
        ((*_HALF, _AGAIN, *_HALF), 4.0, "the connection broke"),
        ((*_HALF, _AGAIN, ReplyEnd(_ANSWERED)), 2.0 + 5.0, ""),
        (("hello",), 0.0, "yielded str, which is no stream event"),
    ],
)
async def test_all_that_the_programs_provider_counted_is_priced(
    events: Sequence[StreamEvent], cost_usd: float, error: str
) -> None:
    """The prompt of a reply that broke off, and what a model used that had declined."""
    settings: dict[str, Json] = {"prices": {"gateway": "2/20", "other": "5/50"}}
    options = SessionOptions(provider=Yielding(*events), model="gateway", settings=settings)
    async with AgentSession(options) as session:
        try:
            result, found = await session.prompt("go"), ""
        except RunFailed as failed:
            result, found = failed.result, str(failed)

    assert result.cost_usd == cost_usd
    assert error in found


async def test_limit_of_cost_ends_prompts_that_the_programs_provider_answers() -> None:
    """A gateway need not know prices: this program does."""
    options = SessionOptions(
        provider=Counted(Usage(1000, 20_000)), model="claude-haiku-4-5", max_cost_usd=0.103
    )
    async with AgentSession(options) as session:
        first = await session.prompt("go")
        session.max_cost_usd -= first.cost_usd or 0

        with pytest.raises(RunFailed, match="cost limit reached"):
            await session.prompt("go on")


async def test_limit_of_cost_changes_in_an_open_session() -> None:
    """One budget over several prompts, without opening the session anew for each."""
    with serve_in_thread(reply("one"), reply("two")) as api:
        async with AgentSession(SessionOptions(environment=at(api), max_cost_usd=1)) as session:
            first = await session.prompt("go")
            session.max_cost_usd = 0.000001
            with pytest.raises(RunFailed, match="cost limit reached"):
                await session.prompt("go on")
            session.max_cost_usd = 0
            assert (await session.prompt("go on")).text == "two"
            for wrong in (-1, math.nan, "1"):
                with pytest.raises(AgentCliError, match="max_cost_usd must be a number from 0"):
                    session.max_cost_usd = wrong  # type: ignore[assignment] # as a program may

            assert (first.text, session.max_cost_usd) == ("one", 0)


@each_row("required", [True, False])
async def test_mcp_server_that_fails_is_named_and_ends_the_prompt_only_if_required(
    *, required: bool
) -> None:
    entry: dict[str, Json] = {"command": "no-such-server"}
    if required:
        entry |= {"required": True, "enabled": False}
    with serve_in_thread(reply("ok")) as api:
        options = SessionOptions(
            environment=at(api),
            mcp_servers={"broken": entry},
            settings={"mcp.headless_wait_s": 0},
        )
        async with AgentSession(options) as session:
            if required:
                with pytest.raises(RunFailed, match="'broken' is required"):
                    await session.prompt("go")
            else:
                assert (await session.prompt("go")).text == "ok"
            [state] = session.servers()
            assert (state.name, state.phase != ServerPhase.READY) == ("broken", True)


async def test_mcp_server_of_the_program_is_used_under_its_permission_rules() -> None:
    """Its tools ask like those of any server."""
    calls = [
        reply(tool_use("mcp__raw__reply", {"reply": {"content": []}})),
        reply("ok"),
    ]
    result, api = await asked(*calls, mcp_servers={"raw": server()}, allow=["mcp__raw__reply"])

    assert (result.text, result.declined) == ("ok", ())
    assert "nobody" not in told(api)


async def test_rule_whose_text_fits_no_call_of_an_own_tool_is_named() -> None:
    """Above all one that denies: it holds only where it names every call."""

    @tool
    async def deploy(target: str) -> str:
        """Deploy."""
        return target

    @tool
    async def lint(path: str) -> str:
        """Check a file."""
        return path

    notices: list[str] = []
    rules = ["deploy(prod*)", "lint(src/**)", "bash(rm *)", "edit(*.lock)", "deploy"]
    with serve_in_thread(reply("ok")) as api:
        options = SessionOptions(tools=[deploy, lint], deny=rules, environment=at(api))
        async with AgentSession(options) as session:
            session.agent.subscribe(
                lambda event: notices.append(event.text) if isinstance(event, Notice) else None
            )
            await session.prompt("go")

    [named] = [text for text in notices if "matches nothing" in text]
    assert "the rule deny deploy(prod*) matches nothing: a call of deploy names no paths" in named
    assert named.endswith("write deploy, which is every call")


@pytest.fixture
def strangers_folder(tmp_path: Path) -> Iterator[Path]:
    """A repository whose files run a program and allow everything, if they are believed."""
    folder = tmp_path / "repository"
    folder.mkdir()
    (folder / "appsettings.toml").write_text(
        'system_prompt = "x"\n[[hooks.session_start]]\nhooks = [{ command = "touch ran" }]\n'
    )
    (folder / ".mcp.json").write_text(
        '{"mcpServers": {"evil": {"command": "sh", "args": ["-c", "touch served"]}}}'
    )
    (folder / ".env").write_text("ANTHROPIC_BASE_URL=http://127.0.0.1:1\n")
    yield folder


@pytest.mark.parametrize("trust", [False, True])
async def test_files_of_a_folder_act_only_if_the_program_trusts_it(
    strangers_folder: Path, monkeypatch: pytest.MonkeyPatch, *, trust: bool
) -> None:
    """Nobody can be asked, so nothing is trusted; the server is not the repository's either.

    In both cases its programs are off the PATH of this process.
    """
    notices: list[str] = []
    programs = str(strangers_folder / "bin")
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    with serve_in_thread(reply("ok")) as api:
        options = SessionOptions(workspace=strangers_folder, trust=trust, environment=at(api))
        async with AgentSession(options) as session:
            session.agent.subscribe(
                lambda event: notices.append(event.text) if isinstance(event, Notice) else None
            )
            await session.prompt("go")

    assert (strangers_folder / "ran").exists() is trust
    assert (strangers_folder / "served").exists() is trust
    assert any("is not trusted" in text for text in notices) is not trust
    assert programs not in os.environ["PATH"].split(":")


async def test_prompt_is_plain_text() -> None:
    """A program may pass on what strangers write: it names no command and attaches no file."""
    Path("notes.txt").write_text("a secret")

    _, api = await asked(reply("ok"), prompt="/compact @notes.txt")

    sent = str(api.requests[0].body["messages"])
    assert "/compact @notes.txt" in sent
    assert "a secret" not in sent


async def test_guard_that_the_user_trusted_and_that_changed_refuses_the_session(
    strangers_folder: Path,
) -> None:
    """The session could do what the guard forbids."""
    settings = strangers_folder / "appsettings.toml"
    guard = '[[hooks.pre_tool_use]]\nhooks = [{ command = "GUARD" }]\n'
    settings.write_text(guard.replace("GUARD", "exit 2"))
    TrustStore.of_user().trust(strangers_folder, fingerprint(strangers_folder))
    settings.write_text(guard.replace("GUARD", "exit 0"))

    with pytest.raises(GuardsChanged, match=r"appsettings.toml: guards that you trusted changed"):
        await query("go", SessionOptions(workspace=strangers_folder))


async def test_recorded_session_is_replayed_without_server_or_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tests of a program around a session need the same replies each time, and no key."""
    file = tmp_path / "run.jsonl"
    allowed: dict[str, Any] = {"allow": ["write"], "workspace": tmp_path}
    first, _ = await asked(reply(WRITES), reply("Made."), record=file, **allowed)
    (tmp_path / "a.txt").unlink()
    monkeypatch.delenv("ANTHROPIC_API_KEY")

    again = await query("go", SessionOptions(replay=file, **allowed))

    assert (first.text, again.text, again.rounds) == ("Made.", "Made.", 2)
    assert (tmp_path / "a.txt").read_text() == "a\n"
    with pytest.raises(UsageError, match=r"replay: .*nowhere.jsonl cannot be read"):
        await query("go", SessionOptions(replay=tmp_path / "nowhere.jsonl"))
    with pytest.raises(UsageError, match="record, replay and provider exclude each other"):
        await query("go", SessionOptions(record=file, replay=file))


async def test_mode_that_does_not_exist_is_refused_at_once() -> None:
    """Claude Code's names were taken, and each later call failed in its permission check."""
    with serve_in_thread(reply("hi")) as api:
        async with AgentSession(SessionOptions(environment=at(api))) as session:
            session.permission_mode = "plan"
            with pytest.raises(AgentCliError, match=r"permission_mode must be one of .*'yolo'"):
                session.permission_mode = "acceptEdits"  # type: ignore[assignment]

            assert session.permission_mode == "plan"


async def test_agent_with_the_effort_max_is_asked_with_the_highest_level() -> None:
    """It was refused, while `SessionOptions`, agent files and `--effort` took it."""
    bell = AgentDefinition(name="bell", description="Rings.", prompt="Ring.", effort="max")
    replies = [started("do ring", agent="bell"), reply("Rung."), reply("Done.")]

    _, api = await asked(*replies, agents=[bell], model="claude-opus-5-5")

    assert api.requests[1].body["output_config"] == {"effort": "xhigh"}


@each_row(
    ("field", "value", "told_as"),
    [
        ("mode", "acceptEdits", "agent bell: mode must be one of"),
        ("effort", "loud", "agent bell: effort must be one of"),
        ("tools", "read", "agent bell: tools must be a sequence, not str"),
        ("prompt", None, "agent bell: prompt must be str, not NoneType"),
        ("max_cost_usd", -1, "agent bell: max_cost_usd must be a number from 0"),
    ],
)
async def test_faulty_definition_of_an_agent_is_refused_before_anything_is_sent(
    field: str, value: object, told_as: str
) -> None:
    """The session began, and the agent failed when the model, paid by then, started it."""
    fields: dict[str, Any] = {"description": "Rings.", "prompt": "Ring.", field: value}
    with pytest.raises(AgentCliError, match=told_as):
        await query("go", SessionOptions(agents=[AgentDefinition(name="bell", **fields)]))
