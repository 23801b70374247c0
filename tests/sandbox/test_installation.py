"""What runs outside the sandbox, and lies in the workspace, cannot be changed from inside."""

import asyncio
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from agent_cli.contracts.events import ToolCall
from agent_cli.contracts.tooling import Ask, check_input
from agent_cli.policies.file_calls import FileCalls
from agent_cli.policies.permission_rules import RuleSet
from agent_cli.policies.shell import Reach
from agent_cli.sandbox import Report
from agent_cli.sandbox.acting import executed_inside, installed_inside, linked_from_home
from agent_cli.sandbox.report import State
from agent_cli.system import programs
from agent_cli.system.programs import find_program, note_installed_programs
from agent_cli_tools import Workspace
from agent_cli_tools.write import write_tool
from tests.sandbox.world import World, world

PROGRAM = "#!/bin/sh\necho installed\n"


@pytest.fixture(autouse=True)
def _nothing_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "_INSTALLED", programs._Installed())


def install_in(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make *folder* the Python environment that this program runs from."""
    for name in ("bin", "lib/site-packages"):
        (folder / name).mkdir(parents=True)
    (folder / "pyvenv.cfg").write_text("home = /usr/bin\n")
    rg = folder / "bin" / "rg"
    rg.write_text(PROGRAM)
    rg.chmod(0o755)
    monkeypatch.setattr(sys, "prefix", str(folder))
    monkeypatch.setattr(sys, "executable", str(folder / "bin" / "python"))
    monkeypatch.setattr(programs, "scripts_folder", lambda: folder / "bin")
    # A policy looks again when a module was imported.
    monkeypatch.setitem(sys.modules, "imported_since", ModuleType("imported_since"))
    return folder


@pytest.fixture
def reach() -> Iterator[World]:
    with world("bwrap") as made:
        yield made


@pytest.mark.parametrize("is_linked", [False, True])
def test_command_cannot_change_the_installation_in_the_workspace(
    reach: World, monkeypatch: pytest.MonkeyPatch, *, is_linked: bool
) -> None:
    """Threat 13: the session's `grep` ran the `rg` that a command had written."""
    root = reach.root
    real = install_in(root / ("env" if is_linked else ".venv"), monkeypatch)
    if is_linked:
        (root / ".venv").symlink_to("env")
        monkeypatch.setattr(sys, "prefix", str(root / ".venv"))
        monkeypatch.setattr(sys, "executable", str(root / ".venv" / "bin" / "python"))

    output = reach.output(
        "echo evil > .venv/bin/rg; echo evil > .venv/lib/site-packages/x.pth;"
        " rm .venv/bin/rg; touch .venv/bin/git; mv env away; mv .venv old && mkdir -p .venv/bin"
    )

    assert "WORKED" not in output
    assert (real / "bin" / "rg").read_text() == PROGRAM
    assert [*(real / "lib" / "site-packages").iterdir()] == []
    assert os.path.realpath(root / ".venv") == str(real)


def test_copy_of_a_folder_cannot_take_the_place_of_one_with_the_installation(
    reach: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Threat 13: a mounted folder moves with the folder above it."""
    venv = install_in(reach.root / "deep" / "er" / ".venv", monkeypatch)

    reach.run("mv deep old; mkdir -p deep/er/.venv/bin; echo evil > deep/er/.venv/bin/rg")

    assert not venv.exists()
    assert (reach.root / "old" / "er" / ".venv" / "bin" / "rg").read_text() == PROGRAM
    assert any(str(venv) in sentence for sentence in reach.put_back)


def test_folders_on_path_are_read_only_and_those_of_environments_as_a_whole(
    reach: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Threat 13: a hook that begins with `python3` runs the first one on the user's PATH."""
    root = reach.root
    for folder in ("tools/bin", "env/bin", "env/lib", "src"):
        (root / folder).mkdir(parents=True)
    (root / "env" / "pyvenv.cfg").touch()
    entries = [f"{root}/{name}" for name in ("tools/bin", "env/bin", "missing", "")]
    monkeypatch.setenv("PATH", os.pathsep.join([*entries, "relative", os.environ["PATH"]]))
    monkeypatch.setitem(sys.modules, "imported_since", ModuleType("imported_since"))

    output = reach.output(
        "for each in tools/bin env/bin env/lib src tools; do touch $each/x && echo in $each; done;"
        " mkdir missing"
    )

    assert [line for line in output.splitlines() if line.startswith("in ")] == [
        "in src",
        "in tools",
    ]
    assert not (root / "missing").exists(), "a folder on PATH that appears is a question"


def test_what_is_run_or_imported_is_found_by_where_it_lies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path.resolve() / "ws"
    inside = install_in(root / ".venv", monkeypatch)
    plugin = ModuleType("some_plugin")
    plugin.__file__ = str(root / "src" / "some_plugin" / "__init__.py")
    monkeypatch.setitem(sys.modules, "some_plugin", plugin)
    monkeypatch.setenv("PYTHONPATH", f"{root / 'first'}{os.pathsep}{root}")
    monkeypatch.setenv("PATH", "/usr/bin")

    found = executed_inside([root])

    assert set(found) == {inside, root / "src" / "some_plugin", root / "first"}
    assert installed_inside([root]) == (inside,)
    assert installed_inside([inside / "lib"]) == ()
    assert executed_inside([tmp_path / "elsewhere"]) == ()


@pytest.mark.parametrize("change", ["write", "replace", "link", "folder", "new"])
def test_program_of_the_installation_that_changed_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    """Threat 13: under Landlock, or unsandboxed, a command may have written it."""
    venv = install_in(tmp_path / ".venv", monkeypatch)
    rg = venv / "bin" / "rg"
    monkeypatch.setenv("PATH", "/nowhere")
    note_installed_programs()
    assert find_program("rg", outside=tmp_path) == rg
    other = tmp_path / "other"
    other.mkdir()
    (other / "rg").write_text(PROGRAM)
    (other / "rg").chmod(0o755)
    times = (rg.stat().st_atime_ns, rg.stat().st_mtime_ns)

    match change:
        case "write":
            rg.write_text(PROGRAM.replace("installed", "malicious"))
            os.utime(rg, ns=times)
        case "replace":
            (other / "rg").rename(rg)
        case "link":
            rg.unlink()
            rg.symlink_to(other / "rg")
        case "folder":
            rg.parent.rename(tmp_path / "old")
            other.rename(rg.parent)
        case _:
            rg.rename(venv / "bin" / "git")

    assert find_program("rg", outside=tmp_path) is None
    assert find_program("git", outside=tmp_path) is None


def test_landlock_says_that_the_installation_can_be_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It cannot keep a folder of the workspace read-only, so commands ask."""
    with world("landlock") as reach:
        assert asyncio.run(reach.sandbox.outlook()).exposed is None
        venv = install_in(reach.root / ".venv", monkeypatch)

        report = asyncio.run(reach.sandbox.outlook())

        assert report.exposed == venv
        assert "Install bubblewrap" in report.sentence
    assert Report("bwrap").exposed is None


def keep_settings_in(root: Path, home: Path) -> None:
    """Keep settings of the home directory in *root*, as people do who share them by git."""
    for name, target in SETTINGS.items():
        (root / target).parent.mkdir(parents=True, exist_ok=True)
        (root / target).write_text("mine\n")
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).symlink_to(root / target)
    (root / "nvim").mkdir()
    (root / "nvim" / "init.lua").write_text("mine\n")
    (home / ".config" / "nvim").symlink_to(root / "nvim")


SETTINGS = {
    ".bashrc": "bashrc",
    ".gitconfig": "git/config",
    ".claude/settings.json": "claude/settings.json",
    ".config/agent-cli/appsettings.toml": "agent/appsettings.toml",
    ".config/git/ignore": "git/ignore",
    ".local/bin/tool": "bin/tool",
}


@pytest.mark.parametrize("state", ["bwrap", "landlock"])
def test_command_cannot_change_what_settings_at_home_lead_to(state: State) -> None:
    """Threats 10 and 24: the next start took `mode = "yolo"` from a file of the workspace."""
    with world(state) as reach:
        keep_settings_in(reach.root, Path.home())
        files = [reach.root / name for name in (*SETTINGS.values(), "nvim/init.lua")]
        changes = [f"echo evil > {each}; rm -f {each}; echo evil > {each}" for each in files]

        again = "mv agent old; mkdir agent; echo evil > agent/appsettings.toml"
        reach.run("; ".join([*changes, again, "true"]))

        assert [each for each in files if each.exists() and each.read_text() != "mine\n"] == []


def test_edit_of_what_settings_at_home_lead_to_asks(tmp_path: Path) -> None:
    """Threats 10 and 24: in `auto-edit` too, as programs outside the sandbox start from it."""
    keep_settings_in(tmp_path, Path.home())
    (tmp_path / "own").write_text("x\n")
    calls = FileCalls(reach=Reach(root=tmp_path))

    def reason(name: str) -> str:
        call = ToolCall("1", "write", {"path": name, "content": "x"})
        tool = write_tool(Workspace(tmp_path))
        params = check_input(tool, call.input)
        verdict = calls.decide(call, tool, params, rules=RuleSet(), mode="auto-edit").verdict
        return verdict.reason if isinstance(verdict, Ask) else ""

    assert reason("own") == ""
    for name in (*SETTINGS.values(), "nvim/init.lua", "nvim/new.lua"):
        assert "which programs outside start from" in reason(name)


def test_folder_that_is_settings_as_a_whole_can_still_be_worked_in(tmp_path: Path) -> None:
    """Only what this program reads there by itself is protected: all else would be, too."""
    (Path.home() / ".claude").symlink_to(tmp_path)
    (Path.home() / ".vim").symlink_to(tmp_path)

    found = linked_from_home([tmp_path])

    assert tmp_path / "settings.json" in found
    assert tmp_path not in found
    assert not any(path.name in ("autoload", ".git") for path in found)
