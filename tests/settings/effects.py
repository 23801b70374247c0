"""The effect of each setting in the running program: the journeys of test_effects.py.

A row sets one key through the user's file. Rows that do not touch each other share a journey, which
runs the program on a scripted server and observes one value for each of its rows: once with all
their lines, once without any. The value must be `expected` with them, and differ without: a setting
that nothing reads fails its row.
"""

import asyncio
import json
import os
import shutil
import socket
import sys
import time
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
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
from tests.messages_api import (
    Answer,
    Gate,
    Pace,
    ReceivedRequest,
    error,
    reply,
    serve_in_thread,
    thinking,
    tool_use,
)
from tests.messages_api.script import MakeAnswer, Payload, RawAnswer
from tests.repl.terminal import Terminal
from tests.telemetry.receiver import receiving

OK = reply("ok")
YOLO = ("--permission-mode", "yolo")
AUTO_EDIT = ("--permission-mode", "auto-edit")
# The end-to-end tests' helpers shorten the waits by variables, which would override a file.
FILE_ONLY: dict[str, Any] = {  # Any: mypy would take them for every parameter
    "AGENT_CLI_RETRY__BASE_S": None,
    "AGENT_CLI_RETRY__OTHER_BASE_S": None,
}
BUSY = error(529, "overloaded_error", "busy")
LIMITED = error(429, "rate_limit_error", "slow")
ASKS_TO_WAIT = error(429, "rate_limit_error", "slow", headers={"retry-after": "0.05"})
PING = b'event: ping\ndata: {"type": "ping"}\n\n'
LONG = "word " * 1_200
COLLECTED = {"http://localhost:4318/v1/traces", "http://localhost:4318/v1/metrics"}
FALLBACKS = [{"model": "claude-opus-5-5"}, {"model": "claude-haiku-5-5"}]
OWN_TOOLS = {
    *("read", "edit", "write", "bash", "grep", "glob", "web_fetch", "web_search"),
    *("agent", "todo", "recall", "ask_user", "present_plan", "job_output", "ask_for_web_search"),
    "placeholder_of_found_tools",
}

Seen: TypeAlias = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Row:
    """One key: its setting, and the value that its journey observes then.

    Attributes:
        other: The text in the file for the comparison; "" is the default.
    """

    key: str
    line: str
    expected: object
    other: str = ""


@dataclass(frozen=True, slots=True)
class Journey:
    """What is done with the program, and the settings that show there.

    Attributes:
        see: Does it, and returns what it observes for each key.
        base: The text in the file in both cases.
    """

    name: str
    see: Callable[[], Seen]
    rows: Sequence[Row]
    base: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """A run, the bodies of its requests, and their answers to its calls, in order."""

    run: Finished
    bodies: Sequence[Payload]

    @property
    def results(self) -> Sequence[Payload]:
        """Return the results of the last request's calls."""
        return results_in(self.bodies[-1])

    def events(self, *names: str) -> Sequence[Payload]:
        return [line for line in self.run.lines if line["type"] in names]


def printed(
    *script: Answer,
    arguments: Sequence[str] = YOLO,
    prompt: str = "go",
    answer: MakeAnswer | None = None,
    variables: Mapping[str, str] = {},
) -> Outcome:
    """Run `-p` on *script*."""
    line = ("-p", prompt, "--output-format", "stream-json", *arguments)
    return _run(*script, arguments=line, answer=answer, variables=variables)


def talked(*script: Answer, lines: str, answer: MakeAnswer | None = None) -> Outcome:
    """Run the REPL on pipes with *lines*."""
    return _run(*script, arguments=YOLO, lines=lines, answer=answer)


def _run(
    *script: Answer,
    arguments: Sequence[str],
    lines: str = "",
    answer: MakeAnswer | None = None,
    variables: Mapping[str, str] = {},
) -> Outcome:
    rest = () if answer else [OK] * 8
    with serve_in_thread(*script, *rest, answer=answer) as api:
        run = agent_cli(*arguments, api=api, script=lines, **FILE_ONLY, **variables)
    return Outcome(run, [request.body for request in api.requests])


@contextmanager
def in_terminal(*script: Answer) -> Generator[tuple[Terminal, Sequence[ReceivedRequest]]]:
    """Run the REPL in a terminal, at its first prompt; yield the requests, too."""
    with (
        serve_in_thread(*script, *[OK] * 8) as api,
        Terminal(AGENT_CLI, *YOLO, **environment(api, {})) as terminal,
    ):
        terminal.until("you>")
        yield terminal, api.requests


def bash(command: str, **more: object) -> Payload:
    return tool_use("bash", {"command": command, **more})


