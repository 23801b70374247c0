"""The files of the workspace: listed whole, and kept current by what changed."""

import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from agent_cli.repl.live.input import workspace_files
from agent_cli.repl.live.input.file_completion import outside_choices
from agent_cli.repl.live.input.workspace_files import WorkspaceFiles


def test_ignored_files_are_not_listed_and_folders_are() -> None:
    """As git sees the workspace, uncommitted files included."""
    subprocess.run(["git", "init", "-q"], check=True)
    Path(".gitignore").write_text("*.log\n")
    Path("src/deep").mkdir(parents=True)
    for name in ("src/deep/kept.py", "b.log"):
        Path(name).touch()

    assert WorkspaceFiles(Path.cwd()).all() == {
        ".gitignore",
        "src/",
        "src/deep/",
        "src/deep/kept.py",
    }


def test_files_of_an_ignored_folder_are_listed_where_it_is_the_workspace() -> None:
    """Git lists none of them: `@` offered nothing at all."""
    subprocess.run(["git", "init", "-q"], check=True)
    Path(".gitignore").write_text("notes/\n")
    Path("notes").mkdir()
    Path("notes/a.md").touch()

    assert WorkspaceFiles(Path.cwd()).all() == {".gitignore"}
    assert WorkspaceFiles(Path.cwd() / "notes").all() == {"a.md"}


def test_entries_of_a_linked_folder_are_offered() -> None:
    """Git lists the link alone, and folders are walked without following links."""
    Path("kept").mkdir()
    Path("kept/a.md").touch()
    Path("docs").mkdir()
    Path("docs/link").symlink_to("../kept")

    assert [each.text for each in outside_choices(Path.cwd(), "@docs/link/")] == ["docs/link/a.md"]
    assert [*outside_choices(Path.cwd(), "@docs/")] == []


@pytest.mark.skipif(sys.platform != "linux", reason="names of other systems are UTF-8")
def test_name_that_is_not_utf8_is_not_offered() -> None:
    """It became another name in the input, which no file has."""
    Path(os.fsdecode(b"caf\xe9.txt")).touch()
    Path("café.txt").touch()

    assert WorkspaceFiles(Path.cwd()).all() == {"café.txt"}
    before = f"@{Path.cwd()}/caf"
    assert [each.text for each in outside_choices(Path.cwd(), before)] == [f"{before[1:]}é.txt"]


def test_listing_files_runs_no_program_of_the_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threats 11 and 13: @ works in an untrusted workspace."""
    subprocess.run(["git", "init", "--quiet"], check=True)
    for name in ("bin/git", "monitor"):
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text("#!/bin/sh\ntouch CANARY\n")
        Path(name).chmod(0o755)
    for key, value in (("core.fsmonitor", "./monitor"), ("core.untrackedCache", "true")):
        subprocess.run(["git", "config", key, value], check=True)
    monkeypatch.setenv("PATH", f"{Path('bin').absolute()}:bin:{os.environ['PATH']}")

    assert WorkspaceFiles(Path.cwd()).all() == {"bin/", "bin/git", "monitor"}

    assert not Path("CANARY").exists()


def test_files_outside_a_git_repository_are_listed_by_walking_folders() -> None:
    """Caches and installed packages are left out."""
    for name in ("src/a.py", ".hidden/b.py", "node_modules/c.js"):
        Path(name).parent.mkdir()
        Path(name).touch()

    assert WorkspaceFiles(Path.cwd()).all() == {"src/", "src/a.py", ".hidden/", ".hidden/b.py"}


def test_only_the_first_files_of_an_endless_folder_are_listed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In a home directory the walk used to take minutes, and its result was discarded."""

    def walk(root: Path) -> Iterator[tuple[str, list[str], list[str]]]:
        yield from ((str(root), [], [f"{number}.txt"]) for number in count())

    monkeypatch.setattr(workspace_files, "walk", walk)
    monkeypatch.setattr(workspace_files, "_PATHS_MAX", 3)

    assert WorkspaceFiles(Path.cwd()).all() == {"0.txt", "1.txt", "2.txt"}


@pytest.mark.parametrize("in_git", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_a_look_at_what_changed_finds_what_a_whole_listing_finds(
    in_git: bool, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files and folders made, deleted, renamed, ignored, replaced; several between two looks."""
    # On a busy machine two seconds pass between two looks: then a folder that held no file is
    # overlooked until everything is listed again.
    monkeypatch.setattr(workspace_files, "_STAMP_S", 3_600)
    if in_git:
        subprocess.run(["git", "init", "-q"], check=True)
        Path(".gitignore").write_text("*.log\nout/\n")
    dice, files = random.Random(seed), WorkspaceFiles(Path.cwd())
    _change(dice, 10)
    files.all()

    for _ in range(15):
        _change(dice, dice.randint(0, 6))
        assert set(files.renewed()) == set(WorkspaceFiles(Path.cwd()).all())


def test_a_folder_with_very_many_new_files_is_asked_about_as_a_whole() -> None:
    """A command line has a limit."""
    subprocess.run(["git", "init", "-q"], check=True)
    Path("kept").mkdir()
    Path("kept/a.py").touch()
    files = WorkspaceFiles(Path.cwd())
    files.all()
    for number in range(400):
        Path(f"kept/{number}-{'x' * 200}.py").touch()

    assert len(files.renewed()) == 402


def _change(dice: random.Random, times: int) -> None:
    """Change the working directory at random."""
    for _ in range(times):
        folders = [Path(), *(path for path in Path().rglob("*") if path.is_dir())]
        folder = dice.choice([path for path in folders if ".git" not in path.parts])
        name = dice.choice(["a.py", "b.txt", "c.log", "ä b", "[x]", "out", "node_modules", "src"])
        path = folder / name
        match dice.randrange(5):
            case 0 | 1 if not path.exists():
                path.touch()
            case 2 if not path.exists():
                path.mkdir(parents=True)
                Path(path, dice.choice(["d.py", "e.log"])).touch()
            case 3 if path.is_dir():
                shutil.rmtree(path)
            case 3 | 4 if path.is_file():
                path.rename(folder / f"{dice.randrange(9)}.py")
            case _:
                (folder / "made" / "later").mkdir(parents=True, exist_ok=True)
