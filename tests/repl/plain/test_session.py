"""The REPL without a terminal: pipes, files, dumb terminals."""

import asyncio
import os
import pty
import re
import signal
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from io import StringIO
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import pytest

from agent_cli.contracts.dialogs import Option, UserQuestion
from agent_cli.contracts.errors import CHANGE_IT
from agent_cli.contracts.events import Notice, SessionOpened
from agent_cli.repl.hosting import Interrupts, ProgramHost
from agent_cli.repl.plain import session
from agent_cli.repl.plain.session import PlainPrompt, PlainRepl
from agent_cli.repl.plain.shell import Shell
from agent_cli.terminal.writer import Writer
from tests.fakes import LIMIT_S, says, scripted_agent
from tests.forked import PipedProgram, start
from tests.repl.conversation import Nobody
from tests.repl.scripted_app import Application
from tests.repl.terminal import SCRIPTED, Terminal


class NoShell:
    """The program is never loaded."""

    def load(self) -> None:
        raise NotImplementedError

    def open(self, app: object) -> AbstractAsyncContextManager[Shell]:
        raise NotImplementedError


def repl(**environment: str) -> PipedProgram:
    """Start the REPL with all three streams as pipes."""
    return start(str(SCRIPTED), "repl", environment={**os.environ, **environment})


def converse(lines: str, **environment: str) -> tuple[int, str, str]:
    """Feed *lines* and return exit code, stdout and stderr."""
    with repl(**environment) as process:
        out, err = process.communicate(lines)
        return process.wait(), out, err


def test_stdout_of_a_piped_session_holds_only_answers() -> None:
    """S1-05: no prompt, tool lines, warnings or escapes; these are on stderr."""
    code, out, err = converse("hello\n\nnotes good\nretry\n/tools\nfail\n")

    assert (code, out) == (
        0,
        "You said 'hello' to model-1.\n"
        "I take notes.\n"
        "The tool said: noted\n"
        "half an ans\n"
        "The whole answer.\n",
    )
    assert "\x1b" not in err
    assert re.sub(r"\d\.\d s", "n s", err).splitlines() == [
        "tools: bash, note",
        "MCP servers: docs",
        "logs: agent.log",
        "* Note good",
        "  done in n s: Note good",
        "the connection broke; retry 1 of 5 in 10 s; the reply so far is discarded, and starts"
        " again",
        "bash  Run a command",
        "note  Write something down.",
        "the API is overloaded (request req_1)",
    ]


def test_each_delta_is_on_stdout_before_the_next_one_is_generated() -> None:
    """S1-05: the model writes piece k+1 only after the test has read piece k."""
    with repl() as process:
        process.stdin.write("gated 5\n")
        process.stdin.flush()
        for number in range(5):
            assert process.stdout.readline() == f"piece {number}\n"
            Path(f"gate-{number}").touch()
        process.stdin.close()
        assert process.wait() == 0


def test_sequential_mode_writes_the_answer_once_and_complete() -> None:
    """C16, S4-20, S4-22: a restart leaves no trace on stdout; text before tools is on stderr."""
    _, out, err = converse("retry\nnotes good\n", SEQUENTIAL="1")

    assert out == "The whole answer.\nThe tool said: noted\n"
    assert re.sub(r"\d\.\d s", "n s", err).splitlines()[4:] == [
        "I take notes.",
        "* Note good",
        "  done in n s: Note good",
    ]


def test_call_that_needs_approval_is_refused_without_a_user_to_ask() -> None:
    """The call does not run, the model reads why, and the next line is not taken as an answer."""
    _, out, err = converse("bash touch made\ny\n")

    assert "This call needs a person's approval and nobody can be asked here." in out
    assert "You said 'y'" in out
    assert "bash skipped: cannot ask here; use --allow or --permission-mode" in err
    assert not Path("made").exists()


def test_continued_session_reports_a_call_that_waits_for_a_decision() -> None:
    """Without a prompt the call keeps waiting, for a terminal or `agent-cli sessions approve`."""
    _, out, err = converse("/usage\n", WAITING="1")

    assert out == ""
    assert err.splitlines()[3:6] == [
        "1 prompt so far:",
        "you> Touch",
        "a tool call waits for a decision: cannot ask here, so the next prompt declines it",
    ]


