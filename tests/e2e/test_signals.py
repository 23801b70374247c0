"""SIGINT, SIGTERM and SIGHUP end every entry point with the documented code, at any moment."""

import json
import random
import shutil
import signal
import sys
import time
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from agent_cli.session_store import SessionStore
from agent_cli.session_store.upkeep import verify
from tests.e2e.doors import (
    ANSWER,
    ARGUMENTS,
    LAST_WORD,
    NUMBERS,
    Life,
    Moment,
    is_a_key,
    is_begun,
)
from tests.e2e.kin import children_of
from tests.e2e.program import AGENT_CLI, environment
from tests.fakes import LIMIT_S
from tests.forked import start
from tests.launcher_server import launcher_server
from tests.mcp_client import raw_server
from tests.messages_api import (
    FakeMessagesApi,
    Pace,
    ReceivedRequest,
    reply,
    serve_in_thread,
    tool_use,
)
from tests.messages_api.script import Answer
from tests.waiting import wait_until

MOMENTS: Final = 200
LATE_MAX: Final = 100
WORKERS: Final = 2
PACE_S: Final = 0.02
TASKS: Final = 2
COMMAND: Final = "touch begun; sleep 600 & sleep 600"
"""A command that runs for as long as nobody ends it, with a child of its own."""
SERVERS: Final[Mapping[str, Mapping[str, object]]] = {
    "late server": {"delay_s": 0.3},
    "hung server": {"hang": True, "stubborn": True},
}
"""MCP servers by scene, as options of raw_server.py; a reply waits for them while they start."""
SERVER_LIMIT_S: Final = 0.6
"""The startup timeout of a server; then the reply goes on without it."""


@dataclass(frozen=True)
class Phase:
    """A part of a life in a scene, from one mark to another; *times* that long, a moment may be."""

    scene: str
    since: str
    until: str
    times: float
    weight: int
    doors: tuple[str, ...] = tuple(ARGUMENTS)


PHASES: Final = (
    Phase("reply", "begun", "asked", 1.0, 6),
    Phase("reply", "asked", "answered", 1.0, 5),
    Phase("reply", "answered", "ended", 1.1, 5),
    Phase("command", "asked", "reached", 2.0, 4),
    Phase("question", "asked", "reached", 2.0, 3, ("repl",)),
    *(
        phase
        for scene in SERVERS
        for phase in (
            Phase(scene, "begun", "started", 1.0, 1),
            Phase(scene, "started", "asked", 1.1, 3),
            Phase(scene, "asked", "ended", 1.1, 1),
        )
    ),
)
OPTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "reply": (),
    "command": ("--permission-mode", "yolo"),
    "question": ("--permission-mode", "ask"),
    **dict.fromkeys(SERVERS, ("--mcp-config", "servers.json")),
}