def word_of(text: str, *words: str) -> str:
    """Return which of *words* is in a text."""
    return next((word for word in words if word in text), text)


def tools_offered(body: Payload) -> set[str]:
    """Return the names of the tools that are not built in, nor declared beside any server's."""
    return {tool["name"] for tool in body["tools"]} - OWN_TOOLS


def names_in(body: Payload) -> set[str]:
    return {tool["name"] for tool in body["tools"]}


def levels_in(file: str) -> set[str]:
    """Return the levels in a log file."""
    lines = Path(file).read_text().splitlines() if Path(file).exists() else []
    Path(file).unlink(missing_ok=True)
    return {json.loads(line)["level"] for line in lines}


def write(name: str, text: str) -> None:
    path = Path(name).expanduser()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def is_made(name: str) -> bool:
    """Return whether there is a file; remove it."""
    path = Path(name).expanduser()
    made = path.exists()
    path.unlink(missing_ok=True)
    return made


def server(name: str, options: Mapping[str, object] | None = None, **more: object) -> str:
    """Return the lines that configure a server of two tools, `reply` and `raw`."""
    args = ["-I", "-S", RAW_SERVER, json.dumps(options or {})]
    fields = {"name": name, "command": sys.executable, "args": args, **more}
    return _entry("mcp.servers", fields)


def web_server(helper: str) -> str:
    """Return the lines that configure a server whose headers the command *helper* makes."""
    fields = {"name": "web", "url": "http://127.0.0.1:9/mcp", "headers_helper": helper}
    return _entry("mcp.servers", fields)


def sink(**fields: object) -> str:
    return _entry("logging.sinks", fields)


def _entry(table: str, fields: Mapping[str, object]) -> str:
    listed = "".join(f"\n{name} = {json.dumps(value)}" for name, value in fields.items())
    return f"[[{table}]]{listed}"


def request() -> Seen:
    """Send one request whose reply makes a call that is asked about."""
    write("named.txt", "the content of the file")
    write(str(paths.config_dir() / "AGENTS.md"), "Say MARK.")
    before = {*paths.sessions_dir().glob("*.jsonl")}
    with receiving() as receiver:
        seen = printed(
            reply(tool_use("write", {"path": "made", "content": ""})),
            arguments=(),
            prompt="canary, see @named.txt",
            variables=telemetry_at(receiver.url),
        )
    body = seen.bodies[0]
    return {
        "model": body["model"],
        "max_tokens": body["max_tokens"],
        "effort": body.get("output_config"),
        "model_fallback": body.get("fallbacks"),
        "provider.inference_geo": body.get("inference_geo"),
        "provider.service_tier": body.get("service_tier"),
        "attach": "the content of the file" in str(body),
        "agents.enabled": "agent" in names_in(body),
        "tools.web_fetch": "web_fetch" in names_in(body),
        "tools.web_search": any("web_search" in name for name in names_in(body)),
        "mcp.enabled": tools_offered(body),
        "output_style": "no output style rude" in seen.run.stderr,
        "plugins.disabled": "Say MARK." in str(body["system"]),
        "permissions.mode": seen.run.code,
        "session.enabled": bool({*paths.sessions_dir().glob("*.jsonl")} - before),
        "telemetry.enabled": {*receiver.paths},
        "logging.sinks": levels_in("own.log"),
        "logging.sinks.level": levels_in("quiet.log"),
        "logging.sinks.path": levels_in("here.log"),
        "logging.sinks.type": "model replied" in seen.run.stderr,
    }


def telemetry_at(url: str) -> dict[str, str]:
    """Return the variables with which *url* receives all telemetry, to whatever address."""
    flush = {"AGENT_CLI_TELEMETRY__FLUSH_TIMEOUT_S": "60"}
    return {"HTTP_PROXY": url, "NO_PROXY": "127.0.0.1", **flush}


def request_of_small_model() -> Seen:
    """Send one request whose reply of nine tokens makes a call."""
    write(str(paths.config_dir() / "AGENTS.md"), "Say MARK.")
    usage = {"input_tokens": 9, "output_tokens": 1}
    with receiving() as receiver:
        seen = printed(
            reply(bash("touch made"), usage=usage),
            reply("ok", usage={"input_tokens": 0, "output_tokens": 0}),
            prompt="canary",
            variables=telemetry_at(receiver.url),
        )
    body = seen.bodies[0]
    return {
        "temperature": body.get("temperature"),
        "prices": seen.run.result["cost_usd"],
        "provider.compat": "cache_control" in str(body),
        "plugins.enabled": "Say MARK." in str(body["system"]),
        "max_rounds": seen.run.code,
        "undo.commands": bool(kept_of("touch made")),
        "telemetry.endpoint": {*receiver.paths},
        "telemetry.content": any(b"canary" in each for each in receiver.bodies),
        "logging.level": levels_in("own.log"),
        "mcp.headless_wait_s": word_of(seen.run.stderr, "after 0.2 s", "after 0.3 s"),
    }


