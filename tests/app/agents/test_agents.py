"""Subagents, in the whole program against a test server."""

import asyncio
import json
import sys
import threading
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import pytest

from agent_cli.agents.children import AgentActivity
from agent_cli.app.app import App
from agent_cli.app.arguments import parse_arguments
from agent_cli.app.startup import start
from agent_cli.cli.sessions import COMMANDS
from agent_cli.contracts.agents import AgentServer
from agent_cli.contracts.dialogs import Approved, Decision, Rejected, ServerDialogs
from agent_cli.contracts.events import (
    AgentEvent,
    AgentStart,
    Event,
    MessageUpdate,
    Retry,
    ToolCall,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolExecutionUpdate,
    UsageChanged,
    UsageHeld,
)
from agent_cli.contracts.messages import AssistantMessage, ToolResultMessage
from agent_cli.contracts.provider import StreamEvent, TextDelta, ThinkingDelta, ToolCallStart
from agent_cli.contracts.servers import ServerPhase, public_name
from agent_cli.contracts.side_events import ModelCallDelayed
from agent_cli.contracts.timeline import Json, Usage
from agent_cli.core.call_decisions import REFUSALS_MAX
from agent_cli.core.run import RunResult
from agent_cli.session_store import SessionStore
from agent_cli.system import paths
from tests.app.test_jobs import NoServers
from tests.fakes import LIMIT_S, notices
from tests.hooks.test_scripts import command, hooks
from tests.installed_plugins import install_plugin
from tests.mcp_client.conftest import RAW_SERVER
from tests.messages_api import (
    Gate,
    ReceivedRequest,
    Reply,
    error,
    reply,
    serve_in_thread,
    tool_use,
)
from tests.messages_api.script import Answer, MakeAnswer, Payload
from tests.repl.test_model_dialogs import asked
from tests.session_store.trajectories import trajectory_faults
from tests.waiting import is_alive, until

TASK = "explore the basket"


def started(*tasks: str, agent: str = "explore", **more: object) -> Reply:
    """Return a reply that starts an agent for each task."""
    return reply(
        *(
            tool_use(
                "agent",
                {"description": task, "prompt": task, "subagent_type": agent, **more},
            )
            for task in tasks
        )
    )


def task_of(request: ReceivedRequest) -> str:
    """Return the first task of the agent that asks."""
    content = request.body["messages"][0]["content"]
    return content if isinstance(content, str) else str(content[-1]["text"])


class Script:
    """Answers each agent by its task, one reply after the other; records the requests."""

    def __init__(self, **replies: Sequence[Answer | MakeAnswer]) -> None:
        self.replies = {name.replace("_", " "): [*given] for name, given in replies.items()}
        self.asked: list[tuple[str, Payload]] = []
        self._lock = threading.Lock()

    def __call__(self, request: ReceivedRequest) -> Answer:
        with self._lock:
            task = task_of(request)
            self.asked.append((task, request.body))
            answer = self.replies[task].pop(0)
        return answer(request) if callable(answer) else answer

    def bodies(self, task: str) -> list[Payload]:
        return [body for name, body in self.asked if name == task]

    def tools(self, task: str) -> list[str]:
        return [tool["name"] for tool in self.bodies(task)[0].get("tools", [])]


async def test_agent_that_may_use_any_tool_can_recall() -> None:
    """Its notes refer to `recall`; one whose definition lists its tools has exactly these."""
    script = Script(
        go=[started(TASK), started("do it", agent="general"), reply("Thanks.")],
        explore_the_basket=[reply("Seen.")],
        do_it=[reply("Done.")],
    )
    async with program(script) as run:
        await run.prompt()

    assert "recall" in script.tools("do it")
    assert "recall" not in script.tools(TASK)


class Person:
    """Decides about calls of agents as scripted, and records the questions."""

    can_ask = True

    def __init__(self, *decisions: Decision) -> None:
        self.decisions = list(decisions)
        self.asked: list[tuple[str, str]] = []

    async def decide_calls(self, calls: Sequence[ToolCall], asker: str) -> Sequence[Decision]:
        self.asked += [(asker, call.name) for call in calls]
        return [self.decisions.pop(0) for _ in calls]


