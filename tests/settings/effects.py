"""The effect of each setting in the running program: the rows of test_effects.py.

A row sets one key through the user's file, runs the program on a scripted server and observes one
value. That value must be `expected`, and different without the setting (or with `other` in its
place): a setting that nothing reads fails its row.
"""

import asyncio
import json
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from agent_cli.app.app import App
from agent_cli.app.arguments import parse_arguments
from agent_cli.app.startup import start
from agent_cli.cli.dispatch import COMMANDS
from agent_cli.contracts.tooling import ToolContext
from agent_cli.core.projection import WORDS_TEXT
from agent_cli.repl import repl
from agent_cli.repl.repl import ReplOptions
from agent_cli.system import paths
from tests.e2e.program import (
    AGENT_CLI,
    Finished,
    agent_cli,
    asks_for_summary,
    environment,
    results_in,
    said_by_user,
    text_of,
)
from tests.fakes import does, tool
from tests.mcp_client.conftest import RAW_SERVER
from tests.messages_api import Answer, Gate, error, reply, serve_in_thread, thinking, tool_use
from tests.messages_api.script import Payload
from tests.repl.terminal import Terminal
from tests.telemetry.receiver import Receiver, receiving

OK = reply("ok")
YOLO = ("--permission-mode", "yolo")
# The end-to-end tests' helpers shorten the waits by variables, which would override a file.
FILE_ONLY: dict[str, Any] = {  # Any: mypy would take them for every parameter
    "AGENT_CLI_RETRY__BASE_S": None,
    "AGENT_CLI_RETRY__OTHER_BASE_S": None,
}
WAITS = "retry.base_s = 0.01\nretry.other_base_s = 0.001\n"
BUSY = error(529, "overloaded_error", "busy")
LIMITED = error(429, "rate_limit_error", "slow")
LONG = "word " * 1_200
COLLECTED = {"http://localhost:4318/v1/traces", "http://localhost:4318/v1/metrics"}
READ_JOB = tool_use("job_output", {"id": 1, "wait": 3})


Outcome: TypeAlias = tuple[Finished, Sequence[Payload]]


@dataclass(frozen=True, slots=True)
class Row:
    """One key: its setting, the observation made, and the expected value.

    Attributes:
        other: The text in the file for the comparison; "" is the default.
        base: The text in the file in both cases.
    """

    key: str
    line: str
    see: Callable[[], object]
    expected: object
    other: str = ""
    base: str = ""


def printed(
    *script: Answer, arguments: Sequence[str] = YOLO, prompt: str = "go", stdin: str = ""
) -> Outcome:
    """Run `-p` on *script*; return its outcome and the bodies of its requests.

    A run that finds the same files as an earlier one is that run: rows share those without their
    setting. Rows that look at what a run leaves behind need `ran`.
    """
    return _seen(script, ("-p", prompt, *arguments), stdin=stdin)


def ran(*script: Answer) -> Outcome:
    """Run `-p` on *script*, and return the same."""
    return _run(script, ("-p", "go", *YOLO))


def talked(*script: Answer, lines: str, arguments: Sequence[str] = YOLO) -> Outcome:
    """Run the REPL on pipes with *lines*, once for the same files; return the same."""
    return _seen(script, arguments, lines=lines)


_outcomes: dict[tuple[object, ...], Outcome] = {}


def _seen(
    script: Sequence[Answer], arguments: Sequence[str], *, stdin: str = "", lines: str = ""
) -> Outcome:
    files = frozenset(
        (path.relative_to(folder), path.read_bytes())
        for folder in (Path.home(), Path.cwd())
        for path in folder.rglob("*")
        if path.is_file()
    )
    key = (files, repr(script), *arguments, stdin, lines)
    if key not in _outcomes:
        _outcomes[key] = _run(script, arguments, stdin=stdin, lines=lines)
    return _outcomes[key]


def _run(
    script: Sequence[Answer], arguments: Sequence[str], *, stdin: str = "", lines: str = ""
) -> Outcome:
    with serve_in_thread(*script, *[OK] * 8) as api:
        run = agent_cli(*arguments, api=api, stdin=stdin, script=lines, **FILE_ONLY)
    return run, [request.body for request in api.requests]


def address_on_bedrock() -> object:
    """Return the request that reaches Anthropic's API or Bedrock, both of them available."""
    with serve_in_thread(OK, OK) as api:
        agent_cli(
            *("-p", "go"),
            api=api,
            ANTHROPIC_BEDROCK_MANTLE_BASE_URL=f"{api.base_url}/anthropic",
            AWS_BEARER_TOKEN_BEDROCK="k",
            AWS_REGION="eu-west-3",
        )
    return api.requests[0].path