def address_on_bedrock() -> Seen:
    """Send a request to Anthropic's API or Bedrock, both of them available."""
    with serve_in_thread(OK, OK) as api:
        agent_cli(
            *("-p", "go"),
            api=api,
            ANTHROPIC_BEDROCK_MANTLE_BASE_URL=f"{api.base_url}/anthropic",
            AWS_BEARER_TOKEN_BEDROCK="k",
            AWS_REGION="eu-west-3",
        )
    return {"provider.platform": api.requests[0].path}


def commands() -> Seen:
    """Run commands, two of which delete what may be too much."""
    claude_settings()
    write("large.txt", "x" * 5_000)
    for name in ("f1", "f2", "f3", "huge"):
        Path(name).write_bytes(bytes(1_800_000 if name == "huge" else 3))
    write("few.sh", "rm f?")
    write("much.sh", "rm huge")
    old = old_record()
    seen = printed(
        reply(
            tool_use("read", {"path": "large.txt"}),
            bash("yes | head -400"),
            bash("true"),
            bash("echo hi"),
            bash("touch made"),
            bash("sh few.sh"),
            bash("sh much.sh"),
            bash("sleep 300", background=True),
        ),
        arguments=AUTO_EDIT,
    )
    read, folded, denied, denied_by_claude, _, few, much, job = (
        text_of(each) for each in seen.results
    )
    return {
        "history.max_tool_result_chars": "[OUTPUT TRUNCATED" in read,
        "tools.fold_output": "[folded: " in folded,
        "permissions.deny": "denies this call" in denied,
        "permissions.claude_files": "denies this call" in denied_by_claude,
        "hooks.claude_files": is_made("started"),
        "jobs.max": "jobs.max" in job,
        "undo.leave_out": bool(kept_of("touch made")),
        "undo.ask_beyond_files": "not allowed to go on" in few,
        "undo.ask_beyond_mb": "not allowed to go on" in much,
        "undo.max_gb": old.exists(),
    }


def claude_settings() -> None:
    """Write Claude Code's settings file, with a hook and a rule."""
    hook = {"hooks": [{"type": "command", "command": f"touch {Path.cwd() / 'started'}"}]}
    rules = {"deny": ["Bash(echo:*)"]}
    settings = {"hooks": {"SessionStart": [hook]}, "permissions": rules}
    write("~/.claude/settings.json", json.dumps(settings))


def kept_of(command: str) -> set[str]:
    """Return the names of what is kept of a command's changes, and remove it."""
    names = set[str]()
    for log in paths.changes_dir().glob("*/commands/*/log.jsonl"):
        first_line = log.read_text().partition("\n")[0]
        if f'"command": {json.dumps(command)}' in first_line:
            names |= {path.name for path in log.parent.iterdir()}
            shutil.rmtree(log.parent)
    return names


def old_record() -> Path:
    """Return a file of 2 MB that a session five days ago kept."""
    session = paths.changes_dir() / "old"
    file = session / "commands" / "x" / "1-1"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(bytes(2_000_000))
    at_s = time.time() - 5 * 86_400
    for path in (session / "changes.jsonl", file.parent / "log.jsonl"):
        path.touch()
        os.utime(path, (at_s, at_s))
    return file


def command_and_job() -> Seen:
    """Overwrite a file, search twice at once, and wait for a job."""
    write("overwritten", "one")
    old = old_record()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        seen = printed(
            reply(
                bash("echo two > overwritten"),
                bash(f"exec 3<>/dev/tcp/127.0.0.1/{port} && echo reached"),
                bash("sleep 300", background=True),
            ),
            reply(*SEARCHES),
            reply(tool_use("job_output", {"id": 1, "wait": 3})),
        )
    return {
        "undo.max_mb": any("-" in name for name in kept_of("echo two > overwritten")),
        "undo.keep_days": old.exists(),
        "sandbox.network": "reached" in text_of(results_in(seen.bodies[1])[1]),
        "tools.concurrency": order_of_searches(seen),
        "jobs.timeout_s": word_of(text_of(seen.results[0]), "jobs.timeout_s", "running"),
    }


def order_of_searches(seen: Outcome) -> list[str]:
    """Return whether two calls ran concurrently."""
    events = seen.events("tool_execution_start", "tool_execution_end")
    return [
        each["type"].rpartition("_")[2] for each in events if each["tool_call_id"] in ("g1", "g2")
    ]


SEARCHES = (
    tool_use("glob", {"pattern": "*"}, id="g1"),
    tool_use("glob", {"pattern": "**"}, id="g2"),
)


