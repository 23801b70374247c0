"""A search that knows which folders changed finds what a new search finds."""

import os
import random
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent_cli.sandbox import secret_index
from agent_cli.sandbox.secret_files import is_secret
from agent_cli.sandbox.secret_index import Contents, PathMarks, SecretIndex
from agent_cli.system.folder_watch import FolderWatch

_MARKS = PathMarks(is_secret)
_NAMES = (".env", "a", "b", ".git", "node_modules", "x.pem", "HEAD", "objects", "refs", ".vscode")
_AHEAD_S = 3_600


@pytest.fixture
def watch() -> Iterator[FolderWatch]:
    watch = FolderWatch()
    yield watch
    watch.close()


def listed(found: Contents) -> dict[str, list[Path]]:
    return {name: sorted(getattr(found, name)) for name in secret_index._LISTS}


def change(root: Path, chance: random.Random) -> None:
    """Make one change anywhere below *root*: create, delete, move or replace."""
    folders = [Path(folder) for folder, _, _ in os.walk(root)]
    at = chance.choice(folders) / chance.choice(_NAMES)
    other = chance.choice(folders) / chance.choice(_NAMES)
    try:
        match chance.randrange(6):
            case 0 | 1:
                (at / chance.choice(_NAMES)).mkdir(parents=True)
            case 2:
                at.write_text("gitdir: nowhere\n")
            case 3:
                at.rename(other)
            case 4:
                shutil.rmtree(at)
            case _:
                at.unlink()
    except OSError:
        return  # it is another kind of thing, or inside itself


@pytest.mark.parametrize("is_watched", [True, False])
@pytest.mark.parametrize(("seed", "most"), [(0, 50_000), (1, 50_000), (2, 50_000), (2, 18)])
def test_search_after_any_changes_finds_what_a_new_one_finds(
    tmp_path: Path, watch: FolderWatch, seed: int, most: int, *, is_watched: bool
) -> None:
    """Threat 4: also after a folder was moved away, replaced, or deleted with its watch.

    Of more folders than are searched, those nearest to the root count, as they are now.
    """
    chance = random.Random(seed)
    index = SecretIndex(tmp_path, _MARKS, directories_max=most, watch=watch if is_watched else None)

    for _ in range(60):
        for _ in range(chance.randrange(6)):
            change(tmp_path, chance)
        found = index.contents()
        anew = SecretIndex(tmp_path, _MARKS, directories_max=most).contents()
        assert (listed(found), found.is_complete) == (listed(anew), anew.is_complete)


@pytest.mark.skipif(sys.platform != "linux", reason="inotify is Linux's")
@pytest.mark.parametrize("most", [50_000, 40])
def test_second_search_looks_at_no_folder_that_did_not_change(
    tmp_path: Path, watch: FolderWatch, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    """Speed 1: the same time in 50 folders and in 50,000, also if their times are in the future."""
    for number in range(50):
        (tmp_path / f"{number % 7}" / f"{number}").mkdir(parents=True)
    ahead_s = time.time() + _AHEAD_S
    os.utime(tmp_path / "3", (ahead_s, ahead_s))
    index = SecretIndex(tmp_path, _MARKS, directories_max=most, watch=watch)
    index.contents()
    looked_at = _looks(monkeypatch)

    assert index.contents().is_changed is False
    assert looked_at == []
    (tmp_path / "3" / ".env").touch()
    assert index.contents().secrets == [tmp_path / "3" / ".env"]
    assert {*looked_at} == {str(tmp_path / "3"), str(tmp_path / "3" / ".env")}


def test_times_in_the_future_are_believed_without_a_watch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Speed 1: after a clock was set back, nothing was ever believed."""
    (tmp_path / "a").mkdir()
    index = SecretIndex(tmp_path, _MARKS)
    changed_ns = (tmp_path / "a").stat().st_ctime_ns
    monkeypatch.setattr("time.time_ns", lambda: changed_ns - 3_600_000_000_000)
    index.contents()

    assert index.contents().is_changed is False


def test_objects_of_git_are_not_searched_but_its_other_folders_are(tmp_path: Path) -> None:
    for folder in (".git/objects/ab", ".git/refs", ".git/lfs/cd", ".git/other", "objects/ab"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / ".env").touch()
    (tmp_path / ".git" / "HEAD").touch()

    found = SecretIndex(tmp_path, _MARKS).contents().secrets

    assert {str(path.relative_to(tmp_path).parent) for path in found} == {
        *(".git/refs", ".git/other", "objects/ab")
    }


def test_packages_of_other_checkouts_are_not_searched(tmp_path: Path) -> None:
    """A start would look through each environment of each worktree."""
    for folder in (".venv/lib", "node_modules/a", "app"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / ".env").touch()

    found = SecretIndex(tmp_path, _MARKS, with_packages=False).contents()

    assert found.secrets == [tmp_path / "app" / ".env"]
    assert found.is_complete


def _looks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list to which each directory is added that is looked at from now on."""
    looked_at: list[str] = []

    def noted(look: Any) -> Any:
        def noting(path: Any, *rest: Any, **named: Any) -> Any:
            looked_at.append(str(path))
            return look(path, *rest, **named)

        return noting

    for name in ("stat", "scandir"):
        monkeypatch.setattr(os, name, noted(getattr(os, name)))
    return looked_at
