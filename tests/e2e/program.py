"""The installed `agent-cli`: run to its end, or started and watched, against a test server."""

import json
import os
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.called import call, can_call
from tests.forked import PipedProgram, start
from tests.messages_api import FakeMessagesApi
from tests.messages_api.script import Payload
from tests.repl.terminal import Terminal

AGENT_CLI = str(Path(sys.executable).with_name("agent-cli"))
KEY = "sk-ant-canary-5d1f7c"


@dataclass(frozen=True, slots=True)
class Finished:
    """The outcome of a run: exit code and both streams."""

    code: int
    stdout: str
    stderr: str

    @property
    def lines(self) -> list[Any]:  # Any: JSON
        """Return the output, one JSON value a line."""
        return [json.loads(line) for line in self.stdout.splitlines()]

    @property
    def result(self) -> Payload:
        """Return the last line of the JSON formats."""
        last: Payload = self.lines[-1]
        assert last["type"] == "app.result"
        return last


def environment(api: FakeMessagesApi | None, more: dict[str, str | None]) -> dict[str, str]:
    """Return the environment of a run: short waits between attempts, *more* applied last."""
    where = {"ANTHROPIC_BASE_URL": api.base_url} if api else {}
    waits = {"AGENT_CLI_RETRY__BASE_S": "0.01", "AGENT_CLI_RETRY__OTHER_BASE_S": "0.01"}
    wanted = {**os.environ, "ANTHROPIC_API_KEY": KEY, **where, **waits, **more}
    return {name: value for name, value in wanted.items() if value is not None}


def agent_cli(
    *arguments: str,
    api: FakeMessagesApi | None = None,
    stdin: str = "",
    script: str = "",
    **more: str | None,
) -> Finished:
    """Run the program to its end, if possible as a call in this process: see tests/called.py.

    Args:
        arguments: The command line.
        api: The server.
        stdin: Piped input: one prompt.
        script: Piped input instead: one prompt a line.
        more: Additional environment variables; None unsets one.
    """
    if can_call(variables := environment(api, more)):
        return Finished(*call(_words(arguments, script), variables, stdin or script))
    return forked_agent_cli(*arguments, api=api, stdin=stdin, script=script, **more)


def forked_agent_cli(
    *arguments: str,
    api: FakeMessagesApi | None = None,
    stdin: str = "",
    script: str = "",
    **more: str | None,
) -> Finished:
    """Run the program to its end in a process of its own."""
    variables = environment(api, more)
    return _run(_words(arguments, script), variables, stdin or script, fresh=False)


def new_agent_cli(
    *arguments: str, api: FakeMessagesApi | None = None, stdin: str = "", **more: str | None
) -> Finished:
    """Run it in a new interpreter, which takes two seconds more: see tests/forked.py."""
    return _run(arguments, environment(api, more), stdin, fresh=True)


def _words(arguments: Sequence[str], script: str) -> list[str]:
    return [*arguments, *(("--prompts-from", "-") if script else ())]


def _run(
    arguments: Sequence[str], variables: dict[str, str], stdin: str, *, fresh: bool
) -> Finished:
    with start(AGENT_CLI, *arguments, environment=variables, fresh=fresh) as program:
        stdout, stderr = program.communicate(stdin)
        return Finished(program.wait(), stdout, stderr)


def in_terminal(api: FakeMessagesApi, *arguments: str, **more: str | None) -> Terminal:
    """Start the program in a terminal, with *more* in its environment."""
    return Terminal(AGENT_CLI, *arguments, **environment(api, more))


@contextmanager
def started(
    *arguments: str, api: FakeMessagesApi | None = None, **more: str | None
) -> Generator[PipedProgram]:
    """Start the program without input; it is killed at the end if it still runs."""
    with start(AGENT_CLI, *arguments, environment=environment(api, more)) as program:
        program.stdin.close()
        yield program


@contextmanager
def started_for(limit_s: float, *arguments: str, api: FakeMessagesApi) -> Generator[PipedProgram]:
    """Start a program that may take longer than others; it is killed after *limit_s*."""
    variables = environment(api, {})
    with start(AGENT_CLI, *arguments, environment=variables, limit_s=limit_s) as program:
        program.stdin.close()
        yield program


def finished(process: PipedProgram) -> Finished:
    """Wait for the end of a started program."""
    stdout, stderr = process.communicate()
    return Finished(process.wait(), stdout, stderr)


def long_sleep(seconds: int) -> str:
    """Return a command that `processes_with` tells from those of other workers and runs."""
    return f"sleep {seconds}.{os.getpid():07}"


def processes_with(text: str) -> list[str]:
    """Return the command lines of this machine's processes that contain *text*."""
    found: list[str] = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue  # it has ended
        if text in command:
            found.append(f"{path.parent.name}: {command}")
    return found


def results_in(request: Payload) -> list[Payload]:
    """Return the tool results in the last message of a request."""
    content = request["messages"][-1]["content"]
    return [block for block in content if block["type"] == "tool_result"]


def text_of(result: Payload) -> str:
    """Return the text of a tool result."""
    content = result["content"]
    if isinstance(content, str):
        return content
    return "".join(block.get("text", "") for block in content)


def said_by_user(request: Payload) -> list[str]:
    """Return the texts of a request's user messages."""
    contents = [each["content"] for each in request["messages"] if each["role"] == "user"]
    return [
        block["text"]
        for content in contents
        for block in ([{"type": "text", "text": content}] if isinstance(content, str) else content)
        if block["type"] == "text"
    ]


def asks_for_summary(body: Payload) -> bool:
    """Return whether a request asks for a summary: at the end of a whole request, or of a text."""
    asked = str(body.get("compaction") or body["messages"][-1])
    return not body.get("tools") or "is about to be replaced by notes" in asked
