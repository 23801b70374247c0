"""Lookup of executables: ours never in a repository, the user's where their PATH says."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_cli.system.programs import (
    find_program,
    search_path,
    shield_path,
    use_shielded_path,
    users_path,
)

SYSTEM = "/usr/bin:/bin"


@pytest.fixture(autouse=True)
def _own_path(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("PATH", os.environ["PATH"])
    use_shielded_path()
    yield
    use_shielded_path()


def test_our_own_path_excludes_folders_of_the_repository(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Threat 13: a start below its root is the same; commands of the user keep the user's PATH."""
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "HEAD").touch()
    (tmp_path / "src" / ".git").mkdir(parents=True)  # a sandbox leaves such an empty one
    given = f".::bin:{tmp_path}/bin:{tmp_path}/src:/opt/tools:{SYSTEM}"
    monkeypatch.setenv("PATH", given)

    shield_path(tmp_path / "src")

    assert os.environ["PATH"] == f"/opt/tools:{SYSTEM}"
    assert users_path() == given

    use_shielded_path()

    assert users_path() == f"/opt/tools:{SYSTEM}"


def test_programs_in_the_home_folder_stay_on_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Users who work in their home folder have their own programs there."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", f".:{tmp_path}/bin:{SYSTEM}")

    shield_path(tmp_path)

    assert os.environ["PATH"] == f"{tmp_path}/bin:{SYSTEM}"


@pytest.mark.parametrize("target", ["a" * 300, ".git"])
def test_git_link_that_cannot_be_followed_is_no_repository(
    target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A link to a name that is too long used to end the program with a bare OSError."""
    (tmp_path / ".git").symlink_to(target)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{SYSTEM}")

    shield_path(tmp_path)

    assert os.environ["PATH"] == SYSTEM


def test_folder_that_a_link_of_the_repository_names_is_not_on_our_path(tmp_path: Path) -> None:
    """Threat 13: whoever writes the link says which programs we run; by a chain of links, too."""
    repository, elsewhere, own = tmp_path / "ws", tmp_path / "elsewhere", tmp_path / "own"
    for folder in (repository, elsewhere, own):
        folder.mkdir()
    (repository / "bin").symlink_to(elsewhere)
    (own / "through").symlink_to(repository / "bin")
    (own / "direct").symlink_to(elsewhere)

    kept = search_path(f"{repository}/bin:{own}/through:{own}/direct:{SYSTEM}", outside=repository)

    assert kept == f"{own}/direct:{SYSTEM}"


def test_program_in_a_current_folder_that_was_deleted_and_made_again_is_not_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It raised a FileNotFoundError."""
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.setenv("PWD", str(here))
    monkeypatch.setenv("PATH", f"{here}/bin:{SYSTEM}")
    here.rmdir()
    (here / "bin").mkdir(parents=True)
    (here / "bin/sh").symlink_to("/bin/sh")

    found = find_program("sh", outside=tmp_path / "other")

    assert found in (Path("/usr/bin/sh"), Path("/bin/sh"))
