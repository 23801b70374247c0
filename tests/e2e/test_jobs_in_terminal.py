"""Background commands in a terminal: Ctrl-B, /jobs, and runs triggered by their end."""

import json
from pathlib import Path

import pytest

from tests.e2e.program import in_terminal, results_in, said_by_user, text_of
from tests.messages_api import reply, serve_in_thread, tool_use

CTRL_B, CTRL_C = "\x02", "\x03"
UNTIL_GO = "until test -e go; do sleep 0.05; done"
RUN = tool_use("bash", {"command": f"echo be''gun; {UNTIL_GO}; exit 3", "timeout": 600})
JOB = tool_use("bash", {"command": f"{UNTIL_GO}; touch gone; exit 3", "background": True})
YOLO = ("--permission-mode", "yolo")


@pytest.mark.parametrize("columns", [80, 32])
def test_ctrl_b_moves_a_command_to_the_background_and_its_end_starts_a_run(columns: int) -> None:
    """The model continues with the output so far; no prompt is needed for the rest."""
    script = (reply(RUN), reply("Working on."), reply("It ended."))
    with serve_in_thread(*script) as api, in_terminal(api, *YOLO) as terminal:
        terminal.until_prompt()
        terminal.resize(columns)
        terminal.send("go\r")
        terminal.until("begun")
        terminal.send(CTRL_B)
        terminal.until("Working on.")
        terminal.until("job 1")
        Path("go").touch()
        terminal.until("It ended.")
        shown = terminal.text
        terminal.until_prompt()

    moved = text_of(results_in(api.requests[1].body)[0])
    assert "the user moved this command to the background, where it is job 1." in moved
    assert "begun" in moved
    assert "ended with exit 3" in said_by_user(api.requests[2].body)[-1]
    assert "exit 3 after" in " ".join(shown.split()), "why a run began"
    assert api.refusals == []


def test_ctrl_b_moves_the_cursor_while_a_draft_is_edited() -> None:
    """In a draft, and without a running command, the key keeps its usual meaning."""
    with (
        serve_in_thread(reply(RUN), reply("Done.")) as api,
        in_terminal(api, *YOLO) as terminal,
    ):
        terminal.until_prompt()
        terminal.send("gX" + CTRL_B + "o")
        terminal.until("goX")
        terminal.send("\x05\x7f\r")  # to the end, and without the X
        terminal.until("begun")
        terminal.send("ac" + CTRL_B + "b")
        terminal.until("abc")
        terminal.send("\x05\x15")
        Path("go").touch()
        terminal.until("Done.")
        terminal.until_prompt()

    assert "exit 3" in text_of(results_in(api.requests[1].body)[0])


def test_jobs_command_lists_shows_and_stops_jobs_during_a_run() -> None:
    """A job stopped by the user triggers no run; the next prompt carries the notice."""
    script = (reply(JOB), reply(RUN), reply("Done."), reply("I see."))
    with serve_in_thread(*script) as api, in_terminal(api, *YOLO) as terminal:
        terminal.until_prompt()
        terminal.send("go\r")
        terminal.until("begun")
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

    assert "was stopped by the user" in json.dumps(api.requests[-1].body)
    assert len(api.requests) == 4


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


def test_job_does_not_restart_an_interrupted_run() -> None:
    """Ctrl-C means stop: jobs that end later wait for the next prompt."""
    script = (reply(JOB), reply(RUN), reply("Later."))
    with serve_in_thread(*script) as api, in_terminal(api, *YOLO) as terminal:
        terminal.until_prompt()
        terminal.send("go\r")
        terminal.until("begun")
        terminal.send(CTRL_C)
        terminal.until("interrupted")
        terminal.until_prompt()
        Path("go").touch()
        terminal.until(Path("gone").exists)
        terminal.send("/jobs\r")
        terminal.until("exit 3")
        terminal.send("and now\r")
        terminal.until("Later.")

    assert len(api.requests) == 3
    assert "ended with exit 3" in json.dumps(api.requests[-1].body)
