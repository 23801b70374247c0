"""Worktrees of git repositories: create one for a commit, list its changes, mark it, remove it.

Blocking; call it in a thread.
"""

import fcntl
import os
import re
import shutil
import tempfile
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

from agent_cli.system.fixed_paths import start_of
from agent_cli.system.git import GitError, run_git, status_rows
from agent_cli.system.loading import late_pattern
from agent_cli.system.paths import is_dir, real_path
from agent_cli.system.records import dataclass
from agent_cli.system.repositories import (
    common_git_folder,
    git_folder_at,
    pointer_in,
    repository_root,
)
from agent_cli.system.trees import remove_tree

_CONFIG_BYTES_MAX: Final = 1_048_576
_REMOTE_URL: Final = late_pattern(
    # Unquoted, a value has no comment sign and no blank at its end.
    r'\[remote "[^"\n]*"\][^[]*?^[ \t]*url[ \t]*=[ \t]*("[^"\n]*"|[^\s#;](?:[^\n#;]*[^\s#;])?)',
    re.MULTILINE,
)
_FOLDER: Final = ".agent-cli-worktrees"
_QUESTION_LIMIT_S: Final = 30.0
# For a large repository on a slow disk.
_CHECKOUT_LIMIT_S: Final = 900.0
# With its last worktree git removes the folder of all, also while it makes another one there: an
# agent may end while the next one begins. And it reads what belongs to each other worktree, which
# is empty for a moment where another agent begins. The branch may have been made by then.
_LOST_RACE: Final = late_pattern(
    r"could not create directory of .*: No such file or directory"
    r"|failed to read .*/worktrees/[^/]+/commondir: "
)
_RACES_MAX: Final = 5
_SUBMODULE_MODE: Final = b"160000 "


@dataclass(frozen=True, slots=True)
class Worktree:
    """A working tree of *repository* beside its main one, made for the commit *base*."""

    path: Path
    repository: Path
    base: str


def repository_of(folder: Path) -> Path:
    """Return the top folder of the working tree that *folder* is in.

    Raises:
        GitError: It is in none.
    """
    return Path(_line(folder, "rev-parse", "--show-toplevel"))


def main_repository_of(folder: Path) -> Path:
    """Return the main working tree of the repository of *folder*, which may be in another one.

    Raises:
        GitError: It is in none.
    """
    listed = _worktree(folder, "list", "--porcelain", limit_s=_QUESTION_LIMIT_S)
    return Path(os.fsdecode(listed).partition("\n")[0].removeprefix("worktree "))


def counterpart_of(folder: Path) -> Path | None:
    """Return the same folder in the main working tree; None if *folder* is in no other tree.

    Reads files only, and believes none that a stranger could have written: the main repository
    itself must name the worktree as one of its own.
    """
    top = repository_root(folder)
    if top is None or is_dir(top / ".git"):
        return None
    try:
        own = git_folder_at(top)
        common = common_git_folder(own)
        named = real_path(own / pointer_in(own / "gitdir"))
    except OSError:
        return None
    is_known = own.parent == common / "worktrees" and named == real_path(top / ".git")
    if not is_known or common.name != ".git":
        return None
    return common.parent / folder.relative_to(top)


def is_clone_of(folder: Path, other: Path) -> bool:
    """Return whether *folder* is the same folder in a clone of the repository of *other*.

    It is if the one is a remote of the other, or if both have a remote in common. Reads files only.
    """
    path, addresses = _path_and_addresses(folder)
    other_path, other_addresses = _path_and_addresses(other)
    return path == other_path and not addresses.isdisjoint(other_addresses)


def _path_and_addresses(folder: Path) -> tuple[Path, frozenset[str]]:
    """Return where *folder* is in its repository, and the addresses of that and of its remotes."""
    top = repository_root(folder) or folder
    addresses = {_address(str(top), top)}
    with suppress(OSError):
        common = common_git_folder(git_folder_at(top))
        addresses.add(_address(str(common), top))
        text = os.fsdecode(start_of(common / "config", _CONFIG_BYTES_MAX))
        addresses |= {_address(url.strip('"'), top) for url in _REMOTE_URL.findall(text)}
    return folder.relative_to(top), frozenset(addresses)


def _address(url: str, top: Path) -> str:
    """Return one spelling for all spellings of an address in the repository at *top*."""
    scheme, mark, rest = url.partition("://")
    if not mark and (":" not in url or "/" in url.partition(":")[0]):
        scheme, rest = "file", url
    elif not mark:
        rest = url.replace(":", "/", 1)  # as ssh: user@host:path
    if scheme == "file":
        return str(real_path(top / rest)).removesuffix(".git").rstrip("/")
    host, _, path = rest.partition("/")
    host = host.rpartition("@")[2].partition(":")[0]
    return f"{host}/{path.strip('/').removesuffix('.git')}".lower()


