"""A program for the front ends to run: the real agent, on a model that obeys the prompt.

The prompts the model gets are appended to `prompts.jsonl`; steps that wait do so for a file the
test creates. `closed` appears when the program ends normally.
"""

import asyncio
import json
import os
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from agent_cli.app import logs
from agent_cli.app.checks import Check, CheckReport
from agent_cli.contracts.agents import AgentInfo, AgentServer, AgentWork
from agent_cli.contracts.cancel import CancelToken
from agent_cli.contracts.dialogs import (
    CallDialogs,
    ModelDialogs,
    RemoteAnswersPort,
    Reread,
    ServerDialogs,
)
from agent_cli.contracts.errors import (
    AgentCliError,
    ModelError,
    SessionError,
    SettingsError,
    ToolError,
    UsageError,
)
from agent_cli.contracts.events import Compacted, Notice, ToolCall
from agent_cli.contracts.file_changes import Difference, PlannedUndo, TakenBack
from agent_cli.contracts.goals import Goal
from agent_cli.contracts.listings import (
    ConfirmSwitch,
    JobInfo,
    OfferedModel,
    SessionInfo,
    SessionMatch,
    SwitchSource,
)
from agent_cli.contracts.messages import ToolResultMessage, UserMessage
from agent_cli.contracts.options import ThinkingLevel
from agent_cli.contracts.permission_modes import Mode
from agent_cli.contracts.permissions import (
    ApprovalFacts,
    CallJudgement,
    ExplainedPart,
    HostContact,
    Rule,
)
from agent_cli.contracts.prompt_commands import PromptCommand, WrittenPrompt
from agent_cli.contracts.provider import (
    BlockEnd,
    Model,
    ModelRequest,
    Reply,
    ReplyEnd,
    ReplyStart,
    Retrying,
    StreamEvent,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    ToolCallStart,
)
from agent_cli.contracts.timeline import Block, Json, Usage, text_block
from agent_cli.contracts.tooling import Approval, Tool, ToolContext
from agent_cli.core.agent import Agent
from agent_cli.core.application import Todo
from agent_cli.core.branching import up_to
from agent_cli.core.conversation import Conversation
from agent_cli.core.loop_config import LoopConfig
from agent_cli.plugins.todo import todo_list
from agent_cli.repl.live import activity
from agent_cli.settings.schema import LoggingSettings, LogSink
from agent_cli.system import launching
from agent_cli.system.launching import Launcher, Watched
from agent_cli.system.redaction import Redactor
from tests.repl.scripted_servers import Servers

RULE = "bash(touch *)"
Stream = AsyncIterator[StreamEvent]


class Permissions:
    """Asks about every command until it is told to remember one."""

    def __init__(self) -> None:
        self.mode: Mode = "ask"
        self.remembered: set[str] = {RULE} if "APPROVED" in os.environ else set()

    def rules(self) -> Sequence[tuple[str, Rule]]:
        return [("deny", Rule("read", ".env", "appsettings.toml:3"))]

    def asked_about(self, call: ToolCall) -> ApprovalFacts:
        return ApprovalFacts(
            (RULE,),
            ("sandbox: bubblewrap",),
            looser_modes=("auto-edit",),
            refusing_modes=("plan",),
        )

    def explain(self, call: ToolCall) -> tuple[ExplainedPart, ...]:
        return (ExplainedPart(str(call.input), "does it", 0),) if call.name == "bash" else ()

    async def recall(self, call: ToolCall, tools: Iterable[Tool]) -> None:
        """Every call was asked about in this session."""

    def remember(self, call: ToolCall) -> None:
        self.remembered.add(RULE)

    project_file = Path("permissions.toml")

    def remember_for_project(self, call: ToolCall) -> None:
        self.project_file.write_text(RULE)
        self.remember(call)

    def is_remembered(self, call: ToolCall) -> bool:
        return RULE in self.remembered


def kept(id: str, title: str, *, waiting: bool = False) -> SessionInfo:
    """Return a session for the list."""
    now_ms = time.time_ns() // 1_000_000
    return SessionInfo(id, Path(id), now_ms, title, prompts=1, waiting=waiting)


