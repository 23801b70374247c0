"""`agent-cli answer TOKEN`: questions answered from elsewhere with what a hook of the user got."""

import base64
import json
import shutil
import signal
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from agent_cli.contracts.errors import UsageError
from agent_cli.contracts.timeline import Json
from agent_cli.session_store.signed_answers import VALID_S, AnswerBox, AnswerKey, OpenCall
from agent_cli.system.paths import answer_key_file, answers_dir, sessions_dir, user_settings_file
from tests.e2e.program import Finished, agent_cli, finished, in_terminal, results_in, started
from tests.messages_api import (
    FakeMessagesApi,
    Gate,
    ReceivedRequest,
    Reply,
    reply,
    serve_in_thread,
    tool_use,
)
from tests.repl.terminal import Terminal
from tests.waiting import wait_until

WRITE = tool_use("write", {"path": "made.txt", "content": "by the tool\n"}, id="toolu_write")
OTHER = tool_use("write", {"path": "other.txt", "content": "too\n"}, id="toolu_other")
QUESTION = tool_use(
    "ask_user",
    {
        "questions": [
            {
                "question": "Which database?",
                "options": [{"label": "SQLite"}, {"label": "Postgres"}],
            }
        ]
    },
)
UNWANTED = "The user does not want this call to run"


@pytest.fixture(name="told")
def _told() -> Path:
    """Define a hook that appends each notification to a file, and return the file."""
    file = user_settings_file().with_name("told.jsonl")
    define(file, "answers = true, ")
    return file


def define(file: Path, extra: str) -> None:
    user_settings_file().parent.mkdir(parents=True, exist_ok=True)
    user_settings_file().write_text(
        "[[hooks.Notification]]\n"
        'matcher = "permission_prompt|elicitation_dialog"\n'
        f'hooks = [{{ type = "command", {extra}sandbox = false, command = \''
        # One write: those of two calls run side by side.
        f'printf "%s\\n" "$(cat)" >> "{file}"\' }}]\n'
    )


def notes(file: Path) -> list[Any]:  # Any: JSON
    lines = file.read_text().splitlines() if file.exists() else []
    return [json.loads(line) for line in lines if line]


def tokens(file: Path, call: str = "toolu_write") -> dict[str, str]:
    """Return the answers to the question about *call*, once the hook was told."""

    def told() -> list[dict[str, str]]:
        return [note["answers"] for note in notes(file) if note.get("tool_use_id") == call]

    wait_until(told, "the notification")
    return told()[0]


def parked(api: FakeMessagesApi, *arguments: str) -> Finished:
    run = agent_cli("-p", "make a file", "--park", *arguments, api=api)
    assert run.code == 3, run.stderr
    return run


def ask_for_a_file(terminal: Terminal) -> None:
    """Type a prompt, and wait for the question about the call of its reply."""
    terminal.until_prompt()
    terminal.send("make a file\r")
    terminal.until("allow?")


def refusal(run: Finished) -> str:
    """Return the one sentence of a refused answer."""
    assert (run.code, run.stdout) == (2, "")
    return " ".join(run.stderr.split())


