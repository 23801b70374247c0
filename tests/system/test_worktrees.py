"""Worktrees of a repository that the user may not control."""

import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from agent_cli.system.git import GitError
from agent_cli.system.worktrees import (
    Worktree,
    add_worktree,
    changes_in,
    commit_of,
    is_clone_of,
    is_untouched,
    main_repository_of,
    remove_worktree,
    repository_of,
)

LONG_AGO_S = 1_700_000_000
LOSES_ONE_RACE = """#!/bin/sh
if [ ! -e "$0.lost" ]; then
    case "$*" in *"worktree {part}"*)
        touch "$0.lost"
        [ -z "{branch}" ] || {git} branch {branch} main
        echo "fatal: {fault}" >&2
        exit 128
    esac
fi
exec {git} "$@"
"""


def lose_one_race(
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    part: str,
    fault: str,
    branch: str = "",
) -> Path:
    """Let the next `git worktree` *part* fail with *fault*; return the file that tells of it."""
    programs = tmp_path_factory.mktemp("bin")
    loses = LOSES_ONE_RACE.format(git=shutil.which("git"), part=part, branch=branch, fault=fault)
    (programs / "git").write_text(loses)
    (programs / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    return programs / "git.lost"


def git(folder: Path, *words: str) -> str:
    identity = ("-c", "user.name=Test", "-c", "user.email=test@example.org")
    done = subprocess.run(
        ["git", *identity, *words], cwd=folder, check=True, capture_output=True, timeout=60
    )
    return done.stdout.decode()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "--quiet", "--initial-branch=main")
    (folder / "a.txt").write_text("one\n")
    (folder / ".gitignore").write_text("*.log\n")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "-m", "first")
    return folder


@pytest.fixture
def worktree(repository: Path, tmp_path: Path) -> Worktree:
    return add_worktree(repository, tmp_path / "trees" / "one", commit_of(repository, "main"))


def test_submodules_own_filters_are_not_run(
    repository: Path, worktree: Worktree, tmp_path: Path
) -> None:
    """Git would start them to learn whether a file of the submodule has changed."""
    other = tmp_path / "other"
    git(tmp_path, "init", "--quiet", "--initial-branch=main", str(other))
    (other / ".gitattributes").write_text("* filter=x\n")
    (other / "a.txt").write_text("one\n")
    git(other, "add", ".")
    git(other, "commit", "--quiet", "-m", "first")
    allowed = ("-c", "protocol.file.allow=always")
    git(worktree.path, *allowed, "submodule", "--quiet", "add", str(other), "sub")
    git(worktree.path, "commit", "--quiet", "-m", "submodule")
    inside, ran = worktree.path / "sub", tmp_path / "ran"
    git(inside, "config", "filter.x.clean", f"touch '{ran}'; cat")
    os.utime(inside / "a.txt", (LONG_AGO_S, LONG_AGO_S))

    patch = changes_in(worktree)
    (worktree.path / "b.txt").write_text("two\n")
    tree = git(inside, "rev-parse", "HEAD^{tree}").strip()
    moved = git(inside, "commit-tree", "-m", "second", tree).strip()
    git(inside, "update-ref", "--no-deref", "HEAD", moved)
    later = changes_in(worktree)

    assert b"+Subproject commit" in patch
    assert f"+Subproject commit {moved}".encode() in later
    assert b"b.txt" in later
    assert not ran.exists()


@pytest.mark.parametrize("is_checked_out", [True, False])
def test_worktree_with_files_in_a_submodule_counts_as_changed(
    repository: Path, tmp_path: Path, is_checked_out: bool
) -> None:
    """Git checks none out in a worktree; what an agent writes in it would be lost unseen."""
    other = tmp_path / "other"
    git(tmp_path, "init", "--quiet", "--initial-branch=main", str(other))
    (other / "a.txt").write_text("one\n")
    git(other, "add", ".")
    git(other, "commit", "--quiet", "-m", "first")
    allowed = ("-c", "protocol.file.allow=always")
    git(repository, *allowed, "submodule", "--quiet", "add", str(other), "sub")
    git(repository, "commit", "--quiet", "-m", "submodule")
    tree = add_worktree(repository, tmp_path / "trees" / "one", commit_of(repository, "main"))
    before = is_untouched(tree)

    if is_checked_out:
        git(tree.path, *allowed, "submodule", "--quiet", "update", "--init")
    (tree.path / "sub" / "a.txt").write_text("two\n")

    assert (before, is_untouched(tree)) == (True, False)


