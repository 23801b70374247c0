"""A read-only run changes nothing, sees no personal files, and has no result if it wants more."""

import asyncio
import os
import sys
import tempfile
import termios
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agent_cli.contracts.cancel import CancelToken
from agent_cli.contracts.errors import ToolError
from agent_cli.contracts.tooling import ToolContext, ToolResult, check_input
from agent_cli.sandbox import bwrap, hidden_paths, landlock
from agent_cli.sandbox.hidden_paths import personal_files
from agent_cli_tools import Workspace, read_only_run
from agent_cli_tools.bash import bash_tool
from tests.sandbox.test_workday import asking
from tests.sandbox.workday import make_workday
from tests.sandbox.world import World, world

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="sandboxes of Linux")


class Runs:
    """Read-only runs in one world."""

    def __init__(self, place: World) -> None:
        self.place = place
        self.workspace = Workspace(place.root)
        self._tool = bash_tool(self.workspace, place.sandbox)

    async def __call__(
        self,
        command: str,
        context: ToolContext | None = None,
        cancel: CancelToken | None = None,
        **given: float,
    ) -> ToolResult | None:
        params = check_input(self._tool, {"command": command, **given})
        assert self._tool.attempt
        cancel, context = cancel or CancelToken(), context or ToolContext()
        return await self._tool.attempt("1", params, cancel, context)

    async def execute(self, command: str) -> ToolResult | str:
        params = check_input(self._tool, {"command": command})
        return await self._tool.execute("1", params, CancelToken(), ToolContext())


@pytest.fixture(params=["bwrap", "landlock"])
async def runs(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Runs]:
    # The world is made in a thread: it probes the sandbox in an event loop of its own.
    made = world(request.param)
    place = await asyncio.to_thread(made.__enter__)
    monkeypatch.setenv("HOME", str(place.home))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(place.home / ".config"))
    found = Runs(place)
    yield found
    found.workspace.close()
    await asyncio.to_thread(made.__exit__, None, None, None)


def tree(root: Path) -> dict[str, tuple[int, bytes]]:
    return {
        str(path): (path.lstat().st_mtime_ns, path.read_bytes() if path.is_file() else b"")
        for path in sorted(root.rglob("*"))
        if "agent-cli" not in path.parts
    }


WANT_MORE = (
    "echo x > made",
    "echo x > made || true",
    "touch .git/hooks/pre-commit; echo fine",
    "chmod 700 .gitignore",
    'python3 -c \'open("made", "w")\'',
    "rm .gitignore; true",
    "mkdir /tmp/made; true",
    "echo x >> ../home/.bashrc; true",
    "cat .env; true",
    "cat ../home/.ssh/id_ed25519; true",
    "cat ../home/files/letter; true",
    "head ../home/files/* ../*/letter; true",
    "exec 3<>/dev/tcp/127.0.0.1/9; true",
    "(sleep 60 &)",
    "for i in $(seq 30000); do echo line $i; done; touch made; seq 30000",
)


async def test_command_that_wants_more_than_to_look_changes_nothing_and_has_no_result(
    runs: Runs,
) -> None:
    """Threat 25: nor does its exit code matter."""
    before = await asyncio.to_thread(tree, runs.place.base)

    changed: list[str] = []
    for command in WANT_MORE:
        result = await runs(command)
        if result is not None or await asyncio.to_thread(tree, runs.place.base) != before:
            changed.append(command)

    assert changed == []


async def test_root_below_tmp_is_seen_and_not_changed(runs: Runs) -> None:
    """Bubblewrap makes its mount point in /tmp, which is read-only only after that."""
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="agent-cli-root-") as root:
        Path(root, "note").write_text("below /tmp\n")
        runs.place.sandbox.open_dir(Path(root))

        seen = await runs(f"cat {root}/note")

        assert seen and seen.text.startswith("below /tmp\n")
        for command in (f"touch {root}/made; true", "touch /tmp/made; true"):
            assert await runs(command) is None
        assert [each.name for each in Path(root).iterdir()] == ["note"]


async def test_output_of_a_run_is_shown_before_its_end(runs: Runs) -> None:
    """The command ends once its first line was shown."""
    shown = runs.place.root / "shown"

    def show(partial: ToolResult) -> None:
        shown.write_text(partial.text)

    looks = "echo one; until [ -e shown ]; do sleep 0.05; done"
    result = await runs(looks, ToolContext(update=show))

    assert result and shown.read_text() == "one\n"