def agents() -> Seen:
    """Start two agents after two limited requests; each uses a tool."""
    Path("sub").mkdir(exist_ok=True)
    agent = tool_use("agent", {"description": "d", "prompt": "p", "subagent_type": "general"})
    failures = [LIMITED, LIMITED]
    inside: list[Payload] = []

    def answer(asked: ReceivedRequest) -> Answer:
        if failures:
            return failures.pop()
        is_first = not results_in(asked.body)
        if any("go" in text.split() for text in said_by_user(asked.body)):
            calls = bash("pwd"), bash('touch "$HOME/written"'), agent, agent
            return reply(*SEARCHES, *calls) if is_first else OK
        inside.append(asked.body)
        return reply(bash("true")) if is_first else reply("found")

    seen = printed(answer=answer)
    _, _, pwd, _, first, second = (text_of(each) for each in seen.results)
    return {
        "models": seen.bodies[0]["model"],
        "retry.jitter": waits(seen) == [0.01, 0.02],
        "tool_execution": order_of_searches(seen),
        "working_directory": Path(pwd.splitlines()[0]).name,
        "sandbox.mode": is_made("~/written"),
        "agents.ask_beyond": "may start 1 agents" in second,
        "agents.max_depth": "agent" in names_in(inside[0]),
        "agents.max_rounds": "stopped after round 1" in first,
    }


def waits(seen: Outcome) -> list[float]:
    """Return the waits before retries."""
    return [line["wait_s"] for line in seen.events("app.retry")]


def asked_about() -> Seen:
    """Make three calls, and return which are asked about."""
    calls = tool_use("write", {"path": "a", "content": ""}), bash("touch made"), bash("true")
    seen = printed(reply(*calls), arguments=())
    asked = str(seen.events("app.approval_requested"))
    return {
        "permissions.allow": "'path': 'a'" in asked,
        "sandbox.auto_allow": "touch made" in asked,
        "permissions.ask": "true" in asked,
    }


def asked_at_once() -> Seen:
    """Make two calls that are asked about, after a request that fails."""
    seen = printed(BUSY, reply(bash("touch a"), bash("touch b")), arguments=())
    asked = [each["type"] for each in seen.events("app.approval_requested", "agent_end")]
    return {
        "approval": asked.index("agent_end"),
        "retry.shared_file": is_made("pause.json"),
        "mcp.defer_beyond_tokens": tools_offered(seen.bodies[0]),
    }


def retries() -> Seen:
    """Make two calls, with failures before each reply."""
    call = reply(tool_use("glob", {"pattern": "*"}))
    seen = printed(LIMITED, LIMITED, call, BUSY, call, ASKS_TO_WAIT, OK)
    first, second, other, asked = waits(seen)
    return {
        "history.max_conversation_messages": len(seen.bodies[-1]["messages"]),
        "retry.base_s": first,
        "retry.other_base_s": other,
        "retry.factor": round(second / first, 3),
        "retry.respect_retry_after": asked == first,
    }


def refused_retries() -> Seen:
    """Type four lines whose requests fail; return how often each was sent."""
    answers = {"busy": BUSY, "limited": LIMITED, "asks to wait": ASKS_TO_WAIT}
    sent = Counter[str]()

    def answer(asked: ReceivedRequest) -> Answer:
        line = said_by_user(asked.body)[-1]
        sent[line] += 1
        return answers[line]

    talked(answer=answer, lines="".join(f"{line}\n" for line in answers))
    return {
        "retry.on": sent["busy"],
        "retry.max": sent["limited"],
        "retry.max_server_delay_s": sent["asks to wait"],
    }


def silence() -> Seen:
    """Wait for a server that is silent, and for one that sends pings only."""
    steps = (Pace(0.05), PING) * 100
    pings = RawAnswer(200, {"content-type": "text/event-stream"}, steps)
    seen = talked(reply("late", gate=Gate(), hold_at=1), pings, lines="a\nb\n")
    return {
        "provider.read_timeout_s": "nothing for 1 s" in seen.run.stderr,
        "provider.stall_timeout_s": "reply for 1.3 s" in seen.run.stderr,
    }


def first_lines() -> Seen:
    """Type a line that is thought about, and more until a conversation exceeds its threshold."""
    thought = reply(thinking("Let me see."), "Looking.", tool_use("glob", {"pattern": "*"}))
    seen = talked(thought, reply("Done."), *FILLING, lines=f"go\n{FILL}")
    return {
        "streaming": seen.run.stdout.splitlines()[0],
        "ui.show_thinking": "Let me see." in seen.run.stderr,
        "plugins.reminders": "remind" in names_in(seen.bodies[0]),
        "compaction.threshold_tokens": len(summaries(seen)),
    }


