"""Mutants of requirements: `make row-mutants` samples rows of docs/requirements.md.

A row's room is the one with most of the tests that name it. Its mutant is a change to a line of
that room which these tests run; a line that few tests run is likelier, as it is the row's own. The
tests that name the row run first, then those of the room, until one fails. The sample is the same
for the same seed. Rows whose tests run no line of their room in their own process have no mutants:
they are about documents, about the program as a whole, or about the direction of imports.
"""

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import coverage
import pytest

from tests.mutants import (
    Mutant,
    Outcome,
    modules_of,
    mutants_with_lines,
    mutated,
    outcome_before,
    score_of,
)
from tests.requirements import coverage as tests_by_row
from tests.requirements import requirements

TRACE_LIMIT_S = 900
MUTANT_LIMIT_S = 240

Lines = Mapping[Path, Mapping[int, frozenset[str]]]
"""For each module the tests that run each line."""


@dataclass(frozen=True, slots=True)
class Row:
    """A requirement, its room, and the tests there that name it."""

    id: str
    room: str
    tests: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RowMutant:
    """The change that stands for a row."""

    row: Row
    mutant: Mutant


def main() -> int:
    """Print the survivors and the share that is noticed; the exit code is 1 below the bar."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rows", type=int, default=120)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--bar", type=float, default=0.97)
    parser.add_argument("--trace", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.trace:
        return trace(json.loads(given.trace.read_text()), given.trace)

    begun = time.monotonic()
    rows = [*_rows()]
    lines = _lines_run([test for row in rows for test in row.tests])
    with_mutants = [row for row in rows if _candidates(row, lines)]
    sample = [*row_mutants(with_mutants, lines, random.Random(given.seed), given.rows)]
    print(
        f"seed {given.seed}: {len(sample)} of {len(with_mutants)} rows with mutants,"
        f" of {len(requirements())} rows; traced in {time.monotonic() - begun:.0f} s",
        flush=True,
    )
    until = begun + given.minutes * 60
    with ThreadPoolExecutor(given.workers) as pool:
        outcomes = [*pool.map(partial(_noticed, until), sample)]
    tried = [each for each in outcomes if each is not None]
    score, share = score_of(tried)
    untried = len(sample) - len(tried)
    print(f"{score}, {untried} not tried, {time.monotonic() - begun:.0f} s")
    return int(share < given.bar or len(tried) < len(sample))


def row_mutants(
    rows: Sequence[Row], lines: Lines, chance: random.Random, count: int
) -> Iterator[RowMutant]:
    """Draw *count* rows and a mutant for each, none twice."""
    drawn = set[Mutant]()
    for row in chance.sample(rows, min(count, len(rows))):
        weights = {m: w for m, w in _candidates(row, lines).items() if m not in drawn}
        if weights:
            [mutant] = chance.choices([*weights], [*weights.values()])
            drawn.add(mutant)
            yield RowMutant(row, mutant)


def trace(tests: Sequence[str], path: Path) -> int:
    """Run *tests* and write the lines that each runs into *path*."""
    counted = coverage.Coverage(
        data_file=None, source_pkgs=["agent_cli", "agent_cli_tools"], config_file=False
    )

    class Contexts:
        """Tells the counting which test runs."""

        @pytest.hookimpl(wrapper=True)
        def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
            counted.switch_context(item.nodeid.partition("[")[0])
            try:
                return (yield)
            finally:
                counted.switch_context("")

    counted.start()
    pytest.main(
        ["-m", "not slow", "-p", "no:cacheprovider", "-p", "no:xdist", *tests], [Contexts()]
    )
    counted.stop()
    data = counted.get_data()
    found = {
        str(Path(name).relative_to(Path.cwd())): {
            line: [*filter(None, contexts)]
            for line, contexts in data.contexts_by_lineno(name).items()
        }
        for name in data.measured_files()
    }
    path.write_text(json.dumps(found))
    return 0


def _rows() -> Iterator[Row]:
    sources = {path.name for path in Path("agent_cli").iterdir() if path.is_dir()} | {"tools"}
    for requirement in requirements():
        rooms = defaultdict[str, list[str]](list)
        for test in tests_by_row().get(requirement.id, ()):
            if (room := Path(test).parts[1]) in sources:
                rooms[room].append(test)
        if rooms:
            room = max(rooms, key=lambda each: len(rooms[each]))
            yield Row(requirement.id, room, tuple(rooms[room]))


def _lines_run(tests: Sequence[str]) -> Lines:
    with tempfile.NamedTemporaryFile("w+", suffix=".json") as file:
        json.dump(sorted({*tests}), file)
        file.flush()
        command = [sys.executable, "-m", "tests.row_mutants", "--trace", file.name]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=TRACE_LIMIT_S, check=False
        )
        if done.returncode or " failed" in done.stdout:
            raise SystemExit(f"a test fails without any mutant:\n{done.stdout[-2_000:]}")
        found = json.loads(Path(file.name).read_text())
    return {
        Path(name): {int(line): frozenset(contexts) for line, contexts in lines.items()}
        for name, lines in found.items()
    }


def _candidates(row: Row, lines: Lines) -> Mapping[Mutant, float]:
    """Return the mutants on lines that the row's tests run, with their weights."""
    return {
        mutant: 1 / len(tests)
        for path in modules_of(row.room)
        for mutant, line in _mutants(path)
        if (tests := lines.get(path, {}).get(line, frozenset())) and _names(row, tests)
    }


@cache
def _mutants(path: Path) -> Sequence[tuple[Mutant, int]]:
    return mutants_with_lines(path)


def _names(row: Row, tests: frozenset[str]) -> bool:
    return any(test in row.tests or test.partition("::")[0] in row.tests for test in tests)


def _noticed(until: float, each: RowMutant) -> Outcome | None:
    begun = time.monotonic()
    outcome = outcome_before(until, MUTANT_LIMIT_S, each.mutant, each.row.tests)
    match outcome:
        case None:
            word = "no time"
        case Outcome(timed_out=True):
            word = "NO END"
        case Outcome(noticed=noticed):
            word = "noticed" if noticed else "SURVIVED"
    shown = mutated(each.mutant)[1]
    took = f"{time.monotonic() - begun:.0f} s"
    print(f"{word:8} {took:>5} {each.row.id:6} {each.mutant}  {shown}", flush=True)
    return outcome


if __name__ == "__main__":
    sys.exit(main())
