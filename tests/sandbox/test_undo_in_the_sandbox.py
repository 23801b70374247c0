"""/undo of what commands did in each sandbox, and the filter beside the sandbox's own."""

import sys
from collections.abc import Iterator

import pytest

from agent_cli.sandbox.report import State
from agent_cli.undo.stopped_calls import why_missing
from tests.sandbox.watched_bash import Bash
from tests.sandbox.world import World, world
from tests.tools.undoing import fill, tree

pytestmark = pytest.mark.skipif(sys.platform != "linux" or why_missing() != "", reason="Linux")

SECRET = "KEY=hunter2\n"


@pytest.fixture(params=["bwrap", "landlock"])
def place(request: pytest.FixtureRequest) -> Iterator[World]:
    state: State = request.param
    with world(state) as made:
        yield made


COMMANDS = (
    "rm -rf src data && mkdir src && echo hi > src/a0.py",
    "sed -i s/x/y/ src/*.py; chmod 600 src/a1.py; mv data elsewhere; rm elsewhere/p1.bin",
    "cd src && (setsid rm -r deep &) ; cat a1.py > /tmp/x; mv a1.py a2.py; sleep 0.2",
)


async def test_undo_of_a_confined_command(place: World) -> None:
    """The state folder lies on the workspace's file system, or names of one file come apart."""
    fill(place.root)
    bash = Bash(place, place.base / "state")
    before = tree(place.root)

    for command in COMMANDS:
        said = await bash(command)

        assert tree(place.root) != before, command
        taken = bash.snapshots.take_back()
        assert tree(place.root) == before, said
        assert (taken.undone, taken.faults) == ([command], [])


async def test_confined_command_is_held_before_it_deletes_more_than_the_limit(place: World) -> None:
    """What it does in its own temporary folder goes on; nothing in the workspace changes."""
    fill(place.root)
    bash = Bash(place, place.base / "state")
    bash.ask_beyond_files = 5

    said = await bash(
        "rm data/*; echo x > $TMPDIR/mine && cat $TMPDIR/mine; mkdir new; mv src src2"
    )

    assert len(bash.asked) == 1
    assert sorted(path.name for path in place.root.glob("data/*")) == ["p5.bin", "p6.bin", "p7.bin"]
    assert "\nx\n" in said
    assert (place.root / "src").is_dir()
    assert not (place.root / "new").exists()


@pytest.mark.parametrize("place", ["bwrap"], indirect=True)
async def test_masked_secrets_are_not_kept(place: World) -> None:
    """bubblewrap covers them; a command that tries to change one names a path of the workspace."""
    fill(place.root)
    (place.root / ".env").write_text(SECRET)
    bash = Bash(place, place.base / "state")

    await bash("echo mine > .env; rm -f .env; chmod 600 .env; cp .env x; rm -rf data")

    assert (place.root / ".env").read_text() == SECRET
    kept = [path for path in bash.state.rglob("*") if path.is_file()]
    assert len(kept) > 5, "the rest is kept"
    assert not [path for path in kept if b"hunter2" in path.read_bytes()]