@dataclass
class Program:
    app: App
    script: Script
    events: list[Event] = field(default_factory=list)

    async def prompt(self, text: str = "go") -> RunResult:
        return await self.app.agent.prompt(text)

    def answers(self, result: RunResult) -> list[str]:
        return [each.text for each in result.messages if isinstance(each, ToolResultMessage)]

    def of_agents(self) -> list[Event]:
        return [event.event for event in self.events if isinstance(event, AgentEvent)]


@asynccontextmanager
async def program(
    script: Script,
    *words: str,
    person: Person | None = None,
    mode: str = "yolo",
    attended: bool = False,
    mcp: bool = False,
) -> AsyncGenerator[Program]:
    with serve_in_thread(answer=script) as api, pytest.MonkeyPatch.context() as patch:
        patch.setenv("ANTHROPIC_BASE_URL", api.base_url)
        patch.setenv("ANTHROPIC_API_KEY", "k")
        patch.setenv("AGENT_CLI_RETRY__OTHER_BASE_S", "0.01")
        given = (*([] if mcp else ["--no-mcp"]), "--permission-mode", mode, *words)
        app = App(start(parse_arguments(given), may_ask=False), one_shot=not attended)
        async with app, asyncio.timeout(6 * LIMIT_S):
            run = Program(app, script)
            app.agent.subscribe(run.events.append)
            if attended:
                app.answer(cast("ServerDialogs", NoServers()), asked()[0])
            if person:
                app._bench.person.calls = person
            yield run
        assert api.refusals == []


async def test_subagents_last_reply_is_the_result_of_its_call() -> None:
    """The agent gets only the task and tools that read; its events carry its id."""
    Path("basket.py").write_text("total = 0\n")
    script = Script(
        go=[started(TASK), reply("Thanks.")],
        explore_the_basket=[
            reply(tool_use("read", {"path": "basket.py"})),
            reply("It is `basket.py:1`."),
        ],
    )
    async with program(script) as run:
        result = await run.prompt()

    assert (result.stop_reason, run.answers(result)) == ("end_turn", ["It is `basket.py:1`."])
    assert script.tools(TASK) == ["read", "bash", "grep", "glob", "job_output"]
    assert "explore a codebase" in json.dumps(script.bodies(TASK)[0]["system"])
    assert script.bodies(TASK)[0]["model"] == "claude-haiku-5-5"
    assert any(isinstance(event, ToolExecutionStart) for event in run.of_agents())
    told = [
        str(event.partial_result.details)
        for event in run.events
        if isinstance(event, ToolExecutionUpdate)
    ]
    assert any("Read basket.py · " in each for each in told)


def test_row_of_an_agent_tells_when_it_writes_tries_again_and_waits_for_the_limit() -> None:
    """A long first reply was "thinking · 0 tokens" to its end; a piece of it changes no row."""
    rows: list[str] = []
    activity = AgentActivity(rows.append, tuple)
    used = Usage(1_000, 200, cost_microdollars=1_200)

    def pieces(*given: StreamEvent) -> Sequence[Event]:
        return [MessageUpdate(lambda: AssistantMessage(()), piece) for piece in given]

    events: Sequence[Event] = [
        AgentStart(),
        Retry(1, 10, 2.0, "overloaded", restarted=False),
        *pieces(TextDelta(0, "It "), TextDelta(0, "is"), ToolCallStart(1, "t1", "write")),
        UsageChanged(used, used),
        *pieces(ThinkingDelta(0, "I "), ThinkingDelta(0, "wonder")),
        UsageHeld("p", 5),
        ModelCallDelayed(2),
        UsageHeld("p", 5),
    ]
    for event in events:
        activity(event)

    assert rows == [
        "thinking",
        "retry 1 of 10",
        "writing",
        "writing a call of write",
        "thinking · 1.2k tokens · $0.0012",
        "waiting for the cost limit (other calls hold it) · 1.2k tokens · $0.0012",
        "thinking · 1.2k tokens · $0.0012",
    ]


