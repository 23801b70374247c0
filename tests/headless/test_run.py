"""`-p`: one run on pipes, as scripts use it."""

import asyncio
import errno
import io
import json
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

import pytest

from agent_cli.contracts.errors import UsageError
from agent_cli.contracts.events import TurnStart
from agent_cli.contracts.file_changes import Difference
from agent_cli.contracts.goals import Goal
from agent_cli.contracts.messages import UserMessage
from agent_cli.contracts.timeline import Json, Usage
from agent_cli.contracts.tooling import ToolContext
from agent_cli.core.loop_config import LoopConfig
from agent_cli.headless import run as headless
from agent_cli.headless.inputs import RunOptions, read_prompt
from agent_cli.headless.limits import RunLimits
from tests.fakes import calls, returns, says, scripted_agent, tool, tool_use
from tests.forked import PipedProgram, start
from tests.repl.terminal import SCRIPTED
from tests.session_store.recordings import ask_about
from tests.waiting import ended_by_signals, wait_until

LONG = "word " * 20_000
"""More than a pipe holds, which is 64 KiB."""

USAGE = {
    "input_tokens": 10,
    "output_tokens": 2,
    "cache_read_tokens": 0,
    "cache_write_5m_tokens": 0,
    "cache_write_1h_tokens": 0,
    "web_searches": 0,
    "thinking_tokens": 0,
}


def started(output_format: str, prompt: str, **environment: str) -> PipedProgram:
    command = (str(SCRIPTED), "headless", output_format, prompt)
    return start(*command, environment={**os.environ, **environment})


def run(output_format: str, prompt: str, stdin: str = "", **env: str) -> tuple[int, str, str]:
    """Return exit code, stdout and stderr."""
    with started(output_format, prompt, **env) as process:
        out, err = process.communicate(stdin)
        return process.wait(), out, err


def last_line(out: str) -> dict[str, Any]:  # Any: parsed JSON
    shown: dict[str, Any] = json.loads(out.splitlines()[-1])
    return shown


def test_text_output_is_the_final_answer_only() -> None:
    """S1-05: text before a tool call is not the answer."""
    assert run("text", "notes good") == (0, "The tool said: noted\n", "")


def test_piped_input_is_appended_to_the_prompt() -> None:
    """As in `git diff | agent-cli -p review`; `-p -` takes all of it from the pipe."""
    _, appended, _ = run("text", "review", "the diff\n")
    _, alone, _ = run("text", "-", "  the whole prompt\n")

    assert appended == "You said 'review\\n\\nthe diff' to model-1.\n"
    assert alone == "You said 'the whole prompt' to model-1.\n"


def test_missing_prompt_is_a_usage_error() -> None:
    """The exit code is 2, and the JSON formats still end with a result."""
    code, out, err = run("json", "-")

    assert (code, last_line(out)["exit_code"]) == (2, 2)
    assert err == "there is no prompt: give one after -p, or pipe one in\n"


def test_terminal_on_stdin_is_not_read() -> None:
    """`-p` needs no Ctrl-D."""

    class Keyboard(io.StringIO):
        def isatty(self) -> bool:
            return True

        def read(self, _size: int | None = -1) -> str:
            raise AssertionError("this would wait for a person")

    warnings: list[str] = []

    assert read_prompt(" hello ", Keyboard(), warnings.append) == ("hello", "")
    with pytest.raises(UsageError, match="there is no prompt"):
        read_prompt("-", Keyboard(), warnings.append)
    assert warnings == []


