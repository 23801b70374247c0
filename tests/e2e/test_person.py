"""The model's questions and plans in the program itself: answered, edited, refused."""

import json
import os
import signal
from pathlib import Path

import pytest

from tests.e2e.program import agent_cli, in_terminal
from tests.e2e.test_todo import BEGUN as TODO
from tests.messages_api import FakeMessagesApi, reply, serve_in_thread, tool_use
from tests.messages_api.script import Payload

CTRL_C = "\x03"
QUESTION = tool_use(
    "ask_user",
    {
        "questions": [
            {
                "question": "Which database?",
                "options": [{"label": "SQLite", "description": "one file"}, {"label": "Postgres"}],
            }
        ]
    },
)
SEVERAL = tool_use(
    "ask_user",
    {
        "questions": [
            {
                "question": "Which features?",
                "header": "Features",
                "multi_select": True,
                "options": [{"label": "Login"}, {"label": "Search"}, {"label": "Export"}],
            }
        ]
    },
)
PLAN = tool_use("present_plan", {"plan": "1. Write note.txt"})
WRITE = tool_use("write", {"path": "note.txt", "content": "done\n"})


def last_message(api: FakeMessagesApi) -> str:
    return json.dumps(api.requests[-1].body["messages"][-1], ensure_ascii=False)


def test_question_of_the_model_is_answered_at_the_prompt() -> None:
    """Also in plan mode, because a question changes nothing."""
    answers = {
        "\r": "Which database?\\n→ SQLite",
        "MySQL, please\r": "Which database?\\n→ MySQL, please",
        CTRL_C: "The user closed the question without an answer.",
    }
    script = [
        each for n in range(len(answers)) for each in (reply(QUESTION), reply(f"Thanks {n}."))
    ]
    with (
        serve_in_thread(*script) as api,
        in_terminal(api, "--permission-mode", "plan") as terminal,
    ):
        for number, (keys, told) in enumerate(answers.items()):
            terminal.until_prompt()
            terminal.send("go\r")
            terminal.until("❯ 1 SQLite  one file")
            terminal.send(keys)
            terminal.until(f"Thanks {number}.")
            terminal.until_prompt()

            assert told in last_message(api)
    assert api.refusals == []


@pytest.mark.parametrize(
    ("call", "mode", "rows"),
    [
        (QUESTION, "ask", ["  │ Which database?", "answer?", "❯ 1 SQLite  one file"]),
        (PLAN, "plan", ["1. Write note.txt", "go ahead?", "❯ 1 Yes, and edit files"]),
    ],
)
def test_no_live_row_stands_between_a_question_and_its_answers(
    call: Payload, mode: str, rows: list[str]
) -> None:
    """Nothing moves while the program only waits."""
    with (
        serve_in_thread(reply(TODO), reply(call), reply("Thanks.")) as api,
        in_terminal(api, "--permission-mode", mode) as terminal,
    ):
        terminal.until_prompt()
        terminal.send("go\r")
        terminal.until(lambda: "\n".join(rows) in terminal.text)
        terminal.send("\r")
        terminal.until("Thanks.")
        terminal.until("todo 1/2")


def test_plan_is_declined_edited_and_carried_out_in_the_mode_chosen() -> None:
    """Until a plan is approved, plan mode stays on, whatever was chosen meanwhile.

    The answers say so, and so does what the model reads. It reads the plan as edited, too. After a
    yes plan mode ends, the model is told so, and edits run unasked.
    """
    shown = "❯ 1 Yes, and edit files"
    declined = {"no, tests first\r": "Well 1.", CTRL_C: "Well 2."}
    replies = [
        *(reply(PLAN), reply("I'll change it.")),
        *(r for end in declined.values() for r in (reply(PLAN), reply(WRITE), reply(end))),
        *(reply(PLAN), reply("Begun.")),
        *(reply(PLAN), reply(WRITE), reply("Written.")),
    ]
    with (
        serve_in_thread(*replies) as api,
        in_terminal(api, "--permission-mode", "plan", EDITOR="sed -i s/note/other/") as terminal,
    ):

        def go() -> None:
            terminal.until_prompt()
            terminal.send("go\r")
            terminal.until(shown)

        go()
        terminal.send("tests first\r")
        terminal.until("I'll change it.")
        terminal.until_prompt()
        assert "plan" in terminal.text.split("\n")[-1]
        assert "not approved: you said: tests first" in terminal.text
        assert "present it again. They say: tests first" in last_message(api)
        for keys, end in declined.items():
            go()
            terminal.send("/mode yolo\r")
            terminal.until("yolo ·")
            terminal.until(shown)
            terminal.send(keys)
            terminal.until(end)
            terminal.until_prompt()
            assert " · plan · " in terminal.text.split("\n")[-1]
        assert not Path("note.txt").exists()
        go()
        terminal.send("edit\r")
        terminal.until("The plan as you edited it")
        terminal.until(shown)
        terminal.send("ask\r")
        terminal.until("Begun.")
        edited = "this is what holds:\\n1. Write other.txt"
        assert edited in json.dumps(api.requests[-1].body["messages"])
        terminal.until_prompt()
        terminal.send("/mode plan\r")
        terminal.until(lambda: " · plan · " in terminal.text.split("\n")[-1])
        go()
        terminal.send("\r")
        terminal.until("Written.")
        terminal.until(lambda: "auto-edit" in terminal.text.split("\n")[-1])

    assert Path("note.txt").read_text() == "done\n"
    told = json.dumps(api.requests[-2].body["messages"][-2:])
    assert "The user approved the plan." in told
    assert "plan mode is off" in told
    assert api.refusals == []