async def test_command_that_only_looks_has_its_result(runs: Runs) -> None:
    """Its temporary files are gone with it, and what commands left in /tmp can be read."""
    (runs.place.root / "data.json").write_text('{"a": 1}')
    (runs.place.base / "beside").mkdir()
    await runs.execute("mkdir -p $TMPDIR/left; echo kept > $TMPDIR/left/file")

    looked = await runs("python3 -m json.tool data.json; ls ..; cat /etc/hostname /etc/os-release")
    temporary = await runs("sort --version | head -1; f=$(mktemp) && echo $f && cat $f <<<x - ")
    failed = await runs("test -e missing")

    assert looked and temporary and failed
    assert '"a": 1' in looked.text and "beside" in looked.text
    assert read_only_run.NOTE in looked.text
    assert "[exit 1" in failed.text
    own_files = runs.place.sandbox._own_files
    assert own_files and [each.name for each in own_files.folder.path.glob("once-*")] == []
    session = "/tmp" if runs.place.sandbox.report.state == "bwrap" else str(own_files.temporary)  # type: ignore[union-attr]
    kept = await runs(f"cat {session}/left/file")
    assert kept and "kept" in kept.text


OF_OTHERS = (
    "stty -F $TERMINAL -echo",
    "head -c 1 $TERMINAL",
    "cat $ELSEWHERE",
    "sh -c 'renice 5 -p $PPID'",
    "ipcmk -Q; ipcmk -M 4096",
    "python3 -c 'import fcntl; fcntl.ioctl(open(\".gitignore\"), 0x9401, 0)'",
)


async def test_run_touches_nothing_of_other_programs(runs: Runs) -> None:
    """Threat 25: terminals, temporary files, priorities, queues, subvolumes.

    bubblewrap gives the command empty ones of its own.
    """
    is_landlock = runs.place.sandbox.report.state == "landlock"  # type: ignore[union-attr]
    for command in OF_OTHERS:
        controller, terminal = os.openpty()
        os.set_blocking(terminal, False)
        before = termios.tcgetattr(terminal)
        try:
            os.write(controller, b"typed\n")
            with tempfile.NamedTemporaryFile("w") as elsewhere:
                elsewhere.write("TYPED ELSEWHERE")
                elsewhere.flush()
                told = f"TERMINAL={os.ttyname(terminal)}; ELSEWHERE={elsewhere.name}"
                result = await runs(f"{told}; {command}")
            assert termios.tcgetattr(terminal) == before, command
            assert os.read(terminal, 100) == b"typed\n", command
        finally:
            os.close(controller)
            os.close(terminal)
        if is_landlock:
            assert result is None, command
        else:
            assert result is None or "ELSEWHERE\n" not in result.text, command


