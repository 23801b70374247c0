"""Plugins in a run: their additions, when these vanish, and the mistakes plugins may make."""

import asyncio
import importlib.metadata
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from copy import deepcopy
from functools import partial
from pathlib import Path

import pytest
from pydantic import BaseModel

from agent_cli.contracts.errors import AgentCliError
from agent_cli.contracts.found_tools import CALL_FOUND
from agent_cli.contracts.messages import UserMessage
from agent_cli.contracts.timeline import text_block
from agent_cli.contracts.tooling import ToolContext
from agent_cli.core.agent import Agent
from agent_cli.core.conversation import Conversation
from agent_cli.core.loop_config import LoopConfig
from agent_cli.plugins.api import Plugin, PluginContext, PluginState
from agent_cli.plugins.contributor import DiscoveredPlugins, Plugins, discover
from agent_cli.plugins.states import PluginStates
from tests.e2e.program import agent_cli
from tests.fakes import (
    Gate,
    calls,
    check_run,
    does,
    returns,
    says,
    scripted_agent,
    tool,
    tool_use,
    users,
)
from tests.installed_plugins import install_plugin
from tests.messages_api import reply, serve_in_thread
from tests.plugins.contributing import PATIENCE_S, Contributing, tool_results
from tests.tables import each_row
from tests.waiting import StoppedClock

CHANGED = "[agent-cli: plugin {} says from now on, in place of what it said before:]\n\n"


class Switch(BaseModel):
    on: bool = False


SWITCH = PluginState("switch", Switch)


async def test_every_plugin_prepares_before_every_model_call() -> None:
    """S2-15, S2-16: with n calls each plugin prepares n times, in the order of the plugins."""
    order: list[str] = []

    async def second(ctx: PluginContext) -> None:
        await asyncio.sleep(0)
        order.append("b")

    run = Contributing(
        [Plugin(name="a", prepare=lambda ctx: order.append("a")), Plugin(name="b", prepare=second)],
        calls(tool_use("look")),
        says("done"),
        tools=[tool("look", does(lambda _ctx: _note(order, "tool")))],
    )
    await run.prompt()

    assert order == ["a", "b", "tool", "a", "b"]
    assert len(run.model.requests) == 2


async def _note(order: list[str], what: str) -> str:
    order.append(what)
    return what


async def test_tools_and_context_added_by_a_plugin_last_one_round() -> None:
    """S2-16: a tool that is not added again is gone, and a context item holds no longer.

    The bytes of earlier turns stay as they are, so a notice tells the model that.
    """
    rounds: list[int] = []

    def once(ctx: PluginContext) -> None:
        rounds.append(len(rounds))
        if rounds == [0]:
            ctx.add_tool(tool("early", returns("hi")))
            ctx.add_context("early words")

    run = Contributing([Plugin(name="p", prepare=once)], calls(tool_use("early")), says("done"))
    await run.prompt()

    assert run.offered() == [["early"], []]
    assert run.contexts() == [["early words"], ["early words"]]
    assert run.told() == [[], ["[agent-cli: what plugin p said before holds no longer.]"]]


async def test_tools_added_in_the_last_turn_are_listed_behind_the_fixed_ones() -> None:
    """S2-17: `/tools` shows what the model was offered last."""

    def prepare(ctx: PluginContext) -> None:
        ctx.add_tool(tool("added", returns("hi")))

    fixed = tool("fixed", returns("hi"))
    run = Contributing([Plugin(name="p", tools=[fixed], prepare=prepare)], says("done"))
    await run.prompt()

    assert [each.name for each in run.plugins.tools()] == ["fixed", "added"]


async def test_tool_of_the_session_that_is_gone_is_not_declared_by_the_plugins() -> None:
    """S2-38: they keep their own tools declared, whatever else a request offers."""

    def add_own(ctx: PluginContext) -> None:
        ctx.add_tool(tool("own", returns("hi")))

    run = Contributing(
        [],
        *(says("done"), says("done")),
        tools=[tool("look", returns("seen"))],
        find=lambda: DiscoveredPlugins((Plugin(name="p", prepare=add_own),)),
    )
    async with run.plugins:
        run.plugins.start(run.agent)
        await run.prompt()
        run.agent.set_tools([])
        await run.prompt("again")

    assert [[name for name in names if name != CALL_FOUND] for names in run.offered()] == [
        ["look", "own"],
        ["own"],
    ]