@contextmanager
def in_terminal(*script: Answer) -> Generator[Terminal]:
    """Run the REPL in a terminal, at its first prompt."""
    with (
        serve_in_thread(*script, *[OK] * 8) as api,
        Terminal(AGENT_CLI, *YOLO, **environment(api, {})) as terminal,
    ):
        terminal.until("you>")
        yield terminal


def body(field: str) -> Callable[[], object]:
    """Return a field of the request."""
    return lambda: printed()[1][0].get(field)


def bash(command: str) -> Payload:
    return tool_use("bash", {"command": command})


def result(*calls: Payload, arguments: Sequence[str] = YOLO) -> Callable[[], Payload]:
    """Return the first call's result, as the model reads it."""
    return lambda: results_in(printed(reply(*calls), arguments=arguments)[1][1])[0]


def collected() -> Receiver:
    """Run with a telemetry receiver in place of the configured one."""
    with receiving() as receiver, serve_in_thread(OK) as api:
        proxy = {"HTTP_PROXY": receiver.url, "NO_PROXY": "127.0.0.1"}
        waits = {"AGENT_CLI_TELEMETRY__FLUSH_TIMEOUT_S": "60"}
        agent_cli("-p", "canary", *YOLO, api=api, **proxy, **waits)
    return receiver


def telemetry_paths() -> set[str]:
    """Return where spans and metrics are sent."""
    return {*collected().paths}


def telemetry_says_prompt() -> bool:
    return any(b"canary" in body for body in collected().bodies)


def misses_style() -> bool:
    """Return whether a missing style is reported."""
    return "no output style rude" in printed()[0].stderr


def hook_of_claude() -> bool:
    """Return whether a hook in Claude Code's settings file runs."""
    hook = {"hooks": [{"type": "command", "command": "touch started"}]}
    file = Path.home() / ".claude" / "settings.json"
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps({"hooks": {"SessionStart": [hook]}}))
    started = Path("started")
    started.unlink(missing_ok=True)
    ran()
    return started.exists()


def denied_by_claude() -> bool:
    """Return whether a rule in Claude Code's settings file denies a call."""
    file = Path.home() / ".claude" / "settings.json"
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps({"permissions": {"deny": ["Bash(echo:*)"]}}))
    _, bodies = printed(reply(tool_use("bash", {"command": "echo hi"})), OK, arguments=YOLO)
    return "denies this call" in str(bodies[-1])


def exit_code(*script: Answer, arguments: Sequence[str] = ()) -> Callable[[], int]:
    return lambda: printed(*script, arguments=arguments)[0].code


def cost_usd() -> object:
    """Return the cost of a reply to nine tokens."""
    script = reply("ok", usage={"input_tokens": 9, "output_tokens": 1})
    run, _ = printed(script, arguments=("--output-format", "json"))
    return run.result["cost_usd"]


def attached_name() -> bool:
    """Return whether a name in a prompt attaches its file."""
    Path("named.txt").write_text("the content of the file")
    _, bodies = printed(OK, prompt="see @named.txt")
    return "the content of the file" in str(bodies[0])


def events(*script: Answer, names: Sequence[str]) -> list[str]:
    """Return the events of a run that are among *names*, in order."""
    run, _ = printed(*script, arguments=("--output-format", "stream-json"))
    return [line["type"] for line in run.lines if line["type"] in names]


def tool_order() -> list[str]:
    """Return whether two calls run concurrently."""
    both = reply(tool_use("glob", {"pattern": "*"}), tool_use("glob", {"pattern": "**"}))
    names = ("tool_execution_start", "tool_execution_end")
    return [name.rpartition("_")[2] for name in events(both, names=names)]


def side_by_side() -> bool:
    """Return whether a command finds the other one running."""
    alone = bash("mkdir lock 2>/dev/null || echo both; sleep 1; rmdir lock 2>/dev/null")
    _, bodies = printed(reply(alone, alone))
    return any("both" in text_of(each) for each in results_in(bodies[1]))


def questions_first() -> int:
    """Return the number of questions asked before the first is answered."""
    both = reply(bash("touch a"), bash("touch b"))
    seen = events(both, names=("app.approval_requested", "agent_end"))
    return seen.index("agent_end")


def waits(*script: Answer) -> list[float]:
    """Return the waits before retries."""
    run, _ = printed(*script, arguments=("--output-format", "stream-json"))
    return [line["wait_s"] for line in run.lines if line["type"] == "app.retry"]


def requests(*script: Answer) -> int:
    return len(printed(*script)[1])


