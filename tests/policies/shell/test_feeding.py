"""Commands that get file names from a search, in a folder whose names are chosen by an attacker."""

import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from agent_cli.policies.shell import CommandRules, judge
from tests.policies.shell.workspaces import Workspace, make_workspace

# Names of files, with a trailing arrow for symlinks, and the commands that they would subvert.
_TRAPS: Mapping[str, tuple[str, ...]] = {
    "s/a/b/e": (
        "find s/a/b/ -exec sed {} data.txt \\;",
        "find s/a/b/ -exec sed -e {} data.txt \\;",
        "find s/a/b/ | xargs -I{} sed {} data.txt",
        "find s/a/b/ | xargs -n1 sed",
    ),
    "a /etc/hostname": ("find 'a ' | xargs cat", "find 'a /etc/hostname' | xargs cat"),
    " /etc/hostname": (
        "rg --files ' ' | xargs -I{} cat {}",
        "rg -l x | xargs -I% cat %",
        "grep -rl x ' ' | xargs -I@ cat @",
    ),
    "q/'.'./workspace-evil/secret.txt": ("find q | xargs -I{} cat {}",),
    '"/etc/hostname"': ("rg --files | xargs -I{} cat {}",),
    "\\/etc/hostname": ("rg --files | xargs -I{} cat {}",),
    "--pre=./hook.sh": (
        "rg --files -0 | xargs -0 rg x",
        "rg -l0 x | xargs -0 rg x",
        "git ls-files -z | xargs -0 rg x",
    ),
    "--files0-from=data.txt": ("rg --files --null | xargs -0 wc -l",),
    "-oREADME.md": ("rg --files -0 | xargs -0 tree",),
    "(standard -> /etc/hostname": ("grep -l x - < data.txt | xargs cat",),
    "src/link -> ../certs": (
        "find src -exec grep -r KEY {} \\;",
        "find src -type l -exec rg KEY {} +",
        "find src | xargs grep -r KEY",
        "find src -print0 | xargs -0 rg KEY",
    ),
}


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    """Return a workspace without secrets outside `certs`, where searches of everything may run."""
    made = make_workspace(tmp_path, plain_git=True)
    for name in (".env", "links/passwd", "links/environment", "links/outside"):
        (made.root / name).unlink()
    return made


def make(written: str, root: Path) -> None:
    name, _, target = written.partition(" -> ")
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if target:
        path.symlink_to(target)
    else:
        path.write_text("x\n")


@pytest.mark.parametrize("trap", _TRAPS)
def test_names_chosen_by_an_attacker_give_a_program_no_other_files_and_options(
    trap: str, workspace: Workspace
) -> None:
    """Threats 2 and 5: a repository chooses the names of its files."""
    make(trap, workspace.root)
    unsearched = "certs" in trap
    reach = workspace.reach(git_is_safe=True, secrets_are_masked=not unsearched)

    allowed = [
        command
        for command in _TRAPS[trap]
        if judge(command, CommandRules(), reach).verdict == "allow"
    ]

    assert allowed == []


def test_the_same_commands_run_unasked_with_harmless_names(workspace: Workspace) -> None:
    """Only the names make them dangerous."""
    reach = workspace.reach(git_is_safe=True, secrets_are_masked=True)
    (workspace.root / "src/inside").symlink_to("../src")
    make("src/--files0-from=data.txt", workspace.root)
    commands = (
        "find src -exec sed -n p {} \\;",
        "find links | xargs sed -n 1p",
        "find links | xargs -I{} cat {}",
        "rg --files links -0 | xargs -0 rg x",
        "find src -exec grep -r KEY {} \\;",
        "find links | head -n 5 | xargs cat",
        "find links | tail -5 | xargs cat",
        "find src -print0 | xargs -0 -n 1 wc -l",
        "find links | xargs -d '\\n' wc -l",
    )

    asked = {
        command: found.reason
        for command in commands
        if (found := judge(command, CommandRules(), reach)).verdict != "allow"
    }

    assert asked == {}


def test_file_name_that_is_a_sed_script_would_be_run(workspace: Workspace) -> None:
    """The reason for the first trap: this command is not only a theory."""
    (workspace.root / "data.txt").write_text("touch pwned #a\n")
    make("s/a/b/e", workspace.root)
    bash = ["bash", "-c", "find s/a/b/ -exec sed {} data.txt \\;"]

    done = subprocess.run(bash, cwd=workspace.root, capture_output=True, timeout=60, check=False)

    if b"unknown option to" in done.stderr:  # a sed without `e`, as on macOS
        pytest.skip("this sed runs no commands")
    assert (workspace.root / "pwned").exists()


@pytest.mark.parametrize(
    ("command", "is_allowed"),
    [
        ("find data.txt | grep -v x | xargs grep -r x", False),
        ("find data.txt | grep -v x | xargs rg x", False),
        ("find data.txt | grep -v x | xargs -n1 grep -r x", False),
        ("find data.txt | grep -v x | xargs -r grep -r x", True),
        ("find data.txt | grep -v x | xargs -I{} grep -r x {}", True),
        ("find data.txt | grep -v x | xargs grep x", True),
        ("find data.txt | xargs sed -n 1p", True),
    ],
)
def test_search_without_any_name_is_judged_as_one_of_everything(
    command: str, *, is_allowed: bool, tmp_path: Path
) -> None:
    """Threat 4: without input xargs runs its command once, and `grep -r x` reads `.env`."""
    reach = make_workspace(tmp_path, plain_git=True).reach(git_is_safe=True)

    assert (judge(command, CommandRules(), reach).verdict == "allow") is is_allowed
