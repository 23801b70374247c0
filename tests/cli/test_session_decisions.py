"""Tool calls left waiting by a kill are decided after the restart, in a shell or in the REPL."""

import json
import re
import signal
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agent_cli.contracts.messages import UserMessage
from agent_cli.core.conversation import Conversation
from agent_cli.session_store import SessionStore
from agent_cli.system.paths import sessions_dir
from tests.e2e.program import (
    AGENT_CLI,
    Finished,
    agent_cli,
    environment,
    results_in,
    said_by_user,
)
from tests.fakes import calls
from tests.messages_api import FakeMessagesApi, reply, serve_in_thread, tool_use
from tests.repl.terminal import Terminal

UNREAD_S = 2.0  # the program counts from the moment it goes on after the question
WRITE = tool_use("write", {"path": "made.txt", "content": "by the tool\n"}, id="toolu_write")
LOOK = tool_use("glob", {"pattern": "*.md"}, id="toolu_look")


@contextmanager
def dumb_terminal(api: FakeMessagesApi, *arguments: str) -> Generator[Terminal]:
    """Run the REPL without a screen, on a terminal, so that it can ask questions."""
    with Terminal(AGENT_CLI, *arguments, **environment(api, {"TERM": "dumb"})) as terminal:
        yield terminal


def answer(terminal: Terminal, word: str) -> None:
    """Answer the question on the screen, no faster than a person could read it."""
    terminal.until("allow?")
    time.sleep(UNREAD_S)
    terminal.send(f"{word}\n")


def asked_and_ended(
    api: FakeMessagesApi,
    how: signal.Signals,
    *arguments: str,
    term: str = "dumb",
    prompt: str = "make a file",
) -> str:
    """Run a session up to its question, end the program there, and return the session's id."""
    with Terminal(AGENT_CLI, *arguments, **environment(api, {"TERM": term})) as terminal:
        terminal.until("? or /help")
        terminal.send(f"{prompt}\r")
        terminal.until("allow?")
        terminal.child.kill(how)
        terminal.exit_code()
    return session_id()


def session_id() -> str:
    return agent_cli("sessions", "list").stdout.split()[0]


def shown(id: str) -> str:
    """Return the transcript without the parts that differ between runs."""
    return agent_cli("sessions", "show", id).stdout


def decided_without_restart() -> tuple[str, list[object]]:
    """Return the session's transcript and requests when the program is not killed."""
    with serve_in_thread(reply("I write.", WRITE, LOOK), reply("It is made.")) as api:
        with dumb_terminal(api) as terminal:
            terminal.until("you>")
            terminal.send("make a file\n")
            answer(terminal, "y")
            terminal.until("It is made.")
            terminal.send("exit\n")
            assert terminal.exit_code() == 0
        told = shown(session_id()), [request.body["messages"] for request in api.requests]
    Path("made.txt").unlink()
    return told


def test_pending_approval_survives_a_kill_and_can_be_given_later() -> None:
    """S2-31: the file, the transcript and the requests equal those without a kill."""
    expected = decided_without_restart()

    with serve_in_thread(reply("I write.", WRITE, LOOK), reply("It is made.")) as api:
        id = asked_and_ended(api, signal.SIGKILL)
        assert not Path("made.txt").exists()
        assert "waits for a decision" in agent_cli("sessions", "list").stdout
        run = agent_cli("sessions", "approve", id, api=api)

    assert (run.code, run.stdout) == (0, "It is made.\n"), run.stderr
    assert Path("made.txt").read_text() == "by the tool\n"
    assert shown(id) == expected[0]
    assert [request.body["messages"] for request in api.requests] == expected[1]
    assert api.refusals == []


@pytest.mark.parametrize(
    ("options", "asked"),
    [((), "claude-opus-5"), (("--model", "claude-haiku-5-5"), "claude-haiku-5-5")],
)
def test_prompt_with_its_own_model_keeps_that_model_over_a_restart(
    options: tuple[str, ...], asked: str
) -> None:
    """S2-31, S2-54: the user who resumes the session may name another model."""
    with serve_in_thread(reply("I write.", WRITE), reply("It is made.")) as api:
        id = asked_and_ended(api, signal.SIGKILL, prompt="/with claude-opus-5 make a file")
        run = agent_cli(*options, "sessions", "approve", id, api=api)

    assert (run.code, run.stdout) == (0, "It is made.\n"), run.stderr
    assert [request.body["model"] for request in api.requests] == ["claude-opus-5", asked]
    assert ("continues with claude-opus-5" in run.stderr) is (not options)
    assert said_by_user(api.requests[0].body) == ["make a file"]


