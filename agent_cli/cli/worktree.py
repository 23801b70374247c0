"""`--worktree [NAME]`: a git worktree for one session, and its removal or merge at the end."""

import fcntl
import os
import re
import secrets
import shlex
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Final

from agent_cli.app.arguments import Arguments, SessionFolder
from agent_cli.contracts.errors import UsageError
from agent_cli.contracts.wording import counted
from agent_cli.settings import Override
from agent_cli.system.git import GitError
from agent_cli.system.paths import expanded
from agent_cli.system.records import dataclass
from agent_cli.system.worktrees import (
    Work,
    Worktree,
    add_worktree,
    branch_of,
    commit_of,
    git_folder_of,
    is_untouched,
    last_commit_of,
    main_repository_of,
    remove_worktree,
    repository_of,
    work_in,
    worktree_folder,
)
from agent_cli.terminal.first_prompt import FIRST_PROMPT
from agent_cli.terminal.writer import print_fitted
from agent_cli.trust.store import TrustStore

_BRANCHES: Final = "agent/"
_NAME: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_-]|\.(?!\.)){0,63}")
_LOCK: Final = "agent-cli.lock"


@dataclass(frozen=True, slots=True)
class _Session:
    """A session's worktree; `branch` is "" if the worktree existed before."""

    tree: Worktree
    branch: str
    lock: IO[bytes]


@contextmanager
def inside_worktree(arguments: Arguments) -> Generator[SessionFolder]:
    """Work in the worktree that *arguments* ask for; at the end report its changes.

    A worktree made here is removed again if nothing changed in it.

    Yields:
        The arguments with absolute paths, and the previous directory.

    Raises:
        UsageError: There is no repository, or the name cannot be used.
    """
    here = Path.cwd()
    try:
        repository = repository_of(here)
        session = _opened(main_repository_of(here), arguments.worktree or _new_name(), here)
    except (GitError, OSError) as error:
        raise UsageError(f"--worktree: {_sentence(error)}") from error
    inside = session.tree.path / here.resolve().relative_to(repository.resolve())
    os.chdir(inside if inside.is_dir() else session.tree.path)
    inside = Path.cwd()
    try:
        absolute = _with_absolute_paths(arguments, here)
        yield SessionFolder(_told_of_submodules(absolute, session.tree.path), here)
    finally:
        _close(session, inside, here)


def _opened(repository: Path, name: str, here: Path) -> _Session:
    if not _NAME.fullmatch(name) or name.endswith((".", ".lock")):
        raise UsageError(
            f"--worktree: {name!r} cannot be a name: use letters, digits, - and _; a prompt comes"
            " before --worktree, or behind --worktree=NAME"
        )
    path = worktree_folder(repository, name)
    if path.exists():
        if repository_of(path) != path.resolve() or main_repository_of(path) != repository:
            raise UsageError(
                f"--worktree: {path} is not a worktree: remove it, or use another name"
            )
        tree = Worktree(path, repository, _last_commit(repository))
        return _Session(tree, "", _lock(tree))
    branch = f"{_BRANCHES}{name}"
    tree = add_worktree(repository, path, _last_commit(here), branch=branch)
    return _Session(tree, branch, _lock(tree))


def _told_of_submodules(arguments: Arguments, tree: Path) -> Arguments:
    """Say that submodules of *tree* are empty; return *arguments* that tell the model, too."""
    if not (tree / ".gitmodules").is_file():
        return arguments
    from agent_cli.app.agents.workspaces import note_on_submodules  # most have no submodules

    if not (note := note_on_submodules(tree)):
        return arguments
    _tell(
        f"worktree {tree}: the folders of its submodules are empty; run"
        " `git submodule update --init` there to fill them"
    )
    parts = filter(None, (arguments.append_system_prompt, f"This is a git worktree. {note}"))
    return arguments._replace(append_system_prompt="\n\n".join(parts))


def _tell(notice: str) -> None:
    """Print *notice* to stderr; the prompt, if it is shown already, comes behind it."""
    if FIRST_PROMPT.is_shown:
        FIRST_PROMPT.set_aside()
    print_fitted(notice, sys.stderr)


def _last_commit(folder: Path) -> str:
    try:
        return last_commit_of(folder)
    except GitError as error:
        raise UsageError(f"--worktree: {error}: commit something first") from error


def _new_name() -> str:
    """Return a name that sorts by time; two sessions of the same second get different ones."""
    return f"{time.strftime('%m%d-%H%M%S')}-{secrets.token_hex(2)}"