def test_parked_question_is_allowed_once_by_the_token_of_a_hook(
    told: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Threat 27: the run goes on where the token is given; a replay is refused and runs nothing.

    Who answers is anywhere: the call runs in the workspace of the session.
    """
    made, elsewhere = Path("made.txt").absolute(), tmp_path / "elsewhere"
    elsewhere.mkdir()
    with serve_in_thread(reply("I write.", WRITE), reply("It is made.")) as api:
        waiting = parked(api)
        assert not made.exists()
        monkeypatch.chdir(elsewhere)
        run = agent_cli("answer", tokens(told)["allow"], api=api)
        made.unlink()
        again = agent_cli("answer", tokens(told)["allow"], api=api)
        other = agent_cli("answer", tokens(told)["deny"], api=api)

    assert "write waits for a decision" in waiting.stderr
    assert (run.code, run.stdout) == (0, "It is made.\n"), run.stderr
    assert "write does not wait for an answer any more: it was approved" in refusal(again)
    assert "it was approved" in refusal(other)
    assert not made.exists()
    assert len(api.requests) == 2
    note = notes(told)[0]
    assert note["tool_name"] == "Write"
    assert note["tool_input"]["content"] == "by the tool\n"
    assert note["is_danger"] is False


def test_next_question_of_an_answered_run_waits_and_is_told_too(told: Path) -> None:
    """One answer after the other, until the run has ended."""
    with serve_in_thread(
        reply("I write.", WRITE), reply("And more.", OTHER), reply("Both.")
    ) as api:
        parked(api)
        first = agent_cli("answer", tokens(told)["allow"], api=api)
        second = agent_cli("answer", tokens(told, "toolu_other")["allow"], api=api)

    assert first.code == 3
    assert (second.code, second.stdout) == (0, "Both.\n")
    assert Path("other.txt").exists()


def test_several_calls_of_a_reply_are_answered_each_by_its_own_token(
    told: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run goes on when the last of them is decided.

    A no is as the person's at the terminal: the model reads why. A token comes on stdin, too, out
    of the process list.
    """
    monkeypatch.setenv("AGENT_CLI_APPROVAL", "batch")
    with serve_in_thread(reply("I write.", WRITE, OTHER), reply("One of them.")) as api:
        parked(api)
        assert len(notes(told)) == 2
        first = agent_cli("answer", tokens(told)["allow"], api=api)
        made = Path("made.txt").exists()
        denial = tokens(told, "toolu_other")["deny"]
        second = agent_cli("answer", "-", api=api, stdin=denial + "\n")

    assert (first.code, made) == (3, False)
    assert [UNWANTED in str(each) for each in results_in(api.requests[1].body)] == [False, True]
    assert (second.code, second.stdout) == (0, "One of them.\n")
    assert Path("made.txt").exists()
    assert not Path("other.txt").exists()


def test_forged_tokens_are_refused_with_one_sentence() -> None:
    """Threat 27: nothing else than the whole token of this machine counts.

    That is found before the session is looked for: there is none.
    """
    call = OpenCall("0123456789ab", "toolu_write", "write", {"path": "made.txt"}, "terms")
    key = AnswerKey(answer_key_file())
    token = key.sign(call, "allow")
    assert key.read(token).verdict == "allow"
    cut = token[:-2] + ("AA" if token[-2:] != "AA" else "BB")
    forged = [cut, token.partition(".")[0], f"{token}=", f"{token}.", token.replace(".", ".\n")]
    forged += ["A" * 10_000, "", "é.ü", token.swapcase()]

    for each in forged:
        with pytest.raises(UsageError, match="this is no answer that this machine signed"):
            key.read(each)
    for each in (cut, "", "é.ü"):
        refused = refusal(agent_cli("answer", each))
        assert "this is no answer that this machine signed" in refused


def waiting_call(told: Path) -> tuple[AnswerKey, OpenCall]:
    """Return the key and the call of the notification, to sign about it at another time."""
    answer = AnswerKey(answer_key_file()).read(tokens(told)["allow"])
    input_: Json = {"path": "made.txt", "content": "by the tool\n"}
    call = OpenCall(answer.session_id, answer.call_id, "write", input_, answer.terms)
    answer.require_about(call)
    return AnswerKey(answer_key_file()), call


def test_answer_that_is_not_the_one_about_the_waiting_call_is_refused(
    told: Path, tmp_path: Path
) -> None:
    """Threat 27: each with its reason; nothing runs, and the question goes on waiting.

    A body with another verdict does not fit the signature. A clock that was set back does not make
    a token of tomorrow valid. The token is about what the person saw, under the rules of then: one
    of another program counts too, and a workspace that was trusted meanwhile, or no longer is,
    brings other rules and hooks. An earlier key of this machine signs nothing: to remove the file
    takes all answers back.
    """
    Path("appsettings.toml").write_text("max_rounds = 7\n")
    with serve_in_thread(reply("I write.", WRITE)) as api:
        parked(api)
        signed = tokens(told)
        key, call = waiting_call(told)

        def refused(token: str) -> str:
            return refusal(agent_cli("answer", token, api=api))

        body, _, mac = signed["deny"].partition(".")
        said = base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)).replace(b"deny", b"allow")
        forged = base64.urlsafe_b64encode(said).rstrip(b"=").decode()
        assert "no answer that this machine signed" in refused(f"{forged}.{mac}")
        another = AnswerKey(tmp_path / "other").sign(call, "allow")
        assert "no answer that this machine signed" in refused(another)
        for ago_s, sentence in (
            (VALID_S + 1, "came too late"),
            (-3_600, "from the future"),
            (-VALID_S * 9, "the future"),
        ):
            assert sentence in refused(key.sign(call, "allow", now_s=time.time() - ago_s))
        seen = OpenCall(call.session_id, call.call_id, "write", {"path": "a"}, call.terms)
        assert "write changed after this answer was made" in refused(key.sign(seen, "allow"))
        rules = user_settings_file().read_text()
        user_settings_file().write_text(rules + '[permissions]\ndeny = ["bash(rm *)"]\n')
        changed = "the permission rules or the trust of the workspace changed"
        assert changed in refused(signed["allow"])
        user_settings_file().write_text(rules)
        assert agent_cli("trust", "--yes").code == 0
        assert changed in refused(signed["allow"])
        answer_key_file().unlink()
        assert "no answer that this machine signed" in refused(signed["allow"])

    assert not Path("made.txt").exists()
    assert len(api.requests) == 1


