"""Repositories that name programs for git to run, detected without git, which would run them."""

import os
from pathlib import Path

import pytest

from agent_cli.policies.shell import CommandRules, Reach, judge
from agent_cli.policies.shell.git import is_same_repository, names_no_program
from tests.policies.shell.everyday import make_project
from tests.tables import each_row


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_project(tmp_path)


def add(root: Path, text: str) -> None:
    with (root / ".git/config").open("a") as stream:
        stream.write(text)


@pytest.mark.parametrize(
    "config",
    [
        '[remote "origin"]\n\turl = https://host/x.git\n\tfetch = +refs/heads/*:refs/remotes/o/*\n',
        '[branch "main"]\n\tremote = origin\n\tmerge = refs/heads/main\n',
        "[user]\n\tname = A B\n\temail = a@b\n# a comment\n[pull]\nrebase = true\n",
    ],
)
def test_configuration_written_by_git_clone_names_no_program(root: Path, config: str) -> None:
    """Otherwise an ordinary repository would ask about every `git status`."""
    assert names_no_program(root)

    add(root, config)

    assert names_no_program(root)


def test_repository_that_is_not_trusted_is_safe_while_it_names_no_program(root: Path) -> None:
    """Threat 11: asked with each git command, as the last one may have changed it."""
    reach = Reach(root=root, git_is_safe=None, search_path=os.defpath)

    before = judge("git status", CommandRules(), reach)
    add(root, "[core]\n\tfsmonitor = ./hook.sh\n")
    after = judge("git status", CommandRules(), reach)

    assert (before.verdict, after.verdict) == ("allow", "undecided")


def test_empty_repository_names_no_program(root: Path) -> None:
    """After `git init` there is no index, and so no submodule in it."""
    (root / ".git/index").unlink(missing_ok=True)

    assert names_no_program(root)


@each_row(
    "config",
    [
        "[core]\n\tfsmonitor = ./hook.sh\n",
        "[core]\n\tFsMonitor=true\n",
        "[core]\n\tpager = ./hook.sh\n",
        "[core]\n\thooksPath = hooks\n",
        "[core]\n\tsshCommand = x\n",
        "[core]\n\tworktree = /\n",
        "[pager]\n\tlog = x\n",
        "[diff]\n\texternal = ./hook.sh\n",
        '[diff "x"]\n\ttextconv = ./hook.sh\n',
        '[filter "x"]\n\tclean = ./hook.sh\n',
        "[filter.x]\n\tclean = ./hook.sh\n",
        "[include]\n\tpath = ../evil\n",
        '[includeIf "gitdir:/"]\n\tpath = ../evil\n',
        "[alias]\n\tstatus = !x\n",
        "[extensions]\n\tworktreeConfig = true\n",
        '[remote "o"]\n\tpromisor = true\n',
        "[core] fsmonitor = ./hook.sh\n",
        '[user]\n\tname = "a\\\n[core]\\\nfsmonitor = x\n',
        '[user "\\"]\nx = y\n',
        "[core]\n\tfilemode = false ; \\\n\tfsmonitor = x\n",
        "\ufeff[core]\n\tbare = false\n",
        "[core]\n\teol = x\x0c[color]\n\tfsmonitor = x\n",
        "garbage\n",
    ],
)
def test_unknown_git_configuration_may_name_a_program(root: Path, config: str) -> None:
    """Threat 11: also keys of future versions, and syntax that other readers parse differently."""
    add(root, config)

    assert not names_no_program(root)


@pytest.mark.parametrize(
    ("name", "size"), [("config", 64 * 1024), ("index", 64 * 1024 * 1024)], ids=["config", "index"]
)
def test_file_of_git_is_judged_up_to_the_size_that_it_may_have(
    root: Path, name: str, size: int
) -> None:
    """What is not read may name a program, or a submodule that has a configuration."""
    path = root / ".git" / name
    path.touch()
    with path.open("ab") as stream:
        rest = size - path.stat().st_size
        stream.write(b"#" * rest if name == "config" else b"")
    os.truncate(path, size)
    assert names_no_program(root)

    with path.open("ab") as stream:
        stream.write(b"#")

    assert not names_no_program(root)


def test_hooks_submodules_and_further_configuration_may_name_a_program(root: Path) -> None:
    """`git status` runs a hook when it writes its index, and enters submodules."""
    places = ("hooks/post-index-change", "commondir", "config.worktree", "modules/x/config")
    for name in (*places, "objects/info/alternates", "sharedindex.1"):
        path = root / ".git" / name
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_text("x")
        assert not names_no_program(root), name
        path.unlink()
        if name.startswith("modules"):
            path.parent.rmdir()
            path.parent.parent.rmdir()
    assert names_no_program(root)

    index = root / ".git/index"
    index.write_bytes(index.read_bytes() + b"\x00\x00\xe0\x00")

    assert not names_no_program(root)


@pytest.mark.parametrize("name", ["index", "config"])
def test_pipe_in_a_git_folder_is_not_waited_for(root: Path, name: str) -> None:
    """A command may put one there, and the program asks before each call."""
    add(root, "")
    (root / ".git" / name).unlink()
    os.mkfifo(root / ".git" / name)

    assert not names_no_program(root)


def test_repository_whose_git_folder_is_missing_or_elsewhere_is_unsafe(tmp_path: Path) -> None:
    """Its .git is missing, a link or a file."""
    (tmp_path / "bare").mkdir()
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked/.git").symlink_to(tmp_path)
    (tmp_path / "file").mkdir()
    (tmp_path / "file/.git").write_text("gitdir: /x")

    for name in ("bare", "linked", "file", "missing"):
        assert not names_no_program(tmp_path / name)


def test_subfolder_belongs_to_the_repository_unless_it_is_one_itself(tmp_path: Path) -> None:
    """Git uses the nearest repository, even a bare one."""
    for name in ("a/b", "own/b", "bare/b"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "own/.git").touch()
    (tmp_path / "bare/HEAD").touch()

    found = {
        name: is_same_repository(tmp_path, tmp_path / name) for name in ("a/b", "own/b", "bare")
    }

    assert found == {"a/b": True, "own/b": False, "bare": False}
    assert is_same_repository(tmp_path, tmp_path)
