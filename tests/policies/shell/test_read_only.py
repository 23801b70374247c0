"""Commands that only read: decided by operands and options, inside and outside the workspace."""

import os
from pathlib import Path

import pytest

from agent_cli.policies.shell import CommandRules, Judgement, Reach, judge, reach
from tests.policies.shell.workspaces import Workspace, is_secret, make_workspace
from tests.tables import each_row


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return make_workspace(tmp_path)


def reads(script: str, reach: Reach) -> bool:
    return judge(script, CommandRules(), reach).read_only


def reason(script: str, reach: Reach) -> str:
    return judge(script, CommandRules(), reach).reason


def test_read_only_command_is_allowed_and_reported_as_read_only(workspace: Workspace) -> None:
    """Plan mode runs such a command too."""
    assert judge("cat data.txt", CommandRules(), workspace.reach()) == Judgement(
        verdict="allow", reason="only reads", read_only=True, commands=("cat data.txt",)
    )


def test_command_paths_are_resolved_before_they_are_compared(workspace: Workspace) -> None:
    """Threats 1 and 2: .., absolute, prefix siblings, links in the middle and at the end."""
    root = workspace.root
    inside = ("./data.txt", "src/../data.txt", str(root / "data.txt"), "links/../data.txt", "new")
    outside = (
        *("..", "../workspace-evil/secret.txt", f"{root}-evil/secret.txt", "/", "//etc/passwd"),
        *("links/passwd", "links/outside", "links/outside/../home", "src/../../home"),
    )

    assert [path for path in inside if not reads(f"cat {path}", workspace.reach())] == []
    assert [path for path in outside if reads(f"ls {path}", workspace.reach())] == []


@pytest.mark.parametrize("script", ["python3", "echo 'print(1)' | python", "cat x | python3"])
def test_interpreter_without_a_file_asks(workspace: Workspace, script: str) -> None:
    """Threat 1: it runs what it reads, so it is not a program that only tells its version."""
    assert reason(script, workspace.reach()) == "runs Python"
    assert reads("python3 -V", workspace.reach())


def test_folder_added_to_the_workspace_can_be_read(workspace: Workspace) -> None:
    """The folders of --add-dir."""
    (workspace.outside / "public.txt").write_text("x")
    opened = Reach(
        root=workspace.root, extra_dirs=[workspace.outside], search_path=os.environ["PATH"]
    )

    assert reads("cat ../workspace-evil/public.txt", opened)
    assert not reads("cat ../workspace-evil/public.txt", workspace.reach())


def test_recursive_search_of_a_folder_with_secrets_asks(workspace: Workspace) -> None:
    """Threat 4: `grep -r` reads .env without naming it."""
    assert reason("grep -r x .", workspace.reach()) == "reads ., and .env in it may hold secrets"
    assert reads("grep -r x src", workspace.reach())
    assert reads("grep -r x .", workspace.reach(secrets_are_masked=True))
    assert not reads("cat .env", workspace.reach(secrets_are_masked=True))


def test_search_whose_ignore_file_links_to_a_secret_asks(workspace: Workspace) -> None:
    """Threat 4: `rg` quotes invalid lines of .ignore, also from the folders above."""
    assert reads("rg x src", workspace.reach())

    (workspace.root / "src" / "deep").mkdir()
    (workspace.root / "src" / ".ignore").symlink_to("../.env")

    for folder in ("src", "src/deep"):
        assert "/src/.ignore, which may hold secrets" in reason(f"rg x {folder}", workspace.reach())


