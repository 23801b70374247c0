"""/agents: the subagents of the session, and the work of each."""

import asyncio
import re
import threading
from collections.abc import Sequence
from io import StringIO
from typing import cast

import pytest

from agent_cli.contracts.agents import AgentInfo, AgentWork
from agent_cli.contracts.errors import UsageError
from agent_cli.contracts.goals import Goal
from agent_cli.contracts.listings import SessionInfo
from agent_cli.contracts.timeline import (
    Json,
)
from agent_cli.contracts.tooling import Tool
from agent_cli.core.call_decisions import AGENT_STOPPED
from agent_cli.core.returned_values import settled
from agent_cli.repl.commands import Context, Controls
from agent_cli.repl.commands.background import agent_work, goal_of
from agent_cli.repl.commands.registry import find_command
from agent_cli.terminal.narration import describe_failure, outcome_of
from agent_cli.terminal.writer import Writer
from tests.fakes import calls, says, scripted_agent, tool_use
from tests.repl.conversation import Nobody, said
from tests.repl.scripted_app import Application, kept
from tests.tables import each_row


def test_agents_command_lists_subagents_with_their_state() -> None:
    """On a pipe, one record per line; escapes in a task are shown, not obeyed.

    An agent of before `/clear` could not be told from one of the conversation.
    """
    app = Application()
    app.sessions.go_on_with("bb2")  # which has the call of the first one

    assert said("/agents", app=app) == [
        "1  agent explore (find \\x1b[31mit)  read a.py · 9 s",
        "2  agent plan (plan it)  ended after 3 s, another conversation's",
    ]


@each_row(
    ("earlier", "row"),
    [
        ((), "no agents yet"),
        (
            [kept("aa1", "find it"), kept("bb2", "plan it")],
            "no agents since the session was resumed; /usage has the IDs of 2 earlier agents, and"
            " `agent-cli sessions show ID` their work",
        ),
    ],
)
def test_agents_of_before_a_resume_are_counted_and_found(
    earlier: Sequence[SessionInfo], row: str
) -> None:
    """ "no agents yet" was wrong, and their files are too large for the event loop."""
    app, read_in = Application(), list[threading.Thread]()

    def agents() -> Sequence[SessionInfo]:
        read_in.append(threading.current_thread())
        return earlier

    app.sessions.agents, app.agents.all = agents, tuple  # type: ignore[method-assign]

    assert said("/agents", "/agents show", app=app) == [row, row]
    said("/usage", app=app)
    assert len(read_in) == 3
    assert threading.main_thread() not in read_in


def test_agents_command_shows_the_work_of_a_subagent() -> None:
    """Without a number, it is that of the running one."""
    assert said("/agents 2")[:3] == [
        "agent plan (plan it) · ended after 3 s",
        "its task:",
        "  find it",
    ]
    assert said("/agents show")[0].startswith("agent explore")


def test_agents_stop_stops_a_running_subagent() -> None:
    assert said("/agents stop 1", "/agents stop 2") == [
        "agent explore (find \\x1b[31mit): is being stopped",
        "agent plan (plan it): ended after 3 s",
    ]


@each_row(
    ("line", "words"),
    [
        ("/agents 3", "there is no agent 3; /agents lists them"),
        ("/agents x", "x is no agent's number; /agents lists them"),
        ("/agents stop", "/agents stop needs the number of an agent; /agents lists them"),
        ("/agents stop 1 2", "/agents takes a number, show, or stop NUMBER"),
    ],
)
def test_invalid_agents_argument_says_what_is_valid(line: str, words: str) -> None:
    assert said(line) == [words]


async def test_work_of_an_agent_has_a_heading_its_task_and_a_row_for_each_call() -> None:
    """No `you>`, no JSON; a call at work is said to be at work."""
    seen: list[str] = []

    async def look(_id: str, _params: object, _cancel: object, _update: object) -> str:
        seen.append(agent_work(page()))
        return "done"

    tool = Tool(
        name="look",
        label="Look",
        description="",
        parameters={"type": "object"},
        execute=look,
        summary=lambda params: params["at"],
    )
    agent, _, _ = scripted_agent(
        calls(tool_use("look", {"at": "a.py"}), tool_use("gone", {"b": 1}, "t2"), text="I look."),
        says("Found it."),
        tools=[tool],
    )
    info = AgentInfo(1, "agent explore (find it)", "thinking · 2 s", True)

    def page() -> AgentWork:
        return AgentWork(info, "find it\nand tell", agent.conversation.prompts, agent.state.tools)

    nothing = agent_work(page())
    await agent.prompt("find it\nand tell")
    end = agent_work(page()).split("\n")

    begin = ["agent explore (find it) · thinking · 2 s", "its task:", "  find it", "  and tell"]
    assert nothing.split("\n") == [*begin, "", "it has done nothing yet"]
    assert seen[0].split("\n")[:7] == [*begin, "", "I look.", "… Look a.py · at work"]
    assert end[5] == "I look."
    assert end[6].startswith("✓ Look a.py · ")
    assert end[7].startswith("✗ gone ")
    assert end[8:] == ["Found it."]