def test_deny_rule_added_on_the_command_line_still_holds(told: Path) -> None:
    """A person's yes never beats a rule that denies."""
    with serve_in_thread(reply("I write.", WRITE), reply("No file.")) as api:
        parked(api)
        run = agent_cli("--deny", "write", "answer", tokens(told)["allow"], api=api)

    assert run.code == 0, run.stderr
    assert not Path("made.txt").exists()


def test_a_fork_is_not_answered_by_the_original_s_token(told: Path) -> None:
    """The token names its session; once that one is gone, nothing is left to answer."""
    with serve_in_thread(
        reply("I write.", WRITE), reply("Made."), reply("Forked."), reply("x")
    ) as api:
        parked(api)
        answer = AnswerKey(answer_key_file()).read(tokens(told)["allow"])
        agent_cli("-p", "go on", "--fork", answer.session_id, api=api)
        assert agent_cli("sessions", "delete", answer.session_id, "--yes").code == 0
        Path("made.txt").unlink(missing_ok=True)
        run = agent_cli("answer", tokens(told)["allow"], api=api)

    assert "does not exist any more" in refusal(run)
    assert not Path("made.txt").exists()


def test_tokens_are_nowhere_but_in_the_hook_that_asks_for_them(told: Path) -> None:
    """Threat 27: not in the session, the logs or the stream; what the hook prints is dropped."""
    with user_settings_file().open("a") as file:
        plain = told.with_name("plain.jsonl")
        file.write(
            '[[hooks.Notification]]\nhooks = [{ type = "command", '
            f"command = 'cat > \"{plain}\"' }}]"
            '\n[[hooks.Notification]]\nhooks = [{ type = "command", answers = true, sandbox ='
            " false, command = 'cat; cat >&2; exit 1' }]\n"
        )
    with serve_in_thread(reply("I write.", WRITE)) as api:
        run = agent_cli(
            *("-p", "make a file", "--park", "--output-format", "stream-json", "--verbose"),
            api=api,
        )
    answers = tokens(told)
    places = [path for path in sessions_dir().parent.rglob("*") if path.is_file()]
    texts = [path.read_bytes().decode(errors="replace") for path in places]
    texts += [run.stdout, run.stderr, plain.read_text(), *(str(r.body) for r in api.requests)]

    assert run.code == 3
    for token in (answers["allow"], answers["deny"]):
        assert [text for text in texts if token in text or token[-40:] in text] == []
    assert "answers" not in json.loads(plain.read_text())
    assert (answer_key_file().stat().st_mode & 0o777) == 0o600