def test_backslash_continues_a_line_in_a_pipe() -> None:
    """C28."""
    _, out, _ = converse("one\\\ntwo\n")

    assert out == "You said 'one\\ntwo' to model-1.\n"


def test_sigint_stops_the_run_and_sigterm_the_program() -> None:
    """C18, without a terminal."""
    with repl() as process:
        process.stdin.write("forever\nhello\nforever\n")
        process.stdin.flush()
        assert process.stdout.read(13) == "working on it"
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "\n"
        assert process.stdout.readline() == "You said 'hello' to model-1.\n"
        assert process.stdout.read(13) == "working on it"
        process.send_signal(signal.SIGTERM)
        assert (process.wait(), Path("closed").exists()) == (143, True)


@pytest.mark.parametrize(("pause_s", "reads", "hints"), [(1.4, 2, 1), (1.6, 4, 2)])
async def test_second_ctrl_c_soon_after_the_first_leaves(
    monkeypatch: pytest.MonkeyPatch, pause_s: float, reads: int, hints: int
) -> None:
    """The first one may have been meant for a run that had just ended."""
    now_s = iter([100.0, 100.0, 100.0 + pause_s, 100.0 + pause_s])
    monkeypatch.setattr(session, "time", SimpleNamespace(monotonic=lambda: next(now_s)))
    typed: list[str | type[BaseException]] = [KeyboardInterrupt, KeyboardInterrupt, "", EOFError]
    read: list[str] = []

    class Typed(PlainPrompt):
        def __init__(self) -> None:
            self.can_ask = True

        async def read(self, message: str) -> str:
            read.append(message)
            if isinstance(line := typed.pop(0), str):
                return line
            raise line

    err = StringIO()
    writer, interrupts = Writer(StringIO(), err, color=False), Interrupts(lambda _stop: None)
    prompt = Typed()
    host: ProgramHost[Shell] = ProgramHost(Application, NoShell())
    host.ready.set_result(
        Shell(
            Application(),
            prompt=prompt,
            writer=writer,
            interrupts=interrupts,
        )
    )
    await asyncio.wait_for(PlainRepl(prompt, writer, interrupts).run(host), LIMIT_S)

    assert (len(read), err.getvalue().count("press Ctrl-C again to leave")) == (reads, hints)


def test_closed_stdout_ends_the_session_quietly() -> None:
    """As with `| head`: no traceback."""
    with repl() as process:
        process.stdin.write("gated 2\nhello\n")
        process.stdin.flush()
        process.stdout.readline()
        process.stdout.close()
        Path("gate-0").touch()
        Path("gate-1").touch()
        assert process.wait() == 141
        assert "Error" not in process.stderr.read()


def test_dumb_terminal_gets_the_prompt_and_questions_without_escapes() -> None:
    """With TERM=dumb input comes in whole lines, so the answer to a question needs Enter."""
    with Terminal(TERM="dumb", NO_COLOR="1") as terminal:
        terminal.until_loaded()
        terminal.send("bash touch made\n")

        def ran() -> bool:
            return "The tool said: exit code 0" in terminal.text

        # It is asked again after an answer that came too early: a hundred times on a fast machine.
        for questions in count(1):
            terminal.until(
                lambda number=questions: terminal.bytes.count(b"allow? ") == number or ran()  # type: ignore[misc]
            )
            if ran():
                break
            terminal.send("y\n")
        terminal.until_prompt()
        terminal.send("\x04")

        assert terminal.exit_code() == 0
        assert Path("made").exists()
        assert b"\x1b" not in terminal.bytes


@pytest.mark.parametrize("kind", [{"TERM": "dumb"}, {"SCREEN_READER": "1"}])
def test_first_prompt_stands_once_and_below_the_greeting(kind: dict[str, str]) -> None:
    """It stood above the greeting, and again below it: a screen reader said it twice."""
    with Terminal(**kind, NO_COLOR="1") as terminal:
        terminal.until_loaded()
        terminal.until_prompt()

        assert terminal.bytes.count(b"you> ") == 1


def test_ctrl_c_during_work_is_followed_by_a_new_row_on_a_dumb_terminal() -> None:
    """The terminal shows `^C` itself: "^Cinterrupted" is one word to a screen reader."""
    with Terminal(TERM="dumb", NO_COLOR="1") as terminal:
        terminal.until_loaded()
        terminal.send("!echo begun; sleep 60\n")
        terminal.until("\nbegun")
        terminal.send("\x03")
        terminal.until("\ninterrupted")
        terminal.until_prompt()

        assert "\n^C\ninterrupted" in terminal.text