async def test_plugin_agent_is_offered_to_the_model_and_works(tmp_path: Path) -> None:
    """Plugins load in the background, yet the first request already offers it."""
    plugin = (
        "from pathlib import Path\nfrom agent_cli import Plugin\n"
        "plugin = Plugin(name='helping', agents=Path(__file__).with_name('agents'))\n"
    )
    package = tmp_path / "package"
    install_plugin(package, "helping", plugin, offers="helping = helping:plugin")
    (agents := package / "agents").mkdir()
    (agents / "plan.md").write_text("---\nname: plan\ndescription: Plans.\n---\nPlan well.")
    script = Script(
        go=[started(TASK, agent="helping:plan"), reply("Thanks.")],
        explore_the_basket=[reply("Planned.")],
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(package))
        async with program(script) as run:
            result = await run.prompt()

    [offered] = [tool for tool in script.bodies("go")[0]["tools"] if tool["name"] == "agent"]
    assert offered["description"].endswith(", helping:plan (Plans.)")
    assert run.answers(result) == ["Planned."]
    assert "Plan well." in json.dumps(script.bodies(TASK)[0]["system"])


def with_servers(**servers: dict[str, Json]) -> None:
    """Define an agent `helped` of the user's that brings *servers*."""
    lines = "\n".join(f"  - {name}: {json.dumps(entry)}" for name, entry in servers.items())
    folder = paths.config_dir() / "agents"
    folder.mkdir(parents=True)
    (folder / "helped.md").write_text(
        f"---\nname: helped\ndescription: d\nmcpServers:\n{lines}\n---\nDo it."
    )


def raw(options: Json) -> dict[str, Json]:
    """Return a server that puts its process id into the file `pid`."""
    script = 'echo $$ > pid; exec "$0" "$@"'
    arguments: list[Json] = ["-c", script, sys.executable, "-I", "-S", RAW_SERVER]
    return {"command": "sh", "args": [*arguments, json.dumps(options)]}


