"""Agents as the user at a terminal sees them."""

import re
import threading
import time
from collections import Counter
from functools import partial
from pathlib import Path

import pytest

from tests.e2e.program import AGENT_CLI, environment
from tests.e2e.test_agents import YOLO
from tests.messages_api import (
    FakeMessagesApi,
    Gate,
    ReceivedRequest,
    Reply,
    reply,
    serve_in_thread,
    text,
)
from tests.messages_api import tool_use as call
from tests.repl.terminal import Terminal

ARROW_DOWN, CTRL_O, ESCAPE = "\x1b[B", "\x0f", "\x1b"
AGENTS, TURNS = 8, 5
FRAMES_PER_S = 20
FRAME = b"\x1b[?2026h"
MAKES = call("bash", {"command": "touch made"})


def recorded() -> str:
    return "".join(file.read_text() for file in Path.home().rglob("*.jsonl"))


def counting_in_background(request: ReceivedRequest, first: Reply) -> Reply | None:
    """Begin an agent whose first reply is *first*; None for the session's further replies."""
    messages = request.body["messages"]
    if "count" in str(messages[0]):
        return reply("Counted.") if len(messages) > 1 else first
    if len(messages) == 1:
        task = {"description": "count", "prompt": "count", "run_in_background": True}
        return reply(call("agent", task))
    return None


def in_terminal(api: FakeMessagesApi) -> Terminal:
    return Terminal(AGENT_CLI, *YOLO, **environment(api, {}))


@pytest.mark.parametrize("columns", [80, 32])
def test_agents_command_shows_one_agent_and_stops_another(columns: int) -> None:
    """The model reads that one was stopped; the others continue."""
    gate = Gate()

    def answer(request: ReceivedRequest) -> Reply:
        messages = request.body["messages"]
        first = str(messages[0])
        if "count one" in first or "count two" in first:
            return reply("Counted.", gate=gate, hold_at=0)
        if len(messages) > 1:
            return reply("All done.")
        tasks = [{"description": each, "prompt": each} for each in ("count one", "count two")]
        return reply(*(call("agent", {**task, "subagent_type": "explore"}) for task in tasks))

    with serve_in_thread(answer=answer) as api, in_terminal(api) as terminal:
        terminal.until_prompt()
        terminal.resize(columns)
        terminal.send("go\r")
        api.wait_for_requests(3)
        terminal.send("/agents 2\r")
        terminal.until("count two")
        terminal.send("/agents stop 1\r")
        terminal.until("being")
        terminal.until("✗ Agent")
        gate.open(100)
        terminal.until("All done.")
        terminal.until_prompt()
        results = str(api.requests[-1].body["messages"][-1])

    assert "The user stopped this agent" in results
    assert "Counted." in results


def test_status_line_counts_the_cost_of_agents_and_that_of_a_resumed_session() -> None:
    """It showed $0.00 where the agents had cost dollars."""

    def answer(request: ReceivedRequest) -> Reply:
        messages = request.body["messages"]
        if "count" in str(messages[0]):
            return reply("Counted.", usage={"input_tokens": 1_000_000, "output_tokens": 9})
        task = {"description": "count", "prompt": "count", "subagent_type": "explore"}
        return reply("All done.") if len(messages) > 1 else reply(call("agent", task))

    with serve_in_thread(answer=answer) as api:
        with in_terminal(api) as terminal:
            terminal.until_prompt()
            terminal.send("go\r")
            terminal.until("All done.")
            terminal.until_prompt()
            [own] = re.findall(r"Agent .* · \$([\d.]+)", terminal.text)
            [cost] = re.findall(r"tokens\) · \$([\d.]+)", terminal.text)
        with Terminal(AGENT_CLI, "-c", **environment(api, {})) as terminal:
            terminal.until(f"tokens) · ${cost}")

    assert float(cost) >= float(own) > 0


def test_nothing_stands_between_the_question_of_an_agent_and_its_answers() -> None:
    """Neither its row, nor the spinner, nor a step of the todo list: all of them only wait."""
    todos = [{"content": "Count", "status": "in_progress", "active_form": "Counting"}]

    def answer(request: ReceivedRequest) -> Reply:
        messages = request.body["messages"]
        if "count" in str(messages[0]):
            made = call("bash", {"command": "touch made"})
            return reply("Counted.") if len(messages) > 1 else reply(made)
        if len(messages) == 1:
            return reply(call("todo", {"todos": todos}))
        if len(messages) == 3:
            return reply(call("agent", {"description": "count", "prompt": "count"}))
        return reply(call("bash", {"command": "touch other"})) if len(messages) == 5 else reply("-")

    with (
        serve_in_thread(answer=answer) as api,
        Terminal(AGENT_CLI, **environment(api, {})) as terminal,
    ):
        terminal.until_prompt()
        terminal.send("go\r")
        for title in ("Run touch made", "Run touch other"):
            terminal.until(title)
            terminal.until("❯ 1 Yes")
            rows = terminal.text.split("\n")
            question = next(at for at, row in enumerate(rows) if title in row)
            between = rows[question + 1 : rows.index("allow?")]
            assert between
            assert all(row.startswith("    ") for row in between), between
            terminal.send("y\r")
            terminal.until("allow? Yes")