def git_folder_of(folder: Path) -> Path:
    """Return the git folder that belongs only to the working tree that *folder* is in.

    Raises:
        GitError: It is in none.
    """
    return Path(_line(folder, "rev-parse", "--absolute-git-dir"))


def branch_of(folder: Path) -> str:
    """Return the branch that is checked out in *folder*, "" for none.

    Raises:
        GitError: Git cannot tell.
    """
    name = _line(folder, "rev-parse", "--abbrev-ref", "HEAD")
    return "" if name == "HEAD" else name


def commit_of(folder: Path, ref: str) -> str:
    """Return the full hash of the commit that *ref* names.

    Raises:
        GitError: There is no such commit.
    """
    verify = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}")
    return _line(folder, *verify)


def last_commit_of(folder: Path) -> str:
    """Return the full hash of the commit that is checked out in *folder*.

    Raises:
        GitError: There is none.
    """
    try:
        return commit_of(folder, "HEAD")
    except GitError as error:
        raise GitError("the repository has no commit yet") from error


def worktree_folder(repository: Path, name: str) -> Path:
    """Return the folder for the worktree *name* of *repository*: beside that main working tree.

    Git takes the git folder for the main working tree where that is not its `.git`: in a submodule,
    and where it was made with --separate-git-dir.
    """
    return repository.parent / _FOLDER / repository.name / name


def add_worktree(repository: Path, path: Path, commit: str, *, branch: str = "") -> Worktree:
    """Check *commit* out in a new folder *path*, on a new *branch* or on none.

    Raises:
        GitError: It cannot be created, and nothing of it is left, or *path* exists already.
    """
    if os.path.lexists(path):
        raise GitError(f"{path} is there already: move it, or choose another name")
    path.parent.mkdir(parents=True, exist_ok=True)
    where = ("-b", branch) if branch else ("--detach",)
    made = Worktree(path, repository, commit)
    added = ("add", "--quiet", *where, str(path), commit)
    clean = partial(remove_worktree, made, branch=branch)
    try:
        _worktree(repository, *added, limit_s=_CHECKOUT_LIMIT_S, after_race=clean)
    except GitError:
        remove_worktree(made)
        raise
    return made


def changes_in(worktree: Worktree) -> bytes:
    """Return a patch from the base commit to the current files; empty if nothing changed.

    It includes new files and commits, but not ignored files, and can be passed to `git apply`.

    Raises:
        GitError: Git cannot tell.
    """
    with tempfile.TemporaryDirectory(prefix="agent-cli-") as folder:
        # A copy keeps the agent's own index unchanged; its cached states save reading files. Git
        # reads those that are not older than the index, so the copy keeps its time.
        index = Path(folder) / "index"
        variables = {"GIT_INDEX_FILE": str(index)}
        own = worktree.path / _line(worktree.path, "rev-parse", "--git-path", "index")
        if own.is_file():
            shutil.copy2(own, index)
        paths = (".", *_without_submodules(worktree.path))
        run_git(
            worktree.path,
            *("add", "--all", "--", *paths),
            limit_s=_CHECKOUT_LIMIT_S,
            variables=variables,
        )
        options = ("--cached", "--binary", "--full-index", "--no-color", "--no-ext-diff")
        return run_git(
            worktree.path,
            *("diff", *options, "--no-textconv", "--no-renames", worktree.base, "--"),
            limit_s=_CHECKOUT_LIMIT_S,
            variables=variables,
        )


def _without_submodules(tree: Path) -> list[str]:
    """Return pathspecs that leave out the submodules of *tree* that are at their recorded commits.

    In those, git would look for changed files, with the filters that the submodule's own
    configuration names.
    """
    submodules = submodules_in(tree)
    if not submodules:
        return []
    rows = status_rows(tree, "--untracked-files=no", limit_s=_CHECKOUT_LIMIT_S)
    same = submodules - {row[3:] for row in rows}
    return [f":(exclude,top,literal){path}" for path in sorted(same)]


def submodules_in(tree: Path) -> set[str]:
    """Return the folders of the submodules of *tree*, relative to it; raises GitError."""
    listed = run_git(tree, "ls-files", "--stage", "-z", limit_s=_CHECKOUT_LIMIT_S).split(b"\0")
    modules = (row for row in listed if row.startswith(_SUBMODULE_MODE))
    return {os.fsdecode(row.partition(b"\t")[2]) for row in modules}


