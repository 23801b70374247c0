"""Hooks whose changes are recorded: they run as others do, in each sandbox and without one."""

import asyncio
import os
import time
from collections.abc import Iterator
from typing import cast

import pytest

from agent_cli.app.hooks.confinement import HookConfinement
from agent_cli.app.startup import StartupContext
from agent_cli.hooks.answers import HookOutcome
from agent_cli.hooks.definition import Hook
from agent_cli.hooks.run import HookEnvironment, run_hook
from agent_cli.sandbox.report import State
from agent_cli.system.keeper import LOCK
from agent_cli.undo.logs import CommandQuestion, is_held
from agent_cli.undo.stopped_calls import why_missing
from agent_cli_tools import command_run
from tests.hooks.test_places import Startup
from tests.sandbox.watched_bash import Bash
from tests.sandbox.world import World, world
from tests.tools.test_undo_commands import Clock
from tests.tools.undoing import fill, tree
from tests.waiting import until

pytestmark = pytest.mark.skipif(why_missing() != "", reason=why_missing() or "-")


@pytest.fixture(params=["bwrap", "landlock", "own"])
def place(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """A world; "own" runs hooks that the user took out of the sandbox."""
    state: State = "bwrap" if request.param == "own" else request.param
    monkeypatch.setattr(command_run, "may_gain_rights", lambda *_a, **_k: False)
    with world(state) as made:
        monkeypatch.setenv("HOME", str(made.home))
        fill(made.root)
        yield made


@pytest.fixture
def recorded(place: World, request: pytest.FixtureRequest) -> "Iterator[Hooks]":
    made = Hooks(place, outside="own" in request.node.name)
    with made.bash.workspace:
        yield made


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(time, "monotonic", clock)
    return clock


class Hooks:
    """Runs hooks in a world, whose changes are recorded."""

    def __init__(self, place: World, *, outside: bool) -> None:
        self.place, self.outside = place, outside
        self.bash = Bash(place, place.base / "state")

    async def run(self, command: str, *, limit_s: float = 60.0) -> HookOutcome:
        startup = cast("StartupContext", Startup(self.place.root))
        places = HookConfinement(startup, self.place.sandbox, workspace=self.bash.workspace)
        around = HookEnvironment(self.place.root, dict(os.environ), prepare=places)
        hook = Hook(event="Stop", command=command, outside=self.outside, timeout_s=limit_s)
        return await run_hook(hook, {"hook_event_name": "Stop"}, around)


async def test_recorded_hook_reads_and_answers_as_others(place: World, recorded: Hooks) -> None:
    """Its input, both outputs and its exit code; what it did is taken back.

    The input is in a folder that the next program cleans: a killed one left it in the temporary
    folder, and it may hold a prompt.
    """
    before = tree(place.root)

    ran = await recorded.run("cat; rm -r data; sed -i s/x/y/ src/*.py; echo no >&2; exit 2")

    assert (ran.code, ran.stdout, ran.stderr, ran.fault) == (
        2,
        '{"hook_event_name":"Stop"}',
        "no\n",
        "",
    )
    assert not (place.root / "data").exists()
    recorded.bash.snapshots.take_back()
    assert tree(place.root) == before
    assert "/agent-cli-run-" in (await recorded.run("readlink /proc/$$/fd/0")).stdout


async def test_recorded_hook_that_hangs_is_ended_with_all_it_started(
    place: World, recorded: Hooks
) -> None:
    """And what it did until then is taken back."""
    before = tree(place.root)

    running = asyncio.ensure_future(recorded.run("rm -r data; (setsid sleep 987 &); sleep 987"))
    await until(lambda: not (place.root / "data").exists())
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    # It is killed; on a busy machine its last process may take seconds to end.
    await until(lambda: not any(map(is_held, place.base.rglob(LOCK))))

    recorded.bash.snapshots.take_back()
    assert tree(place.root) == before


async def test_recorded_hook_that_fails_says_why(recorded: Hooks) -> None:
    for command, faults in (
        ("echo x >> src/a1.py; yes", ("it printed more than 1 MB",)),
        ("yes >&2", ("it printed more than 1 MB",)),
        ("touch new; /nowhere/x", ("there is no", "was not found")),
    ):
        ran = await recorded.run(command)

        assert any(fault in ran.fault for fault in faults), (command, ran)


async def test_time_limit_of_a_hook_stands_still_while_its_question_does(
    place: World, recorded: Hooks, clock: Clock
) -> None:
    """A person may think for longer than the hook may run; a no lets its changes fail."""
    recorded.bash.ask_beyond_files = 5
    asked: list[str] = []

    async def slowly(command: str, _question: CommandQuestion) -> bool:
        asked.append(command)
        return not await clock.slowly()

    recorded.bash.snapshots.decide = slowly

    ran = await recorded.run("rm data/* || exit 2", limit_s=20)

    assert (ran.code, ran.fault) == (2, "")
    assert asked == ["rm data/* || exit 2"]
    assert len([*place.root.glob("data/*")]) == 3