def test_leaving_a_dumb_terminal_says_how_to_resume_below_the_prompt() -> None:
    """The shell's prompt stood behind ours, and nobody said how to go on, or which jobs end."""
    with Terminal(TERM="dumb", NO_COLOR="1") as terminal:
        terminal.until_loaded()
        terminal.send("hello\n")
        terminal.until("You said 'hello'")
        terminal.until_prompt()
        terminal.send("\x03")
        terminal.until("\npress Ctrl-C again to leave")
        terminal.until_prompt()
        terminal.send("\x04")

        assert terminal.exit_code() == 0
        assert terminal.rows_at_the_end()[-4:] == [
            "you>",
            "job 1 (`npm run dev`) still ran; it ends with this session",
            "to resume this session:",
            "  agent-cli --resume s-1",
        ]


async def test_answer_to_a_hidden_prompt_of_a_plugin_is_not_shown() -> None:
    """It used to stream on the screen, though every transcript leaves it out."""
    out, err = StringIO(), StringIO()
    app = Application()
    app.agent, *_ = scripted_agent(says("secretly"), says("openly"))
    Shell(
        app,
        prompt=Nobody(),
        writer=Writer(out, err, color=False),
        interrupts=Interrupts(lambda _stop: None),
    )

    await app.agent.trigger(visible=False)
    hidden = out.getvalue()
    await app.agent.trigger()

    assert (hidden, out.getvalue()) == ("", "openly\n")


async def test_what_the_run_prints_waits_for_the_answer_to_an_open_question() -> None:
    """An agent in the background asks while the session answers: a reader would mix them up."""
    out, err = StringIO(), StringIO()
    app = Application()
    app.agent, *_ = scripted_agent(says("openly"))

    class Person(Nobody):
        async def choose(self, message: str, keys: str) -> str:
            await app.agent.prompt("go")
            out.write("answered\n")
            return "blue"

    shell = Shell(
        app,
        prompt=Person(["blue"]),
        writer=Writer(out, err, color=False),
        interrupts=Interrupts(lambda _stop: None),
    )
    shell.greet()
    assert app.model_dialogs
    await app.model_dialogs.ask(
        [UserQuestion(question="Which?", options=[Option(label="a"), Option(label="b")])]
    )

    assert out.getvalue() == "answered\nopenly\n"


async def test_event_without_output_does_not_repeat_the_prompt() -> None:
    """A screen reader used to say `you> ` twice after the start, because of the session's event."""
    moved: list[str] = []
    out, err = StringIO(), StringIO()

    class Waiting(Nobody):
        def above(self, write: Callable[[], None]) -> None:
            write()
            moved.append(err.getvalue())

    app = Application()
    Shell(
        app,
        prompt=Waiting(),
        writer=Writer(out, err, color=False),
        interrupts=Interrupts(lambda _stop: None),
    )

    app.agent.publish(SessionOpened("s-1", "s-1.jsonl", resumed=False))
    app.agent.publish(Notice("warning", f"refused; {CHANGE_IT}"))

    assert moved == ["refused; change it with /rewind, or start over with /clear\n"]


def test_hooks_command_lists_each_hook_with_its_command_and_file() -> None:
    """A guard that cannot be inspected cannot be trusted."""
    _, _, err = converse("/hooks\n")

    assert "PreToolUse Bash: guard.py (guard, settings.json)" in err


@dataclass
class Typist:
    """A terminal with scripted input, and its output."""

    prompt: PlainPrompt
    shown: StringIO
    fd: int

    def type(self, text: str) -> None:
        os.write(self.fd, text.encode())

    async def until(self, shown: str) -> None:
        async with asyncio.timeout(30):
            while shown not in self.shown.getvalue():  # noqa: ASYNC110 - a thread writes it
                await asyncio.sleep(0.001)