def test_rows_above_the_answers_are_those_of_the_question_that_is_open() -> None:
    """A question of the session and all that it does wait while one of its agents asks."""
    gate = Gate()

    def answer(request: ReceivedRequest) -> Reply:
        if begun := counting_in_background(request, reply(MAKES)):
            return begun
        if "other" not in str(request.body["messages"]):
            other = call("bash", {"command": "touch other"})
            return reply("A long story.\n\n", other, gate=gate, hold_at=0)
        return reply("All done.")

    with (
        serve_in_thread(answer=answer) as api,
        Terminal(AGENT_CLI, **environment(api, {})) as terminal,
    ):
        terminal.until_prompt()
        terminal.send("go\r")
        terminal.until("❯ 1 Yes")
        gate.open()
        terminal.until(lambda: "touch other" in recorded())
        terminal.until_silent()
        terminal.send("y\r")
        terminal.until("allow? Yes")
        terminal.until("Run touch other")
        terminal.until("❯ 1 Yes")
        shown = terminal.text

    parts = ("Run touch made", "allow? Yes", "A long story.", "Run touch other")
    assert sorted(parts, key=shown.index) == list(parts), shown
    assert shown.count("allow?") == 2


@pytest.mark.parametrize(
    ("command", "late", "shown"),
    [
        ("/compact", " ", "the model wrote no summary"),
        ("/btw why so", "Because it is.", "Because it is."),
        ("/btw why so", " ", "the model gave no answer"),
    ],
)
def test_output_of_a_command_waits_while_a_question_that_opened_meanwhile_is_open(
    command: str, late: str, shown: str
) -> None:
    """Errors, too; they stood between the question of an agent and its answers."""
    agent_gate, command_gate = Gate(), Gate()
    held = reply(text(late), gate=command_gate, hold_at=0)
    is_typed = threading.Event()

    def has_counted(times: int) -> bool:
        return terminal.text.count("It counts.") == times

    def answer(request: ReceivedRequest) -> Reply:
        if begun := counting_in_background(request, reply(MAKES, gate=agent_gate, hold_at=0)):
            return begun
        return held if is_typed.is_set() else reply("It counts.")

    with (
        serve_in_thread(answer=answer) as api,
        Terminal(AGENT_CLI, **environment(api, {})) as terminal,
    ):
        terminal.until_prompt()
        terminal.send("go\r")
        terminal.until("It counts.")
        for number in range(2, 5) if command == "/compact" else ():  # else it has nothing to do
            terminal.until_prompt()
            terminal.send(f"{'more ' * 300}\r")
            terminal.until(partial(has_counted, number))
        terminal.until_prompt()
        is_typed.set()
        terminal.send(f"{command}\r")
        terminal.until(command_gate.reached.is_set)
        agent_gate.open()
        terminal.until("❯ 1 Yes")
        command_gate.open()
        terminal.until_silent()
        before = terminal.text.partition("Run touch made")[2]
        terminal.send("y\r")
        terminal.until("allow? Yes")
        terminal.until(lambda: shown in terminal.text.partition("allow? Yes")[2])

    assert shown not in before


@pytest.mark.parametrize(
    ("command", "asks", "answer_key"),
    [("/rewind", "to before which?", ESCAPE), ("look at @../note", "workspace? (y/n)", "n\r")],
)
def test_question_of_an_agent_waits_for_an_open_list_or_question_of_the_program(
    command: str, asks: str, answer_key: str
) -> None:
    """Its rows would stand above the answers to that, and what follows between it and its own."""
    gate = Gate()
    Path("../note").write_text("x")

    def answer(request: ReceivedRequest) -> Reply:
        begun = counting_in_background(request, reply(MAKES, gate=gate, hold_at=0))
        return begun or reply("It counts.")

    with (
        serve_in_thread(answer=answer) as api,
        Terminal(AGENT_CLI, **environment(api, {})) as terminal,
    ):
        terminal.until_prompt()
        terminal.send("go\r")
        terminal.until("It counts.")
        terminal.until_prompt()
        terminal.send(f"{command}\r")
        terminal.until(asks)
        gate.open()
        terminal.until(lambda: "touch made" in recorded())
        terminal.until_silent()
        before = terminal.text
        terminal.send(answer_key)
        terminal.until("Run touch made")
        terminal.until("❯ 1 Yes")

    assert "touch made" not in before