async def test_tool_enabled_by_plugin_state_is_offered_until_disabled() -> None:
    """S2-17: a tool enabled in round 1 is offered in round 2, until it is disabled."""

    def prepare(ctx: PluginContext) -> None:
        if SWITCH.read(ctx.state).on:
            ctx.add_tool(tool("off", does(lambda context: _switch(context, on=False))))

    on = tool("on", does(lambda context: _switch(context, on=True)))
    run = Contributing(
        [Plugin(name="switch", tools=[on], prepare=prepare, state=SWITCH)],
        calls(tool_use("on", id="t1")),
        calls(tool_use("off", id="t2")),
        says("done"),
    )
    await run.prompt()

    assert run.offered() == [["on"], ["on", "off"], ["on"]]
    assert [each.name for each in run.plugins.tools()] == ["on"]


async def _switch(context: ToolContext, *, on: bool) -> str:
    SWITCH.write(context.state, Switch(on=on))
    return "switched"


async def test_plugin_context_follows_the_stable_prompt_in_plugin_order() -> None:
    """S2-18, C10: the stable block stays first; blank items are left out."""

    def adds(*texts: str) -> Callable[[PluginContext], None]:
        def prepare(ctx: PluginContext) -> None:
            for text in texts:
                ctx.add_context(text)

        return prepare

    run = Contributing(
        [Plugin(name="z", prepare=adds("one", " ")), Plugin(name="a", prepare=adds("two"))],
        says("done"),
    )
    await run.prompt()

    assert run.contexts() == [["one", "two"]]


async def test_plugin_sees_state_written_by_an_earlier_plugin_in_the_same_round() -> None:
    """S2-19: the order of the plugins is the order of their writes; each may write shared state."""

    def write(ctx: PluginContext) -> None:
        ctx.state["shared"] = {"seen": ctx.latest_input}

    run = Contributing(
        [
            Plugin(name="before", prepare=lambda ctx: ctx.add_context(str(dict(ctx.state)))),
            Plugin(name="a", prepare=write),
            Plugin(name="after", prepare=lambda ctx: ctx.add_context(str(ctx.state["shared"]))),
        ],
        says("done"),
    )
    await run.prompt("hello")

    assert run.contexts() == [["{}", "{'seen': 'hello'}"]]


async def test_a_retrieval_plugin_searches_once_for_each_input() -> None:
    """S2-20: the results for the latest input are kept in state and reused in later rounds."""

    class Hits(BaseModel):
        query: str = ""
        text: str = ""

    hits = PluginState("retrieval", Hits)
    searches: list[str] = []

    def prepare(ctx: PluginContext) -> None:
        found = hits.read(ctx.state)
        if found.query != ctx.latest_input:
            searches.append(ctx.latest_input)
            found = Hits(query=ctx.latest_input, text=f"about {ctx.latest_input}")
            hits.write(ctx.state, found)
        ctx.add_context(found.text)

    run = Contributing(
        [Plugin(name="retrieval", prepare=prepare, state=hits)],
        calls(tool_use("look")),
        says("done"),
        says("again"),
        tools=[tool("look", returns("a tree"))],
    )
    await run.prompt("trees")
    await run.prompt("cats")

    assert searches == ["trees", "cats"]
    assert run.contexts() == [["about trees"]] * 3
    assert run.told() == [[], [], [f"{CHANGED.format('retrieval')}about cats"]]
    assert run.notices() == []  # no cached byte has changed


async def test_tool_context_has_user_tool_name_state_and_services() -> None:
    """S2-23, S2-38, S2-50: everything a tool may need comes with the call."""
    seen: list[object] = []

    async def look(context: ToolContext) -> str:
        seen.extend([context.user_id, context.tool_name, context.services["db"]])
        context.state["counter"] = 1
        return "ok"

    database = object()
    run = Contributing(
        [Plugin(name="p", tools=[tool("look", does(look))], services={"db": database})],
        calls(tool_use("look")),
        says("done"),
    )
    await run.prompt()

    assert seen == ["local", "look", database]
    [prompt] = run.agent.conversation.prompts
    assert (prompt.user_id, run.agent.conversation.user_id) == ("local", "local")
    assert [o.data for o in prompt.output if o.kind == "custom"] == [  # type: ignore[attr-defined]
        {"plugin": "counter", "version": 0, "state": 1}  # what kind "custom" has, mypy cannot see
    ]


