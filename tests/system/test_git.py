"""Git in a repository that others made."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_cli.system.git import GitError, git_output, run_git, status_rows

_LIMIT_S = 60.0
Query = Callable[[Path], object]


def _query(*arguments: str) -> Query:
    return lambda folder: git_output(folder, *arguments, limit_s=_LIMIT_S)


def _run(folder: Path) -> None:
    with pytest.raises(GitError):
        run_git(folder, "cat-file", "-p", "HEAD:.gitignore", limit_s=_LIMIT_S)


@pytest.mark.parametrize(
    "query",
    [
        _query("ls-files", "-z", "--cached", "--others", "--exclude-standard"),
        _query("cat-file", "-p", "HEAD:.gitignore"),
        _run,
    ],
)
def test_program_that_a_repository_names_for_missing_objects_is_not_run(
    tmp_path: Path, query: Query
) -> None:
    """Threat 11: completion of file names asks git in any folder, before the user trusts it."""
    repository, ran = tmp_path / "repository", tmp_path / "ran"

    def git(*words: str) -> str:
        identity = ("-c", "user.name=Test", "-c", "user.email=test@example.org")
        command = ["git", *identity, *words]
        done = subprocess.run(
            command, cwd=repository, check=True, capture_output=True, timeout=_LIMIT_S
        )
        return done.stdout.decode().strip()

    repository.mkdir()
    git("init", "--quiet")
    (repository / ".gitignore").write_text("*.log\n")
    git("add", ".")
    git("commit", "--quiet", "-m", "first")
    missing = git("rev-parse", "HEAD:.gitignore")
    git("update-index", "--skip-worktree", ".gitignore")
    (repository / ".gitignore").unlink()
    (repository / ".git" / "objects" / missing[:2] / missing[2:]).unlink()
    (repository / "new").touch()
    for name, value in {
        "core.repositoryFormatVersion": "1",
        "extensions.partialClone": "origin",
        "remote.origin.url": ".",
        "remote.origin.promisor": "true",
        "remote.origin.uploadPack": f"touch {ran}; false",
        "protocol.file.allow": "always",
    }.items():
        git("config", name, value)

    query(repository)

    assert not ran.exists()


def test_status_runs_no_filter_of_the_repository_or_of_a_submodule(tmp_path: Path) -> None:
    """Threat 11: git asks each submodule about its files, with the submodule's configuration."""
    ran, inner, outer = tmp_path / "ran", tmp_path / "inner", tmp_path / "outer"

    def git(folder: Path, *words: str) -> None:
        allowed = ("-c", "user.name=Test", "-c", "user.email=a@b.c", "-c")
        command = ["git", "-C", str(folder), *allowed, "protocol.file.allow=always", *words]
        subprocess.run(command, check=True, capture_output=True, timeout=_LIMIT_S)

    for folder in (inner, outer):
        folder.mkdir()
        git(folder, "init", "--quiet")
        (folder / ".gitattributes").write_text("* filter=evil\n")
        (folder / "a.txt").write_text("one\n")
        git(folder, "add", ".")
        git(folder, "commit", "--quiet", "-m", "first")
    git(outer, "submodule", "--quiet", "add", "../inner", "sub")
    git(outer, "commit", "--quiet", "-m", "second")
    for folder in (outer, outer / "sub"):
        git(folder, "config", "filter.evil.clean", f"touch {ran}; cat")
        (folder / "a.txt").write_text("two\n")  # of the same size, so git compares the content

    assert status_rows(outer, limit_s=_LIMIT_S) == [" M a.txt"]
    assert not ran.exists()


def test_git_speaks_english_in_any_locale(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it says is compared with English words; gettext asks LANGUAGE before LC_ALL."""
    git = tmp_path_factory.mktemp("bin") / "git"
    git.write_text('#!/bin/sh\nprintf %s "$LANGUAGE"\n')
    git.chmod(0o755)
    monkeypatch.setenv("PATH", str(git.parent), prepend=":")
    monkeypatch.setenv("LANGUAGE", "de")
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")

    assert git_output(tmp_path, "status", limit_s=_LIMIT_S) == "en"