@pytest.mark.parametrize(
    ("call", "shown", "keys", "told"),
    [
        (QUESTION, "❯ 1 SQLite  one file", "\r", "Which database?\\n→ SQLite"),
        (PLAN, "❯ 1 Yes, and edit files", "later\r", "Plan mode stays on: change the plan"),
    ],
)
def test_open_question_is_asked_again_after_a_kill(
    call: Payload, shown: str, keys: str, told: str
) -> None:
    """As an approval is: whoever continues the session is asked, without another request."""
    with serve_in_thread(reply(call), reply("Thanks.")) as api:
        with in_terminal(api, "--permission-mode", "plan") as killed:
            killed.until_prompt()
            killed.send("go\r")
            killed.until(shown)
            os.kill(killed.child.pid, signal.SIGKILL)
            killed.exit_code()
        with in_terminal(api, "-c") as terminal:
            terminal.until(shown)
            assert len(api.requests) == 1
            terminal.send(keys)
            terminal.until("Thanks.")

    last = [m for m in api.requests[-1].body["messages"] if m["role"] == "user"][-1]
    assert told in json.dumps(last, ensure_ascii=False)
    assert api.refusals == []


def test_question_or_plan_in_a_headless_run_is_refused_at_once() -> None:
    """With `-p` the model is told so at once, without a wait."""
    with serve_in_thread(reply(QUESTION), reply(PLAN), reply("Done.")) as api:
        run = agent_cli("-p", "go", "--permission-mode", "plan", api=api)

    results = [
        json.dumps(block)
        for message in api.requests[-1].body["messages"]
        for block in message["content"]
        if isinstance(block, dict) and block.get("type") == "tool_result"
    ]
    assert (run.code, run.stdout) == (0, "Done.\n")
    assert "Nobody can answer in this run" in results[0]
    assert "Nobody can approve a plan in this run" in results[1]


def test_a_plan_outside_plan_mode_needs_no_approval() -> None:
    """The model continues."""
    with serve_in_thread(reply(PLAN), reply("Done.")) as api:
        agent_cli("-p", "go", api=api)

    assert "Plan mode is off" in last_message(api)


def test_several_answers_are_selected_with_the_arrow_keys_or_space() -> None:
    """Enter selects, and after a selection Enter alone confirms.

    Space checks an answer and stays on its row, as in every list of checkboxes; Enter on the last
    row confirms.
    """
    ends = [f"Thanks {number}." for number in range(3)]
    with (
        serve_in_thread(*(each for end in ends for each in (reply(SEVERAL), reply(end)))) as api,
        in_terminal(api) as terminal,
    ):
        for columns, end in zip((80, 30), ends, strict=False):
            terminal.until_prompt()
            terminal.resize(columns)
            terminal.send("go\r")
            terminal.until("❯ 1 [ ] Login")
            terminal.send("\x1b[B\r")
            terminal.until("❯ Done: Search")
            terminal.send("\x1b[B\r")
            terminal.until("❯ Done: Search, Login")
            terminal.send("\r")
            terminal.until(end)
            terminal.until_prompt()

            assert "Which features?\\n→ Login, Search" in last_message(api), columns
        assert "answers? [" not in terminal.transcript
        terminal.resize(80)
        terminal.send("go\r")
        terminal.until("❯ 1 [ ] Login")
        terminal.send(" ")
        terminal.until("❯ 1 [x] Login")
        terminal.send("\x1b[B ")
        terminal.until("❯ 2 [x] Search")
        terminal.send(" ")
        terminal.until("❯ 2 [ ] Search")
        terminal.send("\x1b[A\x1b[A\r")
        terminal.until(ends[-1])
        terminal.until_prompt()

    assert 'Which features?\\n→ Login"' in last_message(api)