def stderr_has(*words: str, script: Sequence[Answer] = ()) -> Callable[[], str]:
    """Return which of *words* are on stderr."""

    def see() -> str:
        run, _ = printed(*script)
        return next((word for word in words if word in run.stderr), run.stderr)

    return see


def silent() -> str:
    """Return how long a silent server is waited for."""
    run, _ = printed(reply("late", gate=Gate(), hold_at=1))
    return run.stderr.strip().partition("; ")[0]


def stalled() -> str:
    """Return how long a server is waited for that sends pings only."""
    with pinging() as port:
        run = agent_cli("-p", "go", ANTHROPIC_BASE_URL=f"http://127.0.0.1:{port}", **FILE_ONLY)
    return run.stderr.strip().partition("reply for ")[2].partition(";")[0]


@contextmanager
def pinging() -> Generator[int]:
    """Serve a reply of pings to one client after another; yield the port."""
    ended = threading.Event()
    server = socket.create_server(("127.0.0.1", 0))
    server.settimeout(0.05)

    def serve() -> None:
        while not ended.is_set():
            try:
                client, _ = server.accept()
            except TimeoutError:
                continue
            with client:
                client.recv(65_536)
                client.sendall(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n")
                try:
                    while not ended.wait(0.05):
                        client.sendall(b'event: ping\ndata: {"type": "ping"}\n\n')
                except OSError:
                    continue

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield server.getsockname()[1]
    finally:
        ended.set()
        thread.join()
        server.close()


def compacting() -> Sequence[Payload]:
    """Talk until a conversation exceeds the threshold of the row's file; return the requests."""
    script = [reply(f"ok {n}", usage={"input_tokens": 990, "output_tokens": 10}) for n in range(3)]
    full = reply("ok 3", usage={"input_tokens": 10_001, "output_tokens": 10})
    lines = "".join(f"{LONG}{number}\n" for number in range(4))
    return talked(*script, full, reply("The summary."), OK, lines=f"{lines}go\n")[1]


def summaries() -> int:
    return len([each for each in compacting() if asks_for_summary(each)])


def summary_model() -> object:
    [asked] = [each for each in compacting() if asks_for_summary(each)]
    return asked["model"]


def keeps_words() -> bool:
    return WORDS_TEXT in str(compacting()[-1]["messages"])


def tail_after_compaction() -> int:
    """Return the number of messages after a compaction: the signed summary is one of them."""
    return len(compacting()[-1]["messages"])


def trimmed() -> int:
    """Return the number of messages in the last of five requests."""
    return len(talked(lines="a\nb\nc\nd\ne\n")[1][-1]["messages"])


def files_large(text: str = "x" * 1_000) -> Callable[[], bool]:
    def see() -> bool:
        Path("large.txt").write_text(text)
        return "Showing 200 of" in text_of(result(tool_use("read", {"path": "large.txt"}))())

    return see


def pwd() -> str:
    Path("sub").mkdir(exist_ok=True)
    return Path(text_of(result(bash("pwd"))()).splitlines()[0]).name


def spoken_before_a_tool() -> str:
    """Return the text before a call that is on stdout."""
    script = (reply("Looking.", tool_use("glob", {"pattern": "*"})), reply("Done."))
    return talked(*script, lines="go\n")[0].stdout


def steered() -> bool:
    """Return whether a call that had not begun runs after a steering message."""
    for name in ("begun", "go", "second"):
        Path(name).unlink(missing_ok=True)
    wait = bash("touch begun; until [ -e go ]; do sleep 0.02; done")
    with in_terminal(reply(wait, bash("touch second")), reply("Steered.")) as terminal:
        terminal.send("work\r")
        terminal.until(Path("begun").exists)
        terminal.send("stop that\r")
        terminal.until("stop that")
        Path("go").touch()
        terminal.until("Steered.")
    return Path("second").exists()


def outside_is_written() -> bool:
    """Return whether a command can write into the home directory."""
    target = Path.home() / "written"
    target.unlink(missing_ok=True)
    ran(reply(bash('touch "$HOME/written"')))
    return target.exists()


def kept_of(command: str) -> list[str]:
    """Return the names of what is kept of a command's changes."""
    before = {*paths.changes_dir().glob("*/commands/*/*")}
    ran(reply(bash(command)))
    return [
        path.name
        for path in paths.changes_dir().glob("*/commands/*/*")
        if path not in before and path.name != "lock"
    ]


def changes_are_kept() -> bool:
    """Return whether what commands change can be undone."""
    return bool(kept_of("touch made"))


def file_is_copied() -> bool:
    """Return whether a file is kept before a command overwrites it."""
    Path("overwritten").write_text("one")
    return any("-" in name for name in kept_of("echo two > overwritten"))


def old_record_stays(name: str) -> Callable[[], bool]:
    """Return a function: whether a file that a session five days ago kept outlives a command."""

    def stays() -> bool:
        session = paths.changes_dir() / "old"
        kept = session / "commands" / "x" / "1-1"
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_bytes(bytes(2_000_000))
        at_s = time.time() - 5 * 86_400
        for path in (session / "changes.jsonl", kept.parent / "log.jsonl"):
            path.touch()
            os.utime(path, (at_s, at_s))
        ran(reply(bash(f"touch {name}")))
        return kept.exists()

    return stays


def code_of_a_deletion() -> int:
    """Return the exit code of a run whose command deletes three files of 1.8 MB in all."""
    for name in ("f1", "f2", "f3"):
        Path(name).write_bytes(bytes(600_000))
    Path("clean.sh").write_text("rm f?")
    return exit_code(reply(bash("sh clean.sh")), arguments=("--permission-mode", "auto-edit"))()


def network_is_there() -> bool:
    """Return whether a command reaches a port of this machine."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        said = text_of(result(bash(f"exec 3<>/dev/tcp/127.0.0.1/{port} && echo reached"))())
    return "reached" in said


def tools_offered(*, repl: bool = False) -> Callable[[], set[str]]:
    """Return the names of the tools that are not built in, nor declared beside any server's."""

    def see() -> set[str]:
        _, bodies = talked(lines="go\n") if repl else printed()
        own = {"read", "edit", "write", "bash", "grep", "glob"}
        own |= {"agent", "todo", "recall", "ask_user", "present_plan", "job_output", "web_fetch"}
        own |= {"placeholder_of_found_tools"}
        return {tool["name"] for tool in bodies[0]["tools"]} - own

    return see


def agent_offered() -> bool:
    return any(tool["name"] == "agent" for tool in printed()[1][0]["tools"])


def agent_works() -> tuple[int, bool, str]:
    """Return a run's exit code, whether its agent may start others, and the agent's result."""
    task = {"description": "d", "prompt": "p", "subagent_type": "general"}
    calls = (reply(tool_use("agent", task)), reply(bash("true")), reply("found"), reply("done"))
    run, bodies = printed(*calls)
    results = results_in(bodies[-1]) if len(bodies) > 1 else []
    may_start = any(tool["name"] == "agent" for tool in bodies[1]["tools"])
    return run.code, may_start, text_of(results[-1]) if results else ""


def server(options: dict[str, Any] | None = None, **more: object) -> str:
    """Return the line that configures a server of two tools, `reply` and `raw`."""
    args = ["-I", "-S", RAW_SERVER, json.dumps(options or {})]
    fields = {"name": "raw", "command": sys.executable, "args": args, **more}
    listed = ", ".join(f"{name} = {json.dumps(value)}" for name, value in fields.items())
    return f"mcp.servers = [{{ {listed} }}]"


def helped(command: str) -> str:
    """Return the line that configures a server whose headers *command* makes."""
    return (
        'mcp.servers = [{ name = "web", url = "http://127.0.0.1:9/mcp",'
        f" headers_helper = {json.dumps(command)} }}]"
    )


def with_file(name: str, text: str, see: Callable[[], object]) -> Callable[[], object]:
    """Make an observation while a file is in the workspace."""

    def seeing() -> object:
        path = Path(name).expanduser()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return see()

    return seeing


def instructions() -> bool:
    """Return whether the user's AGENTS.md is in the request."""
    (paths.config_dir() / "AGENTS.md").write_text("Say MARK.")
    return "Say MARK." in str(printed()[1][0]["system"])


def colors() -> set[str]:
    """Return the colours of an answer with code in it."""
    with in_terminal(reply("**bold** and `code`\n\n```python\nx = 1\n```\n\nEnd.")) as terminal:
        terminal.send("go\r")
        terminal.until("End.")
        terminal.until_prompt()
        cells = terminal._screen.buffer.values()
        return {cell.fg for row in cells for cell in row.values()}


def thinking_shown() -> bool:
    run, _ = talked(reply(thinking("Let me see."), "Done."), lines="go\n")
    return "Let me see." in run.stderr


def is_slow() -> bool:
    """Return whether the beginning of an answer is on the screen alone."""
    with in_terminal(reply("abcdefghij" * 4, chunk_chars=100)) as terminal:
        terminal.send("go\r")
        terminal.until("abc")
        alone = "abcdefghij" * 4 not in terminal.text
        terminal.send("\x04")
    return alone


def typed_with_escape() -> str:
    """Return the text sent after Esc and x: with vi's keys, x deletes."""
    with serve_in_thread(*[OK] * 2) as api:
        with Terminal(AGENT_CLI, *YOLO, **environment(api, {})) as terminal:
            terminal.until("you>")
            terminal.send("hello\x1bx")
            terminal.send("\r")
            terminal.until("ok")
        return said_by_user(api.requests[0].body)[0]


def called_by() -> list[str]:
    """Return how a session alerts the user; that takes ten seconds, see test_activity.py."""
    seen: list[str] = []

    async def run(options: ReplOptions, _build: object) -> int:
        seen.append(options.look.notify)
        return 0

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ANTHROPIC_API_KEY", "k")
        patch.setattr(repl, "run", run)
        COMMANDS["repl"](parse_arguments(["--prompts-from", os.devnull]))
    return [str(each) for each in seen]


def in_background(*calls: Payload) -> Callable[[], str]:
    """Return the last result of *calls*, made while a command runs in the background."""
    start = tool_use("bash", {"command": "sleep 300", "background": True})

    def see() -> str:
        run, requests = printed(*(reply(call) for call in (start, *calls)))
        assert run.code == 0
        text = text_of(results_in(requests[-1])[0])
        return next(
            word for word in ("jobs.max", "jobs.timeout_s", "running", "job") if word in text
        )

    return see


def stopped_tool() -> str:
    """Return the outcome of a tool that does not end and has no limit of its own."""

    async def wait(_context: ToolContext) -> str:
        await asyncio.Event().wait()
        return ""

    async def ask() -> str:
        async with App(start(parse_arguments([]), may_ask=False), one_shot=True) as app:
            app.agent.set_tools([tool("wait", does(wait))])
            await app.agent.prompt("go")
            return str(app.agent.state.messages)

    with (
        pytest.MonkeyPatch.context() as patch,
        serve_in_thread(reply(tool_use("wait")), OK) as api,
    ):
        patch.setenv("ANTHROPIC_API_KEY", "k")
        patch.setenv("ANTHROPIC_BASE_URL", api.base_url)
        patch.setenv("AGENT_CLI_PERMISSIONS__MODE", "yolo")
        messages = asyncio.run(ask())
    return next(limit for limit in ("1 s", "2 s") if f"longer than {limit}" in messages)


def repaints() -> bool:
    with in_terminal() as terminal:
        terminal.until("tools: ")
        before = len(terminal.bytes)  # the settings were not read yet
        terminal.send("go\r")
        terminal.until("ok")
        return b"\x1b[" in terminal.bytes[before:]


def logged(file: str = "own.log") -> set[str]:
    """Return the levels in a log file."""
    Path(file).unlink(missing_ok=True)
    ran()
    if not Path(file).exists():
        return set()
    return {json.loads(line)["level"] for line in Path(file).read_text().splitlines()}


def session_kept() -> bool:
    before = {*paths.sessions_dir().glob("*.jsonl")}
    ran()
    return bool({*paths.sessions_dir().glob("*.jsonl")} - before)


ASKS = reply(bash("touch made"))
HANGS = tool_use("mcp__raw__reply", {"reply": None})
RAW_TOOLS = {"mcp__raw__reply", "mcp__raw__raw"}
OWN_LOG = 'logging.sinks = [{ type = "file", path = "own.log" }]\n'

ROWS = (
    Row("model", 'model = "claude-opus-5-5"', body("model"), "claude-opus-5-5"),
    Row("max_tokens", "max_tokens = 123", body("max_tokens"), 123),
    Row(
        "temperature",
        "temperature = 0.5",
        body("temperature"),
        0.5,
        base='model = "claude-haiku-4-5"\n',
    ),
    Row("effort", 'effort = "low"', lambda: body("output_config")(), {"effort": "low"}),
    Row("streaming", 'streaming = "sequential"', spoken_before_a_tool, "Done.\n"),
    Row(
        "tool_execution",
        'tool_execution = "sequential"',
        tool_order,
        ["start", "end", "start", "end"],
    ),
    Row(
        "steering",
        'steering = "after_batch"',
        steered,
        True,
        base='tool_execution = "sequential"\n',
    ),
    Row("approval", 'approval = "defer"', questions_first, 1),
    Row("max_rounds", "max_rounds = 1", exit_code(reply(bash("true")), arguments=YOLO), 4),
    Row("agents.enabled", "agents.enabled = false", agent_offered, False),
    Row("agents.ask_beyond", "agents.ask_beyond = 0", lambda: agent_works()[0], 3),
    Row("agents.max_depth", "agents.max_depth = 1", lambda: agent_works()[1], False),
    Row(
        "agents.max_rounds",
        "agents.max_rounds = 1",
        lambda: "stopped after round 1" in agent_works()[2],
        True,
    ),
    Row(
        "model_fallback",
        'model_fallback = ["high,small"]',
        body("fallbacks"),
        [{"model": "claude-opus-5-5"}, {"model": "claude-haiku-5-5"}],
    ),
    Row("attach", "attach = false", attached_name, False),
    Row("max_cost_usd", "max_cost_usd = 0.000001", exit_code(reply(bash("true"))), 4),
    Row("prices", 'prices.of-mine = "1000000/0"', cost_usd, 9.0, base='model = "of-mine"\n'),
    Row("working_directory", 'working_directory = "sub"', pwd, "sub"),
    Row(
        "models",
        'models.normal = "claude-opus-5-5"',
        body("model"),
        "claude-opus-5-5",
        base='model = "normal"\n',
    ),
    Row(
        "provider.platform",
        'provider.platform = "bedrock"',
        address_on_bedrock,
        "/anthropic/v1/messages",
    ),
    Row(
        "provider.read_timeout_s",
        "provider.read_timeout_s = 1",
        silent,
        "the reply stopped: nothing for 1 s",
        other="provider.read_timeout_s = 2",
        base="retry.max = 0\n",
    ),
    Row(
        "provider.stall_timeout_s",
        "provider.stall_timeout_s = 1",
        stalled,
        "1 s",
        other="provider.stall_timeout_s = 2",
        base="retry.max = 0\n",
    ),
    Row(
        "provider.compat",
        "provider.compat = true",
        lambda: "cache_control" in str(printed()[1][0]),
        False,
    ),
    Row(
        "history.max_tool_result_chars", "history.max_tool_result_chars = 200", files_large(), True
    ),
    Row("history.max_conversation_messages", "history.max_conversation_messages = 3", trimmed, 3),
    Row(
        "compaction.strategy",
        'compaction.strategy = "none"',
        summaries,
        0,
        base="compaction.threshold_tokens = 10000\ncompaction.protected_tail_messages = 2\n",
    ),
    Row(
        "compaction.threshold_tokens",
        "compaction.threshold_tokens = 10000",
        summaries,
        1,
        base="compaction.protected_tail_messages = 2\n",
    ),
    Row(
        "compaction.protected_tail_messages",
        "compaction.protected_tail_messages = 2",
        tail_after_compaction,
        4,
        base="compaction.threshold_tokens = 10000\n",
    ),
    Row(
        "compaction.user_words_chars",
        "compaction.user_words_chars = 0",
        keeps_words,
        False,
        base="compaction.threshold_tokens = 10000\ncompaction.protected_tail_messages = 2\n",
    ),
    Row(
        "compaction.model",
        'compaction.model = "small"',
        summary_model,
        "claude-haiku-5-5",
        base="compaction.threshold_tokens = 10000\ncompaction.protected_tail_messages = 2\n",
    ),
    Row(
        "retry.shared_file",
        'retry.shared_file = "pause.json"',
        lambda: (len(ran(BUSY, BUSY)[1]), Path("pause.json").exists()),
        (3, True),
        base=WAITS,
    ),
    Row("retry.max", "retry.max = 1", lambda: requests(*[BUSY] * 6), 2, base=WAITS),
    Row(
        "retry.base_s",
        "retry.base_s = 0.02",
        lambda: waits(LIMITED),
        [0.02],
        other="retry.base_s = 0.01",
    ),
    Row(
        "retry.other_base_s",
        "retry.other_base_s = 0.02",
        lambda: waits(BUSY),
        [0.02],
        other="retry.other_base_s = 0.01",
    ),
    Row(
        "retry.factor",
        "retry.factor = 3",
        lambda: waits(LIMITED, LIMITED),
        [0.01, 0.03],
        base=WAITS,
    ),
    Row(
        "retry.jitter",
        'retry.jitter = "full"',
        lambda: waits(LIMITED, LIMITED) != [0.01, 0.02],
        True,
        base=WAITS,
    ),
    Row("retry.on", 'retry.on = ["429"]', lambda: requests(BUSY), 1, base=WAITS),
    Row(
        "retry.respect_retry_after",
        "retry.respect_retry_after = false",
        lambda: waits(error(429, "rate_limit_error", "slow", headers={"retry-after": "0.05"})),
        [0.01],
        base=WAITS,
    ),
    Row(
        "retry.max_server_delay_s",
        "retry.max_server_delay_s = 0.01",
        exit_code(error(429, "rate_limit_error", "slow", headers={"retry-after": "0.05"})),
        1,
        base=WAITS,
    ),
    Row(
        "permissions.mode",
        'permissions.mode = "yolo"',
        exit_code(ASKS),
        0,
        base='sandbox.auto_allow = "never"\n',
    ),
    Row(
        "permissions.allow",
        'permissions.allow = ["bash(touch *)"]',
        exit_code(ASKS),
        0,
        base='sandbox.auto_allow = "never"\n',
    ),
    Row("permissions.ask", 'permissions.ask = ["bash(true)"]', exit_code(reply(bash("true"))), 3),
    Row(
        "permissions.deny",
        'permissions.deny = ["bash(true)"]',
        lambda: result(bash("true"))().get("is_error", False),
        True,
    ),
    Row("sandbox.mode", 'sandbox.mode = "off"', outside_is_written, True),
    Row("undo.commands", 'undo.commands = "off"', changes_are_kept, False),
    Row(
        "undo.leave_out",
        'undo.leave_out = ["touch *"]',
        changes_are_kept,
        False,
    ),
    Row(
        "undo.max_mb",
        "undo.max_mb = 0",
        file_is_copied,
        False,
    ),
    *(
        Row(f"undo.{key}", f"undo.{key} = 1", code_of_a_deletion, 3)
        for key in ("ask_beyond_files", "ask_beyond_mb")
    ),
    *(
        Row(
            f"undo.{key}",
            f"undo.{key} = {value}",
            old_record_stays(key),
            False,
        )
        for key, value in (("keep_days", "1"), ("max_gb", "0.001"))
    ),
    Row("sandbox.network", "sandbox.network = true", network_is_there, True),
    Row("sandbox.auto_allow", 'sandbox.auto_allow = "always"', exit_code(ASKS), 0),
    Row("tools.timeout_s", "tools.timeout_s = 1", stopped_tool, "1 s", other="tools.timeout_s = 2"),
    Row(
        "tools.fold_output",
        "tools.fold_output = false",
        lambda: "[folded: " in text_of(result(tool_use("bash", {"command": "yes | head -400"}))()),
        False,
    ),
    Row(
        "tools.web_fetch",
        "tools.web_fetch = false",
        lambda: any(tool["name"] == "web_fetch" for tool in printed()[1][0]["tools"]),
        False,
    ),
    Row(
        "tools.web_search",
        "tools.web_search = true",
        lambda: any("web_search" in tool["name"] for tool in printed()[1][0]["tools"]),
        True,
    ),
    Row("tools.concurrency", "tools.concurrency = 1", side_by_side, False),
    Row("jobs.max", "jobs.max = 0", in_background(), "jobs.max"),
    Row("jobs.timeout_s", "jobs.timeout_s = 1", in_background(READ_JOB), "jobs.timeout_s"),
    Row("mcp.enabled", "mcp.enabled = false", tools_offered(), set(), base=f"{server()}\n"),
    Row(
        "mcp.config",
        'mcp.config = ["~/servers.json"]',
        with_file(
            "~/servers.json",
            json.dumps(
                {
                    "mcpServers": {
                        "raw": {"command": sys.executable, "args": ["-I", "-S", RAW_SERVER, "{}"]}
                    }
                }
            ),
            tools_offered(),
        ),
        RAW_TOOLS,
    ),
    Row(
        "mcp.startup_timeout_s",
        "mcp.startup_timeout_s = 1",
        stderr_has("within 1 s", "within 2 s"),
        "within 1 s",
        other="mcp.startup_timeout_s = 2",
        base=f"{server({'hang': True})}\n",
    ),
    Row(
        "mcp.first_prompt_wait_s",
        "mcp.first_prompt_wait_s = 0.5",
        lambda: "still starting after 0.5 s" in str(talked(lines="go\n")[0]),
        True,
        other="mcp.first_prompt_wait_s = 1",
        base=f"{server({'hang': True})}\n",
    ),
    Row(
        "mcp.headless_wait_s",
        "mcp.headless_wait_s = 0.5",
        stderr_has("after 0.5 s", "after 1 s"),
        "after 0.5 s",
        other="mcp.headless_wait_s = 1",
        base=f"{server({'hang': True})}\n",
    ),
    Row(
        "mcp.call_timeout_s",
        "mcp.call_timeout_s = 1",
        lambda: "1 s" in text_of(result(HANGS)()),
        True,
        other="mcp.call_timeout_s = 2",
        base=f"{server()}\n",
    ),
    Row(
        "mcp.defer_beyond_tokens",
        "mcp.defer_beyond_tokens = 1",
        tools_offered(),
        {"find_tools"},
        base=f"{server()}\n",
    ),
    Row("mcp.require_tools", 'mcp.require_tools = ["mend"]', exit_code(), 1),
    Row("mcp.servers", server(), tools_offered(), RAW_TOOLS),
    Row("plugins.enabled", "plugins.enabled = false", instructions, False),
    Row("plugins.disabled", 'plugins.disabled = ["project_instructions"]', instructions, False),
    Row("plugins.reminders", "plugins.reminders = true", tools_offered(repl=True), {"remind"}),
    Row(
        "permissions.claude_files",
        "permissions.claude_files = false",
        denied_by_claude,
        False,
    ),
    Row(
        "hooks.claude_files",
        "hooks.claude_files = false",
        hook_of_claude,
        False,
    ),
    Row("output_style", 'output_style = "rude"', misses_style, True),
    Row("ui.theme", 'ui.theme = "none"', colors, {"default"}),
    Row("ui.show_thinking", "ui.show_thinking = true", thinking_shown, True),
    Row("ui.chars_per_second", "ui.chars_per_second = 4", is_slow, True),
    Row("ui.notify", 'ui.notify = "off"', called_by, ["off"]),
    Row("ui.vi", "ui.vi = true", typed_with_escape, "hell"),
    Row("ui.screen_reader", "ui.screen_reader = true", repaints, False),
    Row("logging.level", 'logging.level = "error"', logged, set(), base=OWN_LOG),
    Row("logging.sinks", OWN_LOG.strip(), logged, {"info"}),
    Row("session.enabled", "session.enabled = false", session_kept, False),
    Row("telemetry.enabled", "telemetry.enabled = true", telemetry_paths, COLLECTED),
    Row(
        "telemetry.endpoint",
        'telemetry.endpoint = "http://collector.test"',
        telemetry_paths,
        {"http://collector.test/v1/traces", "http://collector.test/v1/metrics"},
        base="telemetry.enabled = true\n",
    ),
    Row(
        "telemetry.content",
        "telemetry.content = true",
        telemetry_says_prompt,
        True,
        base="telemetry.enabled = true\n",
    ),
    Row(
        "mcp.servers.name",
        server(name="other"),
        tools_offered(),
        {"mcp__other__reply", "mcp__other__raw"},
        other=server(),
    ),
    Row("mcp.servers.enabled", server(enabled=False), tools_offered(), set(), other=server()),
    Row(
        "mcp.servers.enabled_tools",
        server(enabled_tools=["re*"]),
        tools_offered(),
        {"mcp__raw__reply"},
        other=server(),
    ),
    Row(
        "mcp.servers.disabled_tools",
        server(disabled_tools=["re*"]),
        tools_offered(),
        {"mcp__raw__raw"},
        other=server(),
    ),
    Row(
        "mcp.servers.headers_helper",
        helped("exit 3"),
        stderr_has("exit code 3", "exit code 4"),
        "exit code 3",
        other=helped("exit 4"),
    ),
    Row(
        "mcp.servers.required",
        server({"exit": 3}, required=True),
        exit_code(),
        1,
        other=server({"exit": 3}),
    ),
    Row(
        "mcp.servers.always_load",
        server(always_load=True),
        tools_offered(),
        RAW_TOOLS,
        other=server(),
        base="mcp.defer_beyond_tokens = 1\n",
    ),
    Row(
        "mcp.servers.startup_timeout_s",
        server({"hang": True}, startup_timeout_s=1),
        stderr_has("within 1 s", "within 2 s"),
        "within 1 s",
        other=server({"hang": True}, startup_timeout_s=2),
    ),
    Row(
        "mcp.servers.call_timeout_s",
        server(call_timeout_s=1),
        lambda: "1 s" in text_of(result(HANGS)()),
        True,
        other=server(call_timeout_s=2),
    ),
    Row(
        "logging.sinks.level",
        'logging.sinks = [{ type = "file", path = "own.log", level = "error" }]',
        logged,
        set(),
        other=OWN_LOG.strip(),
    ),
    Row(
        "logging.sinks.path",
        'logging.sinks = [{ type = "file", path = "own.log" }]',
        logged,
        {"info"},
        other='logging.sinks = [{ type = "file", path = "other.log" }]',
    ),
    Row(
        "logging.sinks.type",
        'logging.sinks = [{ type = "console", level = "info" }]',
        lambda: "model replied" in printed()[0].stderr,
        True,
        other='logging.sinks = [{ type = "file", level = "info" }]',
    ),
)
