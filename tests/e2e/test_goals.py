"""`--require-check` and `/goal`: the real program runs the check, in the sandbox, on real files."""

import json
import signal
from pathlib import Path

import pytest

from tests.e2e.program import (
    AGENT_CLI,
    agent_cli,
    environment,
    in_terminal,
    said_by_user,
    started,
)
from tests.messages_api import Gate, ReceivedRequest, Reply, error, reply, serve_in_thread, tool_use
from tests.repl.terminal import Terminal
from tests.waiting import wait_until

AUTO_EDIT = ("--permission-mode", "auto-edit", "--output-format", "json")


def write(path: str) -> dict[str, object]:
    return tool_use("write", {"path": path, "content": "1\n"})


def test_run_goes_on_until_the_required_check_passes() -> None:
    """Three rounds; the model reads the output of each failure."""
    files = [step for path in ("a", "b", "c") for step in (reply(write(path)), reply("Done."))]
    check = "cat a; ls b c"
    with serve_in_thread(*files) as api:
        run = agent_cli("-p", "x", *AUTO_EDIT, "--require-check", check, api=api)
        said = said_by_user(api.requests[-1].body)

    assert run.code == 0, run.stderr
    receipt = run.result["check"]
    assert receipt.pop("elapsed_s") > 0
    assert receipt == {"command": check, "state": "met", "exit_code": 0, "rounds": 3}
    assert len(api.requests) == 6
    assert ["ls: cannot access 'b'" in text for text in said[-2:]] == [True, False]
    assert ["ls: cannot access 'c'" in text for text in said[-2:]] == [True, True]


@pytest.mark.parametrize(
    ("check", "answer", "state", "stop_reason", "requests"),
    [
        ("true", "Done.", "met", "end_turn", 1),
        ("if [ -e flag ]; then exit 0; fi; touch flag; exit 1", "Done.", "met", "end_turn", 2),
        ("echo broken; exit 3", "Done.", "stopped", "check_failed", 2),
        ("echo broken; exit 3", "BLOCKED: no key", "blocked", "blocked", 1),
        ("exec 3<>/dev/tcp/127.0.0.1/9", "Done.", "stopped", "check_failed", 2),
    ],
    ids=["green at once", "flapping", "never", "blocked", "needs the network"],
)
def test_run_ends_as_its_check_does(
    check: str, answer: str, state: str, stop_reason: str, requests: int
) -> None:
    with serve_in_thread(*[reply(answer)] * 3) as api:
        run = agent_cli("-p", "x", *AUTO_EDIT, "--require-check", check, api=api)

    result = run.result
    assert (result["check"]["state"], result["stop_reason"]) == (state, stop_reason)
    assert (run.code, len(api.requests)) == (0 if state == "met" else 4, requests)


@pytest.mark.parametrize("phase", ["check", "second check"])
def test_killed_goal_goes_on_after_a_resume_with_the_rounds_it_had(phase: str) -> None:
    """What the kill left of the check is gone with the program."""
    rounds = 0 if phase == "check" else 1
    sleeps = f"if [ $(wc -l < ran) = {rounds + 1} ]; then sleep 613; fi"
    check = f"echo >> ran; {sleeps}; test -e c"
    with serve_in_thread(*[reply("Done.")] * (rounds + 1), reply(write("c")), reply("Now.")) as api:
        with started("-p", "x", *AUTO_EDIT, "--require-check", check, api=api) as process:
            ran = Path("ran")
            wait_until(lambda: ran.exists() and len(ran.read_text()) == rounds + 1)
            process.send_signal(signal.SIGKILL)
            process.wait()
        run = agent_cli("-p", "go on", "-c", *AUTO_EDIT, api=api)

    assert run.code == 0, run.stderr
    assert run.result["check"]["state"] == "met"
    assert run.result["check"]["rounds"] == rounds + 1


@pytest.mark.parametrize("phase", ["reply", "command"])
def test_goal_killed_before_its_check_goes_on_after_a_resume(phase: str) -> None:
    """While the model answers, and while its command runs: the round that had failed counts."""
    gate = Gate()
    runs_on = tool_use("bash", {"command": "touch begun; sleep 615"})
    steps = {"reply": reply("Half an ans", gate=gate, hold_at=2), "command": reply(runs_on)}
    with serve_in_thread(reply("Done."), steps[phase], reply(write("c")), reply("Now.")) as api:
        arguments = ("-p", "x", "--permission-mode", "yolo", "--output-format", "json")
        with started(*arguments, "--require-check", "test -e c", api=api) as process:
            is_there = gate.reached.is_set if phase == "reply" else Path("begun").exists
            wait_until(is_there)
            process.send_signal(signal.SIGKILL)
            process.wait()
        gate.open()
        run = agent_cli("-p", "go on", "-c", *AUTO_EDIT, api=api)

    assert run.code == 0, run.stderr
    assert run.result["check"]["state"] == "met"
    assert run.result["check"]["rounds"] == 2


