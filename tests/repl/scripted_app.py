"""A program for the front ends to run: the real agent, on the model of scripted_model.py.

Only what tests look at is here: the ports give the rest. `closed` appears when the program ends
normally.
"""

import asyncio
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from agent_cli.app import logs
from agent_cli.app.checks import Check, CheckReport
from agent_cli.contracts.agents import AgentInfo, AgentServer, AgentWork
from agent_cli.contracts.dialogs import CallDialogs, ModelDialogs, ServerDialogs
from agent_cli.contracts.errors import AgentCliError, SessionError, SettingsError, UsageError
from agent_cli.contracts.events import Compacted, Notice, ToolCall
from agent_cli.contracts.file_changes import Difference, PlannedUndo, TakenBack
from agent_cli.contracts.listings import (
    ConfirmSwitch,
    JobInfo,
    OfferedModel,
    SessionInfo,
    SessionMatch,
    SwitchSource,
)
from agent_cli.contracts.messages import UserMessage
from agent_cli.contracts.permission_modes import Mode
from agent_cli.contracts.permissions import ApprovalFacts, ExplainedPart, PermissionsPort, Rule
from agent_cli.contracts.prompt_commands import PromptCommand, WrittenPrompt
from agent_cli.contracts.provider import Model, Reply
from agent_cli.contracts.timeline import text_block
from agent_cli.contracts.tooling import Tool
from agent_cli.core.agent import Agent
from agent_cli.core.application import Todo
from agent_cli.core.branching import up_to
from agent_cli.core.conversation import Conversation
from agent_cli.core.loop_config import LoopConfig
from agent_cli.headless.ports import Application as HeadlessApplication
from agent_cli.plugins.todo import todo_list
from agent_cli.repl import ports
from agent_cli.repl.live import activity
from agent_cli.settings.schema import LoggingSettings, LogSink
from agent_cli.system import launching
from agent_cli.system.launching import Launcher
from agent_cli.system.redaction import Redactor
from tests.fakes import tool_use
from tests.repl.scripted_model import answer, bash_tool, note_tool, wait_for
from tests.repl.scripted_servers import Servers
from tests.stand_ins import StandIn

RULE = "bash(touch *)"


class Permissions(StandIn, port=PermissionsPort):
    """Asks about every command until it is told to remember one."""

    def __init__(self) -> None:
        self.mode: Mode = "ask"
        self.remembered: set[str] = {RULE} if "APPROVED" in os.environ else set()

    def asks(self) -> bool:
        return not self.remembered

    def rules(self) -> Sequence[tuple[str, Rule]]:
        return [("deny", Rule("read", ".env", "appsettings.toml:3"))]

    def asked_about(self, call: ToolCall) -> ApprovalFacts:
        facts = ApprovalFacts((RULE,), ("sandbox: bubblewrap",))
        return replace(facts, looser_modes=("auto-edit",), refusing_modes=("plan",))

    def explain(self, call: ToolCall) -> tuple[ExplainedPart, ...]:
        return (ExplainedPart(str(call.input), "does it", 0),) if call.name == "bash" else ()

    def remember(self, call: ToolCall) -> None:
        self.remembered.add(RULE)

    project_file = Path("permissions.toml")

    def remember_for_project(self, call: ToolCall) -> None:
        self.project_file.write_text(RULE)
        self.remember(call)

    def allow_rule(self, written: str, tools: Iterable[str]) -> Rule:
        self.remembered.add(written)
        return Rule("bash", written)

    def rules_named(self, written: str) -> Sequence[tuple[str, Rule]]:
        raise NotImplementedError

    def remove_rule(self, rule: Rule) -> str:
        raise NotImplementedError

    def is_remembered(self, call: ToolCall) -> bool:
        return RULE in self.remembered


def kept(id: str, title: str, *, waiting: bool = False) -> SessionInfo:
    """Return a session for the list."""
    now_ms = time.time_ns() // 1_000_000
    return SessionInfo(id, Path(id), now_ms, title, prompts=1, waiting=waiting)


