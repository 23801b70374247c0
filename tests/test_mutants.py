"""The mutation tool: the changes it makes, and that the tests run on them."""

import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from tests.mutants import Mutant, Outcome, mutants_of, mutated, outcome_before, score_of
from tests.row_mutants import Row, row_mutants

ROOT = Path(__file__).parents[1]
MODULE = '''
"""A docstring."""
from typing import Literal, TypeAlias

Kind: TypeAlias = Literal["a", "b"]
LIMIT: int = 3

def shorter(text: str, *, mark: bool = True) -> str:
    """Another one."""
    assert text != "", "never"
    log.info("called")
    if not mark:
        return text
    return text[:LIMIT] + "."

def is_short() -> bool:
    return False
'''


def test_mutants_change_only_code_that_runs() -> None:
    """Docstrings, types, assertions and log lines stay as they were; False never becomes None."""
    path = Path("module.py")
    path.write_text(MODULE)

    changes = [mutated(mutant)[1].partition(": ")[2] for mutant in mutants_of(path)]

    assert changes == [
        "3  →  4",
        "True  →  False",
        "not mark  →  mark",
        "not mark  →  not not mark",
        "return text  →  return None",
        "return text[:LIMIT] + '.'  →  return None",
        "text[:LIMIT] + '.'  →  text[:LIMIT] - '.'",
        "'.'  →  'XX.XX'",
        "False  →  True",
    ]


@pytest.mark.parametrize(("number", "code"), [(-1, 0), (0, 1)])
def test_tests_of_the_package_run_on_the_mutant(number: int, code: int) -> None:
    """Without a mutation they pass; the file itself is never changed."""
    room = Path("agent_cli/room")
    room.mkdir(parents=True)
    for package in (room, room.parent):
        (package / "__init__.py").touch()
    tests = Path("tests/room")
    tests.mkdir(parents=True)
    (room / "limit.py").write_text("LIMIT = 3\n")
    (tests / "test_limit.py").write_text("")
    (tests / "test_other.py").write_text(
        "from agent_cli.room import limit\n\ndef test_it():\n    assert limit.LIMIT == 3\n"
    )
    (Path("tests") / "mutants.py").write_bytes((ROOT / "tests/mutants.py").read_bytes())
    mutant = str(Mutant(room / "limit.py", number))

    done = subprocess.run(
        [sys.executable, "-m", "tests.mutants", "--run", mutant],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == code, done.stdout + done.stderr
    assert (room / "limit.py").read_text() == "LIMIT = 3\n"


def test_tests_that_are_ended_at_the_limit_have_not_noticed_the_mutant() -> None:
    """A slow machine would raise the score; the count says how many they were."""
    mutant = Mutant(ROOT / "agent_cli/version.py", 0)

    ended = outcome_before(time.monotonic() + 60, 0.0, mutant)

    late = Outcome(mutant, noticed=False, said="no end within 0 s", timed_out=True)
    assert ended == late
    outcomes = [
        late,
        Outcome(mutant, noticed=True, said=""),
        Outcome(mutant, noticed=False, said=""),
    ]
    assert score_of(outcomes) == ("1 of 3 noticed (33.3%), 1 without an end in time", 1 / 3)
    assert score_of(outcomes[1:]) == ("1 of 2 noticed (50.0%)", 0.5)


def test_row_mutant_stands_on_a_line_that_the_rows_tests_run() -> None:
    """A line that fewer tests run is drawn more often; the same seed draws the same."""
    path = Path("agent_cli/room/limit.py")
    path.parent.mkdir(parents=True)
    path.write_text(
        "def own():\n    return 1\n\ndef shared():\n    return 2\n\ndef other():\n    return 3\n"
    )
    own, other = "tests/room/test_a.py::test_own", "tests/room/test_a.py::test_other"
    row = Row("S0-01", "room", (own,))
    shared = frozenset({own, *map(str, range(99))})
    lines = {path: {2: frozenset({own}), 5: shared, 8: frozenset({other})}}

    drawn = [[*row_mutants([row], lines, Random(seed), 1)] for seed in (*range(40), *range(40))]
    shown = Counter(mutated(each.mutant)[1].split(":")[1] for [each] in drawn)

    assert drawn[:40] == drawn[40:]
    assert shown["2"] > shown["5"] and {*shown} <= {"2", "5"}