def test_search_of_a_folder_too_large_to_check_for_secrets_asks(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beyond the limit, the user decides."""
    monkeypatch.setattr(reach, "SEARCHED_ENTRIES_MAX", 1)

    assert reason("grep -r x src", workspace.reach()) == (
        "src holds too many files to check for secrets"
    )


def test_glob_pattern_is_judged_by_the_files_it_matches(workspace: Workspace) -> None:
    """A link or a secret among the matches counts as if it were named."""
    assert reads("cat src/*.py", workspace.reach())
    assert reads("cat *.txt no-such-*", workspace.reach())

    (workspace.root / "src/linked.py").symlink_to(workspace.outside / "secret.txt")

    assert reason("cat src/*.py", workspace.reach()) == "reads src/linked.py, outside the workspace"
    assert (
        reason("cat src//*.py", workspace.reach()) == "reads src/linked.py, outside the workspace"
    )


def test_glob_pattern_that_matches_a_name_like_an_option_asks(workspace: Workspace) -> None:
    """Bash would pass the file name to the program as an option."""
    assert reason("cd odd && cat *", workspace.reach()) == (
        "* matches --output=owned.txt, which looks like an option"
    )
    assert reads("cat odd/*", workspace.reach())
    assert not reads("sort odd/*", workspace.reach())


def test_glob_pattern_of_hidden_names_matches_the_parent_folder(tmp_path: Path) -> None:
    """Bash before 5.2 includes .. in the matches of .* as well."""
    (tmp_path / ".hidden").touch()
    empty = Reach(root=tmp_path.resolve(), search_path=os.environ["PATH"])

    assert reason("ls .*", empty) == "reads .., outside the workspace"


def test_glob_pattern_with_too_many_matches_asks(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reach, "MATCHES_MAX", 2)

    assert reason("cat src/*", workspace.reach()) == "src/* matches more than 2 names"


@pytest.mark.parametrize(("count", "is_read"), [(1_000, True), (1_001, False)])
def test_pattern_may_match_a_thousand_names(tmp_path: Path, count: int, *, is_read: bool) -> None:
    """The pattern itself is one of them: it is what the program gets if nothing matches."""
    for number in range(count - 1):
        (tmp_path / f"{number:04}").touch()
    there = Reach(root=tmp_path.resolve(), search_path=os.environ["PATH"])

    assert reads("cat *", there) is is_read


@pytest.mark.parametrize(("count", "is_read"), [(20_000, True), (20_001, False)])
def test_folder_of_twenty_thousand_files_is_searched_for_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int, *, is_read: bool
) -> None:
    """A listing of that many takes a moment; more would hold up the question."""
    names = [f"{number:05}" for number in range(count)]
    monkeypatch.setattr(reach, "walk", lambda top: [(top, [], names)])
    there = Reach(root=tmp_path.resolve(), search_path=os.environ["PATH"])

    assert reads("grep -r x .", there) is is_read


@pytest.mark.parametrize(("more", "is_read"), [(10, True), (11, False)])
def test_loops_are_followed_through_two_thousand_commands(
    workspace: Workspace, more: int, *, is_read: bool
) -> None:
    """39 times 51 of them run in the loops; nobody waits for the judgement of a million."""
    outer, inner = (" ".join(map(str, range(count))) for count in (39, 51))
    loops = f"for i in {outer}; do for j in {inner}; do echo x; done; done"

    assert reads(f"{loops}{'; echo x' * more}", workspace.reach()) is is_read


@pytest.mark.parametrize(
    ("script", "longer"),
    [
        (f"awk '{{ print }}{' ' * 1_991}' data.txt", f"awk '{{ print }}{' ' * 1_992}' data.txt"),
        (f"sed -n '{'p;' * 250}' data.txt", f"sed -n '{'p;' * 250}p' data.txt"),
    ],
    ids=["awk", "sed"],
)
def test_program_of_a_command_is_read_up_to_a_length(
    workspace: Workspace, script: str, longer: str
) -> None:
    """2,000 characters of awk, 500 of sed: a person writes no longer one to read a file."""
    assert reads(script, workspace.reach())
    assert not reads(longer, workspace.reach())


def test_cd_is_followed_only_if_its_target_is_certain(workspace: Workspace) -> None:
    """A .. after a link is resolved as bash does: textually."""
    allowed = (
        *("cd src && cat main.py", "cd src; cd ..; cat data.txt", "cd src\ncat ../data.txt"),
        "cd links/outside/.. && cat new",  # bash ends up in links, not next to the workspace
    )
    asks = (
        *("cd src && cat ../.env", "cd src && cat ../../x", "cd nowhere; cat main.py", "cd"),
        *("cd -", "cd src | cat", "cat x && cd src", "cd src || cat x", "cd -P src", "cd s*"),
        *("cd data.txt; ls", "time cd src", "cd links/outside; cat ../x"),
    )

    assert [script for script in allowed if not reads(script, workspace.reach())] == []
    assert [script for script in asks if reads(script, workspace.reach())] == []


def test_known_command_found_in_the_workspace_or_a_shim_folder_asks(workspace: Workspace) -> None:
    """Threat 13: a PATH that leads into the repository, or depends on the current directory.

    A version manager's shim runs a program named by a file of the repository.
    """
    shims = workspace.outside / "shims"
    shims.mkdir()
    (shims / "ls").write_text("#!/bin/sh\n")
    (shims / "ls").chmod(0o755)
    folders = (f"{workspace.root}/bin", ".", "", str(shims))
    for search_path in (f"{folder}:/usr/bin:/bin" for folder in folders):
        planted = Reach(root=workspace.root, is_secret=is_secret, search_path=search_path)

        assert not reads("ls", planted)
        assert reads("echo x", planted)


def test_git_is_not_safe_unless_somebody_says_so(workspace: Workspace) -> None:
    """Threat 11: nor are secrets hidden, which a search would read."""
    there = Reach(root=workspace.root, search_path=os.environ["PATH"], is_secret=is_secret)

    assert not reads("git log", there)
    assert not reads("grep -r x .", there)


def test_git_commands_that_only_read_run_only_where_git_is_safe(workspace: Workspace) -> None:
    """Threat 11: its configuration names programs, and `git status` runs them."""
    safe = workspace.reach(git_is_safe=True)
    allowed = (
        *("git status", "git --no-pager log --oneline -5", "git diff HEAD~1 -- src/main.py"),
        *("git show HEAD:src/main.py", "git branch -a", "git blame src/main.py", "git ls-files"),
        *("git reflog", "git reflog -n 5 --date=iso"),
    )
    asks = (
        *("git diff --output=x", "git diff --outp=x", "git log --ext-diff", "git branch new"),
        *("git show HEAD:.env", "git diff --no-index a b", "git diff a ../../x", "git tag v1"),
        *("git -c a=b status", "git -C src status", "git config -l"),
        *("git diff -- '.e*'", "git show HEAD -- ':(top).env'", "git log --show-signature"),
        *("git", "git commit", "git stash", "git diff .env", "git ls-files *", "git remote add"),
        *("git reflog delete HEAD@1", "git reflog expire", "git reflog --expire=now"),
    )

    assert [script for script in allowed if not reads(script, safe)] == []
    assert [script for script in asks if reads(script, safe)] == []
    assert [script for script in allowed if reads(script, workspace.reach())] == []


@each_row(
    "script",
    [
        "head -qn 3 data.txt",
        "head --lines=3 data.txt",
        "head --lines 3 data.txt",
        "grep -A2 -e x -- data.txt",
        "grep -rn x --include=*.py src",
        "ls --color",
        "ls --color=never",
        "date +%s -u",
        "date --iso-8601=seconds",
        "find -P src ! -name 'x' -a '(' -type f -o -type d ')'",
        "sed -nE '/def/,$p;1q' src/main.py",
        "printf '%-5s|%03d%%\\n' a 1",
        "test a = b",
        "command -v python3",
        "timeout 1.5s cat data.txt",
        "nice -n 5 cat data.txt",
        "LC_ALL=C TZ=UTC sort data.txt",
        "nice cat data.txt",
        "tree -L 2 src",
        "rg --files src",
        "cat -",
        "echo [a-z]*",
        "tr a-z A-Z",
        "uname -a",
    ],
)
def test_known_options_are_read_as_getopt_reads_them(workspace: Workspace, script: str) -> None:
    assert reads(script, workspace.reach())


@each_row(
    "script",
    [
        "head --line=3 data.txt",
        "head -n",
        "head -n * data.txt",
        "ls --all=x",
        "ls -*",
        "ls --*=x",
        "cd " + "x" * 5_000,
        "sleep *",
        "grep *x data.txt",
        "grep -r",
        "find src -name *.py",
        "find src -name",
        "uname x",
        "date 01010000",
        "date *",
        "sed",
        "sed *",
        "printf",
        "printf -v x y",
        "printf '%*d' 1 2",
        "test -f *",
        "test a -a b",
        "command ./hook.sh",
        "command",
        "timeout 5",
        "timeout x ls",
        "time",
        "time -p ls",
        "nice -n x ls",
        "nice -n 5",
        "nice --adjustment=5 ls",
        "type -x ls",
        "pwd x",
        "echo ../*",
        "tr a ../*",
        "uniq data.txt notes.md",
        "uniq *",
    ],
)
def test_command_form_not_in_the_read_only_table_asks_for_approval(
    workspace: Workspace, script: str
) -> None:
    """So do abbreviations, missing values and patterns in the place of options."""
    assert not reads(script, workspace.reach())
