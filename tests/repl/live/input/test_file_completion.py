"""Completion of files after an @: listed in the background, and again when they may change."""

import os
import subprocess
import threading
from collections.abc import Iterable, Iterator
from itertools import count
from pathlib import Path

import pytest

from agent_cli.repl.live.input import file_completion
from agent_cli.repl.live.input.file_completion import FileChoices, directories_at, workspace_paths


class Folder:
    """Paths that can be listed; `open` lets a listing finish."""

    def __init__(self, *paths: str) -> None:
        self.paths = set(paths)
        self.listings = 0
        self.open = threading.Event()
        self.open.set()

    def __call__(self) -> Iterable[str]:
        self.listings += 1
        self.open.wait(10)
        return set(self.paths)


def texts(choices: FileChoices, before: str) -> list[str]:
    return [choice.text for choice in choices(before)]


def test_paths_are_offered_only_after_an_at_sign() -> None:
    """A URL names no file, and without an @ nothing is listed at all."""
    folder = Folder("a.py", "b.py")
    choices = FileChoices(folder, lambda: None)

    assert texts(choices, "me@exa") == []
    assert folder.listings == 0
    assert texts(choices, "look at @a") == ["a.py"]


def test_file_names_that_need_quotes_are_inserted_with_quotes() -> None:
    r"""S6: a name with a space or a newline arrives whole; it is shown on one line."""
    choices = FileChoices(Folder("my file.txt", 'a"b', "one\ntwo", "写真.png"), lambda: None)

    assert texts(choices, "@my") == ['"my file.txt"']
    assert texts(choices, '@"my f') == ['"my file.txt"']
    assert texts(choices, '@a"') == ['a"b']
    assert texts(choices, "@写") == ["写真.png"]
    (choice,) = choices("@two")
    assert (choice.text, choice.display_text) == (r'"one\ntwo"', "one two")
    assert choice.start_position == -len("two")


def test_old_file_list_is_used_until_the_new_one_is_ready() -> None:
    """S6: typing never waits for a refresh of the list; its end is announced."""
    now_s, changed, folder = [0.0], threading.Event(), Folder("old.py")
    choices = FileChoices(folder, changed.set, clock=lambda: now_s[0])
    assert texts(choices, "@") == ["old.py"]

    folder.paths.add("new.py")
    folder.open.clear()
    now_s[0] = 60.0
    assert texts(choices, "@") == ["old.py"]
    assert not changed.is_set()
    folder.open.set()
    assert changed.wait(10)

    assert texts(choices, "@") == ["new.py", "old.py"]
    assert folder.listings == 2


def test_failed_file_listing_offers_nothing_and_is_tried_again(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The working directory may be missing for a moment."""
    now_s, broken = [0.0], [True]

    def paths() -> Iterable[str]:
        if broken[0]:
            raise FileNotFoundError
        return ["a.py"]

    changed = threading.Event()
    choices = FileChoices(paths, changed.set, clock=lambda: now_s[0])
    assert texts(choices, "@") == []
    broken[0], now_s[0] = False, 60.0
    texts(choices, "@")
    assert changed.wait(10)

    assert texts(choices, "@") == ["a.py"]
    assert capsys.readouterr().err == ""


def test_ignored_files_are_not_listed_and_folders_are() -> None:
    """As git sees the workspace, uncommitted files included."""
    subprocess.run(["git", "init", "-q"], check=True)
    Path(".gitignore").write_text("*.log\n")
    Path("src/deep").mkdir(parents=True)
    for name in ("src/deep/kept.py", "b.log"):
        Path(name).touch()

    assert workspace_paths() == {".gitignore", "src/", "src/deep/", "src/deep/kept.py"}


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

    assert workspace_paths() == {"bin/", "bin/git", "monitor"}

    assert not Path("CANARY").exists()


def test_files_outside_a_git_repository_are_listed_by_walking_folders() -> None:
    """Caches and installed packages are left out."""
    for name in ("src/a.py", ".hidden/b.py", "node_modules/c.js"):
        Path(name).parent.mkdir()
        Path(name).touch()

    assert workspace_paths() == {"src/", "src/a.py", ".hidden/", ".hidden/b.py"}


def test_only_the_first_files_of_an_endless_folder_are_listed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In a home directory the walk used to take minutes, and its result was discarded."""

    def walk(root: Path) -> Iterator[tuple[str, list[str], list[str]]]:
        yield from ((str(root), [], [f"{number}.txt"]) for number in count())

    monkeypatch.setattr(file_completion, "walk", walk)
    monkeypatch.setattr(file_completion, "_PATHS_MAX", 3)

    assert workspace_paths() == {"0.txt", "1.txt", "2.txt"}


def test_directories_are_offered_one_level_at_a_time() -> None:
    """For /add-dir, which accepts only directories."""
    for folder in ("library/tests", "lists", ".hidden"):
        Path(folder).mkdir(parents=True)
    Path("lines.txt").touch()

    assert [each.text for each in directories_at("")] == ["library/", "lists/"]
    assert [each.text for each in directories_at("LI")] == ["library/", "lists/"]
    assert [each.text for each in directories_at("library/t")] == ["tests/"]
    assert [each.text for each in directories_at("./.h")] == [".hidden/"]
    assert [*directories_at("nothing/here/")] == []