async def test_tools_that_write_state_do_so_in_call_order() -> None:
    """C24: they are not `parallel_safe`, so a slow first one is not overtaken by the second."""
    gates = {"t1": Gate(), "t2": Gate()}
    gates["t2"].open()

    async def add(context: ToolContext) -> str:
        await gates[context.tool_call_id].pass_through()
        earlier = context.state.get("order", [])
        assert isinstance(earlier, list)
        context.state["order"] = [*earlier, context.tool_call_id]
        return "added"

    run = Contributing(
        [Plugin(name="p", tools=[tool("add", does(add), parallel_safe=False)])],
        calls(tool_use("add", id="t1"), tool_use("add", id="t2")),
        says("done"),
    )
    async with asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as group:
        group.create_task(run.prompt())
        await gates["t1"].reached.wait()
        for _ in range(20):  # a second call that does not wait would have begun by now
            await asyncio.sleep(0)
        assert not gates["t2"].reached.is_set()
        gates["t1"].open()

    state = PluginStates(run.agent.conversation, {}, run.events.append)
    assert state["order"] == ["t1", "t2"]


async def test_plugin_reads_what_was_typed_without_the_attached_files() -> None:
    """It may search for that text."""
    read: list[str] = []
    plugin = Plugin(name="p", prepare=lambda ctx: read.append(ctx.latest_input))
    run = Contributing([plugin], says("one"))

    await run.agent.prompt(UserMessage((text_block("a file"), text_block("hi"))))

    assert read == ["hi"]


async def test_message_added_by_a_plugin_is_sent_once_and_stays() -> None:
    """It is appended to the conversation, so that no cached byte changes, and published."""
    said: list[str] = []

    def prepare(ctx: PluginContext) -> None:
        said.append(ctx.latest_input)
        if len(said) == 1:
            ctx.add_message("by the way")

    also = Plugin(name="q", prepare=lambda ctx: said.append(ctx.latest_input))
    run = Contributing([Plugin(name="p", prepare=prepare), also], says("one"), says("two"))
    await run.prompt("hi")
    check_run(run.events)
    await run.prompt("again")

    assert said == ["hi", "hi", "again", "again"]
    texts = [[block["text"] for block in m["content"]] for m in run.model.sent()]  # type: ignore[union-attr,index,call-overload]  # JSON
    assert texts == [["hi", "by the way"], ["one"], ["again"]]
    assert run.notices() == []


async def test_changed_context_is_told_once_and_again_when_a_summary_removed_it() -> None:
    """What it was at the beginning stays in the system prompt; a copy has the same beginning."""
    texts = iter(["one", "two", "two", "two", "one", "one"])
    plugin = Plugin(name="p", prepare=lambda ctx: ctx.add_context(next(texts)))
    run = Contributing([plugin], *map(says, "abcdef"))
    for _ in range(3):
        await run.prompt()
    run.agent.conversation.compact("short", run.agent.conversation.prompts[-1].output[-1].id)
    await run.prompt()
    run.agent.adopt(Conversation(deepcopy(run.agent.conversation.prompts)))
    await run.prompt()
    await run.prompt()

    assert run.contexts() == [["one"]] * 6
    seen = [
        [m.text for m in r.messages if "p says" in getattr(m, "text", "")]
        for r in run.model.requests
    ]
    one, two = (f"{CHANGED.format('p')}{text}" for text in ("one", "two"))
    assert seen == [[], [two], [two], [two], [two, one], [two, one]]
    assert run.notices() == []


async def test_notice_added_by_a_plugin_is_told_apart_from_a_message() -> None:
    """It is the program's own word, which some models take as the system's."""

    def prepare(ctx: PluginContext) -> None:
        if ctx.latest_input == "hi":
            ctx.add_notice("mind the gap")

    run = Contributing([Plugin(name="p", prepare=prepare)], says("one"), says("two"))
    await run.prompt("hi")
    await run.prompt("again")

    assert run.told() == [["mind the gap"], []]