def test_silent_pipe_on_stdin_is_ignored_after_a_time_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Supervisors and CI leave stdin open and never write; the run must not wait for ever."""
    monkeypatch.setattr("agent_cli.headless.inputs._STDIN_LIMIT_S", 0.05)
    warnings: list[str] = []
    reading, writing = os.pipe()

    with os.fdopen(reading) as silent:
        assert read_prompt("hello", silent, warnings.append) == ("hello", "")

    os.close(writing)
    assert warnings == [
        "stdin sent nothing within 0.05 s; it is ignored (a slow command: (echo PROMPT; COMMAND) |"
        " agent-cli -p -)"
    ]


def test_endless_stdin_is_read_up_to_the_size_of_a_request() -> None:
    """`-p ... < /dev/zero` took all memory of the machine."""
    warnings: list[str] = []
    with (
        Path("/dev/zero").open(encoding="utf-8") as endless,
        pytest.raises(UsageError, match="more than 32 MB were piped in"),
    ):
        read_prompt("hello", endless, warnings.append)


def test_json_output_is_one_result_object() -> None:
    """The object has all fields of `app.result`."""
    code, out, _ = run("json", "hello")

    assert (code, json.loads(out)) == (
        0,
        {
            "type": "app.result",
            "text": "You said 'hello' to model-1.",
            "stop_reason": "end_turn",
            "rounds": 1,
            "usage": USAGE,
            "cost_usd": 0.00005,
            "session_id": "s-1",
            "exit_code": 0,
        },
    )


def test_stream_json_prints_every_event_and_ends_with_the_result() -> None:
    """S4-25: the same events as for a renderer, one a line, `type` first, between start and end."""
    code, out, _ = run("stream-json", "notes good")

    lines = out.splitlines()
    types = [json.loads(line)["type"] for line in lines]
    assert all(line.startswith('{"type":') for line in lines)
    assert (code, types.index("agent_start") < types.index("turn_start")) == (0, True)
    assert types[-2:] == ["agent_end", "app.result"]
    for kind in (
        *("message_start", "message_update", "message_end", "turn_end"),
        *("tool_execution_start", "tool_execution_end", "app.tool_calls_announced"),
    ):
        assert kind in types


def test_stream_json_is_flushed_line_by_line() -> None:
    """A piece can be read before the next one exists."""
    with started("stream-json", "gated 2") as process:
        process.stdin.close()
        for number in range(2):
            piece = f'"delta":"piece {number}\\n"'
            assert any(piece in line for line in iter(process.stdout.readline, ""))
            Path(f"gate-{number}").touch()
        assert last_line(process.stdout.read())["exit_code"] == 0


@pytest.mark.parametrize(
    ("prompt", "environment", "code", "stop_reason", "told"),
    [
        ("fail", {}, 1, "error", "the API is overloaded (request req_1)"),
        ("boom", {}, 1, "error", "RuntimeError: a bug"),
        ("refuse", {}, 1, "refusal", "refused"),
        ("hello", {"SETTINGS_ERROR": "1"}, 2, "error", "appsettings.toml: model is not set"),
        ("loop forever", {"MAX_ROUNDS": "3"}, 4, "max_rounds", "stopped after round 3"),
        (
            "bash touch made",
            {},
            3,
            "end_turn",
            "bash skipped: cannot ask here; use --allow or --permission-mode",
        ),
    ],
)
def test_exit_code_and_stop_reason_match_how_the_run_ended(
    prompt: str, environment: dict[str, str], code: int, stop_reason: str, told: str
) -> None:
    """S1-30: the result line comes in every case."""
    exit_code, out, err = run("stream-json", prompt, **environment)

    result = last_line(out)
    assert (exit_code, result["type"], result["stop_reason"]) == (code, "app.result", stop_reason)
    assert result["exit_code"] == code
    assert told in err
    assert "Traceback" not in err
    assert not Path("made").exists()
    events = [json.loads(line) for line in out.splitlines()]
    said = [event for event in events if event["type"] in ("app.error", "app.notice")]
    assert said[0]["type"] == ("app.error" if stop_reason == "error" else "app.notice")
    assert told in said[0]["text"]


def test_result_lists_the_calls_that_nobody_could_approve() -> None:
    """A script reads which they were, and why; the exit code 3 says only that there were some."""
    code, out, _ = run("json", "bash touch made")

    [declined] = last_line(out)["declined_calls"]
    assert (code, declined.pop("tool_call_id") != "") == (3, True)
    assert declined == {
        "tool_name": "bash",
        "input": {"command": "touch made"},
        "reason": "commands can change anything",
    }


def test_refused_tool_call_is_reported_to_the_model_and_the_run_continues() -> None:
    """S2-33: the model can report the omission; the exit code tells the script."""
    code, out, _ = run("text", "bash touch made")

    assert code == 3
    assert out.startswith("The tool said: This call needs a person's approval")


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
@pytest.mark.parametrize("prompt", ["forever", "loading", "entering"])
def test_signal_ends_the_run_with_an_aborted_result(
    number: signal.Signals, code: int, prompt: str
) -> None:
    """C18: the session is closed and the last line written, also during loading."""
    waits = {"loading": "AWAIT_BUILT", "entering": "AWAIT_ENTERED"}
    environment = {waits[prompt]: "1"} if prompt in waits else {}
    with started("stream-json", prompt, **environment) as process:
        process.stdin.close()
        if prompt == "forever":
            assert any("working on it" in line for line in iter(process.stdout.readline, ""))
        else:
            wait_for(Path("entering" if prompt == "entering" else "agent.log"))
        process.send_signal(number)
        result = last_line(process.stdout.read())

        assert (process.wait(), result["exit_code"]) == (code, code)
        assert result["stop_reason"] == "aborted"
        assert Path("closed").exists() == (prompt == "forever")


@pytest.mark.parametrize("output_format", ["text", "json", "stream-json"])
@pytest.mark.parametrize(("prompt", "code"), [("notes good", 0), ("bash touch made", 3)])
def test_signal_after_the_answer_does_not_change_the_exit_code(
    output_format: str, prompt: str, code: int
) -> None:
    """C18: nothing was interrupted; a script must not throw the complete answer away."""
    with started(output_format, prompt, SLOW_CLOSING="1") as process:
        process.stdin.close()
        wait_for(Path("closing"))
        process.send_signal(signal.SIGTERM)
        Path("may-close").touch()
        out = process.stdout.read()

        assert process.wait() == code
    if output_format == "text":
        assert out.startswith("The tool said: ")
    else:
        result = last_line(out)
        assert (result["exit_code"], result["stop_reason"]) == (code, "end_turn")


def test_the_answer_is_printed_before_the_program_is_closed() -> None:
    """A script reads on at once; hooks, servers and files are closed beside it."""
    with started("text", "notes good", SLOW_CLOSING="1") as process:
        process.stdin.close()
        answer = process.stdout.readline()
        was_closed = Path("closed").exists()
        Path("may-close").touch()

        assert (process.wait(), answer, was_closed) == (0, "The tool said: noted\n", False)
        assert process.stdout.read() == ""  # once


def test_a_reader_that_is_slow_does_not_keep_the_program_open() -> None:
    """`agent-cli -p … | less`: the session is free, and no command runs on, while it is read."""
    with started("text", "review") as process:
        with process.stdin:
            process.stdin.write(LONG)
        wait_for(Path("closed"))
        out = process.stdout.read()

        assert (process.wait(), len(out)) == (
            0,
            len(LONG.strip()) + len("You said 'review\\n\\n' to model-1.\n"),
        )


def test_second_signal_after_the_answer_does_not_change_the_exit_code() -> None:
    """The answer was read; who asks once more for the end gets the code that belongs to it."""
    with started("text", "notes good", SLOW_CLOSING="1") as process:
        process.stdin.close()
        process.stdout.readline()
        wait_for(Path("closing"))

        assert ended_by_signals(process) == 0
        assert not Path("closed").exists()


def test_second_signal_while_the_answer_is_read_ends_with_its_own_code() -> None:
    """The answer is cut off: code 0 would be a lie."""
    with started("text", "review") as process:
        with process.stdin:
            process.stdin.write(LONG)
        wait_for(Path("closed"))

        assert ended_by_signals(process) == 143


def test_full_disk_keeps_an_answer_from_being_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The caller says so, once everything is closed."""
    program = Program()
    with Path(os.devnull).open() as nothing, Path("/dev/full").open("wb", buffering=0) as full:
        monkeypatch.setattr(sys, "stdin", nothing)
        monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(full, write_through=True))

        with pytest.raises(OSError, match="No space left on device"):
            asyncio.run(headless.run("hello", lambda: program))


