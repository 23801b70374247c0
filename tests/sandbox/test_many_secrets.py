"""Thousands of secrets, each in a folder of its own: all are hidden, or no command runs."""

import asyncio
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import FrameType

import pytest

from agent_cli.contracts.cancel import CancelToken
from agent_cli.contracts.errors import ToolError
from agent_cli.contracts.tooling import ToolContext, check_input
from agent_cli.sandbox import PathRules, Sandbox, SandboxPolicy, bwrap, late_masks
from agent_cli.sandbox.backends import Backend, landlock_confinement
from agent_cli.sandbox.bwrap import Bubblewrap
from agent_cli.sandbox.confinement import SandboxFiles
from agent_cli.sandbox.path_sets import fewer
from agent_cli.sandbox.probe import tried_rules
from agent_cli.sandbox.secret_files import is_secret
from agent_cli_tools import Workspace
from agent_cli_tools.bash import bash_tool
from tests.sandbox.world import CANARY, World, only, run_confined, world

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="sandboxes of Linux")


def with_secrets(root: Path, count: int) -> SandboxPolicy:
    """Return the policy of the workspace *root* with so many secrets."""
    for number in range(count):
        folder = root / f"{number:04}"
        folder.mkdir(parents=True)
        (folder / ".env").write_text("KEY=1\n")
        (folder / "code.py").touch()
    home = root.parent
    return SandboxPolicy((root,), home=home, own=(home / "own",), is_secret=is_secret)


class OfTheSuperuser(Bubblewrap):
    """A program with the superuser's rights, whose namespaces are closed to us."""

    def masks_late(self, own_files: SandboxFiles) -> bool:
        return False


def with_masks_of_bubblewrap(backend: Backend) -> Backend:
    """Return *backend* without `late_masks`, which as many files are hidden with."""
    assert backend.program
    program = OfTheSuperuser(backend.program)
    return replace(backend, confine=partial(bwrap.confinement, program))


def of_the_superuser(backend: Backend) -> Backend:
    """Return *backend* as it is where `late_masks` does not work."""
    assert backend.program
    return replace(
        with_masks_of_bubblewrap(backend), hides_many=OfTheSuperuser(backend.program).masks_late
    )


