"""Mutation testing: `make mutants` changes the source in small ways and runs the tests on each.

mutmut makes the mutants and runs them; this draws a sample, the same for the same seed, from each
part of the program, and prints how many of it the tests noticed. A mutant that no test noticed is
listed; `.venv/bin/mutmut show NAME` shows it.
"""

import argparse
import json
import random
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOMS = ("core", "policies", "providers", "session_store")
MUTANTS = Path("mutants/agent_cli")
LOG = Path("mutants/mutmut.log")
MUTMUT = str(Path(sys.executable).with_name("mutmut"))
_SURVIVED = 0
_NO_TEST = (5, 33)


def main() -> int:
    """Print the score of a sample; the exit code is 1 where a part has none."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sample", type=int, default=50, help="mutants of each part")
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()

    # One cheap mutant, so that mutmut makes all of them and learns which test runs which function.
    _run(["agent_cli.policies.trimming.x_trim_history__mutmut_1"], given.workers)
    chance = random.Random(given.seed)
    samples = {room: _sample(chance, sorted(_outcomes(room)), given.sample) for room in ROOMS}
    _run([name for names in samples.values() for name in names], given.workers)
    print(f"seed {given.seed}; the sample of each part:")
    noticed = [_report(room, names, _outcomes(room)) for room, names in samples.items()]
    return int(not all(noticed))


def _sample(chance: random.Random, names: Sequence[str], size: int) -> Sequence[str]:
    return chance.sample(names, min(size, len(names)))


def _run(names: Sequence[str], workers: int) -> None:
    LOG.parent.mkdir(exist_ok=True)
    with LOG.open("w") as log:
        done = subprocess.run(
            [MUTMUT, "run", "--max-children", str(workers), *names],
            stdout=log,
            stderr=log,
            check=False,
        )
    if done.returncode:
        raise SystemExit(f"mutmut failed; {LOG} says why:\n{LOG.read_text()[-2_000:]}")


def _outcomes(room: str) -> Mapping[str, int | None]:
    """Return the exit code of the tests by mutant; None where it was not run."""
    found: dict[str, int | None] = {}
    for path in sorted((MUTANTS / room).rglob("*.meta")):
        found |= json.loads(path.read_text())["exit_code_by_key"]
    return found


def _report(room: str, names: Sequence[str], outcomes: Mapping[str, int | None]) -> int:
    survived = [name for name in names if outcomes[name] == _SURVIVED]
    untested = [name for name in names if outcomes[name] in _NO_TEST]
    noticed = len(names) - len(survived) - len(untested)
    share = f"{noticed / len(names):.0%}" if names else "none"
    print(f"{room:14} {noticed} of {len(names)} noticed ({share}) of {len(outcomes)} mutants")
    for name in survived:
        print(f"    survived  {name}")
    for name in untested:
        print(f"    no test   {name}")
    return noticed


if __name__ == "__main__":
    sys.exit(main())