# Lines after which a conversation exceeds 10,000 tokens, and the replies to them.
FILL = "".join(f"{LONG}{number}\n" for number in range(4)) + "go\n"
FILLING = (
    *(reply(f"ok {n}", usage={"input_tokens": 990, "output_tokens": 10}) for n in range(3)),
    reply("ok 3", usage={"input_tokens": 10_001, "output_tokens": 10}),
    reply("The summary."),
    OK,
)
THRESHOLD = "compaction.threshold_tokens = 10000\n"


def summaries(seen: Outcome) -> list[Payload]:
    """Return the requests that ask for a summary."""
    return [each for each in seen.bodies if asks_for_summary(each)]


def compaction() -> Seen:
    """Type lines until a conversation exceeds the threshold."""
    seen = talked(*FILLING, lines=FILL)
    [asked] = summaries(seen)
    messages = seen.bodies[-1]["messages"]
    return {
        "compaction.protected_tail_messages": [n for n in range(4) if f"'ok {n}'" in str(messages)],
        "compaction.user_words_chars": WORDS_TEXT in str(messages),
        "compaction.model": asked["model"],
    }


def no_compaction() -> Seen:
    seen = talked(*FILLING, lines=FILL)
    return {
        "compaction.strategy": len(summaries(seen)),
    }


def terminal() -> Seen:
    """Type a line with keys of vi, and steer a run at a terminal."""
    for name in ("begun", "continue", "second"):
        Path(name).unlink(missing_ok=True)
    wait = bash("touch begun; until [ -e continue ]; do sleep 0.02; done")
    formatted = reply("**bold** and `code`\n\n```python\nx = 1\n```\n\nEnd.")
    steered = reply(wait, bash("touch second"))
    long = "Steered." * 80
    last = reply(long, chunk_chars=len(long))
    with in_terminal(formatted, steered, last) as (screen, requests):
        screen.send("hello\x1bx")
        screen.send("\r")
        screen.until("End.")
        screen.until_prompt()
        cells = screen._screen.buffer.values()
        colors = {cell.fg for row in cells for cell in row.values()}
        screen.send("works\x1b[15~\r")  # F5
        screen.until(Path("begun").exists)
        screen.send("stop that\r")
        screen.until("stop that")
        Path("continue").touch()
        screen.until("Steered.")
        return {
            "ui.theme": colors,
            "ui.vi": said_by_user(requests[0].body)[0],
            "ui.keys": said_by_user(requests[1].body)[1],
            "ui.chars_per_second": screen.text.count("Steered.") < 40,
            "steering": Path("second").exists(),
        }


def repainting() -> Seen:
    """Type a line at a terminal; return what is repainted, and how long a server is waited for."""
    with in_terminal() as (screen, _):
        screen.until("tools: ")
        before = len(screen.bytes)  # the settings were not read yet
        screen.send("go\r")
        screen.until("ok")
        return {
            "ui.screen_reader": b"\x1b[" in screen.bytes[before:],
            "mcp.first_prompt_wait_s": word_of(screen.text, "after 0.2 s", "after 0.3 s"),
        }


def servers() -> Seen:
    """Offer the tools of many servers, and call two that do not answer."""
    write(
        "~/servers.json",
        json.dumps({"mcpServers": {"listed": {"command": sys.executable, "args": RAW}}}),
    )
    hanging = (tool_use(f"mcp__{name}__reply", {"reply": None}) for name in ("slow", "slower"))
    seen = printed(reply(*hanging))
    slow, slower = (text_of(each) for each in seen.results)
    offered = tools_offered(seen.bodies[0])

    def of(name: str) -> set[str]:
        return {each.rpartition("__")[2] for each in offered if f"__{name}__" in each}

    return {
        "mcp.servers": of("plain"),
        "mcp.servers.name": of("other"),
        "mcp.servers.enabled": of("unused"),
        "mcp.servers.enabled_tools": of("chosen"),
        "mcp.servers.disabled_tools": of("rest"),
        "mcp.config": of("listed"),
        "mcp.call_timeout_s": word_of(slow, "1.1 s", "1.2 s"),
        "mcp.servers.call_timeout_s": word_of(slower, "1.3 s", "1.4 s"),
    }


RAW = ["-I", "-S", RAW_SERVER, "{}"]
RAW_TOOLS = {"reply", "raw"}
HANGS = {"hang": True}


def loaded_tools() -> Seen:
    return {"mcp.servers.always_load": tools_offered(printed().bodies[0])}


