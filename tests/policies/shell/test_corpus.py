"""Commands that run unasked and commands that ask, without a sandbox: a table of tricks."""

import pytest

from agent_cli.policies.shell import CommandRules, judge
from tests.policies.shell.corpus import BENIGN, DANGEROUS, GIT
from tests.policies.shell.workspaces import Workspace, make_workspace


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    return make_workspace(tmp_path_factory.mktemp("tree"))


def runs_unasked(workspace: Workspace, script: str) -> bool:
    """Judge *script* without rules and without a sandbox."""
    return judge(script, CommandRules(), workspace.place()).verdict == "allow"


@pytest.mark.parametrize("trick", DANGEROUS)
def test_no_dangerous_command_runs_unasked(workspace: Workspace, trick: str) -> None:
    """Nothing that writes, runs other programs, reads secrets or reaches the network."""
    commands = [each.replace("{outside}", str(workspace.outside)) for each in DANGEROUS[trick]]

    allowed = [each for each in commands if runs_unasked(workspace, each)]

    assert allowed == []


def test_git_runs_unasked_in_the_forms_that_only_read(workspace: Workspace) -> None:
    """Threat 11: in a trusted workspace too, its options name programs, folders and files."""
    place = workspace.place(git_is_safe=True, secrets_are_masked=True)

    allowed = [each for each in GIT if judge(each, CommandRules(), place).verdict == "allow"]

    assert allowed == []
    assert judge("git log --oneline -5", CommandRules(), place).verdict == "allow"


def test_at_most_three_of_twenty_harmless_commands_ask(workspace: Workspace) -> None:
    """Users asked about everything soon approve everything."""
    asked = [each for each in BENIGN if not runs_unasked(workspace, each)]

    assert len(BENIGN) == 20
    assert len(asked) <= 3, asked


def test_the_corpus_is_as_large_as_promised() -> None:
    """A bar needs enough cases."""
    dangerous = [command for commands in DANGEROUS.values() for command in commands]

    assert len(set(dangerous)) >= 390
    assert len({*dangerous, *BENIGN}) >= 410