async def test_landlock_without_a_bar_for_signals_is_not_enough(
    runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before its version 6, a command could end other programs of the user."""
    monkeypatch.setattr(landlock, "abi", lambda: 5)

    is_landlock = runs.place.sandbox.report.state == "landlock"  # type: ignore[union-attr]
    assert (await runs("true") is None) is is_landlock


async def test_run_that_takes_long_is_stopped_and_asked_about(
    runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_only_run, "LIMIT_S", 0.2)

    assert await runs("sleep 60") is None


async def test_everyday_commands_run_unasked(runs: Runs) -> None:
    """A part of `make soak`, which runs all of them."""
    make_workday(runs.place.root)
    commands = (
        *("ls ..", "cat /etc/os-release", "git -C src status", "expr 1 + 2", "tar tf dist.tar.gz"),
        *("zgrep error old.log.gz", "wc -l $(find src -name '*.py')", "pushd src && ls"),
        "python3 -m json.tool package.json",
    )

    assert await asking(runs.place, commands, trusted=False) == {}


def test_personal_files_are_all_beside_the_workspace_but_installed_programs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hidden_paths, "TEMPORARY", ())
    # The folder of a run of all tests in one process holds ten thousand folders.
    monkeypatch.setattr(hidden_paths, "HIDDEN_MAX", 1_000_000)
    home, root = tmp_path / "people" / "me", tmp_path / "people" / "me" / "src" / "app"
    for name in (
        *("letters", "src/other", "src/app/.git", ".cargo/bin", ".config/git", ".config/chat"),
        *(".local/share/mail", "../you/letters", "../../shared"),
    ):
        (home / name).mkdir(parents=True)
    (home / ".gitconfig").touch()
    (home / "link").symlink_to("/usr")

    found = personal_files(home, [root])

    assert found is not None
    assert {str(each.relative_to(tmp_path)) for each in found if tmp_path in each.parents} == {
        *("people/me/letters", "people/me/src/other", "people/me/.config/chat"),
        *("people/me/.local/share/mail", "people/you", "shared"),
    }


def test_too_many_personal_files_allow_no_read_only_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hidden_paths, "TEMPORARY", ())
    for number in range(hidden_paths.HIDDEN_MAX + 1):
        (tmp_path / str(number)).mkdir()
    (tmp_path / "app").mkdir()

    assert personal_files(tmp_path, [tmp_path / "app"]) is None


async def test_command_runs_read_only_in_a_home_of_hundreds_of_folders(runs: Runs) -> None:
    """With 200 beside the workspace, which many homes have, every such command asked."""
    for number in range(300):
        (folder := runs.place.home / f"project{number}").mkdir()
        (folder / "letter").write_text("CANARY-SECRET\n")

    result = await runs("expr 6 '*' 7")

    assert result
    assert result.text.startswith("42\n[exit 0")
    assert await runs("cat ~/project299/letter; true") is None


@pytest.mark.parametrize("runs", ["bwrap"], indirect=True)
async def test_command_is_not_tried_where_its_masks_take_seconds(
    runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With bubblewrap as the superuser's program, and a home that changes all the time."""
    for number in range(300):
        (runs.place.home / f"project{number}").mkdir()
    monkeypatch.setattr(bwrap, "stand_in", lambda *_: None)
    monkeypatch.setattr(bwrap.Bubblewrap, "masks_late", lambda *_: False)

    with pytest.raises(OSError, match="masks would take longer"):
        await runs.place.sandbox.confine_read_only(runs.place.root)

    assert await runs("echo hi") is None


@pytest.fixture
def crowded(runs: Runs) -> Path:
    """A home with thirty personal files and folders, and three things that stay visible."""
    home = runs.place.home
    for number in range(15):
        (home / f"letter{number}").write_text("CANARY-SECRET\n")
        (home / f"project{number}").mkdir()
        (home / f"project{number}" / "letter").write_text("CANARY-SECRET\n")
    (home / ".inputrc").write_text("visible\n")
    (home / "linked").symlink_to("letter3")
    (home / ".cargo").mkdir()
    (home / ".cargo" / "config").write_text("visible too\n")
    return home


ONLY_BWRAP = pytest.mark.parametrize("runs", ["bwrap"], indirect=True)


@ONLY_BWRAP
async def test_many_personal_files_are_hidden_by_few_mounts(runs: Runs, crowded: Path) -> None:
    """Bubblewrap reads the table of mounts for each: 85 masks took 50 ms. Names stay listed."""
    names = sorted(each.name for each in crowded.iterdir())

    listed = await runs(f"ls -A1 {crowded}; cat {crowded}/.inputrc {crowded}/.cargo/config")
    confinement = await runs.place.sandbox.confine_read_only(runs.place.root)

    assert listed is not None
    assert confinement is not None
    shown = listed.text.splitlines()
    assert [name for name in shown if name in names] == sorted(names)
    assert {"visible", "visible too"} <= set(shown)
    assert sum(str(crowded) in word for word in confinement.prefix) < 30
    confinement.release()


OF_THE_HIDDEN = (
    "cat {home}/letter1",
    "cat {home}/linked",
    "cat {home}/project1/letter",
    "ls {home}/project1",
    "cat {home}/.ssh/id_ed25519",
    "touch {home}/made",
    "chmod 700 {home}/project1 && ls {home}/project1",
    "mv {home}/letter1 {home}/letter2",
    "touch {home}/.cargo/made",
)


@ONLY_BWRAP
async def test_nothing_hidden_by_one_mount_can_be_read_or_changed(
    runs: Runs, crowded: Path
) -> None:
    before = tree(crowded)

    reached = [
        command
        for command in OF_THE_HIDDEN
        if await runs(command.format(home=crowded)) is not None or tree(crowded) != before
    ]

    assert reached == []


@ONLY_BWRAP
async def test_a_file_made_after_the_first_run_is_hidden_too(runs: Runs, crowded: Path) -> None:
    """The copy of the folder's names follows the folder."""
    assert await runs("true") is not None
    (crowded / "letter1").unlink()
    (crowded / "new").write_text("CANARY-SECRET\n")

    assert await runs(f"cat {crowded}/new") is None
    assert await runs(f"test -e {crowded}/new && ! test -e {crowded}/letter1") is not None


async def test_stopped_run_says_what_it_had_printed(runs: Runs) -> None:
    """It stood on the screen, and "stopped before its turn" was all that the model read."""
    cancel = CancelToken()

    with pytest.raises(ToolError, match=r"It had run for .*:\none\n$"):
        await runs(
            "echo one; sleep 60", ToolContext(update=lambda _partial: cancel.cancel()), cancel
        )