async def test_agent_with_mcp_servers_starts_uses_and_stops_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Their tools are offered only to this agent, and its calls need approval."""
    monkeypatch.setenv("INSTRUCT", "instructions")
    Path("instructions").write_text("Call it politely.")
    with_servers(
        **{"raw.one": raw({"instruct": "${INSTRUCT}"})},
        gone={"command": "there-is-no-such-server"},
        unset={"command": "${NEVER_SET_ANYWHERE}"},
    )
    tools = [public_name("raw.one", tool) for tool in ("raw", "reply")]
    script = Script(
        go=[started(TASK, agent="helped"), reply("Thanks.")],
        explore_the_basket=[reply(tool_use(tools[1], {})), reply("Done.")],
    )
    during: list[AgentServer] = []

    class Watching(Person):
        async def decide_calls(self, calls: Sequence[ToolCall], asker: str) -> Sequence[Decision]:
            during.extend(run.app.agents.servers())
            return await super().decide_calls(calls, asker)

    person = Watching(Approved())
    async with program(script, person=person, mode="ask", mcp=True) as run:
        result = await run.prompt()
        assert run.app.servers.states() == ()
        assert run.app.agents.servers() == [
            AgentServer("helped", name) for name in ("raw.one", "gone", "unset")
        ]
        assert not is_alive(int(Path("pid").read_text()))

    offered = [tool for tool in script.tools(TASK) if tool.startswith("mcp__")]
    assert offered == tools
    assert not any(tool.startswith("mcp__") for tool in script.tools("go"))
    assert "Call it politely." in json.dumps(script.bodies(TASK)[0]["system"])
    assert person.asked == [(f"agent helped ({TASK})", tools[1])]
    assert {each.title: each.state and each.state.phase for each in during} == {
        "raw.one (agent helped 1)": ServerPhase.READY,
        "gone (agent helped 1)": ServerPhase.FAILED,
        "unset (agent helped 1)": ServerPhase.MISCONFIGURED,
    }
    assert "answered" in json.dumps(script.bodies(TASK)[1]["messages"])
    [answer] = run.answers(result)
    said, _, problems = answer.partition("\n\n")
    assert said == "Done."
    gone, unset = problems.splitlines()
    assert gone.startswith("[agent-cli: MCP server 'gone' ")
    assert "there-is-no-such-server" in gone
    assert "mcpServers.unset" in unset
    assert "${NEVER_SET_ANYWHERE}, which is not set" in unset


async def test_stopping_an_agent_does_not_wait_for_its_mcp_servers() -> None:
    """A server that never answers is ended at once, long before its own limit."""
    with_servers(raw=raw({"hang": True}))
    script = Script(go=[started(TASK, agent="helped")])
    async with program(script, mcp=True) as run:
        async with asyncio.TaskGroup() as tasks:
            prompt = tasks.create_task(run.prompt())
            await until(lambda: Path("pid").exists() and Path("pid").read_text().strip() != "")
            run.app.agent.abort()
        assert prompt.result().stop_reason == "aborted"
        assert not is_alive(int(Path("pid").read_text()))


async def test_agent_runs_without_its_servers_if_mcp_is_switched_off() -> None:
    with_servers(raw=raw({}))
    script = Script(
        go=[started(TASK, agent="helped"), reply("Thanks.")], explore_the_basket=[reply("Done.")]
    )
    async with program(script) as run:
        result = await run.prompt()

    assert run.answers(result) == [
        "Done.\n\n[agent-cli: MCP is switched off here, so its servers were not started: raw]"
    ]
    assert not Path("pid").exists()


async def test_agents_of_one_reply_run_concurrently() -> None:
    """Both agents have sent a request before either is answered."""
    gate = Gate()
    held = [reply("found", gate=gate, hold_at=0)]
    script = Script(go=[started("one", "two"), reply("Done.")], one=held, two=[*held])
    async with program(script) as run:
        prompting = asyncio.create_task(run.prompt())
        async with asyncio.timeout(LIMIT_S):
            while len(script.asked) < 3:  # noqa: ASYNC110 - the server is a thread
                await asyncio.sleep(0.01)
        gate.open(100)
        result = await prompting

    assert run.answers(result) == ["found", "found"]


async def test_agent_definition_cannot_extend_the_parents_tools_or_permissions() -> None:
    """The definition asks for more tools and a freer mode, and gets neither."""
    folder = paths.config_dir() / "agents"
    folder.mkdir(parents=True)
    (folder / "bold.md").write_text(
        "---\nname: bold\ndescription: d\ntools: Write, Read, Fly\n"
        "permissionMode: bypassPermissions\n---\nBe bold."
    )
    script = Script(
        go=[started("write it", agent="bold"), reply("Done.")],
        write_it=[reply(tool_use("write", {"path": "a", "content": "b"})), reply("Refused.")],
    )
    async with program(script, mode="ask") as run:
        result = await run.prompt()

    assert script.tools("write it") == ["read", "write"]
    assert not Path("a").exists()
    assert "nobody can be asked" in json.dumps(script.bodies("write it")[1])
    assert run.answers(result) == ["Refused."]
    told = notices(run.events)
    assert "agent bold goes without Fly: there are no such tools for it here" in told


@pytest.mark.parametrize(
    ("decision", "exists"), [(Approved(), True), (Rejected("Not there."), False)]
)
async def test_approval_question_of_an_agent_reaches_the_user(
    decision: Decision, exists: bool
) -> None:
    """The question names the agent."""
    script = Script(
        go=[started("write it", agent="general"), reply("Done.")],
        write_it=[reply(tool_use("write", {"path": "a", "content": "b"})), reply("Over.")],
    )
    person = Person(decision)
    async with program(script, mode="ask", person=person) as run:
        await run.prompt()

    [end] = [event for event in run.events if isinstance(event, ToolExecutionEnd)]
    assert person.asked == [("agent general (write it)", "write")]
    assert Path("a").exists() == exists
    assert isinstance(end.result.details, dict)
    assert end.result.details["rounds"] == 2


async def test_agent_that_keeps_asking_for_approval_without_a_user_is_stopped() -> None:
    """Each rejection begins a run with fresh limits; the parent reads why there is no answer."""
    ask = reply(tool_use("write", {"path": "a", "content": "b"}))
    script = Script(
        go=[started("write it", agent="general"), reply("Done.")],
        write_it=[ask] * (REFUSALS_MAX + 1),
    )
    async with program(script, mode="ask") as run:
        result = await run.prompt()
        [kept] = run.app.sessions.agents()

    [answer] = run.answers(result)
    assert answer.startswith("The agent general kept asking for what needs a person's approval")
    assert (len(script.bodies("write it")), kept.problem) == (REFUSALS_MAX + 1, "")


async def test_background_commands_of_an_agent_are_reported_and_end_with_the_agent() -> None:
    """Its parent, which did not start them, reads which ones ended."""
    waits = "until test -e go; do sleep 0.02; done; exit 3"
    script = Script(
        go=[started("serve", agent="general"), reply("Done.")],
        serve=[
            reply(tool_use("bash", {"command": waits, "background": True})),
            reply(tool_use("bash", {"command": "sleep 1003", "background": True})),
            reply(tool_use("bash", {"command": "touch go"})),
            reply(tool_use("job_output", {"id": 1, "wait": 20})),
            reply("Served."),
        ],
    )
    async with program(script) as run:
        result = await run.prompt()
        assert not any(job.is_running for job in run.app.jobs.all())

    last = json.dumps(script.bodies("serve")[-1]["messages"])
    assert "This run ends with your last reply, and the job with it" in last
    assert last.count("ended with exit 3. Its output is in") == 1
    [answer] = run.answers(result)
    assert answer == ("Served.\n\n[agent-cli: its background commands ended with it: `sleep 1003`]")


async def test_abort_at_a_question_of_an_agent_stops_the_whole_tree() -> None:
    script = Script(
        go=[started("write it", agent="general")],
        write_it=[reply(tool_use("write", {"path": "a", "content": "b"}))],
    )
    async with program(script, mode="ask", person=Person(Rejected("", stop=True))) as run:
        result = await run.prompt()

    assert result.stop_reason == "aborted"


async def test_agent_may_start_agents_up_to_depth_two() -> None:
    """The agents of an agent cannot start agents."""
    script = Script(
        go=[started("first", agent="general"), reply("Done.")],
        first=[started("second", agent="general"), reply("From below: yes.")],
        second=[reply("yes")],
    )
    async with program(script, "--settings", _settings("agents.max_parallel = 1")) as run:
        result = await run.prompt()
        first, second = run.app.agents.all()

    assert run.answers(result) == ["From below: yes."]
    assert first.root_call_id == second.root_call_id == first.tool_call_id != second.tool_call_id
    assert "agent" in script.tools("first")
    assert "agent" not in script.tools("second")
    inner = [event for event in run.of_agents() if isinstance(event, AgentEvent)]
    assert inner


def _settings(text: str) -> str:
    Path("more.toml").write_text(text)
    return "more.toml"


async def test_more_than_ask_beyond_agents_in_one_reply_need_approval() -> None:
    """All calls of that reply wait for the person."""
    script = Script(go=[started("a", "b", "c", "d")])
    async with program(script, person=Person()) as run:
        result = await run.prompt()

    assert result.stop_reason == "waiting_for_approval"
    reasons = {call.name for call in run.app.agent.conversation.questions()}
    assert reasons == {"agent"}


async def test_ask_beyond_is_a_limit_where_nobody_can_be_asked() -> None:
    """So many start, the model reads why the others do not, and the run goes on."""
    names = ["a", "b", "c", "d"]
    script = Script(go=[started(*names), reply("Done.")], **{name: [reply(name)] for name in names})
    async with program(script) as run:
        result = await run.prompt()

    assert result.stop_reason == "end_turn"
    assert run.answers(result)[:3] == names[:3]
    assert "One reply may start 3 agents here" in run.answers(result)[3]


async def test_agents_max_parallel_limits_concurrent_agents() -> None:
    gate = Gate()
    names = ["one", "two", "three"]
    script = Script(
        go=[started(*names), reply("Done.")],
        **{name: [reply(name, gate=gate, hold_at=0)] for name in names},
    )
    async with program(script, "--settings", _settings("agents.max_parallel = 2")) as run:
        prompting = asyncio.create_task(run.prompt())
        async with asyncio.timeout(LIMIT_S):
            while len(script.asked) < 3:  # noqa: ASYNC110 - the server is a thread
                await asyncio.sleep(0.01)
        for _ in range(50):
            await asyncio.sleep(0)
        assert len(script.asked) == 3
        gate.open(100)
        result = await prompting

    assert run.answers(result) == names


async def test_failed_or_unknown_agent_gives_an_error_result() -> None:
    """The parent continues; for an unknown agent the error lists the existing ones."""
    script = Script(
        go=[started("broken"), started("other", agent="nobody"), reply("Done.")],
        broken=[error(400, "invalid_request_error", "no")],
    )
    async with program(script) as run:
        result = await run.prompt()

    failed, unknown = run.answers(result)
    assert failed.startswith("The agent explore failed: the API refused the request")
    assert unknown == "There is no agent 'nobody'; there are: explore, plan, general."
    assert result.stop_reason == "end_turn"


async def test_abort_stops_the_whole_agent_tree() -> None:
    gate = Gate()
    script = Script(go=[started("held")], held=[reply("never", gate=gate, hold_at=0)])
    async with program(script) as run:
        prompting = asyncio.create_task(run.prompt())
        async with asyncio.timeout(LIMIT_S):
            while len(script.asked) < 2:  # noqa: ASYNC110 - the server is a thread
                await asyncio.sleep(0.01)
        run.app.agent.abort()
        result = await prompting
        [kept] = run.app.sessions.agents()
        gate.open(100)

    assert result.stop_reason == "aborted"
    assert kept.problem == ""


async def test_agents_session_is_stored_under_its_parents() -> None:
    """The session is found by its id, and its cost is known; lists of sessions omit it."""
    script = Script(go=[started(TASK), reply("Thanks.")], explore_the_basket=[reply("Found.")])
    async with program(script) as run:
        await run.prompt()
        [kept] = run.app.sessions.agents()
        parent = run.app.sessions.id
        [ended] = [event for event in run.events if isinstance(event, ToolExecutionEnd)]

    store = SessionStore(paths.sessions_dir())
    header = store.read(kept.id[:8]).header
    assert header
    assert (header.parent, header.agent) == (parent, "explore")
    assert [each.id for each in store.list()] == [parent]
    assert kept.usage.cost_microdollars
    assert isinstance(ended.result.details, dict)
    assert ended.result.details["agent_id"] == kept.id


async def test_cost_limit_holds_for_the_whole_agent_tree() -> None:
    """An agent's cost counts for its parent, whose next call is refused."""
    usage = {"input_tokens": 1_000_000, "output_tokens": 1}
    script = Script(
        go=[started(TASK), reply("never")],
        explore_the_basket=[reply("Found.", usage=usage)],
    )
    async with program(script, "--max-cost", "0.45") as run:
        result = await run.prompt()

    assert result.stop_reason == "max_cost"
    assert len(script.asked) == 2