async def test_a_plugin_without_its_secrets_contributes_nothing() -> None:
    """S1-27, S1c-10: with all of them its tools are sent; otherwise the report says why not."""

    def prepare(ctx: PluginContext) -> None:
        ctx.add_context(" ".join(f"{name}={value}" for name, value in ctx.secrets.items()))

    plugin = Plugin(
        name="mail", tools=[tool("mail", returns(""))], prepare=prepare, secrets=("ID", "SECRET")
    )
    without = Contributing([plugin], says("done"), environment={"ID": "me", "SECRET": ""})
    having = Contributing(
        [plugin], says("done"), environment={"ID": "me", "SECRET": "s", "OTHER": "hidden"}
    )
    await without.prompt()
    await having.prompt()

    assert (without.offered(), without.contexts()) == ([[]], [[]])
    assert without.plugins.tools() == ()
    assert without.plugins.report() == (("mail", "off: SECRET not set"),)
    assert (having.offered(), having.contexts()) == ([["mail"]], [["ID=me SECRET=s"]])
    assert [each.name for each in having.plugins.tools()] == ["mail"]
    assert having.plugins.report() == (("mail", "on"),)


async def test_failing_plugin_is_left_out_with_one_warning() -> None:
    """S2-16: the others contribute, nothing incomplete is sent, and the run continues."""

    def fail(ctx: PluginContext) -> None:
        ctx.add_context("half")
        raise RuntimeError("no network")

    run = Contributing(
        [
            Plugin(name="bad", prepare=fail, tools=[tool("lost", returns(""))]),
            Plugin(name="good", prepare=lambda ctx: ctx.add_context("fine")),
        ],
        says("one"),
        says("two"),
    )
    await run.prompt()
    await run.prompt()

    assert (run.contexts(), run.offered()) == ([["fine"], ["fine"]], [[], []])
    assert run.warnings == [
        "plugin 'bad' failed and is left out of this reply: RuntimeError: no network"
    ]


async def test_second_tool_of_a_name_in_one_reply_is_left_out_with_a_warning() -> None:
    """S1-27: the API refuses a request with two tools of one name."""

    def prepare(ctx: PluginContext) -> None:
        for name in ("same", "same", "other"):
            ctx.add_tool(tool(name, returns("")))

    run = Contributing([Plugin(name="p", prepare=prepare)], says("done"))
    await run.prompt()

    assert run.offered() == [["same", "other"]]
    assert run.warnings == ["plugin 'p': its tool 'same' is left out: there is one of that name"]


async def test_plugin_that_exits_is_left_out_and_the_program_stays() -> None:
    """S2-16: a script's `sys.exit` in a plugin ended the session, and the program with it."""

    def leave(ctx: PluginContext) -> None:
        ctx.add_context("half")
        raise SystemExit(3)

    run = Contributing([Plugin(name="bad", prepare=leave)], says("one"))
    await run.prompt()

    assert run.contexts() == [[]]
    assert run.warnings == ["plugin 'bad' failed and is left out of this reply: SystemExit: 3"]


async def test_text_without_words_of_a_plugin_is_not_sent() -> None:
    """S2-18: a search that finds nothing ended the run, as a message that cannot be sent."""

    def find_nothing(ctx: PluginContext) -> None:
        for add in (ctx.add_context, ctx.add_message, ctx.add_notice):
            add("")
            add(" \n")
            add("found")

    run = Contributing([Plugin(name="search", prepare=find_nothing)], says("one"))
    await run.prompt("hi")

    assert (run.contexts(), run.warnings) == ([["found"]], [])
    assert users(run.agent.state.messages) == ["hi", "found", "found"]


@each_row(
    ("add", "told"),
    [
        (lambda ctx: ctx.add_context(None), "a text it added cannot be of type NoneType"),
        (lambda ctx: ctx.add_message(7), "a text it added cannot be of type int"),
        (
            lambda ctx: ctx.add_tool(print),
            "a tool it added cannot be of type builtin_function_or_method",
        ),
    ],
    ids=["context", "message", "tool"],
)
async def test_plugin_that_adds_something_of_another_type_is_left_out(
    add: Callable[[object], None], told: str
) -> None:
    """It raised after `prepare`, outside the run; a number as a message was sent to the model."""
    run = Contributing([Plugin(name="bad", prepare=add)], says("one"))
    await run.prompt("hi")

    assert "7" not in str(run.model.sent())
    [warning] = run.warnings
    assert warning.startswith(
        f"plugin 'bad' failed and is left out of this reply: TypeError: {told}"
    )