def test_agents_end_is_told_with_rounds_and_cost_and_a_stopped_one_did_not_fail() -> None:
    """Who stopped it knows that."""
    details: Json = {"agent": "plan", "agent_id": "c1", "rounds": 3, "cost_microdollars": 12_300}

    assert outcome_of(details) == "3 rounds · $0.0123"
    assert describe_failure(AGENT_STOPPED, 4.0) == ("stopped after 4.0 s", "you stopped it")


def test_jobs_command_lists_background_commands_with_their_state() -> None:
    """On a pipe, one record per line; escapes in a command are shown, not obeyed."""
    assert said("/jobs") == [
        "1  running for 12 s  npm run \\x1b[31mdev",
        "2  exit 2 after 3 s, another conversation's  make",
    ]


def test_jobs_table_wraps_without_loss_on_a_narrow_screen() -> None:
    """At 32 columns cells wrap inside their column; the number and the state come first."""
    rows = asyncio.run(_drawn(32)).splitlines()[2:]

    assert max(map(len, rows)) <= 32
    assert rows[0].split()[:3] == ["1", "running", "for"]
    commands = "".join(row[18:].strip() for row in rows)
    assert commands == "npm run\\x1b[31mdevmake"


async def _drawn(columns: int) -> str:
    app, err = Application(), StringIO()
    writer = Writer(StringIO(), err, color=False)
    controls = cast("Controls", object())  # a live screen
    context = Context(app, writer, Nobody(), lambda: None, print, controls)
    command, _ = find_command("/jobs", app)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", str(columns))
        await settled(command.run(context, ""))
    return err.getvalue()


def test_jobs_with_a_number_shows_the_end_of_the_output() -> None:
    shown = said("/jobs 2")

    assert shown[0] == "job 2, exit 2 after 3 s: make"
    assert shown[1:-1] == [f"line {number} of 2" for number in range(11, 31)]
    assert shown[-1] == "all of it: /logs/002.log"


def test_jobs_stop_ends_one_job_or_all() -> None:
    assert said("/jobs stop 1") == ["job 1: stopped by you after 13 s"]
    assert said("/jobs stop all", "/jobs stop all") == [
        "job 1: stopped by you after 13 s",
        "no job runs",
    ]


@each_row(
    ("typed", "check"),
    [
        ("""--check "grep -q 'done'" x""", "grep -q 'done'"),
        ("""--check='grep -q "done"' x""", 'grep -q "done"'),
        (r"""--check "grep \"a \\ b\" f" x""", 'grep "a \\ b" f'),
        ("--check make x", "make"),
        ("--check it's x", "it's"),
    ],
)
def test_check_of_a_goal_keeps_the_quotes_within_its_quotes(typed: str, check: str) -> None:
    """The last one was cut off with its own, and the shell refused the rest."""
    assert goal_of(typed) == Goal(text="x", check=check)


@each_row(
    ("typed", "words"),
    [
        (
            "--check 'make test fix it",
            "--check takes a command, quoted if it has blanks, not 'make",
        ),
        ("--check", "--check takes a command, quoted if it has blanks, not nothing"),
        ("--rounds 0 x", "--rounds takes a whole number from 1 to 1000, not 0"),
        ("--max-cost=free x", "--max-cost takes dollars, such as 2.50, not free"),
        ("--time 1d x", "--time takes a duration, such as 90s, 30m or 1h, not 1d"),
    ],
)
def test_option_of_a_goal_without_a_value_that_fits_says_what_fits(typed: str, words: str) -> None:
    """A quote that was not closed made the rest of the command part of the goal."""
    with pytest.raises(UsageError, match=f"^{re.escape(words)}; /goal "):
        goal_of(typed)


@each_row(
    ("line", "words"),
    [
        ("/jobs 3", "there is no job 3; /jobs lists them"),
        ("/jobs x", "x is no job's number; /jobs lists them"),
        ("/jobs stop", "/jobs stop needs the number of a job, or all; /jobs lists them"),
        ("/jobs stop 1 2", "/jobs takes a number, stop NUMBER, stop all, or background"),
        (
            "/jobs background",
            "no command of the model runs, and one behind ! cannot go on in the background",
        ),
    ],
)
def test_invalid_jobs_argument_says_what_is_valid(line: str, words: str) -> None:
    assert said(line) == [words]


def test_jobs_arguments_are_offered_for_completion() -> None:
    app = Application()
    command, _ = find_command("/jobs", app)

    assert list(command.choices(app)) == ["1", "2", "stop 1", "background"]