async def test_concurrent_agents_do_not_overwrite_each_others_edits() -> None:
    """Two agents edit one file: the second edits the result of the first."""
    Path("list.txt").write_text("one\n")

    def edit(line: str) -> list[Answer]:
        add = {"path": "list.txt", "edits": [{"old": "one\n", "new": f"one\n{line}\n"}]}
        return [
            reply(tool_use("read", {"path": "list.txt"})),
            reply(tool_use("edit", add)),
            reply(tool_use("read", {"path": "list.txt"})),
            reply(tool_use("edit", add)),
            reply("ok"),
        ]

    script = Script(
        go=[started("left", "right", agent="general"), reply("Done.")],
        left=edit("left"),
        right=edit("right"),
    )
    async with program(script) as run:
        await run.prompt()

    text = Path("list.txt").read_text()
    assert text.startswith("one\n")
    assert {*text.splitlines()} == {"one", "left", "right"}


async def test_sessions_show_export_and_verify_include_subagents(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Each command about a session includes its subagents."""
    script = Script(go=[started(TASK), reply("Thanks.")], explore_the_basket=[reply("Found.")])
    async with program(script) as run:
        await run.prompt()
        [kept] = run.app.sessions.agents()
        id = run.app.sessions.id
        prompt = run.app.agent.conversation.prompts[-1]
        assert run.app.sessions.cost_of_agents(prompt) == kept.usage.cost_microdollars
    assert id

    def printed(*words: str) -> str:
        arguments = parse_arguments(words)
        assert COMMANDS[arguments.command](arguments) == 0
        return capsys.readouterr().out

    assert f"agent explore: {TASK} ($" in printed("sessions", "show", id)
    assert "Found." in printed("sessions", "show", kept.id)
    [agent] = json.loads(printed("sessions", "export", id, "json"))["agents"]
    assert agent["conversation"]["agent"] == "explore"
    atif = json.loads(printed("sessions", "export", id, "atif"))
    assert trajectory_faults(atif) == []
    [child] = atif["subagent_trajectories"]
    assert child["agent"]["extra"] == {"agent": "explore"}
    [result] = [r for s in atif["steps"] if "observation" in s for r in s["observation"]["results"]]
    assert result["subagent_trajectory_ref"] == [{"trajectory_id": child["trajectory_id"]}]
    assert printed("sessions", "verify", id) == "2 sessions checked, 0 damaged\n"
    assert printed("sessions", "verify") == "2 sessions checked, 0 damaged\n"


async def test_cost_limit_of_a_resumed_prompt_counts_its_agents() -> None:
    """After a restart the limit is reduced by the cost in the agent's session."""
    usage = {"input_tokens": 1_000_000, "output_tokens": 1}
    ask = tool_use("write", {"path": "a", "content": "b"})
    script = Script(
        go=[started(TASK), reply(ask), reply("never")],
        explore_the_basket=[reply("Found.", usage=usage)],
    )
    limit = ("--max-cost", "0.54")
    async with program(script, *limit, mode="ask") as run:
        result = await run.prompt()
        assert result.stop_reason == "waiting_for_approval"
        [call] = run.app.agent.conversation.questions()
    async with program(script, "--continue", *limit, mode="ask") as run:
        result = await run.app.agent.approve(call.tool_call_id)

    assert (result.stop_reason, len(script.asked)) == ("max_cost", 3)


async def test_hooks_extend_block_and_send_back_an_agent() -> None:
    """SubagentStart adds text to its task, PreToolUse blocks a call, SubagentStop sends it back."""
    say = {"hookSpecificOutput": {"hookEventName": "SubagentStart", "additionalContext": "Hurry."}}
    once = "test -e stopped && exit 0; touch stopped; echo 'name the line' >&2; exit 2"
    hooks(
        SubagentStart=command(f"echo '{json.dumps(say)}'"),
        SubagentStop=command(once),
        PreToolUse=command("echo 'not that' >&2; exit 2", matcher="Grep"),
    )
    script = Script(
        go=[started(TASK), reply("Thanks.")],
        explore_the_basket=[
            reply(tool_use("grep", {"pattern": "x"})),
            reply("Found."),
            reply("Found in line 3."),
        ],
    )
    async with program(script) as run:
        result = await run.prompt()

    first, second, third = script.bodies(TASK)
    assert "Hurry." in json.dumps(first["system"])
    assert "not that" in json.dumps(second["messages"])
    assert "name the line" in json.dumps(third["messages"])
    assert run.answers(result) == ["Found in line 3."]