@pytest.mark.parametrize("columns", [80, 32])
def test_arrow_down_selects_one_of_eight_agents_and_escape_stops_that_one(columns: int) -> None:
    """It may work or wait for its turn; the model reads which agents were stopped."""
    gate = Gate()
    tasks = [f"task {number}" for number in range(1, AGENTS + 1)]

    def answer(request: ReceivedRequest) -> Reply:
        messages = request.body["messages"]
        if any(task in str(messages[0]) for task in tasks):
            return reply("Counted.", gate=gate, hold_at=0)
        if len(messages) > 1:
            return reply("All done.")
        return reply(*(call("agent", {"description": each, "prompt": each}) for each in tasks))

    with (
        serve_in_thread(answer=answer) as api,
        Terminal(
            AGENT_CLI, *YOLO, **environment(api, {"AGENT_CLI_AGENTS__ASK_BEYOND": "8"})
        ) as terminal,
    ):
        terminal.until_prompt()
        terminal.resize(columns)
        terminal.send("go\r")
        api.wait_for_requests(5)
        terminal.send(ARROW_DOWN * 2)
        terminal.until("❯ 2 ")
        terminal.until("  8 ")
        terminal.until("Esc stops")
        terminal.send(ESCAPE)
        terminal.until("✗ Agent")
        terminal.until("❯ 2 ")  # its row stays until the next key
        terminal.send(ARROW_DOWN * 6)
        terminal.until("❯ 8 ")
        terminal.send(ESCAPE)
        terminal.until(lambda: terminal.transcript.count("✗ Agent") == 2)
        terminal.send("a draft")
        terminal.until(lambda: terminal.last_row == "you> a draft" and "❯" not in terminal.text)
        gate.open()
        terminal.until("All done.")
        results = api.requests[-1].body["messages"][-1]["content"]

    stopped = ["stopped this agent" in str(result["content"]) for result in results]
    assert stopped == [task in ("task 2", "task 8") for task in tasks]


def test_background_agent_can_be_selected_and_stopped_at_the_idle_prompt() -> None:
    """Its end starts no run; the model reads with the next prompt that the user stopped it."""
    gate = Gate()

    def answer(request: ReceivedRequest) -> Reply:
        messages = request.body["messages"]
        if "count" in str(messages[0]):
            return reply("Counted.", gate=gate, hold_at=0)
        if len(messages) > 1:
            return reply("I see." if "stopped this agent" in str(messages[-1]) else "Begun.")
        task = {"description": "count", "prompt": "count", "run_in_background": True}
        return reply(call("agent", task))

    with serve_in_thread(answer=answer) as api, in_terminal(api) as terminal:
        terminal.until_prompt()
        terminal.send("go\r")
        terminal.until("Begun.")
        terminal.until_prompt()
        api.wait_for_requests(3)
        terminal.send(ARROW_DOWN)
        terminal.until("❯ 1 agent general (count)")
        terminal.send(ESCAPE)
        terminal.until("agent general (count) stopped")
        terminal.send("and now?\r")
        terminal.until("I see.")
        gate.open()
        assert len(api.requests) == 4


def test_ctrl_o_opens_the_transcript_of_the_running_agent() -> None:
    gate = Gate()

    def answer(request: ReceivedRequest) -> Reply:
        messages = request.body["messages"]
        if "count the eggs" in str(messages[0]):
            return reply("Counted.", gate=gate, hold_at=0)
        if len(messages) > 1:
            return reply("All done.")
        return reply(call("agent", {"description": "count", "prompt": "count the eggs"}))

    with serve_in_thread(answer=answer) as api, in_terminal(api) as terminal:
        terminal.until_prompt()
        terminal.send("go\r")
        api.wait_for_requests(2)
        terminal.send(CTRL_O)
        terminal.until("count the eggs")
        gate.open(100)
        terminal.until("All done.")
        terminal.until_prompt()


def test_eight_agents_at_once_draw_no_more_than_twenty_frames_a_second() -> None:
    """The screen shows the current state, not each event."""
    turns: Counter[str] = Counter()
    lock = threading.Lock()
    names = [f"task {number}" for number in range(AGENTS)]

    def answer(request: ReceivedRequest) -> Reply:
        messages = request.body["messages"]
        task = str(messages[0]["content"][-1]["text"])
        with lock:
            turns[task] += 1
            turn = turns[task]
        if task == "go" and turn == 1:
            tasks = [{"description": n, "prompt": n, "subagent_type": "explore"} for n in names]
            return reply(*(call("agent", each) for each in tasks))
        return reply(call("glob", {"pattern": "*.no"})) if turn <= TURNS else reply("All done.")

    many: dict[str, str | None] = {
        "AGENT_CLI_AGENTS__MAX_PARALLEL": "8",
        "AGENT_CLI_AGENTS__ASK_BEYOND": "8",
    }
    with (
        serve_in_thread(answer=answer) as api,
        Terminal(AGENT_CLI, *YOLO, **environment(api, many)) as terminal,
    ):
        terminal.until_prompt()
        drawn, began_s = len(terminal.bytes), time.monotonic()
        terminal.send("go\r")
        terminal.until(lambda: sum(turns.values()) >= AGENTS * (TURNS + 1) + 2)
        terminal.until("All done.")
        frames = terminal.bytes[drawn:].count(FRAME)
        elapsed_s = time.monotonic() - began_s

    assert turns["task 7"] == TURNS + 1
    # A key is drawn at once, and so is a row that stays: prompt, agents, answer.
    stays = 1 + AGENTS + 1
    # The first frame is due at once.
    assert 0 < frames <= 1 + FRAMES_PER_S * elapsed_s + len("go\r") + stays