async def test_plugin_can_end_the_run_with_an_error_message() -> None:
    """Our own errors are passed on, as those of any contributor."""

    def refuse(ctx: PluginContext) -> None:
        raise AgentCliError("the quota of this team is used up")

    run = Contributing([Plugin(name="quota", prepare=refuse)])
    result = await run.agent.prompt("go")

    assert (result.stop_reason, result.error) == ("error", "the quota of this team is used up")


async def test_duplicate_plugin_and_tool_names_are_left_out_with_a_warning() -> None:
    """The first of a name counts; the second one costs a warning."""
    mine, other = tool("look", returns("mine")), tool("look", returns("other"))
    second = Plugin(name="p", tools=[tool("x", returns(""))])
    run = Contributing(
        [Plugin(name="p", tools=[other])],
        calls(tool_use("look")),
        says("done"),
        tools=[mine],
        find=lambda: DiscoveredPlugins((second,), ()),
    )
    run.plugins.load()
    await run.prompt()

    assert run.offered() == [["look"], ["look"]]
    assert "mine" in str(run.model.sent())
    assert run.warnings == [
        "plugin 'p' is left out: the name is taken",
        "plugin 'p': its tool 'look' is left out: there is one of that name",
    ]


def late_plugins(imported: threading.Event) -> DiscoveredPlugins:
    """Find the plugins as soon as they are *imported*."""
    imported.wait(PATIENCE_S)
    return DiscoveredPlugins((Plugin(name="late", prepare=lambda ctx: ctx.add_context("here")),))


async def test_first_model_call_waits_for_the_plugin_import() -> None:
    """Tools added later would change the prefix."""
    imported = threading.Event()
    run = Contributing([], says("done"), find=partial(late_plugins, imported))
    async with run.plugins, asyncio.TaskGroup() as group:
        run.plugins.start(run.agent)
        group.create_task(run.prompt())
        await asyncio.sleep(0)
        assert run.model.requests == []
        imported.set()

    assert (run.contexts(), run.warnings) == ([["here"]], [])


async def test_hanging_plugin_import_delays_a_reply_only_up_to_a_limit() -> None:
    """The request is sent without the plugins, the user gets a notice, and they are added later."""
    imported = threading.Event()
    run = Contributing(
        [], says("one"), says("two"), find=partial(late_plugins, imported), load_limit_s=0.01
    )
    async with run.plugins:
        run.plugins.start(run.agent)
        await run.prompt()
        imported.set()
        assert await run.plugins.wait_loaded(PATIENCE_S)
        await run.prompt()

    assert run.contexts() == [[], []]
    assert run.told() == [[], [f"{CHANGED.format('late')}here"]]
    assert run.warnings == ["plugins are still being imported; this reply is made without them"]


async def test_first_reply_waits_ten_seconds_for_plugins() -> None:
    """Imports from a slow disk take that long; one that hangs must not keep the user waiting."""
    clock, imported = StoppedClock(), threading.Event()
    warnings: list[str] = []

    def find() -> DiscoveredPlugins:
        imported.wait(PATIENCE_S)
        return DiscoveredPlugins()

    plugins = Plugins([], find=find, warn=warnings.append)
    agent, model, _ = scripted_agent(says("one"), options=LoopConfig(prepare=(plugins,)))
    async with plugins:
        plugins.start(agent)
        running = asyncio.ensure_future(agent.prompt("go"))
        await clock.pass_s(0)
        await clock.pass_s(9.5)
        early = [*warnings]
        await clock.pass_s(1.0)
        late = [*warnings]
        imported.set()
        await running

    assert early == []
    assert late == ["plugins are still being imported; this reply is made without them"]
    assert len(model.requests) == 1


async def test_failed_plugin_discovery_is_a_warning() -> None:
    """Damaged metadata of a package must not end the session."""

    def find() -> DiscoveredPlugins:
        raise UnicodeDecodeError("utf-8", b"", 0, 1, "damaged")

    run = Contributing([], says("done"), find=find)
    async with run.plugins:
        run.plugins.start(run.agent)
        await run.prompt()

    [warning] = run.warnings
    assert warning.startswith("no installed plugin is used: UnicodeDecodeError: ")