def _lock(tree: Worktree) -> IO[bytes]:
    """Keep other sessions from removing *tree* while this one works in it; name any that does."""
    file = (git_folder_of(tree.path) / _LOCK).open("ab")
    if not _is_alone(file):
        _tell(
            f"worktree {tree.path}: another session works in it too; use another name to keep your"
            " changes apart"
        )
    fcntl.flock(file, fcntl.LOCK_SH)
    return file


def _is_alone(lock: IO[bytes]) -> bool:
    """Take *lock* alone and return whether that was possible; if not, it is not held any more."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _close(session: _Session, inside: Path, here: Path) -> None:
    """Leave the worktree; report how to merge it, or remove it if it is unchanged."""
    with suppress(OSError):  # it may have been deleted; all paths below are absolute
        os.chdir(here)
    tree, branch = session.tree, session.branch
    with session.lock:
        if branch and _is_alone(session.lock) and is_untouched(tree):
            remove_worktree(tree, branch=branch)
            TrustStore.of_user().forget(inside)
            print_fitted(f"worktree {tree.path} removed: nothing changed in it", sys.stderr)
            return
    if not tree.path.exists():
        left = f"; its commits are on the branch {branch}" if branch else ""
        print_fitted(f"worktree {tree.path} was removed during the session{left}", sys.stderr)
        return
    try:
        work, branch = work_in(tree), branch_of(tree.path)
    except GitError as error:
        print_fitted(f"worktree kept: {tree.path} ({error})", sys.stderr)
        return
    git = f"git -C {shlex.quote(str(tree.repository))}"
    name = shlex.quote(branch)  # the model may have chosen it
    delete = f" && {git} branch -D {name}" if branch.startswith(_BRANCHES) else ""
    print_fitted(f"worktree kept: {tree.path} ({_summary(work)})", sys.stderr)
    if work.files:
        there = f"git -C {shlex.quote(str(tree.path))}"
        print(f"  commit:    {there} add --all && {there} commit", file=sys.stderr)
    print(
        f"  merge it:  git -C {shlex.quote(str(_origin(tree, here)))} merge"
        f" {name if branch else commit_of(tree.path, 'HEAD')}",
        file=sys.stderr,
    )
    print(
        f"  remove it: {git} worktree remove --force {shlex.quote(str(tree.path))}{delete}",
        file=sys.stderr,
    )


def _origin(tree: Worktree, here: Path) -> Path:
    """Return the working tree that *here* is in, whose work *tree* goes on with.

    The main one may have another branch, or be a bare repository.
    """
    with suppress(GitError):
        top = repository_of(here)
        if top != tree.path.resolve():
            return top
    return tree.repository


def _summary(work: Work) -> str:
    return f"{counted(work.commits, 'commit')}, {counted(work.files, 'file')} not committed"


def _with_absolute_paths(arguments: Arguments, here: Path) -> Arguments:
    """Return *arguments* with file paths made absolute, relative to *here*."""
    single = ("settings_file", "record", "replay", "prompt_file", "output_dir", "json_schema")
    paths = {name: getattr(arguments, name) for name in single}
    script = arguments.prompts_from
    return arguments._replace(
        **{name: here / path for name, path in paths.items() if not isinstance(path, str | None)},
        add_dirs=tuple(here / path for path in arguments.add_dirs),
        prompts_from=script if script in (None, "-") else str(here / script),
        overrides=tuple(_with_absolute_path(each, here) for each in arguments.overrides),
    )


def _with_absolute_path(option: Override, here: Path) -> Override:
    if option.key != "mcp.config" or not isinstance(option.value, tuple):
        return option
    files = (str(here / expanded(each)) for each in option.value)
    return option._replace(value=tuple(files))


def _sentence(error: Exception) -> str:
    message = str(error)
    if "not a git repository" in message:
        return "this directory is in no git repository: run git init, or leave --worktree out"
    if "must be run in a work tree" in message:
        return "this is a bare repository: change to one of its worktrees (git worktree list)"
    if "dubious ownership" in message:
        what = message.removeprefix("fatal: ")
        return f"git {what}: run git config --global --add safe.directory DIR if you trust it"
    if "already exists" in message and "branch" in message:
        return (
            f"{message.removeprefix('fatal: ')}: choose another name, or merge the branch and"
            " delete it with git branch -d, which keeps commits that are merged nowhere"
        )
    return message