def test_more_secrets_than_bubblewrap_can_hide_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No weaker sandbox is used instead, where they could be read.

    With a tenth of the limit, because 3,000 folders take seconds to make and to look through.
    """
    monkeypatch.setattr(bwrap, "_ARGUMENTS_MAX", bwrap._ARGUMENTS_MAX // 10)
    with world("bwrap"):  # else it does not work here
        pass
    root = tmp_path / "ws"
    policy = with_secrets(root, 300)
    sandbox = Sandbox(
        lambda: policy,
        mode="auto",
        state_dir=tmp_path / "own",
        find=lambda *folders: map(with_masks_of_bubblewrap, only("bwrap", *folders)),
    )
    workspace = Workspace(root)
    bash = bash_tool(workspace, sandbox)
    params = check_input(bash, {"command": "touch ran"})

    async def run() -> None:
        await bash.execute("1", params, CancelToken(), ToolContext())

    report = asyncio.run(sandbox.ready())
    with pytest.raises(ToolError) as refused:
        asyncio.run(run())
    workspace.close()
    sandbox.close()

    assert report.state == "bwrap"
    assert not (root / "ran").exists()
    sentence = str(refused.value)
    assert f"such as {root}" in sentence
    assert sentence.endswith(
        "start in a folder with fewer files that look like keys. Tell the user."
    )


def test_sandbox_is_tried_with_some_of_many_secrets_and_its_own(tmp_path: Path) -> None:
    """Each that is hidden delays the start; our own secrets are what the test tries to read."""
    policy = with_secrets(tmp_path / "ws", 300)
    for number in range(300):
        (tmp_path / f"{number}.pem").touch()
    (tmp_path / "own").mkdir()
    rules = policy.rules()

    tried = tried_rules(rules, tmp_path / "own")

    assert len(rules.hidden) > 600
    assert len(tried.hidden) <= 101
    assert tmp_path / "own" in tried.hidden


def test_file_among_the_settings_of_the_system_is_hidden_alone(tmp_path: Path) -> None:
    """With many secrets folders are hidden in place of their files, but no command works so."""
    hidden = with_secrets(tmp_path / "ws", 100).rules().hidden

    assert len(hidden) >= 100
    assert not {*map(Path, ("/etc", "/"))} & {*hidden}


READ_AND_WRITE = r"""
cat a*/code.py
for path in a*/code.py; do echo "$path was written" >"$path"; done
cat a*/code.py
for path in a*/.env* linked private; do echo >"$path"; done
chmod 600 a*/.env*
cat a*/.env* linked private/letter
ls private
rm -r a*/.env* private
mkdir moved
mv a*/.env* private moved
mkdir late && echo KEY=late >late/.env && cat late/.env && rm -r late
cut -d " " -f 5,6 /proc/self/mountinfo | grep -e .env -e private
"""


def test_many_secrets_are_hidden_as_few_are_and_nothing_else() -> None:
    """Each gets a mount, files and folders, and it does not matter which program makes that."""
    ways: list[bool] = []

    def lines(place: World) -> Sequence[str]:
        for number in range(50):
            folder = place.root / f"a{number}"
            folder.mkdir()
            for name in (".env", ".env.local", ".env.test", "code.py"):
                (folder / name).write_text(f"{CANARY} {name}\n")
        (place.root / "linked").symlink_to("a0/.env")
        (place.root / "private").mkdir()
        (place.root / "private" / "letter").write_text(f"{CANARY} letter\n")
        confinement = asyncio.run(place.sandbox.confine(place.root))
        assert confinement is not None
        confinement.release()
        ways.append(late_masks.__name__ in confinement.prefix)
        assert len(confinement.hidden) > 150
        output = place.output(f"exec 2>&1; {READ_AND_WRITE}")
        return sorted(output.replace(str(place.base), "").splitlines())

    private = PathRules(hides=lambda path: path.name == "private")
    with world("bwrap", rules=lambda _root: private) as place:
        late = lines(place)
    with world("bwrap", rules=lambda _root: private, change=with_masks_of_bubblewrap) as place:
        early = lines(place)

    assert ways == [True, False]
    assert late == early
    assert late.count(f"{CANARY} code.py") == 50
    assert sum(line.endswith("code.py was written") for line in late) == 50
    assert [line for line in late if CANARY in line and "code.py" not in line] == []


@pytest.mark.parametrize(
    ("change", "alone"), [(lambda backend: backend, True), (of_the_superuser, False)]
)
def test_many_files_are_hidden_alone_where_that_costs_little(
    change: Callable[[Backend], Backend], alone: bool
) -> None:
    """Without late masks 300 files took two seconds for each command, 1,000 took 19."""
    with world("bwrap", change=change) as place:
        for name in (f"{folder}/{number}.pem" for folder in range(30) for number in range(10)):
            place.root.joinpath(name).parent.mkdir(exist_ok=True)
            place.root.joinpath(name).touch()

        confinement = asyncio.run(place.sandbox.confine(place.root))

        assert confinement is not None
        confinement.release()
        assert (place.root / "0" / "0.pem" in confinement.hidden) == alone
        assert (len(confinement.hidden) > 300) == alone


def test_command_starts_with_all_masks_or_not_at_all() -> None:
    """S1: here a path vanishes after the rules were made, so that nothing can be mounted on it."""
    with world("bwrap") as place:
        for number in range(160):
            (place.root / f"{number}.pem").write_text(CANARY)
        confinement = asyncio.run(place.sandbox.confine(place.root))
        assert confinement is not None
        gone = place.root / "159.pem"
        gone.unlink()

        run = run_confined(confinement, "cat *.pem", place.root, {"PATH": os.defpath})

        confinement.release()
        assert run.returncode
        assert run.stdout == ""
        assert f"No such file or directory: '/newroot{gone}'" in run.stderr


def test_command_ends_at_once_if_what_makes_its_masks_is_killed() -> None:
    """As by a machine without memory: it waited for the masks until the limit of the call."""
    killed = "import os, sys; from agent_cli.sandbox import late_masks;"
    killed += "os.statvfs = lambda _: os.kill(os.getpid(), 9);"  # among the mounts
    killed += "late_masks.main()"
    with world("bwrap") as place:
        for number in range(160):
            (place.root / f"{number}.pem").write_text(CANARY)
        confinement = asyncio.run(place.sandbox.confine(place.root))
        assert confinement is not None
        behind = confinement.prefix.index(late_masks.__name__) + 2
        prefix = (sys.executable, "-c", killed, *confinement.prefix[behind:])

        run = run_confined(
            replace(confinement, prefix=prefix), "cat *.pem", place.root, {"PATH": os.defpath}
        )

        confinement.release()
        assert run.returncode
        assert run.stdout == ""


def test_folders_replace_their_files_where_there_are_too_many_the_fullest_first() -> None:
    """What lies in a folder below goes with it, and no folder with a path to keep is used."""
    inner = [Path("/ws/full/inner", str(number)) for number in range(3)]
    full = [Path("/ws/full", str(number)) for number in range(5)]
    kept = [Path("/ws/kept", str(number)) for number in range(9)]
    single = Path("/ws/single/0")

    found = fewer([*inner, *full, *kept, single], keep=[Path("/ws/kept/work")], count=12)

    assert {*found} == {Path("/ws/full"), *kept, single}
    assert fewer([*inner, single], keep=[], count=4) == (*inner, single)


def test_folders_are_found_as_fast_for_many_secrets() -> None:
    """With a thousand, two in each folder, each command waited for half a minute."""

    def paths(count: int) -> list[Path]:
        return [Path("/ws", str(number // 2), str(number)) for number in range(count)]

    few, many = (calls(partial(fewer, paths(count), keep=[])) for count in (300, 900))

    assert many < 4 * few


def test_landlock_is_as_fast_for_many_secrets(tmp_path: Path) -> None:
    """A workspace with thousands could not be opened: each folder was compared with each secret."""
    if not only("landlock", [], tmp_path):
        pytest.skip("no Landlock here")
    own_files = SandboxFiles.create()
    few, many = (
        calls(
            partial(
                landlock_confinement,
                with_secrets(tmp_path / f"{count}" / "ws", count).rules(),
                own_files,
            )
        )
        for count in (100, 300)
    )
    own_files.remove()

    assert many < 4 * few


def calls(function: Callable[[], object]) -> int:
    """Return how many functions *function* calls."""
    count = 0

    def note(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(note)
    try:
        function()
    finally:
        sys.setprofile(None)
    return count