def test_untouched_worktree_is_recognised_and_removed_completely(
    repository: Path, worktree: Worktree
) -> None:
    """Ignored files are no changes: a build creates them."""
    (worktree.path / "build.log").write_text("built")

    assert repository_of(worktree.path) == worktree.path
    assert (is_untouched(worktree), changes_in(worktree)) == (True, b"")
    remove_worktree(worktree)
    assert not worktree.path.exists()
    assert len(git(repository, "worktree", "list").splitlines()) == 1


def test_edit_right_after_the_checkout_is_a_change(worktree: Worktree) -> None:
    """Same size, same time: only the index's time tells git to read the file again."""
    git(worktree.path, "config", "core.trustctime", "false")
    file = worktree.path / "a.txt"
    index = worktree.path / git(worktree.path, "rev-parse", "--git-path", "index").strip()
    os.utime(file, (LONG_AGO_S, LONG_AGO_S))
    git(worktree.path, "update-index", "--refresh")
    file.write_text("two\n")
    for each in (file, index):
        os.utime(each, (LONG_AGO_S, LONG_AGO_S))

    assert b"+two" in changes_in(worktree)


def test_worktree_patch_recreates_the_same_files_elsewhere(
    repository: Path, worktree: Worktree, tmp_path: Path
) -> None:
    """The patch has edits, new files, binary data, deletions and commits; the index stays."""
    (worktree.path / "new.bin").write_bytes(b"\0\1\r\n")
    (worktree.path / "a.txt").write_bytes(b"two\r\nno end")
    git(worktree.path, "add", "new.bin")
    git(worktree.path, "commit", "--quiet", "-m", "second")
    (worktree.path / ".gitignore").unlink()
    status = git(worktree.path, "status", "--short")

    patch = changes_in(worktree)

    assert not is_untouched(worktree)
    assert git(worktree.path, "status", "--short") == status
    other = add_worktree(repository, tmp_path / "trees" / "two", worktree.base)
    subprocess.run(["git", "apply"], cwd=other.path, input=patch, check=True, timeout=60)
    assert (other.path / "a.txt").read_bytes() == b"two\r\nno end"
    assert (other.path / "new.bin").read_bytes() == b"\0\1\r\n"
    assert not (other.path / ".gitignore").exists()


def test_worktree_with_an_empty_commit_counts_as_changed(worktree: Worktree) -> None:
    git(worktree.path, "commit", "--quiet", "--allow-empty", "-m", "a note")

    assert (is_untouched(worktree), changes_in(worktree)) == (False, b"")


def test_worktree_that_git_cannot_read_counts_as_changed(
    repository: Path, worktree: Worktree
) -> None:
    (worktree.path / ".git").write_text("gitdir: nowhere\n")

    assert not is_untouched(worktree)
    remove_worktree(worktree)
    assert not worktree.path.exists()


def test_failed_worktree_creation_leaves_nothing(repository: Path, tmp_path: Path) -> None:
    path = tmp_path / "trees" / "one"
    (tmp_path / "plain").mkdir()

    for ref in ("nowhere", "--help", "HEAD:a.txt", ""):
        with pytest.raises(GitError):
            commit_of(repository, ref)
    with pytest.raises(GitError, match="not a git repository"):
        repository_of(tmp_path / "plain")
    with pytest.raises(GitError, match=r"^(fatal|error): "):
        add_worktree(repository, path, "0123456789012345678901234567890123456789")
    assert not path.exists()
    assert len(git(repository, "worktree", "list").splitlines()) == 1


def test_hooks_and_filters_of_the_repository_do_not_run(repository: Path, tmp_path: Path) -> None:
    """Threat: a hook, a filter or a monitor of an unpacked archive would run at the checkout."""
    mark = tmp_path / "ran"
    script = tmp_path / "evil"
    script.write_text(f"#!/bin/sh\necho $0 $* >> {mark}\ncat\n")
    script.chmod(0o755)
    (repository / ".git" / "hooks" / "post-checkout").symlink_to(script)
    more = repository / ".git" / "more"
    more.write_text(f'[filter "a=b"]\n smudge = {script} 1\n clean = {script} 2\n required\n')
    for name, value in (
        *(("include.path", "more"), ("filter.c.process", f"{script} 3")),
        *(("core.fsmonitor", str(script)), ("diff.external", f"{script} 4")),
        *(("diff.d.textconv", f"{script} 5"), ("diff.d.command", f"{script} 6")),
    ):
        git(repository, "config", name, value)
    (repository / ".git" / "info" / "attributes").write_text(
        "*.txt filter=a=b diff=d\n.gitignore filter=c\n"
    )

    worktree = add_worktree(repository, tmp_path / "tree", commit_of(repository, "HEAD"))
    (worktree.path / "a.txt").write_text("two\n")
    (worktree.path / "b.txt").write_text("new\n")

    assert b"+two" in changes_in(worktree)
    remove_worktree(worktree)
    assert not mark.exists()