class Styles(StandIn, port=ports.OutputStylesPort):
    """Two of them."""

    current = "default"

    def names(self) -> Mapping[str, str]:
        return {"default": "as usual", "Terse": "few words"}

    def use(self, name: str) -> None:
        if name not in self.names():
            raise UsageError(f"there is no output style {name}")
        self.current = name


class Sessions(StandIn, port=ports.SessionsPort):
    """Three sessions in memory; the last one waits for a decision."""

    def __init__(self, agent: Agent) -> None:
        self.id: str | None = "s-1"
        self.workspace = "/here"
        self.is_behind = False
        self.name = ""
        self._agent = agent

    def agents(self) -> Sequence[SessionInfo]:
        return ()

    def list(self) -> Sequence[SessionInfo]:
        return [kept("s-1", "this"), kept("aa1", "An old one"), kept("bb2", "Touch", waiting=True)]

    def search(self, words: Sequence[str]) -> Sequence[SessionMatch]:
        return [SessionMatch(each, "e-1", "you", each.title, 1) for each in self.list()[1:]]

    async def resume(self, id: str) -> None:
        self.go_on_with(id)

    def go_on_with(self, id: str) -> None:
        found = [kept for kept in self.list() if kept.id.startswith(id)]
        if not found:
            raise SessionError(f"there is no session {id}")
        conversation = Conversation(id=found[0].id)
        conversation.begin(UserMessage.of(found[0].title))
        if found[0].waiting:
            call = tool_use("bash", {"command": "touch m"}, "c")
            conversation.add_reply(Reply("m", "model-1", (call,), "tool_use"))
            conversation.pause({"c": "commands can change anything"})
        else:
            answer = text_block("An **old** answer.")
            conversation.add_reply(Reply("m", "model-1", (answer,), "end_turn"))
            conversation.complete()
        self._agent.adopt(conversation)
        self.id = found[0].id

    async def fork(self, at: str | None = None) -> None:
        if at:
            prompts = up_to(self._agent.conversation.prompts, at, session=self.id or "")
            self._agent.adopt(Conversation(prompts))
        self.id = "s-2"

    def rewind(self, prompt_id: str) -> None:
        prompts = self._agent.conversation.prompts
        at = [prompt.id for prompt in prompts].index(prompt_id)
        self._agent.adopt(Conversation(prompts[:at]))

    def rename(self, name: str) -> None:
        self.name = name

    async def export(self, to: str, name: str = "") -> Path:
        path = Path(name or f"{self.id}.{to}")
        path.write_text("exported")
        return path


@dataclass(frozen=True, slots=True)
class Prompt:
    """A command that shows its name and argument; "on MODEL" at its end names a model."""

    name: str
    problem: str = ""
    help: str = "say it"
    argument: str = ""
    source: str = "yours"

    async def prompt(self, argument: str) -> WrittenPrompt:
        return WrittenPrompt(f"{self.name} {argument}", argument.partition(" on ")[2])


CHANGED = "@@ -1,1 +1,1 @@\n-one\n+two"
SHARED = "changed by somebody else too"