def test_failed_plugin_discovery_leaves_the_report_usable() -> None:
    """`doctor` loads them without a run."""

    def find() -> DiscoveredPlugins:
        raise OSError("damaged metadata")

    warnings: list[str] = []
    plugins = Plugins([Plugin(name="a")], find=find, warn=warnings.append)
    plugins.load()

    assert plugins.report() == (("a", "on"),)
    assert warnings == ["no installed plugin is used: OSError: damaged metadata"]


async def test_failed_plugin_watch_is_a_warning_and_others_end_with_the_program() -> None:
    """No task is left, and one plugin's bug stops no other plugin."""
    watching, stopped = asyncio.Event(), asyncio.Event()
    warned = asyncio.Event()
    warnings: list[str] = []

    async def fail(agent: Agent) -> None:
        raise ValueError("no bell")

    async def watch(agent: Agent) -> None:
        watching.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    def warn(text: str) -> None:
        warnings.append(text)
        warned.set()

    plugins = Plugins([Plugin(name="a", watch=fail), Plugin(name="b", watch=watch)], warn=warn)
    async with plugins:
        plugins.start(Agent())
        async with asyncio.timeout(PATIENCE_S):
            await watching.wait()
            await warned.wait()
        assert not stopped.is_set()

    assert stopped.is_set()
    assert warnings == ["plugin 'a' stopped watching: ValueError: no bell"]


@each_row("name", ["a", "b"])
async def test_disabled_plugin_is_not_loaded(name: str) -> None:
    """`plugins.disabled` names shipped and installed ones alike."""
    plugins = Plugins(
        [Plugin(name="a")],
        find=lambda: DiscoveredPlugins((Plugin(name="b"),)),
        disabled=[name],
        warn=lambda _text: None,
    )
    plugins.load()

    assert [shown for shown, _ in plugins.report()] == [{"a": "b", "b": "a"}[name]]


SAMPLE = Path(__file__).with_name("sample_plugin")
SECRETS = {"GOOGLE_CLIENT_ID": "me@example.com", "GOOGLE_CLIENT_SECRET": "canary-secret-9"}
BROKEN = "plugin 'broken' of agent-cli-sample 1.2.0 is not used: ModuleNotFoundError: "


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sample package, built and installed as by a user; no index.

    The installed one offers a broken plugin too, which the sample in the documentation must not.
    """
    folder = tmp_path_factory.mktemp("installed")
    source = shutil.copytree(SAMPLE, tmp_path_factory.mktemp("source") / "sample")
    about = source / "pyproject.toml"
    group = '[project.entry-points."agent_cli.plugins"]\n'
    broken = 'broken = "agent_cli_sample.missing:plugin"\n'
    about.write_text(about.read_text().replace(group, group + broken))
    pip = (sys.executable, "-m", "pip", "--isolated", "--quiet", "--disable-pip-version-check")
    options = ("--no-index", "--no-deps", "--no-build-isolation", "--target", str(folder))
    subprocess.run([*pip, "install", *options, str(source)], check=True, timeout=120)
    return folder


@pytest.fixture
def sample(installed: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same, importable here."""
    monkeypatch.syspath_prepend(str(installed))
    return installed


async def test_plugins_and_tools_of_an_installed_package_are_found(
    sample: Path, tmp_path: Path
) -> None:
    """S2-20: a plugin object and a factory of tools, which gets the workspace."""
    (tmp_path / "poem.txt").write_text("a rose is a rose")

    run = Contributing(
        [],
        calls(
            tool_use("word_count", {"path": "poem.txt"}, "t1"),
            tool_use("mail_search", {"query": "roses"}, "t2"),
        ),
        says("done"),
        environment=SECRETS,
        find=lambda: discover(tmp_path),
    )
    async with run.plugins:
        run.plugins.start(run.agent)
        await run.prompt()

    assert run.offered()[0] == ["mail_search", "word_count", CALL_FOUND]
    assert run.contexts()[0] == ["The user's mail can be searched."]
    assert tool_results(run) == ["5 words", "no mail about roses for me@example.com"]
    assert run.plugins.report() == (("mail", "1.2.0"), ("word_count", "1.2.0"))


def test_broken_plugin_package_is_reported_by_name(sample: Path, tmp_path: Path) -> None:
    """It stops neither the start nor the other plugins; the message has a remedy."""
    [problem] = discover(tmp_path).problems

    assert problem.startswith(BROKEN)
    assert problem.endswith("update agent-cli-sample, or add 'broken' to plugins.disabled")