def test_hook_of_a_project_gets_no_tokens_even_if_it_is_trusted() -> None:
    """Threat 27: the repository that the call comes from must not answer it."""
    file = Path("told.jsonl").resolve()
    define(file, "answers = true, ")
    shutil.move(user_settings_file(), "appsettings.toml")
    assert agent_cli("trust", "--yes").code == 0
    with serve_in_thread(reply("I write.", WRITE)) as api:
        parked(api)

    assert "answers" not in json.dumps(notes(file))


def test_hook_of_the_user_that_runs_a_file_of_the_project_gets_none() -> None:
    """Threat 27: what it starts in the workspace is the repository's: that gets no token."""
    Path("tell.sh").write_text("#!/bin/sh\ncat > told.json\n")
    Path("tell.sh").chmod(0o755)
    user_settings_file().parent.mkdir(parents=True, exist_ok=True)
    user_settings_file().write_text(
        '[[hooks.Notification]]\nhooks = [{ type = "command", command = "./tell.sh", answers ='
        " true }]\n"
    )
    with serve_in_thread(reply("I write.", WRITE)) as api:
        run = agent_cli("-p", "make a file", "--park", "--trust", api=api)

    assert run.code == 3
    note = Path("told.json").read_text()
    assert "permission_prompt" in note
    assert '"answers"' not in note


def test_run_that_declines_its_questions_signs_nothing(told: Path) -> None:
    """Without --park, -p skips the call: there is nothing to answer."""
    with serve_in_thread(reply("I write.", WRITE), reply("Left out.")) as api:
        run = agent_cli("-p", "make a file", api=api)

    assert run.code == 3
    assert [note.get("answers") for note in notes(told)] == [None]
    assert not answer_key_file().exists()


def test_park_needs_a_session(told: Path) -> None:
    """Nothing else can wait."""
    run = agent_cli("-p", "x", "--park", "--no-session")

    assert "--park needs a session that can wait" in refusal(run)


def test_open_question_of_the_terminal_is_answered_from_elsewhere(told: Path) -> None:
    """The session goes on there; a half-typed sentence stays in the input, and is sent nowhere."""
    with (
        serve_in_thread(reply("I write.", WRITE), reply("It is made.")) as api,
        in_terminal(api) as terminal,
    ):
        ask_for_a_file(terminal)
        token = tokens(told)["allow"]
        terminal.send("rather not, bec")
        terminal.until("rather not, bec")
        run = agent_cli("answer", token, api=api)
        terminal.until("allowed from elsewhere")
        terminal.until("It is made.")
        terminal.until("you> rather not, bec")
        again = agent_cli("answer", token, api=api)

    assert run.code == 0, run.stderr
    assert "the open session goes on" in run.stderr
    assert "it was approved" in refusal(again)
    assert Path("made.txt").read_text() == "by the tool\n"
    assert "rather not" not in str(api.requests[1].body)
    assert list(answers_dir().iterdir()) == []


