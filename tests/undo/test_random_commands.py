"""/undo of random changes: names move, links are made, what was there comes and goes."""

import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_cli.system.launching import Launcher
from agent_cli.undo.logs import drop_kept
from agent_cli.undo.reversal import carry_out
from agent_cli.undo.stopped_calls import why_missing
from tests.tools.undoing import fill, tree
from tests.undo.test_kills import LIMIT_S, begin, found, logged, plan

pytestmark = pytest.mark.skipif(why_missing() != "", reason=why_missing() or "-")

FILES = ("src/a1.py", "src/a2.py", "src/deep/tool", "data/p3.bin", "hard", "link", "n1", "d/n2")
FOLDERS = ("src", "data", "src/deep", "d", "d/e", ".")
CHANGES = (
    "echo {word} > {file}",
    "echo {word} >> {file}",
    "rm -f {file}",
    "mv -f {file} {other}",
    "mv {file} {folder}/",
    "ln -f {file} {other}",
    "ln -sf {folder}/n1 {other}",
    "cp -f {file} {other}",
    "chmod {mode} {file}",
    "touch -d 2001-01-0{digit} {file} {folder}",
    "truncate -s {digit} {file}",
    "mkdir -p {folder}",
    "mv {folder} {folder2}",
    "mv -T {folder} m{digit}",
    "mv -T m{digit} {folder}",
    "rm -rf {folder2}",
    "cp -a {folder} {folder2}/",
    "sed -i s/x/{word}/ {file}",
    "cp -al {folder} {folder2}/",
    "rmdir {folder}",
)


@pytest.fixture
def launcher() -> Iterator[Launcher]:
    made = Launcher()
    yield made
    made.close()


@pytest.mark.parametrize("seeds", [range(4), pytest.param(range(100, 300), marks=pytest.mark.slow)])
def test_undo_of_random_changes(launcher: Launcher, tmp_path: Path, seeds: range) -> None:
    """Each failed for a reason of its own once, such as a write through a second name."""
    for seed in seeds:
        chance = random.Random(seed)
        base = tmp_path / str(seed)
        root = base / "work"
        fill(root)
        before = tree(root)
        command = "\n".join(_change(chance) for _ in range(chance.randrange(2, 25)))

        link = begin(launcher, root, base / "log", f"exec 2>/dev/null </dev/null\n{command}")
        found(link, "over")
        link.end(LIMIT_S)
        log = logged(base / "log")
        plan(base / "plan", log)
        outcome = carry_out(base / "plan")
        drop_kept(log.folder)

        assert tree(root) == before, f"seed {seed}: {command}"
        assert outcome.faults == [], f"seed {seed}: {command}"
        shutil.rmtree(base)


def _change(chance: random.Random) -> str:
    return chance.choice(CHANGES).format(
        word=chance.choice(("one", "two")),
        file=chance.choice(FILES),
        other=chance.choice(FILES),
        folder=chance.choice(FOLDERS),
        folder2=chance.choice(FOLDERS[:-1]),
        mode=chance.choice(("600", "755")),
        digit=chance.randrange(1, 5),
    )
