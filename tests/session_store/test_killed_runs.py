"""kill -9 at random moments: nothing runs twice, and no reported event is lost."""

import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from agent_cli.contracts.timeline import ToolOutput
from agent_cli.session_store import SessionStore
from agent_cli.session_store.log_file import read_log
from agent_cli.session_store.upkeep import verify
from tests.session_store.recordings import faults

PROGRAM = Path(__file__).with_name("counting_runs.py")
ROOT = PROGRAM.parents[2]


@dataclass
class Runs:
    """The program that forks runs, and the one session they all continue."""

    folder: Path
    ran: Path
    process: subprocess.Popen[str]

    def kill_one(self, after: int) -> int:
        """Start a run, kill it after *after* reports; return the bytes it vouched for."""
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        pid = int(self.process.stdout.readline())
        for _ in range(after):
            told = self.process.stdout.readline()
            assert told.strip().isdigit(), "the run ended by itself"
        os.kill(pid, signal.SIGKILL)
        vouched = 0
        while (line := self.process.stdout.readline()) != "dead\n":
            vouched = int(line)
        return vouched


@pytest.fixture
def runs(tmp_path: Path) -> Iterator[Runs]:
    folder, ran = tmp_path / "sessions", tmp_path / "ran"
    command = [sys.executable, str(PROGRAM), str(folder), "counted", str(ran)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as process:
        yield Runs(folder, ran, process)
        assert process.stdin
        process.stdin.close()


def kill_and_check(runs: Runs, *, times: int) -> None:
    """Kill runs of one session again and again; after each, check the file."""
    chance = random.Random(times)
    ran: Counter[str] = Counter()
    for _ in range(times):
        vouched = runs.kill_one(chance.randrange(1, 120))

        path = runs.folder / "counted.jsonl"
        whole = read_log(path)
        assert whole.size >= vouched, "a record that was told is not there"
        assert [finding for finding in verify(path) if finding.damage] == []
        session, conversation = SessionStore(runs.folder).resume("counted")
        session.close()
        assert faults(conversation) == []
        ran = Counter(runs.ran.read_text().split() if runs.ran.exists() else ())
        assert set(ran.values()) <= {1}, "a call ran twice"
        outputs = [output for prompt in conversation.prompts for output in prompt.output]
        calls = {out.tool_call_id: out for out in outputs if isinstance(out, ToolOutput)}
        assert all(calls[id].started_at_ms for id in ran), "a call ran that was not on disk"
        assert read_log(path).records[: len(whole.records)] == whole.records
    assert len(ran) > times


def test_killed_runs_lose_no_event_and_repeat_no_call(runs: Runs) -> None:
    """S2-31: one session goes through all of them; each run approves the pending calls."""
    kill_and_check(runs, times=8)


@pytest.mark.slow
def test_two_hundred_killed_runs_lose_no_event_and_repeat_no_call(runs: Runs) -> None:
    kill_and_check(runs, times=200)
