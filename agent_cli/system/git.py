"""Run git safely in an untrusted repository."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from agent_cli.system.programs import find_program

# Set if a git hook started us; they would direct git to that hook's repository.
_REDIRECTING: Final = (
    *("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_PREFIX"),
    *("GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_NAMESPACE"),
)
# Override the settings for which a repository's configuration can name programs.
_HARMLESS: Final = (
    *("core.fsmonitor=false", f"core.hooksPath={os.devnull}", "core.sshCommand=ssh"),
    "core.askPass=",
)


# A repository's configuration may say that a remote has its missing objects. Even a query then asks
# that remote, with a program that the configuration names; no configuration overrides these.
_NO_REMOTES: Final = {"GIT_ALLOW_PROTOCOL": "none", "GIT_NO_LAZY_FETCH": "1"}


class GitError(Exception):
    """Git failed, is missing or took too long; the message says which in one line."""


def git_output(folder: Path, *arguments: str, limit_s: float) -> str | None:
    """Return the output of git in *folder*; None if it fails, is missing or takes too long.

    For queries that read no file of the working tree: unlike `run_git`, it does not disable the
    repository's filters.
    """
    try:
        return os.fsdecode(_run(folder, arguments, limit_s, {}))
    except GitError:
        return None


def run_git(
    folder: Path, *arguments: str, limit_s: float, variables: Mapping[str, str] | None = None
) -> bytes:
    """Return the output of git in *folder*; it may write to the repository, and read files.

    A git program inside *folder* is never run, nor hooks, filters and other programs named by the
    repository's own configuration. Programs named by the user's configuration are run. No remote is
    asked, so in a partial clone it fails where objects are missing.

    Args:
        folder: The working directory of git.
        arguments: Its command line.
        limit_s: Time limit in seconds.
        variables: Additional environment variables.

    Raises:
        GitError: Git failed.
    """
    environment = {**_no_filters(folder, limit_s), **(variables or {})}
    return _run(folder, arguments, limit_s, environment)


def status_rows(folder: Path, *options: str, limit_s: float) -> list[str]:
    """Return a row for each change in the repository of *folder*, as `git status` prints it.

    A row is two letters, a space, and the path from the top of the working tree. A renamed file has
    two. Of a submodule only another commit counts: for its files git would run the filters that the
    submodule's own configuration names.

    Raises:
        GitError: Git failed.
    """
    status = ("status", "--porcelain", "-z", "--no-renames", "--ignore-submodules=dirty")
    listed = os.fsdecode(run_git(folder, *status, *options, limit_s=limit_s))
    return [row for row in listed.split("\0") if row]


def _no_filters(folder: Path, limit_s: float) -> dict[str, str]:
    """Return variables that disable the filters defined by the repository itself.

    Command-line options would not do: a filter's name may contain "=", which would end the key.
    """
    listing = ("config", "--includes", "--show-scope", "--null", "--name-only")
    try:
        listed = os.fsdecode(
            _run(folder, (*listing, "--get-regexp", "^filter[.]"), limit_s, {}, codes=(0, 1))
        )
    except GitError:
        # No repository, or a git before 2.26: the command itself will report that.
        return {}
    fields = listed.split("\0")
    found = zip(fields[::2], fields[1::2], strict=False)
    names = {key.rpartition(".")[0] for scope, key in found if scope in ("local", "worktree")}
    off = (("clean", ""), ("smudge", ""), ("process", ""), ("required", "false"))
    settings = [(f"{name}.{key}", value) for name in sorted(names) for key, value in off]
    first = int(os.environ.get("GIT_CONFIG_COUNT") or 0)
    made = {"GIT_CONFIG_COUNT": str(first + len(settings))}
    for number, (key, value) in enumerate(settings, first):
        made |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return made


def _run(
    folder: Path,
    arguments: tuple[str, ...],
    limit_s: float,
    variables: Mapping[str, str],
    codes: tuple[int, ...] = (0,),
) -> bytes:
    git = find_program("git", outside=folder)
    if git is None:
        raise GitError("git is not installed")
    kept = {name: value for name, value in os.environ.items() if name not in _REDIRECTING}
    asks_nothing = {"GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", **_NO_REMOTES}
    in_english = {"LANGUAGE": "en"}  # errors are recognised by their words, in any locale
    harmless = [word for setting in _HARMLESS for word in ("-c", setting)]
    try:
        done = subprocess.run(
            [str(git), *harmless, *arguments],
            cwd=folder,
            env={**kept, **asks_nothing, **in_english, **variables},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=limit_s,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise GitError(f"git took longer than {limit_s:g} s") from error
    except OSError as error:
        raise GitError(f"git cannot be started: {error.strerror}") from error
    if done.returncode not in codes:
        lines = os.fsdecode(done.stderr).strip().splitlines()
        fault = next((line for line in lines if line.startswith(("fatal: ", "error: "))), None)
        raise GitError(fault or (lines[-1] if lines else f"git ended with code {done.returncode}"))
    return done.stdout