def test_git_filters_of_the_user_run(repository: Path, tmp_path: Path) -> None:
    """Git LFS uses such a filter."""
    (repository / ".git" / "info" / "attributes").write_text("a.txt filter=up\n")
    git(repository, "config", "--global", "filter.up.smudge", "tr a-z A-Z")

    worktree = add_worktree(repository, tmp_path / "tree", commit_of(repository, "HEAD"))

    assert (worktree.path / "a.txt").read_text() == "ONE\n"


def test_git_dir_variable_does_not_redirect_git(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "other.git"))

    assert repository_of(repository) == repository


def test_existing_folder_is_never_touched_by_a_new_worktree(
    repository: Path, tmp_path: Path
) -> None:
    """Cleaning up after a failure would remove files that existed before."""
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "work.txt").write_text("kept")

    with pytest.raises(GitError, match="mine is there already"):
        add_worktree(repository, mine, commit_of(repository, "main"))

    assert (mine / "work.txt").read_text() == "kept"


@pytest.mark.parametrize(
    "fault",
    [
        "could not create directory of 'one': No such file or directory",
        "failed to read .git/worktrees/agent-4a9af000/commondir: Success",
    ],
)
@pytest.mark.parametrize("branch", ["", "new"])
def test_worktree_is_made_while_git_removes_or_makes_another_one(
    repository: Path,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    branch: str,
    fault: str,
) -> None:
    """It finds its folder gone, or what belongs to the other empty; the branch may be made."""
    lost = lose_one_race(tmp_path_factory, monkeypatch, "add", fault, branch)

    made = add_worktree(repository, tmp_path / "trees" / "one", "main", branch=branch)

    assert (made.path / "a.txt").read_text() == "one\n"
    assert git(made.path, "branch", "--show-current").strip() == branch
    assert lost.exists()


def test_worktrees_are_listed_and_removed_while_git_makes_another_one(
    repository: Path,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The call of an agent failed beside another one, and what git keeps of a worktree stayed."""
    made = add_worktree(repository, tmp_path / "trees" / "one", "main")
    fault = "failed to read .git/worktrees/agent-4a9af000/commondir: Success"

    lost = lose_one_race(tmp_path_factory, monkeypatch, "list", fault)
    assert (main_repository_of(made.path), lost.exists()) == (repository, True)
    lost = lose_one_race(tmp_path_factory, monkeypatch, "remove", fault)
    remove_worktree(made)

    assert lost.exists()
    assert git(repository, "worktree", "list", "--porcelain").count("worktree ") == 1


def test_git_configuration_of_a_stranger_is_searched_in_little_time(tmp_path: Path) -> None:
    """Threat 17: at each start, before trust; the time grew with the square of its blank lines."""
    for name in ("mine", "theirs"):
        (tmp_path / name / ".git").mkdir(parents=True)
    (tmp_path / "theirs/.git/config").write_text('[remote "x"]' + "\n" * 40_000)
    began_s = time.thread_time()

    assert not is_clone_of(tmp_path / "theirs", tmp_path / "mine")

    assert time.thread_time() - began_s < 1


@pytest.mark.parametrize(
    "line",
    [
        "\turl = {0}",
        "url={0}",
        "\tfetch = x\n\n  url  =  {0}",
        'url = "{0}"',
        "url = {0}\r",
        "url = {0} # {0}/other",
        'url = "{0}"; its place',
    ],
)
@pytest.mark.parametrize("original", ["original", "the original"])
def test_remote_tells_a_clone(tmp_path: Path, line: str, original: str) -> None:
    """However its address is laid out in the configuration."""
    for name in (original, "copy"):
        (tmp_path / name / ".git").mkdir(parents=True)
    address = line.format(tmp_path / original)
    (tmp_path / "copy/.git/config").write_text(f'[core]\n\tbare = false\n[remote "x"]\n{address}\n')

    assert is_clone_of(tmp_path / "copy", tmp_path / original)