class Styles:
    """Two of them."""

    current = "default"

    def names(self) -> Mapping[str, str]:
        return {"default": "as usual", "Terse": "few words"}

    def use(self, name: str) -> None:
        if name not in self.names():
            raise UsageError(f"there is no output style {name}")
        self.current = name


class Sessions:
    """Three sessions in memory; the last one waits for a decision."""

    def __init__(self, agent: Agent) -> None:
        self.id: str | None = "s-1"
        self.path = None
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
            call: Block = {
                "type": "tool_use",
                "id": "c",
                "name": "bash",
                "input": {"command": "touch m"},
            }
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


class FileChanges:
    """Three changed files, which can be undone once; nothing of it is on the disk."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._found = [
            Difference(Path.cwd() / "a.txt", "changed", CHANGED, 1, 1),
            Difference(
                Path.cwd() / "src/new.txt", "new", CHANGED, 1, 1, "changed by somebody else too"
            ),
            Difference(Path("/elsewhere/b.png"), "deleted", "", 0, 0, "binary"),
        ]

    def begin_own(self, command: str) -> Watched | None:
        return None

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

    def is_by_hooks(self, run_id: str) -> bool:
        return False

    def differences(self, *, last_run: bool = False) -> Sequence[Difference]:
        return self._found[:1] if last_run else self._found

    def worktrees(self) -> Sequence[Path]:
        return [Path("/trees/agent-1")] if "TREES" in os.environ else []

    def commands(self, *, last_run: bool = False) -> Sequence[str]:
        return ["npm install"] if last_run else []


class Directories:
    """Adds existing directories."""

    def add(self, path: str) -> Path:
        if not Path(path).is_dir():
            raise UsageError(f"{path} is not a directory")
        return Path(path).resolve()


class Jobs:
    """A running server, and a finished build of another conversation."""

    def __init__(self) -> None:
        self._jobs = {
            1: JobInfo(1, "npm run \x1b[31mdev", "running for 12 s", True, Path("/logs/001.log")),
            2: JobInfo(2, "make", "exit 2 after 3 s", False, Path("/logs/002.log"), is_own=False),
        }
        self.on_change: Callable[[], object] = lambda: None

    can_move = False

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
        raise UsageError(
            "no command of the model runs, and one behind ! cannot go on in the background"
        )


class Agents:
    """One running agent, and one that has ended."""

    def __init__(self) -> None:
        self._agents = {
            1: AgentInfo(
                1,
                "agent explore (find \x1b[31mit)",
                "read a.py · 9 s",
                True,
                root_call_id="c",
            ),
            2: AgentInfo(2, "agent plan (plan it)", "ended after 3 s", False),
        }

    is_any_working = False
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


class Goals:
    """No goal."""

    progress = None

    def begin(self, goal: Goal) -> str:
        raise AssertionError(goal)

    def drop(self) -> None:
        pass


class Application:
    """The result of the composition root, as far as the front ends use it."""

    async def receipts(self) -> Sequence[dict[str, Json]]:
        return ()

    def leave(self) -> None:
        pass

    session_id = "s-1"
    held_microdollars = 0
    undecided_files: Sequence[Path] = ()
    refused_commands: Sequence[str] = ()
    refused_hosts: Sequence[str] = ()
    contacts: Sequence[HostContact] = ()
    judged: Sequence[CallJudgement] = ()
    models: Mapping[str, str] = {"normal": "model-1", "high": "model-2"}
    prompts: Sequence[PromptCommand] = (
        Prompt("review"),
        Prompt("review", help="another one of that name"),
        Prompt("help", help="not the built-in one"),
        Prompt("team:broken", problem="team/broken.md is empty"),
    )

    def __init__(self) -> None:
        self.permissions = Permissions()
        self.tools: Sequence[Tool] = (bash_tool(self.permissions), note_tool())
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
        self.status_command = None
        self.remote_answers: RemoteAnswersPort | None = None
        self.output_styles = Styles()
        self.jobs = Jobs()
        self.agents = Agents()
        self.goals = Goals()
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
        del source, confirm
        self.agent.set_model(self.find_model(name))

    reread: Reread | None = None

    def price_of_model(self, name: str) -> Reread | None:
        return self.reread if name in self.models else None

    def price_of_effort(self, level: ThinkingLevel | None) -> Reread | None:
        return self.reread if level else None

    def find_model(self, name: str) -> Model:
        if name not in self.models:
            raise UsageError(f"there is no model {name}; there are: {', '.join(self.models)}")
        return Model(self.models[name])

    def todos(self) -> Sequence[Todo]:
        return todo_list(self.agent.conversation)

    @property
    def hooks(self) -> "Application":
        return self

    status = ""
    ignored = ""

    def report(self) -> Sequence[str]:
        return ("PreToolUse Bash: guard.py (guard, settings.json)",)

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

    directories = Directories()

    attaches_names = True
    takes_documents = True

    def why_outside(self, path: Path) -> str:
        return ""

    def why_kept_back(self, path: Path) -> str:
        return "it may hold secrets" if path.name == ".env" else ""

    def note_attached(self, path: Path, content: bytes) -> None:
        pass

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


def bash_tool(permissions: Permissions) -> Tool:
    async def execute(_id: str, given: dict[str, str], _c: CancelToken, _u: ToolContext) -> str:
        process = await asyncio.create_subprocess_shell(given["command"])
        return f"exit code {await process.wait()}"

    return Tool(
        name="bash",
        label="Run",
        description="Run a command",
        parameters={"type": "object", "required": ["command"]},
        execute=execute,
        require_approval=lambda _given: Approval(
            not permissions.remembered, "commands can change anything"
        ),
        summary=lambda given: str(given["command"]),
    )


def note_tool() -> Tool:
    async def execute(_id: str, given: dict[str, str], _c: CancelToken, _u: ToolContext) -> str:
        if given["text"] == "bad":
            raise ToolError("the note is bad")
        return "noted"

    return Tool(
        name="note",
        label="Note",
        description="Write something down.\nIn full.",
        parameters={"type": "object", "required": ["text"]},
        execute=execute,
        summary=lambda given: str(given["text"]),
    )


def answer(request: ModelRequest) -> Stream:
    """Obey the last prompt; after tools, repeat their results."""
    prompt = next(m for m in reversed(request.messages) if isinstance(m, UserMessage)).text
    word, _, rest = prompt.partition(" ")
    last = request.messages[-1]
    if isinstance(last, ToolResultMessage) and word != "loop":
        return text(f"The tool said: {last.text}")
    with Path("prompts.jsonl").open("a") as prompts:
        prompts.write(json.dumps(prompt) + "\n")
    if word in REPLIES:
        return REPLIES[word](rest)
    model = request.model.id if request.model else "nobody"
    return text(f"You said {prompt!r} to {model}.")


async def text(whole: str) -> Stream:
    yield ReplyStart()
    for start in range(0, len(whole), 3):
        yield TextDelta(0, whole[start : start + 3])
    async for event in end(whole):
        yield event


async def end(whole: str) -> Stream:
    block = text_block(whole)
    yield BlockEnd(0, block)
    usage = Usage(10, 2, cost_microdollars=50)
    yield ReplyEnd(Reply("m", "model-1", (block,), "end_turn", usage))


async def bash(commands: str) -> Stream:
    async for event in calls("bash", [{"command": each} for each in commands.split(" ;; ")]):
        yield event


async def notes(texts: str) -> Stream:
    said = text_block("I take notes.")
    yield ReplyStart()
    yield TextDelta(0, "I take notes.")
    yield BlockEnd(0, said)
    async for event in calls("note", [{"text": part} for part in texts.split(" && ")], said):
        yield event


async def calls(name: str, inputs: Sequence[dict[str, str]], *before: Block) -> Stream:
    if not before:
        yield ReplyStart()
    blocks = list(before)
    for index, given in enumerate(inputs, start=len(before)):
        call_id = f"call-{time.monotonic_ns()}-{index}"
        yield ToolCallStart(index, call_id, name)
        blocks.append({"type": "tool_use", "id": call_id, "name": name, "input": {**given}})
        yield BlockEnd(index, blocks[-1])
    yield ReplyEnd(Reply("m", "model-1", tuple(blocks), "tool_use"))


async def gated(count: str) -> Stream:
    yield ReplyStart()
    pieces = [f"piece {k}\n" for k in range(int(count))]
    for k, piece in enumerate(pieces):
        yield TextDelta(0, piece)
        await asyncio.to_thread(wait_for, f"gate-{k}")
    async for event in end("".join(pieces)):
        yield event


async def document(name: str) -> Stream:
    """Send a file in deltas of 20 characters, and wait at each line "gate"."""
    yield ReplyStart()
    text = await asyncio.to_thread(Path(name).read_text)
    first, rest = text.split("gate\n")
    for part in (first, rest):
        for at in range(0, len(part), 20):
            yield TextDelta(0, part[at : at + 20])
            await asyncio.sleep(0)
        if part is first:
            await asyncio.to_thread(wait_for, "gate-0")
    async for event in end(first + rest):
        yield event


async def flood(seconds: str) -> Stream:
    """Send 2,000 deltas of 20 characters a second."""
    yield ReplyStart()
    begun_s, sent = time.monotonic(), 0
    pieces: list[str] = []
    while (passed_s := time.monotonic() - begun_s) < float(seconds):
        for number in range(sent, int(passed_s * 2_000)):
            pieces.append(
                f"- word {number:>5} *it*\n" if number % 3 else f"plain text {number:>6}.. "
            )
            yield TextDelta(0, pieces[-1])
        sent = len(pieces)
        await asyncio.sleep(0.002)
    async for event in end("".join(pieces)):
        yield event


async def phases(command: str) -> Stream:
    """Wait in each phase of a reply until a file releases it; then call bash."""
    await asyncio.to_thread(wait_for, "waited")
    yield ReplyStart()
    yield ThinkingDelta(0, "why")
    await asyncio.to_thread(wait_for, "thought")
    yield TextDelta(1, "Let me")
    await asyncio.to_thread(wait_for, "written")
    yield Retrying(1, 5, 9.0, "API overloaded (529)", restarted=True)
    await asyncio.to_thread(wait_for, "retried")
    yield ReplyStart()
    yield ToolCallStart(0, "call-phases", "bash")
    yield ToolCallDelta(0, '{"command": ')
    await asyncio.to_thread(wait_for, "called")
    use: Block = {
        "type": "tool_use",
        "id": "call-phases",
        "name": "bash",
        "input": {"command": command},
    }
    yield BlockEnd(0, use)
    yield ReplyEnd(Reply("m", "model-1", (use,), "tool_use"))


async def warns(what: str) -> Stream:
    """Write to stderr from a thread, as a log sink may, during a model call."""
    yield ReplyStart()
    await asyncio.to_thread(sys.stderr.write, f"warning: {what}\n")
    await asyncio.to_thread(wait_for, "warned")
    async for event in text("Warned."):
        yield event


async def forever(_rest: str) -> Stream:
    yield ReplyStart()
    yield TextDelta(0, "working on it")
    await asyncio.Event().wait()


async def fail(_rest: str) -> Stream:
    yield ReplyStart()
    raise ModelError("the API is overloaded", request_id="req_1")


async def boom(_rest: str) -> Stream:
    yield ReplyStart()
    raise RuntimeError("a bug")


async def retry(_rest: str) -> Stream:
    yield ReplyStart()
    yield TextDelta(0, "half an ans")
    yield Retrying(1, 5, 10.0, "the connection broke", restarted=True)
    async for event in text("The whole answer."):
        yield event


async def think(_rest: str) -> Stream:
    yield ReplyStart()
    yield ThinkingDelta(0, "a private thought")
    yield TextDelta(0, "The answer.")
    async for event in end("The answer."):
        yield event


async def hostile(_rest: str) -> Stream:
    async for event in text("a\x1b]52;c;cm0=\x07b\x1b[2Jc\u202ed"):
        yield event


async def refuse(_rest: str) -> Stream:
    yield ReplyStart()
    yield ReplyEnd(Reply("m", "model-1", (), "refusal"))


REPLIES: dict[str, Callable[[str], Stream]] = {
    "bash": bash,
    "loop": lambda command: calls("note", [{"text": command}]),
    "notes": notes,
    "gated": gated,
    "flood": flood,
    "document": document,
    "forever": forever,
    "phases": phases,
    "warns": warns,
    "fail": fail,
    "boom": boom,
    "retry": retry,
    "think": think,
    "hostile": hostile,
    "refuse": refuse,
}


def wait_for(name: str) -> None:
    """Block until the test creates a file called *name*."""
    while not Path(name).exists() and not Path("closed").exists():
        time.sleep(0.005)


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