def test_decision_in_a_script_ends_with_the_result_object() -> None:
    """S2-31: a script that parked reads cost and stop reason of the rest as it read the first."""
    with serve_in_thread(reply("I write.", WRITE), reply("It is made.")) as api:
        parked = agent_cli("-p", "go", "--park", "--output-format", "json", api=api)
        id = json.loads(parked.stdout)["session_id"]
        run = agent_cli("sessions", "reject", id, "--output-format", "json", api=api)

    result = json.loads(run.stdout)
    assert (run.code, result["exit_code"], result["session_id"]) == (0, 0, id)
    assert (result["text"], result["stop_reason"]) == ("It is made.", "end_turn")


@pytest.mark.parametrize(("order", "before"), [("defer", ["one"]), ("batch", [])])
def test_calls_around_a_pending_approval_run_once_with_ordered_results(
    order: str, before: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """S2-35, C4: calls after the question wait with it, across a kill too."""
    monkeypatch.setenv("AGENT_CLI_APPROVAL", order)
    around = [
        tool_use("bash", {"command": f"mktemp {name}.XXXX"}, id=f"toolu_{name}")
        for name in ("one", "two")
    ]
    allow = ("--allow", "bash(mktemp *)")
    asks = reply("I write.", around[0], WRITE, around[1])
    with serve_in_thread(asks, reply("It is made.")) as api:
        id = asked_and_ended(api, signal.SIGKILL, *allow)
        made = [path.stem for path in (*Path().glob("*.????"), *Path().glob("made.txt"))]
        run = agent_cli(*allow, "sessions", "approve", id, api=api)

    assert made == before
    assert (run.code, run.stdout) == (0, "It is made.\n"), run.stderr
    assert sorted(path.stem for path in Path().glob("*.????")) == ["one", "two"]
    assert [result["tool_use_id"] for result in results_in(api.requests[1].body)] == [
        *("toolu_one", "toolu_write", "toolu_two")
    ]
    assert api.refusals == []


def test_repl_asks_for_the_pending_approval_once_a_session_is_chosen() -> None:
    """S2-31: a closed window decides nothing; `--resume` without an id lists waiting sessions."""
    with serve_in_thread(reply("I write.", WRITE, LOOK), reply("It is made.")) as api:
        id = asked_and_ended(api, signal.SIGHUP, term="xterm-256color")
        with Terminal(AGENT_CLI, "--resume", **environment(api, {})) as terminal:
            terminal.until(f"make a file · just now · 1 prompt · waits for a decision · {id}")
            terminal.send("\r")
            terminal.until("❯ 1 Yes")
            terminal.send("y\r")
            terminal.until("It is made.")
            path = sessions_dir() / f"{id}.jsonl"
            terminal.until(lambda: b'"state":"completed"' in path.read_bytes())

    assert Path("made.txt").read_text() == "by the tool\n"
    assert ": approved, done\n    made.txt created" in shown(id)
    assert shown(id).endswith("\n\nIt is made.\n")
    assert api.refusals == []


def test_repl_on_a_dumb_terminal_asks_for_the_pending_approval_first() -> None:
    """S2-31: nothing is typed before; a new prompt comes after the old one's calls."""
    answers = reply("I write.", WRITE, LOOK), reply("It is made."), reply("Well.")
    with serve_in_thread(*answers) as api:
        id = asked_and_ended(api, signal.SIGTERM)
        with dumb_terminal(api, "--continue") as terminal:
            answer(terminal, "y")
            terminal.until("It is made.")
            terminal.send("how is it?\n")
            terminal.until("Well.")
            terminal.send("exit\n")
            assert terminal.exit_code() == 0

    assert Path("made.txt").read_text() == "by the tool\n"
    assert shown(id).endswith("\n\nIt is made.\n\nyou> how is it?\n\nWell.\n")
    assert api.refusals == []


def waiting_session() -> str:
    """Leave a waiting session of this directory, as a killed program does; return its id."""
    conversation = Conversation()
    session = SessionStore(sessions_dir()).create(conversation, Path.cwd())
    conversation.publish = session.record
    conversation.begin(UserMessage.of("make a file"))
    conversation.add_reply(calls(WRITE))
    conversation.pause({"toolu_write": "it writes a file"})
    session.close()
    return session.id


def decided(*arguments: str, answers: tuple[str, ...] = ("Done.",)) -> tuple[Finished, list[str]]:
    """Run `agent-cli sessions ...` against a new server; return the results it received."""
    with serve_in_thread(*map(reply, answers)) as api:
        run = agent_cli("sessions", *arguments, api=api)
    return run, [str(result) for request in api.requests for result in results_in(request.body)]


def test_reason_of_a_rejected_call_reaches_the_model() -> None:
    """S2-33: the model reads it, and the run continues."""
    id = waiting_session()

    run, results = decided("reject", id, "toolu_write", "not on a Friday")

    assert (run.code, run.stdout) == (0, "Done.\n")
    assert "not on a Friday" in results[0]
    assert not Path("made.txt").exists()
    assert "rejected, error\n    not on a Friday" in shown(id)


def test_second_decision_about_a_call_changes_nothing() -> None:
    """S2-32: it causes neither a call nor a request."""
    id = waiting_session()
    decided("approve", id)
    before = shown(id)
    Path("made.txt").write_text("changed since\n")

    run, results = decided("reject", id, "toolu_write", answers=())

    assert (run.code, results) == (0, [])
    assert "toolu_write does not wait: it was approved" in run.stderr
    assert Path("made.txt").read_text() == "changed since\n"
    assert shown(id) == before


def test_invalid_decision_is_refused_and_nothing_runs() -> None:
    """A wrong call, no call and a wrong session each end with one sentence."""
    id = waiting_session()

    run, _ = decided("approve", id, "toolu_other", answers=())
    assert (run.code, "toolu_other" in run.stderr) == (1, True)
    run, _ = decided("approve", "nowhere", answers=())
    assert (run.code, "'nowhere' does not exist" in run.stderr) == (2, True)
    decided("reject", id)
    run, _ = decided("approve", id, answers=())
    assert (run.code, "nothing in this session waits" in run.stderr) == (1, True)
    assert not Path("made.txt").exists()


def test_pending_call_can_only_be_approved_in_its_own_directory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In another directory, a relative path would mean another file."""
    id = waiting_session()
    elsewhere = Path("elsewhere").resolve()
    elsewhere.mkdir()
    here = Path.cwd()
    monkeypatch.chdir(elsewhere)

    run, results = decided("approve", id, answers=())

    assert (run.code, results) == (1, [])
    assert f"belongs to {here}: decide there" in run.stderr
    assert list(elsewhere.iterdir()) == []


def test_next_approval_of_the_same_run_waits_for_a_decision_too() -> None:
    """S2-34: an unattended run ends there and names the command that decides."""
    id = waiting_session()
    again = tool_use("write", {"path": "second.txt", "content": "2"}, id="toolu_second")

    with serve_in_thread(reply("One more.", again), reply("Both are made.")) as api:
        first = agent_cli("sessions", "approve", id, api=api)
        second = agent_cli("sessions", "approve", id, "toolu_second", api=api)

    assert first.code == 3
    assert f"agent-cli sessions approve {id} toolu_second" in first.stderr
    assert (second.code, second.stdout) == (0, "Both are made.\n")
    assert Path("second.txt").read_text() == "2"


def test_prompt_does_not_answer_a_pending_approval() -> None:
    """S2-31: `-p` on a waiting session keeps the question and names the command to answer it."""
    id = waiting_session()

    with serve_in_thread() as api:
        run = agent_cli("--continue", "-p", "go on", api=api)

    assert (run.code, api.requests) == (3, [])
    assert re.search(rf"write waits for a decision: agent-cli sessions approve {id}", run.stderr)
    assert "waits for a decision" in agent_cli("sessions", "list").stdout
