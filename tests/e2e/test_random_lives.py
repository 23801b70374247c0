"""1,000 random lives of the program: none hangs, repeats a call, or loses a word."""

import random
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import pytest

from tests.e2e.kin import children_of
from tests.e2e.random_lives import LongSession, Model
from tests.launcher_server import launcher_server
from tests.messages_api import serve_in_thread
from tests.waiting import wait_until

SESSIONS: Final = 200
LIVES: Final = 5
WORKERS: Final = 2


def lived(folder: Path, seed: str, *, lives: int) -> LongSession:
    """Play a session of some lives, with a server of its own."""
    dice = random.Random(seed)
    with serve_in_thread(answer=Model(dice.random()).answer) as api:
        session = LongSession(folder, api, dice)
        session.play(lives)
    return session


def test_nothing_hangs_or_is_lost_in_the_lives_of_one_session(tmp_path: Path) -> None:
    """S2-31: each life ends in its own way, and the next one goes on."""
    session = lived(tmp_path, "one session", lives=2)

    assert session.faults == []
    assert session.counts["lives"] == 2


@pytest.mark.slow
def test_nothing_hangs_or_is_lost_in_a_thousand_random_lives(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """S2-31: every request is valid, no call runs twice, every record verifies."""
    seed = int(request.config.getoption("--hypothesis-seed") or 1)

    def one(number: int) -> LongSession:
        return lived(tmp_path / str(number), f"{seed} {number}", lives=LIVES)

    with ThreadPoolExecutor(WORKERS) as workers:
        sessions = list(workers.map(one, range(SESSIONS)))
    launchers, _ = launcher_server()
    wait_until(lambda: not children_of(launchers), "the end of all launchers")

    counts = sum((session.counts for session in sessions), Counter[str]())
    faults = [f"{at}: {fault}" for at, each in enumerate(sessions) for fault in each.faults]
    print(f"seed {seed}: {dict(sorted(counts.items()))}, {len(faults)} faults")
    print(*faults, sep="\n")
    assert faults == []
    assert counts["lives"] == SESSIONS * LIVES