def test_one_of_several_calls_is_answered_from_elsewhere_the_rest_here(
    told: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The question is put again about those that are left."""
    monkeypatch.setenv("AGENT_CLI_APPROVAL", "batch")
    with (
        serve_in_thread(reply("I write.", WRITE, OTHER), reply("One.")) as api,
        in_terminal(api, TERM="dumb") as terminal,
    ):
        terminal.until("you>")
        terminal.send("make two files\n")
        terminal.until("allow all 2?")
        run = agent_cli("answer", tokens(told, "toolu_other")["deny"], api=api)
        terminal.until("declined from elsewhere")
        terminal.until("allow?")
        terminal.until_silent(2.0)  # the program counts from when it goes on after the question
        terminal.send("y\n")
        terminal.until("One.")

    assert run.code == 0, run.stderr
    assert Path("made.txt").exists()
    assert not Path("other.txt").exists()


def _with_two_agents(request: ReceivedRequest) -> Reply:
    """Two agents in the background: each writes a file, one of them after the other's question."""
    first = str(request.body["messages"][0])
    if "task one" in first or "task two" in first:
        if len(request.body["messages"]) > 1:
            return reply("Done.")
        return reply(WRITE if "task one" in first else OTHER)
    if len(request.body["messages"]) > 1:
        return reply("Both work.")
    tasks = [{"description": each, "prompt": each} for each in ("task one", "task two")]
    return reply(*(tool_use("agent", {**task, "run_in_background": True}) for task in tasks))


def test_call_of_an_agent_is_answered_from_elsewhere_also_while_another_question_is_open(
    told: Path,
) -> None:
    """Whichever is on the screen; the other one stays open there."""
    with (
        serve_in_thread(answer=_with_two_agents) as api,
        in_terminal(api) as terminal,
    ):
        terminal.until_prompt()
        terminal.send("go\r")
        terminal.until("❯ 1 Yes")
        allowed = {call: tokens(told, call)["allow"] for call in ("toolu_write", "toolu_other")}
        first, queued = allowed if "Write made.txt" in terminal.text else reversed(allowed)
        run = agent_cli("answer", allowed[queued], api=api)
        made = Path("other.txt" if queued == "toolu_other" else "made.txt")
        wait_until(made.exists, "the file of the agent whose question waits")
        assert [*map(str, Path().glob("*.txt"))] == [made.name]
        run_open = agent_cli("answer", allowed[first], api=api)
        terminal.until(lambda: terminal.text.count("allowed from elsewhere") == 2)
        wait_until(lambda: Path("made.txt").exists() and Path("other.txt").exists(), "both files")

    assert (run.code, run_open.code) == (0, 0), run.stderr + run_open.stderr


def test_call_of_an_agent_whose_program_was_killed_takes_no_answer(told: Path) -> None:
    """Nothing goes on with an agent; its call is in a record of its own."""
    with serve_in_thread(answer=_with_two_agents) as api:
        with in_terminal(api) as terminal:
            terminal.until_prompt()
            terminal.send("go\r")
            token = tokens(told)["allow"]
            terminal.child.kill(signal.SIGKILL)
            terminal.exit_code()
        run = agent_cli("answer", token, api=api)

    assert "the agent that asked has ended with its program" in refusal(run)
    assert not Path("made.txt").exists()


def options(file: Path) -> tuple[str, dict[str, str]]:
    """Return the question in words of which the hook was told, and the token of each answer."""

    def told() -> list[Any]:
        return [note for note in notes(file) if "options" in note.get("answers", {})]

    wait_until(told, "the notification")
    [note] = told()
    return note["question"], note["answers"]["options"]


def test_question_of_the_model_is_answered_from_elsewhere_once(told: Path) -> None:
    """A second answer, also one that was signed, is refused before anything is left to claim."""
    with (
        serve_in_thread(reply(QUESTION), reply("Thanks."), reply(WRITE), reply("x")) as api,
        in_terminal(api) as terminal,
    ):
        terminal.until_prompt()
        terminal.send("go\r")
        terminal.until("1 SQLite")
        question, signed = options(told)
        terminal.send("or rath")
        terminal.until("or rath")
        run = agent_cli("answer", signed["Postgres"], api=api)
        terminal.until("answered from elsewhere: Postgres")
        terminal.until("Thanks.")
        terminal.until("you> or rath")
        said = str(api.requests[1].body["messages"][-1])
        assert list(answers_dir().iterdir()) == []
        posted = AnswerBox(answers_dir()).post(
            AnswerKey(answer_key_file()).read(signed["SQLite"]), "another"
        )
        again = agent_cli("answer", signed["SQLite"], api=api)
        assert AnswerBox(answers_dir()).withdraw(posted), "nobody looks for it any more"
    gone = agent_cli("answer", signed["SQLite"], api=api)

    assert (question, run.code) == ("Which database?", 0), run.stderr
    assert "the answer is Postgres: the open session goes on" in run.stderr
    assert "Which database?\\n→ Postgres" in said
    for late in (again, gone):
        assert "the question does not wait for an answer any more" in refusal(late)
    assert list(answers_dir().iterdir()) == []


def test_plan_is_approved_from_elsewhere_for_the_mode_that_asks(told: Path) -> None:
    plan = tool_use("present_plan", {"plan": "1. Write note.txt"})
    with (
        serve_in_thread(reply(plan), reply("I write.", WRITE), reply("Made.")) as api,
        in_terminal(api, "--permission-mode", "plan") as terminal,
    ):
        terminal.until_prompt()
        terminal.send("go\r")
        terminal.until("go ahead?")
        question, signed = options(told)
        run = agent_cli("answer", signed["Yes, and ask before each change"], api=api)
        terminal.until("allow?")
        write = agent_cli("answer", tokens(told)["allow"], api=api)
        terminal.until("Made.")

    assert (question, [*signed]) == ("1. Write note.txt", ["Yes, and ask before each change", "No"])
    assert (run.code, write.code) == (0, 0), run.stderr
    assert Path("made.txt").exists()


def test_answer_at_the_terminal_takes_the_token_back(told: Path) -> None:
    with (
        serve_in_thread(reply(QUESTION), reply("Thanks.")) as api,
        in_terminal(api) as terminal,
    ):
        terminal.until_prompt()
        terminal.send("go\r")
        terminal.until("1 SQLite")
        _, signed = options(told)
        terminal.until("❯ 1 SQLite")  # from now on Enter answers
        terminal.send("\r")
        terminal.until("Thanks.")
        run = agent_cli("answer", signed["Postgres"], api=api)

    assert "the question does not wait for an answer any more" in refusal(run)
    assert "SQLite" in str(api.requests[1].body["messages"][-1])


def test_answer_after_esc_is_refused(told: Path) -> None:
    """The person at the terminal was first."""
    with (
        serve_in_thread(reply("I write.", WRITE), reply("x")) as api,
        in_terminal(api) as terminal,
    ):
        ask_for_a_file(terminal)
        token = tokens(told)["allow"]
        terminal.send("\x03")
        terminal.until_prompt()
        run = agent_cli("answer", token, api=api)

    assert "write does not wait for an answer any more" in refusal(run)
    assert not Path("made.txt").exists()


def test_two_answers_at_once_decide_once(told: Path) -> None:
    """Allow and deny race for an open question: exactly one of them counts."""
    with (
        serve_in_thread(reply("I write.", WRITE), reply("Decided.")) as api,
        in_terminal(api) as terminal,
    ):
        ask_for_a_file(terminal)
        both = tokens(told)
        with (
            started("answer", both["allow"], api=api) as one,
            started("answer", both["deny"], api=api) as two,
        ):
            ended = [finished(one), finished(two)]
        terminal.until("Decided.")

    assert sorted(run.code for run in ended) == [0, 2], ended
    assert Path("made.txt").exists() is (ended[0].code == 0)


@pytest.mark.parametrize("verdicts", [("allow", "deny"), ("allow", "allow")])
def test_two_answers_at_once_to_a_parked_question_decide_once(
    told: Path, verdicts: tuple[str, str]
) -> None:
    """Only one says that the session goes on, and the other is refused in one sentence."""
    with serve_in_thread(reply("I write.", WRITE), reply("Decided.")) as api:
        parked(api)
        given = [tokens(told)[verdict] for verdict in verdicts]
        with (
            started("answer", given[0], api=api) as one,
            started("answer", given[1], api=api) as two,
        ):
            ended = sorted((finished(one), finished(two)), key=lambda run: run.code)

    assert (ended[0].code, ended[0].stdout) == (0, "Decided.\n"), ended
    assert "the session goes on here" in ended[0].stderr
    became = "approved" if Path("made.txt").exists() else "rejected"
    assert f"write does not wait for an answer any more: it was {became}" in refusal(ended[1])
    assert len(api.requests) == 2


def test_question_of_a_killed_terminal_is_answered_on_disk_once(told: Path) -> None:
    """The window is gone, the question is not; afterwards the session goes on with -c."""
    with serve_in_thread(reply("I write.", WRITE), reply("It is made."), reply("Yes.")) as api:
        with in_terminal(api) as terminal:
            ask_for_a_file(terminal)
            token = tokens(told)["allow"]
            terminal.child.kill(signal.SIGKILL)
            terminal.exit_code()
        run = agent_cli("answer", token, api=api)
        more = agent_cli("-p", "is it?", "-c", api=api)

    assert (run.code, run.stdout) == (0, "It is made.\n"), run.stderr
    assert (more.code, more.stdout) == (0, "Yes.\n")


def test_token_of_a_question_in_words_ends_with_its_program(told: Path) -> None:
    """After a kill the session is open elsewhere: refused before anything is left to claim."""
    with serve_in_thread(reply(QUESTION), reply("Thanks.")) as api:
        with in_terminal(api) as terminal:
            terminal.until_prompt()
            terminal.send("go\r")
            terminal.until("1 SQLite")
            _, signed = options(told)
            terminal.child.kill(signal.SIGKILL)
            terminal.exit_code()
        with in_terminal(api, "-c") as terminal:
            terminal.until("1 SQLite")
            box, answer = AnswerBox(answers_dir()), AnswerKey(answer_key_file())
            posted = box.post(answer.read(signed["SQLite"]), "another")
            run = agent_cli("answer", signed["SQLite"], api=api)
            assert box.withdraw(posted), "nobody looks for it any more"

    assert "the question does not wait for an answer any more" in refusal(run)


def test_kill_between_the_answer_and_the_next_reply_runs_the_call_once(told: Path) -> None:
    """The decision is on the disk before the call runs: the token is used up."""
    gate = Gate()
    append = tool_use("bash", {"command": "echo once >> log.txt; mktemp x.XXXX"}, id="toolu_bash")
    with serve_in_thread(
        reply("I append.", append), reply("Done.", gate=gate), reply("Done again.")
    ) as api:
        parked(api)
        token = tokens(told, "toolu_bash")["allow"]
        with started("answer", token, api=api) as running:
            wait_until(lambda: len(api.requests) == 2, "the call has run")
            running.kill()
            running.communicate()
            running.wait()
        gate.open()
        again = agent_cli("answer", token, api=api)

    assert "it was approved" in refusal(again)
    assert Path("log.txt").read_text() == "once\n"


def test_session_open_in_a_program_that_does_not_ask_is_left_alone(told: Path) -> None:
    """The call runs already: the second answer is refused at once."""
    gate = Gate()
    with serve_in_thread(reply("I write.", WRITE), reply("Done.", gate=gate)) as api:
        parked(api)
        with started("answer", tokens(told)["allow"], api=api) as running:
            wait_until(lambda: len(api.requests) == 2, "the call has run")
            run = agent_cli("answer", tokens(told)["deny"], api=api)
            gate.open()
            assert finished(running).code == 0

    assert "it was approved" in refusal(run)


def test_script_in_the_docs_posts_two_buttons_that_answer() -> None:
    """The page's way to a telephone, with a server of the test in the place of ntfy."""
    posted: list[Any] = []  # Any: JSON

    class Topic(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            posted.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    page = (Path(__file__).parents[2] / "docs" / "answers.md").read_text()
    script = page.partition("```python\n")[2].partition("```")[0]
    with (
        ThreadingHTTPServer(("127.0.0.1", 0), Topic) as server,
        serve_in_thread(reply("I write.", WRITE), reply("It is made.")) as api,
    ):
        thread = Thread(target=server.serve_forever)
        thread.start()
        program = user_settings_file().with_name("ask-phone")
        program.parent.mkdir(parents=True, exist_ok=True)
        here = f"http://127.0.0.1:{server.server_port}"
        program.write_text(script.replace("https://ntfy.sh", here))
        program.chmod(0o755)
        user_settings_file().write_text(
            "[[hooks.Notification]]\n"
            f"hooks = [{{ type = 'command', command = '\"{program}\"', answers = true }}]\n"
        )
        parked(api)
        server.shutdown()
        thread.join()
        [message] = posted
        [allow, deny] = message["actions"]
        run = agent_cli("answer", "-", api=api, stdin=allow["body"])

    assert (allow["label"], deny["label"]) == ("allow", "deny")
    assert "by the tool" in message["message"]
    assert (run.code, run.stdout) == (0, "It is made.\n"), run.stderr
