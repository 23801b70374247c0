"""Tricky commands judged without a sandbox: those that run without approval and those that ask."""

import pytest

from agent_cli.policies.shell import CommandRules, judge
from tests.policies.shell.corpus import BENIGN, DANGEROUS, GIT
from tests.policies.shell.workspaces import Workspace, make_workspace


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    return make_workspace(tmp_path_factory.mktemp("tree"))


def runs_unasked(workspace: Workspace, script: str) -> bool:
    """Judge *script* without rules and without a sandbox."""
    return judge(script, CommandRules(), workspace.reach()).verdict == "allow"


def test_dangerous_git_commands_ask_even_in_a_trusted_workspace(workspace: Workspace) -> None:
    """Threat 11: git's options name programs, folders and files."""
    reach = workspace.reach(git_is_safe=True, secrets_are_masked=True)

    allowed = [each for each in GIT if judge(each, CommandRules(), reach).verdict == "allow"]

    assert allowed == []
    assert judge("git log --oneline -5", CommandRules(), reach).verdict == "allow"


def test_at_most_three_of_twenty_harmless_commands_ask(workspace: Workspace) -> None:
    """Users who are asked about everything soon approve everything."""
    asked = [each for each in BENIGN if not runs_unasked(workspace, each)]

    assert len(BENIGN) == 20
    assert len(asked) <= 3, asked


def test_corpus_has_at_least_410_commands_390_of_them_dangerous() -> None:
    """The limits above mean little with few cases."""
    dangerous = [command for commands in DANGEROUS.values() for command in commands]

    assert len(set(dangerous)) >= 390
    assert len({*dangerous, *BENIGN}) >= 410
