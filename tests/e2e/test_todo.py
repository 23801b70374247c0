"""The todo list in the program itself: on the screen, in a resumed session, in one run."""

import json

from tests.e2e.program import agent_cli, in_terminal
from tests.messages_api import Gate, reply, serve_in_thread, tool_use
from tests.repl.terminal import Terminal

BEGUN = tool_use(
    "todo",
    {
        "todos": [
            {"content": "Read the code", "status": "completed"},
            {
                "content": "Run the tests",
                "status": "in_progress",
                "active_form": "Running the tests",
            },
        ]
    },
)
FINISHED = tool_use("todo", {"todos": [{"content": "Read the code", "status": "completed"}]})
ROW = "todo 1/2 · Running the tests"


def above_the_prompt(terminal: Terminal) -> str:
    return terminal.transcript.split("\n")[-1]


def test_todo_row_is_shown_above_the_input_until_all_steps_are_done() -> None:
    """It is one line, in a run and between runs; `/todo` shows every step."""
    gate = Gate()
    held = reply("On it.", gate=gate, hold_at=2)
    with (
        serve_in_thread(reply(BEGUN), held, reply(FINISHED), reply("Done.")) as api,
        in_terminal(api) as terminal,
    ):
        terminal.until_prompt()
        terminal.send("do it\r")
        terminal.until(ROW)
        assert gate.reached.wait(60)
        terminal.until(lambda: above_the_prompt(terminal) == ROW)
        gate.open()
        terminal.until("On it.")
        terminal.until(lambda: above_the_prompt(terminal) == ROW)
        terminal.send("/todo\r")
        terminal.until("[x] Read the code")
        terminal.until("[>] Run the tests")
        terminal.send("go on\r")
        terminal.until("Done.")
        terminal.until(lambda: ROW not in terminal.text)
    assert api.refusals == []


def test_resumed_session_shows_its_todo_list() -> None:
    """S2-17: the list is in the session's record; a new conversation begins without it."""
    with serve_in_thread(reply(BEGUN), reply("Begun.")) as api:
        begun = agent_cli("-p", "go", api=api)
        with in_terminal(api, "--continue") as terminal:
            terminal.until(ROW)
            terminal.send("/clear\r")
            terminal.until(lambda: ROW not in terminal.text)

    assert (begun.code, begun.stderr) == (0, "")
    result = api.requests[1].body["messages"][-1]["content"]
    assert "1 of 2 done" in json.dumps(result)


def test_todo_list_needs_no_permission_in_plan_mode() -> None:
    """It changes nothing but the list."""
    with serve_in_thread(reply(BEGUN), reply("Begun.")) as api:
        run = agent_cli("-p", "go", "--permission-mode", "plan", api=api)

    assert (run.code, run.stdout) == (0, "Begun.\n")
    assert "1 of 2 done" in json.dumps(api.requests[1].body["messages"][-1])
