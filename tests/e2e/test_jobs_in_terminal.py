"""Background commands in a terminal: Ctrl-B, /jobs, and runs triggered by their end."""

import json
from pathlib import Path

from tests.e2e.program import in_terminal, results_in, said_by_user, text_of
from tests.messages_api import reply, serve_in_thread, tool_use
from tests.messages_api.script import Payload

CTRL_B, CTRL_C = "\x02", "\x03"
UNTIL_GO = "until test -e go; do sleep 0.05; done"
JOB = tool_use("bash", {"command": f"{UNTIL_GO}; touch gone; exit 3", "background": True})
YOLO = ("--permission-mode", "yolo")


def run(number: int) -> Payload:
    """Return a command that says it has begun, and fails once there is the file `go`."""
    command = f"echo be''gun{number}; {UNTIL_GO}; exit 3"
    return tool_use("bash", {"command": command, "timeout": 600})


def test_ctrl_b_moves_a_command_to_the_background_and_its_end_starts_a_run() -> None:
    """The model continues with the output so far; no prompt is needed for the rest.

    In a draft, and without a running command, the key keeps its usual meaning.
    """
    rounds = [
        answer
        for number in (1, 2)
        for answer in (reply(run(number)), reply(f"Working {number}."), reply(f"Ended {number}."))
    ]
    with (
        serve_in_thread(*rounds, reply(run(3)), reply("Done.")) as api,
        in_terminal(api, *YOLO) as terminal,
    ):
        for number, columns in enumerate((80, 32), 1):
            terminal.until_prompt()
            terminal.resize(columns)
            terminal.send("go\r")
            terminal.until(f"begun{number}")
            terminal.send(CTRL_B)
            terminal.until(f"Working {number}.")
            terminal.until(f"job {number}")
            Path("go").touch()
            terminal.until(f"Ended {number}.")
            _, _, shown = terminal.text.rpartition(f"Working {number}.")
            terminal.until_prompt()
            Path("go").unlink()
            moved = text_of(results_in(api.requests[-2].body)[0])
            assert (
                f"the user moved this command to the background, where it is job {number}." in moved
            ), columns
            assert f"begun{number}" in moved
            assert "ended with exit 3" in said_by_user(api.requests[-1].body)[-1]
            assert "exit 3 after" in " ".join(shown.split()), "why a run began"
        terminal.resize(80)
        terminal.send("gX" + CTRL_B + "o")
        terminal.until("goX")
        terminal.send("\x05\x7f\r")  # to the end, and without the X
        terminal.until("begun3")
        terminal.send("ac" + CTRL_B + "b")
        terminal.until("abc")
        terminal.send("\x05\x15")
        Path("go").touch()
        terminal.until("Done.")
        terminal.until_prompt()

    assert "exit 3" in text_of(results_in(api.requests[-1].body)[0])
    assert api.refusals == []


def test_jobs_are_listed_shown_and_stopped_and_do_not_restart_an_interrupted_run() -> None:
    """A job stopped by the user triggers no run; the next prompt carries the notice.

    Ctrl-C means stop: jobs that end later wait for the next prompt, too.
    """
    first = (reply(JOB), reply(run(1)), reply("Done."), reply("I see."))
    second = (reply(JOB), reply(run(2)), reply("Later."))
    with serve_in_thread(*first, *second) as api, in_terminal(api, *YOLO) as terminal:
        terminal.until_prompt()
        terminal.send("go\r")
        terminal.until("begun1")
        terminal.send("/jobs\r")
        terminal.until("running for")
        terminal.send("/jobs 1\r")
        terminal.until("all of it: ")
        terminal.send("/jobs stop 1\r")
        terminal.until("job 1: stopped by you after")
        Path("go").touch()
        terminal.until("Done.")
        terminal.until_prompt()
        terminal.send("and now\r")
        terminal.until("I see.")
        terminal.until_prompt()
        assert "was stopped by the user" in json.dumps(api.requests[-1].body)
        assert len(api.requests) == len(first)
        Path("go").unlink()
        Path("gone").unlink(missing_ok=True)
        terminal.send("go\r")
        terminal.until("begun2")
        terminal.send(CTRL_C)
        terminal.until("interrupted")
        terminal.until_prompt()
        Path("go").touch()
        terminal.until(Path("gone").exists)
        terminal.send("/jobs\r")
        terminal.until("exit 3")
        terminal.send("and now\r")
        terminal.until("Later.")

    assert len(api.requests) == len(first) + len(second)
    assert "ended with exit 3" in json.dumps(api.requests[-1].body)


def test_run_triggered_by_a_job_asks_for_approval_and_keeps_the_draft() -> None:
    """The lack of a typed prompt approves nothing; the draft stays."""
    write = reply(tool_use("write", {"path": "note.txt", "content": "x"}))
    script = (reply(JOB), reply("Up."), write, reply("Left out."))
    with serve_in_thread(*script) as api, in_terminal(api) as terminal:
        terminal.until_prompt()
        terminal.send("go\r")
        terminal.until("❯ ")
        terminal.send("y\r")
        terminal.until("Up.")
        terminal.until_prompt()
        terminal.send("half a dr")
        terminal.until("half a dr")
        Path("go").touch()
        terminal.until("note.txt")
        terminal.until("❯ ")
        terminal.send(CTRL_C)
        terminal.until("half a dr")

    assert not Path("note.txt").exists()