def test_nothing_is_checked_while_a_job_runs() -> None:
    """Without a person the model is told to wait for it; the round counts."""
    job = {"command": "until test -e go; do sleep 0.05; done; touch built", "background": True}
    waits = tool_use("job_output", {"id": 1, "wait": 20})
    go = tool_use("bash", {"command": "touch go"})
    replies = (reply(tool_use("bash", job)), reply("Done."), reply(go), reply(waits), reply("Now."))
    with serve_in_thread(*replies) as api:
        run = agent_cli(
            *("-p", "x", "--permission-mode", "yolo", "--output-format", "json"),
            *("--require-check", "echo >> ran; test -e built"),
            api=api,
        )
        said = said_by_user(api.requests[2].body)

    assert run.code == 0, run.stderr
    assert Path("ran").read_text() == "\n"
    assert run.result["check"]["rounds"] == 2
    assert "background commands still run" in said[-1]


def test_goal_ends_with_its_budget() -> None:
    """Of rounds, or of time between checks or within one that hangs.

    Each check prints more than the last; a change of numbers alone would be a standstill.
    """
    check = "echo >> n; tr \\\\n x < n; sleep {}; exit 1"
    goals = (
        f"/goal --check '{check.format(0)}' --rounds 2 few",
        f"/goal --check '{check.format(0.6)}' --time 1s slow",
        "/goal --check 'sleep 600' --time 1s stuck",
    )
    with serve_in_thread(answer=lambda _request: reply("Done.")) as api:
        run = agent_cli(api=api, script="".join(f"{goal}\n/goal\n" for goal in goals))
        rounds = len(api.requests)

    shown = run.stderr.split("goal (stopped: ")
    assert len(shown) == 4, run.stderr
    assert "after 2 rounds" in shown[0]
    for text in shown[1:3]:
        assert "time of 1 s is used" in text
    assert rounds in (4, 5)


def test_steering_reaches_the_model_and_the_goal_goes_on() -> None:
    gate = Gate()
    first = reply("I look.", tool_use("read", {"path": "a"}), gate=gate, hold_at=2)
    Path("a").write_text("1\n")
    with (
        serve_in_thread(first, reply(write("c")), reply("Done.")) as api,
        in_terminal(api, "--permission-mode", "auto-edit") as terminal,
    ):
        terminal.until_prompt()
        terminal.send("/goal --check 'test -e c' tidy up\r")
        wait_until(gate.reached.is_set)
        terminal.send("use tabs\r")
        terminal.until("use tabs")
        gate.open()
        terminal.until("goal reached")

    assert "use tabs" in str(api.requests[1].body["messages"][-1])
    assert len(api.requests) == 3


def test_escape_stops_the_check_and_the_goal_waits_for_the_next_message() -> None:
    """Steering goes to the model as ever; /goal off ends the goal."""
    with (
        serve_in_thread(reply("Done."), reply("I see.")) as api,
        Terminal(AGENT_CLI, **environment(api, {})) as terminal,
    ):
        terminal.until("? or /help")
        terminal.send("/goal --check 'sleep 614' --rounds 3 tidy up\r")
        terminal.until("checking the goal: sleep 614")
        terminal.send("\x1b")
        terminal.until("interrupted")
        terminal.until("goal, round 1")
        terminal.send("/goal\r")
        terminal.until("goal (active): tidy up")
        terminal.until("0 of 3 rounds")
        terminal.send("/goal off\r")
        terminal.until("goal (stopped: the user ended it)")
        terminal.send("/goal off\r")
        terminal.until("no goal is active; /goal shows the last one")
        terminal.send("hello\r")
        terminal.until("I see.")

    assert len(api.requests) == 2


def test_session_of_a_goal_is_listed_by_the_goal() -> None:
    """Not by what the program tells the model about it."""
    with serve_in_thread(reply("Done.")) as api:
        agent_cli(api=api, script="/goal --check true tidy up\n")
        listed = agent_cli("sessions", "list", "--json", api=api)
        said = said_by_user(api.requests[0].body)

    assert [session["title"] for session in json.loads(listed.stdout)] == ["tidy up"]
    assert "this is done when `true` exits with 0" in said[0]