def test_disabled_entry_point_is_not_imported(sample: Path, tmp_path: Path) -> None:
    """A package that hangs at import can be disabled."""
    found = discover(tmp_path, disabled=["broken", "mail"])

    assert ([plugin.name for plugin in found.plugins], found.problems) == (["word_count"], ())


OFFERS = {
    "exits": "raise SystemExit(3)",
    "number": "offered = 7",
    "needs_more": "def offered(workspace, other): ...",
    "mixed": "offered = [1]",
    "agents": "import agent_cli; offered = agent_cli.Plugin(name='p', agents='agents')",
    "tools": "import agent_cli; offered = agent_cli.Plugin(name='p', tools=None)",
    "no_tool": "import agent_cli; offered = agent_cli.Plugin(name='p', tools=[print])",
    "secret": "import agent_cli; offered = agent_cli.Plugin(name='p', secrets='TOKEN')",
}


@pytest.mark.parametrize("name", OFFERS)
@pytest.mark.parametrize("group", ["agent_cli.plugins", "agent_cli.tools"])
def test_invalid_plugin_object_is_reported_as_a_problem(
    name: str, group: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An external module can hold anything under its registered name."""
    module = f"strange_{name}_{group.rpartition('.')[2]}"
    offers = f"odd = {module}:offered"
    install_plugin(tmp_path, module, OFFERS[name], offers=offers, group=group)
    monkeypatch.syspath_prepend(str(tmp_path))

    found = discover(tmp_path)

    assert found.plugins == ()
    [problem] = found.problems
    assert problem.startswith(f"plugin 'odd' of {module} 0.1 is not used: ")


def test_no_plugin_is_found_without_installed_packages(tmp_path: Path) -> None:
    """This program registers no entry points: its own plugins are wired by hand."""
    groups = importlib.metadata.entry_points().groups
    assert {"agent_cli.plugins", "agent_cli.tools"}.isdisjoint(groups)

    assert discover(tmp_path).plugins == ()


def test_the_program_offers_an_installed_plugin_only_with_its_secrets(installed: Path) -> None:
    """S1-27, S1c-10: it needs both of them; a broken plugin costs a warning."""
    path = {"PYTHONPATH": str(installed)}
    with serve_in_thread(reply("one"), reply("two"), reply("three")) as api:
        without = agent_cli("-p", "go", api=api, **path)
        having = agent_cli("-p", "go", api=api, **path, **SECRETS)
        off = agent_cli("-p", "go", "--no-plugins", api=api, **path, **SECRETS)

    bodies = [request.body for request in api.requests]
    names = [[tool["name"] for tool in body["tools"]] for body in bodies]
    assert [("mail_search" in n, "word_count" in n) for n in names] == [
        (False, True),
        (True, True),
        (False, False),
    ]
    described = [str(body["tools"]) for body in bodies]
    agents = ["mail-sorter (Sorts the user's mail.)" in each for each in described]
    assert agents == [False, True, False]
    assert [run.code for run in (without, having, off)] == [0, 0, 0]
    assert without.stderr.count(BROKEN) == having.stderr.count(BROKEN) == 1
    assert off.stderr == ""
    assert SECRETS["GOOGLE_CLIENT_SECRET"] not in str(bodies)


def test_tool_list_at_the_start_includes_plugin_tools(installed: Path) -> None:
    """S1-27: with the secrets set, their tools are in the list shown at the start."""
    with serve_in_thread(reply("one"), reply("two")) as api:
        lists = [
            agent_cli(script="hi\nexit\n", api=api, PYTHONPATH=str(installed), **secrets).stderr
            for secrets in ({}, SECRETS)
        ]

    assert [("word_count" in text, "mail_search" in text) for text in lists] == [
        (True, False),
        (True, True),
    ]


def test_doctor_says_why_a_plugin_is_off(installed: Path) -> None:
    """S1-27, S1c-10: the message names the missing variable."""
    with serve_in_thread(reply("ok")) as api:
        run = agent_cli("doctor", api=api, PYTHONPATH=str(installed), GOOGLE_CLIENT_ID="me")

    lines = [" ".join(line.split()) for line in run.stdout.splitlines()]
    assert "-- plugin mail off: GOOGLE_CLIENT_SECRET not set" in lines
    assert "-- plugin word_count 1.2.0" in lines
    assert any(line.startswith(f"FAIL plugins {BROKEN}") for line in lines)