def is_untouched(worktree: Worktree) -> bool:
    """Return whether nothing would be lost with it: no changes, and no commit of its own.

    Ignored files do not count. If git fails, the worktree counts as changed; so it does with any
    file in the folder of a submodule, checked out or not: git and `changes_in` look at none.
    """
    path = worktree.path
    try:
        return (
            commit_of(path, "HEAD") == worktree.base
            and not any(
                is_dir(path / each) and any((path / each).iterdir()) for each in submodules_in(path)
            )
            and not changes_in(worktree)
        )
    except (GitError, OSError):
        return False


@dataclass(frozen=True, slots=True)
class Work:
    """The work in a worktree: commits since its base, and files changed since the last commit."""

    commits: int
    files: int


def work_in(worktree: Worktree) -> Work:
    """Return the numbers of commits and changed files in *worktree*.

    Raises:
        GitError: Git cannot tell.
    """
    commits = _line(worktree.path, "rev-list", "--count", f"{worktree.base}..HEAD")
    rows = status_rows(worktree.path, "--untracked-files=all", limit_s=_CHECKOUT_LIMIT_S)
    return Work(int(commits), len(rows))


def remove_worktree(worktree: Worktree, *, branch: str = "") -> None:
    """Remove *worktree* with all its files, even if its folder is gone, and *branch*."""
    try:
        removed = ("remove", "--force", "--force", str(worktree.path))
        _worktree(worktree.repository, *removed, limit_s=_CHECKOUT_LIMIT_S)
    except GitError:  # it was damaged, or never created
        remove_tree(worktree.path)
    if branch:
        with suppress(GitError):  # a leftover branch does no harm
            run_git(worktree.repository, "branch", "-D", branch, limit_s=_QUESTION_LIMIT_S)


def _worktree(
    folder: Path, *arguments: str, limit_s: float, after_race: Callable[[], None] = lambda: None
) -> bytes:
    """Run `git worktree`, again where another program made or removed a worktree just then."""
    for is_last in (*[False] * _RACES_MAX, True):
        try:
            return run_git(folder, "worktree", *arguments, limit_s=limit_s)
        except GitError as error:
            if not _LOST_RACE.search(str(error)):
                raise
            after_race()
            if is_last:
                raise
    raise AssertionError("the last attempt returns or raises")


def _line(folder: Path, *arguments: str) -> str:
    return os.fsdecode(run_git(folder, *arguments, limit_s=_QUESTION_LIMIT_S)).strip("\n")


# Marks on the worktrees of agents, by which those of a killed program are found later.
#
# A mark is a file that the program at work keeps locked; the system unlocks it when the program is
# killed. It lies where git keeps what belongs to the worktree, and goes with that.

_FILE: Final = "agent-cli.at-work"


class WorktreeMark:
    """A held mark; `release` it once the worktree was left as it is to be."""

    def __init__(self, worktree: Worktree) -> None:
        """Mark *worktree*.

        Raises:
            GitError: It is no worktree.
            OSError: The mark cannot be written.
        """
        self._path = git_folder_of(worktree.path) / _FILE
        new = self._path.with_suffix(".new")
        self._descriptor = os.open(new, os.O_CREAT | os.O_RDWR | os.O_EXCL, 0o600)
        try:
            # Locked before it has its name: nobody ever finds it unlocked while we work.
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            new.rename(self._path)
        except OSError:
            new.unlink(missing_ok=True)  # the next mark could not be made beside it
            os.close(self._descriptor)
            raise

    def release(self) -> None:
        """Remove the mark; it may be gone with its worktree."""
        with suppress(OSError):
            self._path.unlink(missing_ok=True)
        os.close(self._descriptor)


def take_left_worktrees(folder: Path) -> list[Path]:
    """Return the worktrees that killed programs left in the repository of *folder*, each once.

    Reads files only: this is called at every start.
    """
    with suppress(OSError):
        if top := repository_root(folder):
            common = common_git_folder(git_folder_at(top))
            main = common.parent if common.name == ".git" else common
            beside = real_path(worktree_folder(main, ""))
            left = [_left(mark) for mark in sorted(common.glob(f"worktrees/*/{_FILE}"))]
            # A repository made by others may name any path.
            return [path for path in left if path and path.parent == beside and path.is_dir()]
    return []


def _left(mark: Path) -> Path | None:
    """Return the worktree of *mark* and remove that, unless its program works."""
    try:
        descriptor = os.open(mark, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        worktree = real_path(mark.parent / pointer_in(mark.parent / "gitdir")).parent
        mark.unlink()
    except OSError:
        return None
    finally:
        os.close(descriptor)
    return worktree