def servers_that_fail() -> Seen:
    """Start servers that do not; make a call that costs something."""
    seen = printed(reply(bash("true")))
    lines = seen.run.stderr.splitlines()
    slow, slower, web = (
        next(line for line in lines if f"'{name}'" in line) for name in ("slow", "slower", "web")
    )
    return {
        "mcp.startup_timeout_s": word_of(slow, "1.1 s", "1.2 s"),
        "mcp.servers.startup_timeout_s": word_of(slower, "1.3 s", "1.4 s"),
        "mcp.servers.headers_helper": word_of(web, "exit code 3", "exit code 4"),
        "max_cost_usd": seen.run.code,
    }


def required_server() -> Seen:
    return {"mcp.servers.required": printed().run.code}


def required_tool() -> Seen:
    return {"mcp.require_tools": printed().run.code}


def alert() -> Seen:
    """Return how a session alerts the user; that takes ten seconds, see test_activity.py."""
    seen: list[str] = []

    async def run(options: ReplOptions, _build: object) -> int:
        seen.append(str(options.look.notify))
        return 0

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ANTHROPIC_API_KEY", "k")
        patch.setattr(repl, "run", run)
        COMMANDS["repl"](parse_arguments(["--prompts-from", os.devnull]))
    return {"ui.notify": seen}


def stopped_tool() -> Seen:
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
    return {"tools.timeout_s": word_of(messages, "longer than 1 s", "longer than 1.1 s")}


