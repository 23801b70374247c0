"""/jobs: background commands, and stopping them."""

import asyncio
from io import StringIO
from typing import cast

import pytest

from agent_cli.core.hook_values import settled
from agent_cli.repl.commands.registry import find_command
from agent_cli.repl.commands.spec import Context, Controls
from agent_cli.terminal.writer import Writer
from tests.repl.conversation import Nobody, said
from tests.repl.scripted_app import Application


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


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("/jobs 3", "there is no job 3; /jobs lists them"),
        ("/jobs x", "x is not the number of a job; /jobs lists them"),
        ("/jobs stop", "stop is not the number of a job; /jobs lists them"),
        ("/jobs stop 1 2", "/jobs takes a number, stop NUMBER, stop all, or background"),
        ("/jobs background", "no command runs that could go on in the background"),
    ],
)
def test_invalid_jobs_argument_says_what_is_valid(line: str, words: str) -> None:
    assert said(line) == [words]


def test_jobs_arguments_are_offered_for_completion() -> None:
    app = Application()
    command, _ = find_command("/jobs", app)

    assert list(command.choices(app)) == ["1", "2", "stop 1", "background"]