class NoChanges:
    """A program that changed no files."""

    def differences(self, *, last_run: bool = False) -> Sequence[Difference]:
        return ()


class NoGoals:
    progress = None

    def begin(self, goal: Goal) -> str:
        raise AssertionError(goal)

    def drop(self) -> None:
        pass

    def rewound(self) -> bool:
        return False


class Program:
    """The minimum that a headless run needs of a program."""

    session_id = None
    session_path = None
    held_microdollars = 0
    undecided_files: Sequence[Path] = ()
    refused_commands: Mapping[str, Sequence[str]] = MappingProxyType({})
    refused_hosts: Sequence[str] = ()
    workspace = Path()
    file_changes = NoChanges()
    goals = NoGoals()

    async def receipts(self) -> Sequence[dict[str, Json]]:
        return ()

    def __init__(self) -> None:
        self.agent, self.model, _ = scripted_agent(says("hello"))

    attaches_names = True
    takes_documents = True

    def leave(self) -> None:
        pass

    def require_answer(self, schema: Mapping[str, Json]) -> None:
        pass

    def why_kept_back(self, path: Path) -> str:
        return ""

    def why_outside(self, path: Path) -> str:
        return ""

    def note_attached(self, path: Path, content: bytes) -> None:
        pass

    async def written_out(self, prompt: str) -> tuple[str, None]:
        return prompt, None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_failure: object) -> None:
        """Do nothing: there is nothing to close."""