class Stage:
    """A machine of its own for lives that follow each other: home, temporary folder and API."""

    def __init__(self, door: str, folder: Path, api: FakeMessagesApi, dice: random.Random) -> None:
        self.counts: Counter[str] = Counter()
        self.faults: list[str] = []
        self._door = door
        self._folder = folder
        self._api = api
        self._dice = dice
        self._lives = 0
        self._scene = ""
        self._home = folder / "home"
        self._temporary = folder / "tmp"
        for each in (self._home, self._temporary):
            each.mkdir(parents=True)
        homes = {
            name: str(self._home / place)
            for name, place in (("XDG_CONFIG_HOME", "config"), ("XDG_STATE_HOME", "state"))
        }
        own = {
            **homes,
            "HOME": str(self._home),
            "TMPDIR": str(self._temporary),
        }
        self._environment = {**environment(api, {}), **own}
        self._lasts: dict[tuple[str, str, bool], float] = {}

    def play(self, moments: int) -> None:
        """Measure the lives of this door, then end as many with a signal each."""
        for scene in ("reply", *SERVERS):
            for fresh in (True, False):
                self._measure(scene, None, fresh=fresh)
        for scene in ("command", "question"):
            if scene == "command" or self._door == "repl":
                self._measure(scene, "reached", fresh=False)
        phases = [each for each in PHASES if self._door in each.doors]
        while sum(self.counts.values()) - self.counts["late"] < moments:
            [phase] = self._dice.choices(phases, [each.weight for each in phases])
            self._hit(phase)
            assert self.counts["late"] <= LATE_MAX, "too many moments come after the end"

    def answer(self, request: ReceivedRequest) -> Answer:
        """Answer as the scene wants it."""
        if self._scene in ("command", "question"):
            return reply(tool_use("bash", {"command": COMMAND}))
        return reply(ANSWER, gate=Pace(PACE_S), chunk_chars=5)

    def _measure(self, scene: str, until: str | None, *, fresh: bool) -> None:
        life = self._life(scene, fresh=fresh)
        moment = Moment(signal.SIGTERM, until, 0.0) if until else None
        self._live(life, moment, f"{scene}, measured")
        if until is None and life.code != 0:
            self.faults.append(f"{scene}, measured: {life.code}, {life.output[-2_000:]!r}")
        for phase in PHASES:
            if phase.scene == scene and {phase.since, phase.until} <= life.marks.keys():
                lasts = life.marks[phase.until] - life.marks[phase.since]
                self._lasts[scene, phase.until, fresh] = lasts

    def _hit(self, phase: Phase) -> None:
        # What only a new interpreter does is at its start.
        fresh = phase.since == "begun" or self._dice.random() < 0.2
        scene = phase.scene
        lasts_s = (
            self._lasts.get((scene, phase.until, fresh)) or self._lasts[scene, phase.until, False]
        )
        after_s = self._dice.random() * phase.times * lasts_s
        moment = Moment(self._dice.choice(NUMBERS), phase.since, after_s)
        life = self._life(scene, fresh=fresh)
        kind = "new" if fresh else "fork"
        name = f"{scene}, {moment.number.name} {after_s:.3f} s after {phase.since} ({kind})"
        self._live(life, moment, name)
        self.counts[f"{scene}: {phase.since}" if life.was_hit else "late"] += 1
        allowed = {128 + moment.number}
        ends = life.hung_up and self._is_answered(life)
        if not life.was_hit or ends or is_a_key(self._door, moment):
            allowed.add(0)
        if life.code not in allowed:
            self.faults.append(f"{name}: exit code {life.code}, {life.output[-2_000:]!r}")

    def _is_answered(self, life: Life) -> bool:
        """Return whether nothing was left to do: the client of a server goes after its answer."""
        if self._door == "-p":
            return LAST_WORD in life.output
        return self._door != "batch" or self._reached(life)["answered"]

    def _life(self, scene: str, *, fresh: bool) -> Life:
        self._lives += 1
        self._scene = scene
        self._api.requests.clear()
        folder = self._folder / str(self._lives)
        folder.mkdir()
        if self._door == "batch":
            lines = [f'{{"id": "{task}", "prompt": "hi"}}\n' for task in range(TASKS)]
            (folder / "tasks.jsonl").write_text("".join(lines))
        if scene in SERVERS:
            (folder / "servers.json").write_text(_servers(SERVERS[scene]))
        return Life(
            door=self._door,
            options=OPTIONS[scene],
            folder=folder,
            environment=self._environment,
            fresh=fresh,
            reached=self._reached,
        )

    def _reached(self, life: Life) -> Mapping[str, bool]:
        requests = self._api.requests
        expected = TASKS if self._door == "batch" else 1
        is_shown = b"allow?" in life.output
        return {
            "started": (life.folder / "pids").exists(),
            "asked": bool(requests),
            "answered": sum(each.answered.at_s > 0 for each in requests) >= expected,
            "reached": is_shown if self._scene == "question" else (life.folder / "begun").exists(),
        }

    def _live(self, life: Life, moment: Moment | None, name: str) -> None:
        since_s = time.time()
        left = life.live(moment)
        output = life.output.decode(errors="replace")
        for noise in ("Traceback", "Exception ignored"):
            if noise in output:
                self.faults.append(f"{name}: {output[-4_000:]}")
        if life.code is None:
            self.faults.append(f"{name}: hung; {output[-2_000:]!r}")
        if left:
            self.faults.append(f"{name}: left running: {left}")
        if names := [each.name for each in self._temporary.iterdir()]:
            if not life.was_hit_again:  # a second signal ends the program at once
                self.faults.append(f"{name}: left in the temporary folder: {names}")
            shutil.rmtree(self._temporary)
            self._temporary.mkdir()
        for path in SessionStore(self._home / "state/agent-cli/sessions").files():
            if path.stat().st_mtime >= since_s - 1:
                damage = [str(each) for each in verify(path) if each.damage]
                self.faults += [f"{name}: {path.name}: {each}" for each in damage]
        shutil.rmtree(life.folder)


def _servers(options: Mapping[str, object]) -> str:
    """Return the settings of an MCP server with these options and a child that ignores SIGTERM."""
    arguments = ["-I", "-S", raw_server.__file__, json.dumps({**options, "pids": "pids"})]
    server = {"command": sys.executable, "args": arguments, "startup_timeout_s": SERVER_LIMIT_S}
    return json.dumps({"mcpServers": {"raw": server}})


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("entry", ["mcp serve", "acp"])
def test_server_ends_on_a_signal_while_its_client_stays(entry: str, number: signal.Signals) -> None:
    """The client keeps its side of the pipes open, and has sent nothing."""
    moment_s = random.Random(f"{entry} {number}").random() / 2
    with start(AGENT_CLI, *ARGUMENTS[entry], environment=environment(None, {})) as program:
        wait_until(lambda: program.poll() is not None or is_begun(program.pid))
        time.sleep(moment_s)  # a moment of its life, not a wait for something
        program.send_signal(number)

        assert program.wait(LIMIT_S) == 128 + number


@pytest.mark.slow
@pytest.mark.parametrize("door", ARGUMENTS)
def test_signal_at_a_random_moment_ends_the_program_with_its_code(
    door: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """200 moments between its first instruction and its last; nothing is left or damaged."""
    seed = int(request.config.getoption("--hypothesis-seed") or 1)

    def played(worker: int) -> Stage:
        dice = random.Random(f"{door} {seed} {worker}")
        stage: list[Stage] = []
        with serve_in_thread(answer=lambda request: stage[0].answer(request)) as api:
            stage.append(Stage(door, tmp_path / str(worker), api, dice))
            stage[0].play(MOMENTS // WORKERS)
        return stage[0]

    with ThreadPoolExecutor(WORKERS) as workers:
        stages = list(workers.map(played, range(WORKERS)))
    launchers, _ = launcher_server()
    wait_until(lambda: not children_of(launchers), "the end of all launchers")

    counts = sum((stage.counts for stage in stages), Counter[str]())
    print(f"{door}, seed {seed}: {dict(sorted(counts.items()))}")
    faults = [fault for stage in stages for fault in stage.faults]
    print(*faults, sep="\n")
    assert faults == []