def test_goal_is_shown_and_ended_while_the_model_works() -> None:
    """Waiting for the end of the run, `/goal off` would come after the last round."""
    gate = Gate()
    with (
        serve_in_thread(reply("I look. " * 9, gate=gate), reply("never asked for")) as api,
        in_terminal(api) as terminal,
    ):
        terminal.until_prompt()
        terminal.send("/goal --check 'test -e c' tidy up\r")
        wait_until(gate.reached.is_set)
        terminal.send("/goal\r")
        terminal.until("goal (active): tidy up")
        terminal.send("/goal off\r")
        terminal.until("goal (stopped: the user ended it)")
        gate.open()
        terminal.until(
            lambda: "I look. I look." in terminal.text and "Ctrl-C stops" not in terminal.text
        )

    assert "checking the goal" not in terminal.text
    assert len(api.requests) == 1


def test_goal_command_counts_the_round_that_met_the_goal() -> None:
    """It said 0 of 10 rounds below "goal reached · 1 round"."""
    with serve_in_thread(reply("Done.")) as api:
        run = agent_cli(api=api, script="/goal --check true x\n/goal\n")

    assert "goal reached: `true` exits with 0 · 1 round\n" in run.stderr
    assert "goal (met): x\ncheck: true\n1 of 10 rounds" in run.stderr


def test_goal_ends_when_its_own_prompt_is_taken_back() -> None:
    """It stayed, and held the next prompt, which had nothing to do with it."""
    script = "first\n/goal --check 'exit 3' --rounds 1 x\n/rewind 1\nsomething else\n/goal\n"
    with serve_in_thread(*[reply("Done.")] * 3) as api:
        run = agent_cli(api=api, script=script)

    assert "back to before: x (files stay as they are); its goal has ended\n" in run.stderr
    assert run.stderr.count("checking the goal") == 1
    assert "goal (stopped: the user ended it): x" in run.stderr


def test_goal_survives_a_rewind_of_a_later_prompt() -> None:
    """It belongs to a prompt that is still there."""
    script = "/goal --check 'exit 3' --rounds 3 x\nanother\n/rewind 1\n/goal\n"
    no_key = error(401, "authentication_error", "invalid x-api-key")
    with serve_in_thread(no_key, no_key) as api:
        run = agent_cli(api=api, script=script)

    assert "back to before: another (files stay as they are)\n" in run.stderr
    assert "goal (active): x" in run.stderr


def test_goal_command_counts_the_round_in_which_the_model_was_blocked() -> None:
    with serve_in_thread(reply("BLOCKED: no key")) as api:
        run = agent_cli(api=api, script="/goal x\n/goal\n")

    assert "what blocks it: no key): x\n1 of 10 rounds" in run.stderr


def test_goal_that_cannot_be_understood_is_refused_in_one_sentence() -> None:
    script = "/goal --rounds many x\n/goal --sometimes x\n/goal --check 'make'\n/goal\n/goal stop\n"
    with serve_in_thread() as api:
        run = agent_cli(api=api, script=script)
        empty = agent_cli("-p", "x", "--require-check", " ", api=api)
        batch = agent_cli("batch", "t.jsonl", "--require-check", "true", api=api)

    refused = [line.partition(";")[0] for line in run.stderr.splitlines() if "goal" in line]
    assert [line for line in refused if line.startswith(("--", "/goal", "no goal"))] == [
        "--rounds takes a whole number from 1 to 1000, not many",
        "/goal has no option --sometimes",
        "/goal needs what is to be reached",
        *("no goal", "no goal"),
    ]
    assert (empty.code, batch.code) == (2, 2)


def test_cost_of_an_agent_counts_for_the_limit_of_the_goal() -> None:
    """The session's own reply costs a cent; the agent's alone costs more than ten."""
    dear = {"input_tokens": 20, "output_tokens": 20_000}

    def answer(request: ReceivedRequest) -> Reply:
        messages = request.body["messages"]
        if "do the work" in str(messages[0]):
            return reply("Tried.", usage=dear)
        task = {"description": "work", "prompt": "do the work"}
        return reply("Done.") if len(messages) > 1 else reply(tool_use("agent", task))

    with serve_in_thread(answer=answer) as api:
        run = agent_cli(
            *("--permission-mode", "yolo"),
            api=api,
            script="/goal --check false --max-cost 0.1 x\n",
        )

    assert "the goal's $0.1 are spent" in run.stderr
    assert len(api.requests) == 2