class FileChanges(StandIn, port=ports.FileChanges):
    """Three changed files, which can be undone once; nothing of it is on the disk."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._found = [
            Difference(Path.cwd() / "a.txt", "changed", CHANGED, 1, 1),
            Difference(Path.cwd() / "src/new.txt", "new", CHANGED, 1, 1, SHARED),
            Difference(Path("/elsewhere/b.png"), "deleted", "", 0, 0, "binary"),
        ]

    def planned_undo(self, *, but_own: bool = False) -> PlannedUndo:
        if not self._found:
            raise AgentCliError("nothing to undo")
        return PlannedUndo(["npm install"], 2, 2, 3_204_000)

    def take_back(self, *, but_own: bool = False, in_part: bool = False) -> TakenBack:
        if not self._found:
            raise AgentCliError("nothing to undo")
        self._found = []
        prompts = self._agent.conversation.prompts
        restored, deleted = [Path.cwd() / "a.txt"], [Path.cwd() / "src/new.txt"]
        commands = ["npm install", "make", "make test", "rm b"]
        return TakenBack(prompts[-1].id if prompts else "", restored, deleted, commands)

    def changed_runs(self) -> Sequence[str]:
        prompts = self._agent.conversation.prompts
        return [prompts[-1].id] if self._found and prompts and "FILES" in os.environ else []

    def differences(self, *, last_run: bool = False) -> Sequence[Difference]:
        return self._found[:1] if last_run else self._found

    def worktrees(self) -> Sequence[Path]:
        return [Path("/trees/agent-1")] if "TREES" in os.environ else []

    def commands(self, *, last_run: bool = False) -> Sequence[str]:
        return ["npm install"] if last_run else []


class Directories(StandIn, port=ports.DirectoriesPort):
    """Adds existing directories."""

    def add(self, path: str) -> Path:
        if not Path(path).is_dir():
            raise UsageError(f"{path} is not a directory")
        return Path(path).resolve()


class Jobs(StandIn, port=ports.JobsPort):
    """A running server, and a finished build of another conversation."""

    def __init__(self) -> None:
        self._jobs = {
            1: JobInfo(1, "npm run \x1b[31mdev", "running for 12 s", True, Path("/logs/001.log")),
            2: JobInfo(2, "make", "exit 2 after 3 s", False, Path("/logs/002.log"), is_own=False),
        }
        self.on_change: Callable[[], object] = lambda: None

    def all(self) -> Sequence[JobInfo]:
        return list(self._jobs.values())

    def find(self, id: int) -> JobInfo:
        if id not in self._jobs:
            raise UsageError(f"there is no job {id}; /jobs lists them")
        return self._jobs[id]

    def tail(self, id: int, bytes_max: int) -> str:
        assert bytes_max
        return "".join(f"line {number} of {id}\x1b[2J\n" for number in range(1, 31))

    async def stop(self, id: int) -> JobInfo:
        job = replace(self.find(id), state="stopped by you after 13 s", is_running=False)
        self._jobs[id] = job
        return job

    def move_to_background(self) -> None:
        why = "no command of the model runs, and one behind ! cannot go on in the background"
        raise UsageError(why)


class Agents(StandIn, port=ports.AgentsPort):
    """One running agent, and one that has ended."""

    def __init__(self) -> None:
        title = "agent explore (find \x1b[31mit)"
        self._agents = {
            1: AgentInfo(1, title, "read a.py · 9 s", True, root_call_id="c"),
            2: AgentInfo(2, "agent plan (plan it)", "ended after 3 s", False),
        }

    listed_servers: Sequence[AgentServer] = ()

    def servers(self) -> Sequence[AgentServer]:
        return self.listed_servers

    def all(self) -> Sequence[AgentInfo]:
        return list(self._agents.values())

    def work(self, number: int) -> AgentWork:
        return AgentWork(self._named(number), "find it")

    def stop(self, number: int) -> AgentInfo:
        return self._named(number)

    def _named(self, number: int) -> AgentInfo:
        if number not in self._agents:
            raise UsageError(f"there is no agent {number}; /agents lists them")
        return self._agents[number]


class Hooks(StandIn, port=ports.HooksPort):
    """One hook."""

    def report(self) -> Sequence[str]:
        return ("PreToolUse Bash: guard.py (guard, settings.json)",)


class Ports(ports.Application, HeadlessApplication, Protocol):
    """The ports of all front ends that run it."""


class Application(StandIn, port=Ports):
    """The result of the composition root, as far as the front ends use it."""

    session_id = "s-1"
    directories = Directories()
    hooks = Hooks()
    attaches_names = True
    takes_documents = True
    ignored = ""
    models: Mapping[str, str] = {"normal": "model-1", "high": "model-2"}
    prompts: Sequence[PromptCommand] = (
        Prompt("review"),
        Prompt("review", help="another one of that name"),
        Prompt("help", help="not the built-in one"),
        Prompt("team:broken", problem="team/broken.md is empty"),
    )

    def __init__(self) -> None:
        self.permissions = Permissions()
        self.tools: Sequence[Tool] = (bash_tool(self.permissions.asks), note_tool())
        self.workspace = Path.cwd()
        self.agent = Agent(
            LoopConfig(
                model=Model("model-1"),
                tools=self.tools,
                stream_fn=answer,
                max_rounds=int(os.environ.get("MAX_ROUNDS", "100")),
                approval="batch",
            )
        )
        self.sessions = Sessions(self.agent)
        self.file_changes = FileChanges(self.agent)
        self.servers = Servers()
        self.output_styles = Styles()
        self.jobs = Jobs()
        self.agents = Agents()
        self.launcher = Launcher()
        if "WAITING" in os.environ:
            self.sessions.go_on_with("bb2")

    def prompt_commands(self) -> Sequence[PromptCommand]:
        return self.prompts

    async def written_out(self, prompt: str) -> tuple[str, Model | None]:
        return prompt, None

    async def switch_model(
        self, name: str, *, source: SwitchSource, confirm: ConfirmSwitch
    ) -> None:
        self.agent.set_model(self.find_model(name))

    def find_model(self, name: str) -> Model:
        if name not in self.models:
            raise UsageError(f"there is no model {name}; there are: {', '.join(self.models)}")
        return Model(self.models[name])

    def todos(self) -> Sequence[Todo]:
        return todo_list(self.agent.conversation)

    def overview(self) -> Sequence[str]:
        return ("tools: bash, note", "MCP servers: docs", "logs: agent.log")

    def answer(
        self, servers: ServerDialogs, model: ModelDialogs, calls: CallDialogs | None = None
    ) -> None:
        self.dialogs, self.model_dialogs = servers, model

    async def examine(self) -> CheckReport:
        return CheckReport([Check("key", True, "found")])

    def badges(self) -> Sequence[str]:
        return ("ask", "MCP 1/1")

    async def compact(self, focus: str) -> None:
        if focus == "forever":
            Path("compacting").touch()
            await asyncio.Event().wait()
        self.agent.conversation.publish(Compacted(4, 9_000, 1_000))

    async def ask_aside(self, question: str) -> str:
        if question == "forever":
            await asyncio.Event().wait()
        return f"You asked: *{question}*"

    def uncompact(self) -> None:
        if not self.agent.conversation.uncompact():
            raise AgentCliError("nothing is left out")

    def why_kept_back(self, path: Path) -> str:
        return "it may hold secrets" if path.name == ".env" else ""

    async def offered_models(self) -> Sequence[OfferedModel]:
        return [OfferedModel("model-3", "Model 3", "deprecated", "2027-01-31")]

    def context_tokens(self) -> int:
        return sum(self.context_parts().values())

    def context_parts(self) -> Mapping[str, int]:
        return {"system prompt": 1_000, "tools": 2_000, "messages": 5_000, "tool results": 0}

    def cache_lines(self) -> Sequence[str]:
        return ["nothing was sent yet"]

    def context_notes(self) -> Sequence[str]:
        return ["1 text pinned: /pin lists them"]

    def clear(self) -> None:
        self.agent.reset()

    async def __aenter__(self) -> "Application":
        if "AWAIT_ENTERED" in os.environ:
            Path("entering").touch()
            await asyncio.Event().wait()
        self._serving = asyncio.create_task(self._connect())
        return self

    async def __aexit__(self, *_failure: object) -> None:
        self._serving.cancel()
        self.launcher.close()
        if "SLOW_CLOSING" in os.environ:
            Path("closing").touch()
            await asyncio.to_thread(wait_for, "may-close")
        Path("closed").touch()

    async def _connect(self) -> None:
        await asyncio.to_thread(wait_for, "server-failed")
        if Path("server-failed").exists():
            self.agent.conversation.publish(Notice("warning", "MCP server docs: it is down"))


def build() -> Application:
    """Keep tracebacks where the program keeps them, off the terminal; then build or fail."""
    logs.configure(LoggingSettings(sinks=(LogSink("file", path="agent.log"),)), Redactor())
    if "AWAIT_BUILT" in os.environ:
        wait_for("built")
    if "LONG_S" in os.environ:
        activity.LONG_S = float(os.environ["LONG_S"])  # type: ignore[misc]  # nobody waits ten seconds
    if "HANG_UP_GRACE_S" in os.environ:
        launching.HANG_UP_GRACE_S = float(os.environ["HANG_UP_GRACE_S"])
    if "SETTINGS_ERROR" in os.environ:
        raise SettingsError("appsettings.toml: model is not set")
    return Application()
