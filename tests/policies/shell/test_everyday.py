"""The share of everyday commands that run without approval: users stop reading many questions."""

import os
from pathlib import Path

import pytest

from agent_cli.policies.shell import CommandRules, Reach, judge
from agent_cli.sandbox.secret_files import is_secret
from tests.policies.shell.everyday import EVERYDAY, make_project

COMMANDS = [command for family in EVERYDAY.values() for command in family]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_project(tmp_path_factory.mktemp("project"))


def asked(root: Path, *, masked: bool, git_is_safe: bool | None) -> list[str]:
    """Return the commands of the list that ask, in the mode that asks before every change."""
    reach = Reach(
        root=root,
        is_secret=is_secret,
        secrets_are_masked=masked,
        git_is_safe=git_is_safe,
        search_path=os.defpath,
        home="/home/somebody",
    )
    return [each for each in COMMANDS if judge(each, CommandRules(), reach).verdict != "allow"]


def test_everyday_list_has_at_least_258_different_commands() -> None:
    assert len(set(COMMANDS)) == len(COMMANDS) >= 258


def test_nearly_all_commands_run_without_approval_sandboxed_in_a_trusted_folder(
    project: Path,
) -> None:
    """At least 230 of 258."""
    ask = asked(project, masked=True, git_is_safe=True)

    assert len(COMMANDS) - len(ask) >= len(COMMANDS) * 230 / 258, ask


def test_most_commands_run_without_approval_sandboxed_in_an_untrusted_folder(project: Path) -> None:
    """At least 200 of 258: git too, if the repository names no program."""
    ask = asked(project, masked=True, git_is_safe=None)

    assert len(COMMANDS) - len(ask) >= len(COMMANDS) * 200 / 258, ask


def test_without_a_sandbox_git_and_ps_ask_and_most_commands_run(project: Path) -> None:
    """Nothing confines the programs there."""
    ask = asked(project, masked=False, git_is_safe=False)

    assert {"git status", "ps aux"} <= set(ask)
    assert len(COMMANDS) - len(ask) >= len(COMMANDS) * 2 / 3


@pytest.mark.parametrize("command", [each for each in COMMANDS if "data.csv" in each][:3])
def test_everyday_command_on_a_secret_file_asks(project: Path, command: str) -> None:
    """The same command on a file of keys."""
    reach = Reach(root=project, is_secret=is_secret, secrets_are_masked=True)

    assert judge(command.replace("data.csv", ".env"), CommandRules(), reach).verdict != "allow"