JOURNEYS = (
    Journey(
        "request",
        request,
        (
            Row("model", 'model = "claude-fable-5-2"', "claude-fable-5-2"),
            Row("max_tokens", "max_tokens = 123", 123),
            Row("effort", 'effort = "low"', {"effort": "low"}),
            Row("model_fallback", 'model_fallback = ["high,small"]', FALLBACKS),
            Row("provider.inference_geo", 'provider.inference_geo = "us"', "us"),
            Row(
                "provider.service_tier", 'provider.service_tier = "standard_only"', "standard_only"
            ),
            Row("attach", "attach = false", expected=False),
            Row("agents.enabled", "agents.enabled = false", expected=False),
            Row("tools.web_fetch", "tools.web_fetch = false", expected=False),
            Row("tools.web_search", "tools.web_search = true", expected=True),
            Row("mcp.enabled", "mcp.enabled = false", set()),
            Row("output_style", 'output_style = "rude"', expected=True),
            Row(
                "plugins.disabled",
                'plugins.disabled = ["project_instructions"]',
                expected=False,
            ),
            Row("permissions.mode", 'permissions.mode = "yolo"', 0),
            Row("session.enabled", "session.enabled = false", expected=False),
            Row("telemetry.enabled", "telemetry.enabled = true", COLLECTED),
            Row("logging.sinks", sink(type="file", path="own.log"), {"info"}),
            Row(
                "logging.sinks.level",
                sink(type="file", path="quiet.log", level="error"),
                set(),
                other=sink(type="file", path="quiet.log"),
            ),
            Row(
                "logging.sinks.path",
                sink(type="file", path="here.log"),
                {"info"},
                other=sink(type="file", path="there.log"),
            ),
            Row(
                "logging.sinks.type",
                sink(type="console", level="info"),
                expected=True,
                other=sink(type="file", level="info"),
            ),
        ),
        base=server("raw"),
    ),
    Journey(
        "request_of_small_model",
        request_of_small_model,
        (
            Row("temperature", "temperature = 0.5", 0.5),
            Row("prices", 'prices.claude-haiku-4-5 = "1000000/0"', 9.0),
            Row("provider.compat", "provider.compat = true", expected=False),
            Row("plugins.enabled", "plugins.enabled = false", expected=False),
            Row("max_rounds", "max_rounds = 1", 4),
            Row("undo.commands", 'undo.commands = "off"', expected=False),
            Row(
                "telemetry.endpoint",
                'telemetry.endpoint = "http://collector.test"',
                {"http://collector.test/v1/traces", "http://collector.test/v1/metrics"},
            ),
            Row("telemetry.content", "telemetry.content = true", expected=True),
            Row("logging.level", 'logging.level = "error"', set()),
            Row(
                "mcp.headless_wait_s",
                "mcp.headless_wait_s = 0.2",
                "after 0.2 s",
                other="mcp.headless_wait_s = 0.3",
            ),
        ),
        base="\n".join(
            (
                'model = "claude-haiku-4-5"',
                "telemetry.enabled = true",
                sink(type="file", path="own.log"),
                server("raw", HANGS),
            )
        ),
    ),
    Journey(
        "bedrock",
        address_on_bedrock,
        (Row("provider.platform", 'provider.platform = "bedrock"', "/anthropic/v1/messages"),),
    ),
    Journey(
        "commands",
        commands,
        (
            Row(
                "history.max_tool_result_chars",
                "history.max_tool_result_chars = 1000",
                expected=True,
            ),
            Row("tools.fold_output", "tools.fold_output = false", expected=False),
            Row("permissions.deny", 'permissions.deny = ["bash(true)"]', expected=True),
            Row("permissions.claude_files", "permissions.claude_files = false", expected=False),
            Row("hooks.claude_files", "hooks.claude_files = false", expected=False),
            Row("jobs.max", "jobs.max = 0", expected=True),
            Row("undo.leave_out", 'undo.leave_out = ["touch *"]', expected=False),
            Row("undo.ask_beyond_files", "undo.ask_beyond_files = 1", expected=True),
            Row("undo.ask_beyond_mb", "undo.ask_beyond_mb = 1", expected=True),
            Row("undo.max_gb", "undo.max_gb = 0.001", expected=False),
        ),
    ),
    Journey(
        "command_and_job",
        command_and_job,
        (
            Row("undo.max_mb", "undo.max_mb = 0", expected=False),
            Row("undo.keep_days", "undo.keep_days = 1", expected=False),
            Row("sandbox.network", "sandbox.network = true", expected=True),
            Row("tools.concurrency", "tools.concurrency = 1", ["start", "end", "start", "end"]),
            Row("jobs.timeout_s", "jobs.timeout_s = 1", "jobs.timeout_s"),
        ),
    ),
    Journey(
        "agents",
        agents,
        (
            Row("models", 'models.normal = "claude-opus-5-5"', "claude-opus-5-5"),
            Row("retry.jitter", 'retry.jitter = "full"', expected=False),
            Row(
                "tool_execution",
                'tool_execution = "sequential"',
                ["start", "end", "start", "end"],
            ),
            Row("working_directory", 'working_directory = "sub"', "sub"),
            Row("sandbox.mode", 'sandbox.mode = "off"', expected=True),
            Row("agents.ask_beyond", "agents.ask_beyond = 1", expected=True),
            Row("agents.max_depth", "agents.max_depth = 1", expected=False),
            Row("agents.max_rounds", "agents.max_rounds = 1", expected=True),
        ),
        base='model = "normal"\nretry.base_s = 0.01',
    ),
    Journey(
        "asked_about",
        asked_about,
        (
            Row("permissions.allow", 'permissions.allow = ["write(a)"]', expected=False),
            Row("permissions.ask", 'permissions.ask = ["bash(true)"]', expected=True),
            Row("sandbox.auto_allow", 'sandbox.auto_allow = "always"', expected=False),
        ),
    ),
    Journey(
        "asked_at_once",
        asked_at_once,
        (
            Row("approval", 'approval = "defer"', 1),
            Row("retry.shared_file", 'retry.shared_file = "pause.json"', expected=True),
            Row(
                "mcp.defer_beyond_tokens",
                "mcp.defer_beyond_tokens = 1",
                {"find_tools"},
            ),
        ),
        base=f"retry.other_base_s = 0.001\n{server('raw')}",
    ),
    Journey(
        "retries",
        retries,
        (
            Row("history.max_conversation_messages", "history.max_conversation_messages = 3", 3),
            Row("retry.base_s", "retry.base_s = 0.02", 0.02, other="retry.base_s = 0.01"),
            Row(
                "retry.other_base_s",
                "retry.other_base_s = 0.03",
                0.03,
                other="retry.other_base_s = 0.01",
            ),
            Row("retry.factor", "retry.factor = 3", 3),
            Row(
                "retry.respect_retry_after",
                "retry.respect_retry_after = false",
                expected=True,
            ),
        ),
    ),
    Journey(
        "refused_retries",
        refused_retries,
        (
            Row("retry.on", 'retry.on = ["429"]', 1),
            Row("retry.max", "retry.max = 1", 2),
            Row("retry.max_server_delay_s", "retry.max_server_delay_s = 0.01", 1),
        ),
        base="retry.base_s = 0.001\nretry.other_base_s = 0.001",
    ),
    Journey(
        "silence",
        silence,
        (
            Row(
                "provider.read_timeout_s",
                "provider.read_timeout_s = 1",
                expected=True,
                other="provider.read_timeout_s = 1.1",
            ),
            Row(
                "provider.stall_timeout_s",
                "provider.stall_timeout_s = 1.3",
                expected=True,
                other="provider.stall_timeout_s = 1.4",
            ),
        ),
        base="retry.max = 0",
    ),
    Journey(
        "first_lines",
        first_lines,
        (
            Row("streaming", 'streaming = "sequential"', "Done."),
            Row("ui.show_thinking", "ui.show_thinking = true", expected=True),
            Row("plugins.reminders", "plugins.reminders = true", expected=True),
            Row("compaction.threshold_tokens", THRESHOLD.strip(), 1),
        ),
        base="compaction.protected_tail_messages = 2",
    ),
    Journey(
        "compaction",
        compaction,
        (
            Row(
                "compaction.protected_tail_messages", "compaction.protected_tail_messages = 2", [3]
            ),
            Row("compaction.user_words_chars", "compaction.user_words_chars = 0", expected=False),
            Row("compaction.model", 'compaction.model = "small"', "claude-haiku-5-5"),
        ),
        base=THRESHOLD,
    ),
    Journey(
        "no_compaction",
        no_compaction,
        (Row("compaction.strategy", 'compaction.strategy = "none"', 0),),
        base=f"{THRESHOLD}compaction.protected_tail_messages = 2\n",
    ),
    Journey(
        "terminal",
        terminal,
        (
            Row("ui.theme", 'ui.theme = "none"', {"default"}),
            Row("ui.vi", "ui.vi = true", "hell"),
            Row("ui.keys", 'ui.keys = { f5 = "backspace" }', "work"),
            Row("ui.chars_per_second", "ui.chars_per_second = 60", expected=True),
            Row("steering", 'steering = "after_batch"', expected=True),
        ),
        base='tool_execution = "sequential"',
    ),
    Journey(
        "repainting",
        repainting,
        (
            Row("ui.screen_reader", "ui.screen_reader = true", expected=False),
            Row(
                "mcp.first_prompt_wait_s",
                "mcp.first_prompt_wait_s = 0.2",
                "after 0.2 s",
                other="mcp.first_prompt_wait_s = 0.3",
            ),
        ),
        base=server("raw", HANGS),
    ),
    Journey(
        "servers",
        servers,
        (
            Row("mcp.servers", server("plain"), RAW_TOOLS),
            Row("mcp.servers.name", server("other"), RAW_TOOLS, other=server("another")),
            Row(
                "mcp.servers.enabled",
                server("unused", enabled=False),
                set(),
                other=server("unused"),
            ),
            Row(
                "mcp.servers.enabled_tools",
                server("chosen", enabled_tools=["re*"]),
                {"reply"},
                other=server("chosen"),
            ),
            Row(
                "mcp.servers.disabled_tools",
                server("rest", disabled_tools=["re*"]),
                {"raw"},
                other=server("rest"),
            ),
            Row("mcp.config", 'mcp.config = ["~/servers.json"]', RAW_TOOLS),
            Row(
                "mcp.call_timeout_s",
                "mcp.call_timeout_s = 1.1",
                "1.1 s",
                other="mcp.call_timeout_s = 1.2",
            ),
            Row(
                "mcp.servers.call_timeout_s",
                server("slower", call_timeout_s=1.3),
                "1.3 s",
                other=server("slower", call_timeout_s=1.4),
            ),
        ),
        base=server("slow"),
    ),
    Journey(
        "loaded_tools",
        loaded_tools,
        (
            Row(
                "mcp.servers.always_load",
                server("raw", always_load=True),
                {"mcp__raw__reply", "mcp__raw__raw"},
                other=server("raw"),
            ),
        ),
        base="mcp.defer_beyond_tokens = 1",
    ),
    Journey(
        "servers_that_fail",
        servers_that_fail,
        (
            Row(
                "mcp.startup_timeout_s",
                "mcp.startup_timeout_s = 1.1",
                "1.1 s",
                other="mcp.startup_timeout_s = 1.2",
            ),
            Row(
                "mcp.servers.startup_timeout_s",
                server("slower", HANGS, startup_timeout_s=1.3),
                "1.3 s",
                other=server("slower", HANGS, startup_timeout_s=1.4),
            ),
            Row(
                "mcp.servers.headers_helper",
                web_server("exit 3"),
                "exit code 3",
                other=web_server("exit 4"),
            ),
            Row("max_cost_usd", "max_cost_usd = 0.000001", 4),
        ),
        base=server("slow", HANGS),
    ),
    Journey(
        "required_server",
        required_server,
        (
            Row(
                "mcp.servers.required",
                server("raw", {"exit": 3}, required=True),
                1,
                other=server("raw", {"exit": 3}),
            ),
        ),
    ),
    Journey(
        "required_tool",
        required_tool,
        (Row("mcp.require_tools", 'mcp.require_tools = ["mend"]', 1),),
    ),
    Journey("alert", alert, (Row("ui.notify", 'ui.notify = "off"', ["off"]),)),
    Journey(
        "stopped_tool",
        stopped_tool,
        (
            Row(
                "tools.timeout_s",
                "tools.timeout_s = 1",
                "longer than 1 s",
                other="tools.timeout_s = 1.1",
            ),
        ),
    ),
)
