"""Esc in the program itself: what stood on the screen is in the record and in the next request."""

import json

import pytest

from tests.e2e.program import in_terminal
from tests.messages_api import FakeMessagesApi, Gate, reply, serve_in_thread, tool_use

ESCAPE = "\x1b"
OPTIONS = "Option A is a list.\n\nOption B is a table.\n\nOption C is neither."
NOTE = "[The user interrupted the reply here.]"


def last_messages(api: FakeMessagesApi, count: int) -> list[tuple[str, str]]:
    """Return the role and content of the last messages of the last request."""
    sent = api.requests[-1].body["messages"][-count:]
    return [(m["role"], json.dumps(m["content"], ensure_ascii=False)) for m in sent]


def test_interrupted_reply_stays_for_the_model_and_in_the_resumed_session() -> None:
    """The user has read the options, so that "take option B" must mean something."""
    gate = Gate()
    held = reply(OPTIONS, gate=gate, chunk_chars=10)
    with serve_in_thread(held, reply("Taken.")) as api:
        with in_terminal(api) as terminal:
            terminal.until_prompt()
            terminal.send("which?\r")
            gate.reached.wait()
            gate.open(len(OPTIONS) // 10)
            terminal.until("Option C")
            terminal.send(ESCAPE)
            terminal.until("interrupted")
            terminal.until_prompt()
        with in_terminal(api, "-c") as terminal:
            terminal.until("Option B is a table.")
            terminal.until_prompt()
            terminal.send("take option B\r")
            terminal.until("Taken.")

        asked, answered, said = last_messages(api, 3)
        assert (asked[0], answered[0], said[0]) == ("user", "assistant", "user")
        assert "Option B is a table.\\n\\nOption C" in answered[1]
        assert NOTE in said[1]
        assert "take option B" in said[1]
        assert api.refusals == []


def test_output_of_a_stopped_command_goes_to_the_user_and_the_model() -> None:
    """It used to be lost: "Its effect may be partial" was all that either read."""
    command = "for i in 1 2 3 4 5 6 7 8 9; do echo line-$i; done; echo last-''line; sleep 60"
    call = tool_use("bash", {"command": command})
    with (
        serve_in_thread(reply(call), reply("I see.")) as api,
        in_terminal(api, "--permission-mode", "yolo") as terminal,
    ):
        terminal.until_prompt()
        terminal.send("go\r")
        terminal.until("  last-line")
        terminal.send(ESCAPE)
        terminal.until("may be half done")
        terminal.until_prompt()
        assert "  last-line" in terminal.transcript
        assert "Ctrl-O, /output 1" in terminal.transcript
        terminal.send("and?\r")
        terminal.until("I see.")

        *_, (_, told) = last_messages(api, 1)
        assert "Stopped with the whole run." in told
        assert all(f"line-{number}\\n" in told for number in range(1, 10))
        assert "last-line" in told
        assert api.refusals == []


def test_output_of_a_command_stopped_in_its_read_only_run_goes_to_both() -> None:
    """It stood on the screen, and both read that the call was "stopped before its turn"."""
    script = "import time; print('first' + '-line', flush=True); time.sleep(60)"
    call = tool_use("bash", {"command": f'python3 -c "{script}"'})
    with serve_in_thread(reply(call), reply("I see.")) as api, in_terminal(api) as terminal:
        terminal.until_prompt()
        terminal.send("go\r")
        terminal.until(lambda: "  first-line" in terminal.text or "allow?" in terminal.text)
        if "allow?" in terminal.text:
            pytest.skip("no sandbox works here")
        terminal.send(ESCAPE)
        terminal.until("it changed nothing")
        terminal.until_prompt()
        assert "  first-line" in terminal.transcript
        assert "before its turn" not in terminal.transcript
        terminal.send("and?\r")
        terminal.until("I see.")

        *_, (_, told) = last_messages(api, 1)
        assert "It was tried read-only and changed nothing." in told
        assert "first-line" in told
        assert api.refusals == []
