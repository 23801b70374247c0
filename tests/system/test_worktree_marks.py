"""Marks of killed programs: which worktrees they may name."""

import os
from pathlib import Path

import pytest

from agent_cli.system.worktrees import (
    Worktree,
    WorktreeMark,
    add_worktree,
    main_repository_of,
    take_left_worktrees,
    worktree_folder,
)
from tests.system.test_worktrees import git

MARK = "agent-cli.at-work"


@pytest.fixture
def marks(tmp_path: Path) -> Path:
    """The git folder of a worktree of the repository in *tmp_path*."""
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "commit", "--quiet", "--allow-empty", "-m", "first")
    add_worktree(tmp_path, worktree_folder(tmp_path, "agent-1"), "HEAD")
    return tmp_path / ".git" / "worktrees" / "agent-1"


def test_released_worktree_mark_leaves_no_file(marks: Path, tmp_path: Path) -> None:
    worktree = worktree_folder(tmp_path, "agent-1")
    before = {*marks.iterdir()}
    made = add_worktree(tmp_path, worktree_folder(tmp_path, "agent-2"), "HEAD")
    mark = WorktreeMark(made)
    assert take_left_worktrees(tmp_path) == []
    mark.release()

    assert take_left_worktrees(tmp_path) == []
    assert {*marks.iterdir()} == before
    (marks / MARK).touch()
    assert take_left_worktrees(worktree) == [worktree]
    assert take_left_worktrees(tmp_path) == []


def test_mark_that_cannot_be_named_leaves_no_draft(marks: Path, tmp_path: Path) -> None:
    (marks / MARK).mkdir()
    before = {*marks.iterdir()}
    made = Worktree(worktree_folder(tmp_path, "agent-1"), tmp_path, "")

    with pytest.raises(IsADirectoryError):
        WorktreeMark(made)

    assert {*marks.iterdir()} == before


@pytest.mark.parametrize("store", ["modules/sub", "store"])
def test_worktree_of_a_repository_with_its_git_folder_elsewhere_is_found(
    store: str, tmp_path: Path
) -> None:
    """As in a submodule, and with --separate-git-dir: git calls the folder the main tree."""
    top = tmp_path / "top"
    (tmp_path / store).parent.mkdir(exist_ok=True)
    git(tmp_path, "init", "--quiet", "--separate-git-dir", store, "top")
    git(top, "commit", "--quiet", "--allow-empty", "-m", "first")
    path = worktree_folder(main_repository_of(top), "agent-1")
    add_worktree(top, path, "HEAD")
    (tmp_path / store / "worktrees" / "agent-1" / MARK).touch()

    assert take_left_worktrees(top) == [path]


def test_forged_worktree_mark_names_no_folder_elsewhere(marks: Path, tmp_path: Path) -> None:
    """A link in place of a mark is not followed either."""
    elsewhere = tmp_path / "precious"
    elsewhere.mkdir()
    (marks / "gitdir").write_text(f"{elsewhere / '.git'}\n")
    (marks / MARK).touch()

    assert take_left_worktrees(tmp_path) == []

    (marks / MARK).symlink_to(elsewhere / "file")
    assert take_left_worktrees(tmp_path) == []
    assert not (elsewhere / "file").exists()


def test_search_for_left_worktrees_ends_whatever_a_command_put_there(
    marks: Path, tmp_path: Path
) -> None:
    """It runs at every start: a pipe made that wait, a link to itself or a NUL made it fail."""
    worktree = worktree_folder(tmp_path, "agent-1")
    (tmp_path / "loop").symlink_to("loop")
    for content in (f"{tmp_path}/loop/x\n", "x\0y\n"):
        (marks / MARK).touch()
        (marks / "gitdir").write_text(content)
        assert take_left_worktrees(tmp_path) == []
        (marks / "commondir").write_text(content)
        assert take_left_worktrees(worktree) == []
    for name in ("gitdir", "commondir"):
        (marks / name).unlink()
        os.mkfifo(marks / name)
    (marks / MARK).touch()

    assert take_left_worktrees(tmp_path) == []
    assert take_left_worktrees(worktree) == []


def test_no_left_worktree_is_found_outside_a_repository(tmp_path: Path) -> None:
    assert take_left_worktrees(tmp_path) == []
    (tmp_path / ".git").write_text("gitdir: nowhere\n")
    assert take_left_worktrees(tmp_path) == []
