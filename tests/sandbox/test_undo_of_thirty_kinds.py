"""/undo of twenty destructive commands and ten of other kinds, in each sandbox."""

import shutil
import sqlite3
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_cli.sandbox.report import State
from agent_cli.undo.stopped_calls import why_missing
from tests.sandbox.watched_bash import Bash
from tests.sandbox.world import World, world
from tests.tools.undoing import fill, tree

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux" or why_missing() != "", reason="Linux"),
    pytest.mark.slow,
]

DESTRUCTIVE = [
    "rm -rf data",
    "rm -rf src data link hard sparse untracked.txt",
    "git clean -fdxq",
    "git checkout -q -- .",
    "git reset -q --hard",
    "git stash -q -u && git stash drop -q",
    "git branch -qD other; git checkout -qb new; rm hard; git commit -qam y; git gc -q",
    "find . -name '*.bin' -delete",
    "truncate -s 0 data/* src/*.py",
    "for f in src/*.py; do : > $f; done",
    "sed -i s/x/y/ src/*.py; perl -i -pe s/y/z/ src/a1.py",
    "mv src/a1.py src/a2.py; mv data/p1.bin src/; cp -f src/a3.py src/a4.py",
    "dd if=/dev/zero of=data/p5.bin bs=10 count=1 conv=notrunc; tee src/a1.py </dev/null",
    "chmod -R 000 src; chmod -R 755 src; chmod 400 data/p2.bin",
    "ln -sf data link; ln -f src/a1.py src/a2.py; touch -d 2001-01-01 src/a5.py src",
    "mkdir t && mv src data t/ && rm -rf t",
    "shred -u data/p7.bin; fallocate -p -o 0 -l 40 data/p6.bin",
    "mv src src2; mv data src; mv src2 data; echo hi > data/a1.py; rm -r src",
    "rm -f .git/index; rm -rf .git/refs .git/logs",
    "$PYTHON -c \"import shutil, os; shutil.rmtree('src'); os.replace('link', 'data/p1.bin');"
    " open('data/p2.bin', 'r+b').truncate(3); os.mkfifo('fifo')\"",
]
OTHER = {
    "pip": (
        "$PYTHON -m pip install -q --no-index --no-cache-dir --upgrade --target data"
        " ./made-1-py3-none-any.whl"
    ),
    "npm": "npm install --offline --no-audit --no-fund --cache $TMPDIR/npm ./package",
    "formatter": (
        "for f in src/*.py; do { echo '# formatted'; cat $f; } > $f.new; chmod 644 $f.new;"
        " mv $f.new $f; done"
    ),
    "build": "cc -c main.c -o main.o && cc main.o -o main && ./main > data/p1.bin && strip main",
    "rebase": "git stash -q && git checkout -q topic && git rebase -q main2 && git stash pop -q",
    "tar": "tar xf old.tar && rm old.tar",
    "mirror": "cp -a src/. data/ && find data -name '*.bin' -delete",
    "editor": (
        "vim -u NONE -N -es -c 'set swapfile writebackup backup' -c 'edit src/a1.py'"
        " -c '%s/x/y/' -c 'wq' </dev/null; rm -f src/a2.py~"
    ),
    "sqlite": (
        "sqlite3 base.db 'pragma journal_mode=wal; delete from t; insert into t values (3); vacuum'"
    ),
    "parallel make": "make -s -j4 all",
    "watcher": (
        "(while sleep 0.02; do cp src/a1.py data/copied 2>/dev/null; done) & sleep 0.1;"
        " sed -i s/x/y/ src/a1.py; rm data/p1.bin; sleep 0.1; kill $!; wait"
    ),
}
NEEDS = {"npm": "npm", "build": "cc", "editor": "vim", "sqlite": "sqlite3", "parallel make": "make"}
MAKEFILE = """
all := $(patsubst %,out/%,$(shell seq 40))
all: $(all)
$(all): out/%: again
\tmkdir -p out; echo $* > $@.tmp && mv $@.tmp $@; echo $* >> data/p1.bin
again:
"""
FILL_MORE = """
printf '#include <stdio.h>\\nint main(void) { puts("made"); return 0; }\\n' > main.c
mkdir -p package node_modules/made out && echo old > out/1 && touch -d 2001-01-01 out/1
echo old > node_modules/made/index.js
echo '{"name": "made", "version": "1.0.0"}' > package/package.json
echo '{"name": "ours", "version": "1.0.0"}' > package.json
git checkout -q -b main2 && git add package.json && git commit -q -m two -- package.json
git checkout -q -b topic other && echo t > topic.txt && git add topic.txt && git commit -q -m t
git checkout -q main2
mkdir was && cp -a src data was/ && (cd was && tar cf ../old.tar src data) && rm -r was
echo newer > src/a7.py
"""


def fill_more(root: Path) -> None:
    """Add what the commands of other kinds work on."""
    subprocess.run(["bash", "-ec", FILL_MORE], cwd=root, check=True)
    with sqlite3.connect(root / "base.db") as base:
        base.execute("create table t (n)")
        base.execute("insert into t values (1)")
    base.close()
    (root / "Makefile").write_text(MAKEFILE)
    about = "made-1.dist-info"
    with zipfile.ZipFile(root / "made-1-py3-none-any.whl", "w") as wheel:
        wheel.writestr("made/__init__.py", "new = 1\n" * 99)
        wheel.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: made\nVersion: 1\n")
        wheel.writestr(
            f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{about}/RECORD", "")
    (root / "data/made").mkdir()
    (root / "data/made/__init__.py").write_text("old = 1\n")


@pytest.fixture(params=["bwrap", "landlock"])
def place(request: pytest.FixtureRequest) -> Iterator[World]:
    state: State = request.param
    with world(state) as made:
        yield made


@pytest.mark.parametrize("command", [*DESTRUCTIVE, *OTHER], ids=lambda each: each[:24])
async def test_undo_brings_all_back(place: World, tmp_path: Path, command: str) -> None:
    """Content, mode, owner, times of files and folders, links and attributes."""
    if (needed := NEEDS.get(command)) and not shutil.which(needed):
        pytest.skip(f"no {needed}")
    fill(place.root)
    fill_more(place.root)
    bash = Bash(place, tmp_path / "state")
    before = tree(place.root)

    with bash.workspace:
        said = await bash(OTHER.get(command, command).replace("$PYTHON", sys.executable))

    assert tree(place.root) != before, said
    taken = bash.snapshots.take_back()
    assert tree(place.root) == before, said
    assert taken.faults == []