class StoppedAtTheEndOfLoading(Program):
    """It is told to end so late that loading has ended before it can be interrupted."""

    async def written_out(self, prompt: str) -> tuple[str, None]:
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.sleep(0)  # one step of the event loop, which passes the signal on
        return prompt, None


def test_signal_in_the_last_moment_of_loading_ends_the_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """C18: it stopped nothing, and the run went on to its end, as if there had been no signal."""
    program = StoppedAtTheEndOfLoading()
    with Path(os.devnull).open() as nothing:
        monkeypatch.setattr(sys, "stdin", nothing)
        code = asyncio.run(headless.run("hello", lambda: program, output_format="json"))

    assert (code, last_line(capsys.readouterr().out)["stop_reason"]) == (143, "aborted")
    assert program.model.requests == []


def test_full_disk_on_stdout_ends_the_run(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The events have no reader; continuing would cost money and change files unseen."""
    program = Program()
    with Path(os.devnull).open() as nothing, Path("/dev/full").open("wb", buffering=0) as full:
        monkeypatch.setattr(sys, "stdin", nothing)
        monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(full, write_through=True))

        with pytest.raises(OSError, match="No space left on device"):
            asyncio.run(headless.run("hello", lambda: program, output_format="stream-json"))

    assert program.model.requests == []
    assert "listener failed" not in caplog.text
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(("number", "file"), [(errno.EMFILE, "a.py"), (errno.ENFILE, None)])
def test_too_few_open_files_are_named_with_the_remedy(
    number: int,
    file: str | None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """With `ulimit -n 8` anything may fail: an import of a moment ago, a pipe, a session's file."""

    def build() -> Program:
        raise OSError(number, os.strerror(number), file)

    with Path(os.devnull).open() as nothing:
        monkeypatch.setattr(sys, "stdin", nothing)
        code = asyncio.run(headless.run("hello", build, output_format="json"))

    out, err = capsys.readouterr()
    where = f" ({file})" if file else ""
    told = f"too many files are open{where}: raise the limit of your shell (`ulimit -n`)"
    assert (code, err, last_line(out)["error"]) == (1, f"{told}\n", told)


def test_widgets_and_files_of_tools_are_printed_on_stderr(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Widgets are printed as text, files with their path; `-p` used to drop both."""

    async def execute(_id: str, _params: object, _cancel: object, context: ToolContext) -> str:
        context.display_widget("table", {"columns": ["a"], "rows": []}, "a\n1")
        context.add_file_output("out.pdf", "application/pdf", "the report")
        return "done"

    program = Program()
    asks = calls(tool_use("look", {}, "t1"))
    program.agent, *_ = scripted_agent(asks, says("Done."), tools=[tool("look", execute)])
    with Path(os.devnull).open() as nothing:
        monkeypatch.setattr(sys, "stdin", nothing)

        asyncio.run(headless.run("hello", lambda: program))

    shown = capsys.readouterr()
    assert shown.out == "Done.\n"
    assert shown.err == "a\n1\nfile out.pdf: application/pdf · the report\n"


def test_command_that_was_refused_in_its_midst_is_named_on_stderr(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Who reads the text format would see the exit code alone."""
    program = Program()
    program.refused_commands = {"rm -rf data": ["bash(rm -rf data)"], "rm $f": []}
    program.agent, *_ = scripted_agent(says("Done."))
    with Path(os.devnull).open() as nothing:
        monkeypatch.setattr(sys, "stdin", nothing)

        code = asyncio.run(headless.run("hello", lambda: program))

    shown = capsys.readouterr()
    assert (code, shown.out) == (3, "Done.\n")
    assert shown.err == (
        "`rm -rf data` was refused: cannot ask here about the files that it takes;"
        " use --allow 'bash(rm -rf data)'\n"
        "`rm $f` was refused: cannot ask here about the files that it takes;"
        " use --allow with rules for all of it, or --permission-mode yolo\n"
    )


@pytest.mark.parametrize(("questions", "waiting"), [(10, []), (11, ["t10"])])
def test_run_that_asks_in_vain_ends_at_the_eleventh_question(
    questions: int,
    waiting: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A model that does not take a no for an answer would cost money until another limit."""
    program = Program()
    replies = [calls(tool_use("note", {}, f"t{number}")) for number in range(questions)]
    program.agent, model, _ = scripted_agent(
        *replies,
        says("Done."),
        tools=[tool("note", returns("ok"))],
        options=LoopConfig(authorize_tool=ask_about("note"), approval="defer"),
    )
    with Path(os.devnull).open() as nothing:
        monkeypatch.setattr(sys, "stdin", nothing)

        code = asyncio.run(headless.run("hello", lambda: program))

    assert code == 3
    assert capsys.readouterr().err.count("note skipped: cannot ask here") == 10
    assert len(model.requests) == 11
    assert [each.tool_call_id for each in program.agent.conversation.questions()] == waiting


def test_prompt_behind_a_question_is_said_not_to_be_sent(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """S2-31: `-p -c` ended with the old question alone, and the prompt was lost without a word."""
    program = Program()
    program.agent, model, _ = scripted_agent(
        calls(tool_use("note", {}, "t1")),
        tools=[tool("note", returns("ok"))],
        options=LoopConfig(authorize_tool=ask_about("note")),
    )
    with Path(os.devnull).open() as nothing:
        monkeypatch.setattr(sys, "stdin", nothing)
        asyncio.run(headless.run("hello", lambda: program, options=RunOptions(parks=True)))
        capsys.readouterr()

        code = asyncio.run(headless.run("and this", lambda: program))

    first, *_ = capsys.readouterr().err.splitlines()
    assert first == "the prompt was not sent: decide first about what waits in this session"
    assert (code, len(model.requests)) == (3, 1)


def test_answer_cut_off_by_max_tokens_exits_with_4(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """max_tokens is a limit like rounds and cost, with the same exit code."""
    program = Program()
    program.agent, *_ = scripted_agent(says("Half an ans", stop_reason="max_tokens"))
    with Path(os.devnull).open() as nothing:
        monkeypatch.setattr(sys, "stdin", nothing)

        code = asyncio.run(headless.run("hello", lambda: program))

    assert (code, capsys.readouterr().out) == (4, "Half an ans\n")


def test_reported_usage_covers_this_run_only(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """S2-41: a sum over the runs of a session would count the first run twice."""
    program = Program()
    earlier = program.agent.conversation
    earlier.begin(UserMessage.of("earlier"))
    earlier.add_reply(says("ok", usage=Usage(7, 7, cost_microdollars=None)))
    with Path(os.devnull).open() as nothing:
        monkeypatch.setattr(sys, "stdin", nothing)

        asyncio.run(headless.run("hello", lambda: program, output_format="json"))

    result = last_line(capsys.readouterr().out)
    assert (result["rounds"], result["usage"]["input_tokens"], result["cost_usd"]) == (1, 10, 0)


def test_limit_reached_while_the_program_closes_is_not_reported(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The answer is complete; it ends like a run within its limits."""

    class Closing(Program):
        async def __aexit__(self, *_failure: object) -> None:
            self.agent.publish(TurnStart())  # of an agent in the background

    limits = RunLimits(tokens=1)
    with Path(os.devnull).open() as nothing:
        monkeypatch.setattr(sys, "stdin", nothing)

        code = asyncio.run(headless.run("hello", Closing, options=RunOptions(limits)))

    shown = capsys.readouterr()
    assert (code, shown.out, shown.err) == (0, "hello\n", "")


def wait_for(path: Path) -> None:
    wait_until(path.exists, str(path))


def test_closed_stdout_ends_the_run_without_a_traceback() -> None:
    """`agent-cli -p … | head -1`: no traceback, and no work without a reader."""
    with started("stream-json", "gated 2") as process:
        process.stdin.close()
        process.stdout.readline()
        process.stdout.close()
        Path("gate-0").touch()

        assert process.wait() == 141
        assert process.stderr.read() == ""