@asynccontextmanager
async def typist(monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[Typist]:
    monkeypatch.setattr(session, "UNREAD_S", 0.0)
    ours, theirs = pty.openpty()
    shown = StringIO()
    with os.fdopen(theirs) as source:
        yield Typist(PlainPrompt(source, shown), shown, ours)
        os.close(ours)  # ends the reading thread, which holds the other side


async def answer(asking: Coroutine[None, None, str]) -> str:
    """Return the answer; an interrupt that left its task would end the event loop."""
    try:
        return await asking
    except (KeyboardInterrupt, EOFError) as error:
        return type(error).__name__


async def test_row_begins_after_a_question_that_was_closed_without_an_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its file had changed, and the sentence about that stood behind `allow? `."""
    async with typist(monkeypatch) as it:
        asking = asyncio.ensure_future(it.prompt.choose("allow? ", ""))
        await it.until("allow? ")
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking

        assert it.shown.getvalue() == "allow? \n"


async def test_line_typed_before_the_prompt_is_repeated_behind_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its echo is in the middle of an answer; the next answer belongs to it.

    An empty one ends the row too: the next prompt, or a resumed question, stood behind it.
    """
    async with typist(monkeypatch) as it:
        it.prompt.wake("early\x07")
        it.prompt.wake()
        assert await it.prompt.read("you> ") == "early\x07"
        assert await it.prompt.read("you> ") == ""
        reading = asyncio.ensure_future(it.prompt.read("you> "))
        await it.until("early\nyou> \nyou> ")
        it.type("later\n")
        await reading

    assert it.shown.getvalue() == "you> early\nyou> \nyou> "


async def test_question_of_a_key_says_which_keys_answer_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any other line, a command too, was dropped without a word."""
    async with typist(monkeypatch) as it:
        asking = asyncio.ensure_future(it.prompt.choose_key("send? ", ["y", "n", "1"]))
        await it.until("send? ")
        it.type("/usage\n")
        await it.until("answer y, n or 1\nsend? ")
        it.type("yes\n")

        assert await asking == "y"


async def test_question_takes_precedence_over_the_waiting_prompt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """If a server asks at the idle prompt, the next line is the answer, not a prompt."""
    async with typist(monkeypatch) as it:
        reading = asyncio.ensure_future(it.prompt.read("you> "))
        first = asyncio.ensure_future(it.prompt.choose("one? ", "yn"))
        second = asyncio.ensure_future(it.prompt.choose("two? ", "yn"))
        await it.until("one? ")
        it.type("y\n")
        assert await first == "y"
        await it.until("two? ")
        it.type("n\n")
        assert await second == "n"
        it.type("hello\n")

        assert await reading == "hello"
        assert it.shown.getvalue() == "you> \none? you> \ntwo? you> "


async def test_run_that_begins_by_itself_leaves_the_row_of_the_prompt_and_shows_it_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As at the end of a job: its answer stood behind `you> `, and no prompt came after it."""
    async with typist(monkeypatch) as it:
        app = Application()
        writer = Writer(it.shown, it.shown, color=False)
        Shell(app, prompt=it.prompt, writer=writer, interrupts=Interrupts(lambda _stop: None))
        reading = asyncio.ensure_future(it.prompt.read("you> "))
        await it.until("you> ")

        await app.agent.prompt("hello")
        app.agent.publish(Notice("warning", "files is gone"))
        it.type("later\n")
        await reading

    assert it.shown.getvalue() == "you> \nYou said 'hello' to model-1.\nyou> \nfiles is gone\nyou> "


async def test_notice_and_question_during_a_run_show_no_prompt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The prompt waits below the run, also one that comes while a run of its own is shown."""
    async with typist(monkeypatch) as it:
        it.prompt.lend(to_run=True)
        reading = asyncio.ensure_future(it.prompt.read("you> "))
        it.prompt.above(lambda: None)
        asking = asyncio.ensure_future(it.prompt.choose("one? ", "yn"))
        await it.until("one? ")
        it.type("y\n")
        await asking
        it.prompt.lend(to_run=False)
        it.type("later\n")
        await reading

    assert it.shown.getvalue() == "one? you> "


async def test_ctrl_c_ends_only_the_question_and_end_of_input_ends_everything(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A question asked after the end gets no answer."""
    async with typist(monkeypatch) as it:
        reading = asyncio.ensure_future(answer(it.prompt.read("you> ")))
        asking = asyncio.ensure_future(answer(it.prompt.choose("one? ", "yn")))
        await it.until("one? ")
        it.prompt.stop(KeyboardInterrupt)
        assert await asking == "KeyboardInterrupt"
        it.prompt.stop(EOFError)

        assert await reading == "EOFError"
        assert await answer(it.prompt.choose("two? ", "yn")) == "EOFError"
