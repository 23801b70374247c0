"""The root of a repository and its git folders, found without git."""

import os
from pathlib import Path

import pytest

from agent_cli.system.repositories import (
    common_git_folder,
    folder_and_name,
    git_folder_at,
    project_folders,
    repository_root,
)


@pytest.fixture
def top(tmp_path: Path) -> Path:
    """A repository with a folder `src`."""
    (tmp_path / "main" / ".git").mkdir(parents=True)
    (tmp_path / "main" / ".git" / "HEAD").touch()
    (tmp_path / "main" / "src").mkdir()
    return tmp_path / "main"


def test_root_is_the_nearest_repository(top: Path) -> None:
    """Above all repositories there is none."""
    assert repository_root(top / "src") == top
    assert repository_root(top) == top
    assert repository_root(top.parent) is None


def test_empty_git_folder_is_no_root(top: Path) -> None:
    """Sandboxes leave one below the root; to git it is nothing."""
    (top / "src" / ".git").mkdir()

    assert repository_root(top / "src") == top


@pytest.mark.parametrize("target", ["a" * 300, ".git"])
def test_git_link_that_cannot_be_followed_marks_no_root(target: str, top: Path) -> None:
    """A repository can hold such a link."""
    (top / "src" / ".git").symlink_to(target)

    assert repository_root(top / "src") == top


def test_worktree_shares_the_git_folder_of_its_repository(top: Path, tmp_path: Path) -> None:
    """Its `.git` is a file that names its own one, in which another file names the shared one."""
    own = top / ".git" / "worktrees" / "other"
    own.mkdir(parents=True)
    (own / "commondir").write_text("../..\n")
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / ".git").write_text(f"gitdir: {own}\n")

    assert repository_root(tree) == tree
    assert git_folder_at(tree) == own
    assert common_git_folder(own) == top / ".git"
    assert common_git_folder(git_folder_at(top)) == top / ".git"


def test_project_reaches_up_to_the_root_of_its_repository(top: Path) -> None:
    """Folders between that hold nothing of a project are left out."""
    deep = top / "src" / "a"
    deep.mkdir()
    (top / ".mcp.json").touch()
    without = project_folders(deep)
    (top / "src" / ".claude").mkdir()

    assert (without, project_folders(deep)) == ((deep, top), (deep, top / "src", top))
    assert project_folders(top) == (top,)
    assert project_folders(top.parent) == (top.parent,)
    assert folder_and_name(top / ".mcp.json", project_folders(deep)) == (top, ".mcp.json")
    assert folder_and_name(top.parent / "x", project_folders(deep)) == (deep, "../../../x")


def test_project_ends_below_the_home_directory(top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A repository of dotfiles is no project around everything in the home directory."""
    deep = top / "src" / "a"
    deep.mkdir()
    (top / ".claude").mkdir()
    (top / "src" / ".claude").mkdir()
    monkeypatch.setenv("HOME", str(top))

    assert project_folders(deep) == (deep, top / "src")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_project_ends_at_a_folder_of_another_owner(top: Path) -> None:
    """Everyone can make a repository of /tmp."""
    (top / ".claude").mkdir()
    os.chown(top, 12_345, -1)

    assert project_folders(top / "src") == (top / "src",)
