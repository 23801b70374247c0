"""Run the scripts that the policy allows, traced by the kernel, and check their effects."""

from pathlib import Path

import pytest

from agent_cli.policies.shell import CommandRules, judge
from tests.policies.shell.corpus import BENIGN, DANGEROUS
from tests.policies.shell.fuzzing import compose, compose_form, compose_known
from tests.policies.shell.oracle import can_observe, effects
from tests.policies.shell.workspaces import Workspace, make_workspace

SAMPLE = range(200)
ALL = range(2_000)

observed = pytest.mark.skipif(not can_observe(), reason="needs bubblewrap and strace")


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    return make_workspace(tmp_path_factory.mktemp("tree"))


@pytest.fixture(scope="module")
def plain_workspace(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    return make_workspace(tmp_path_factory.mktemp("plain"), plain_git=True)


def allowed(script: str, workspace: Workspace) -> bool:
    return judge(script, CommandRules(), workspace.reach()).verdict == "allow"


def surprises(scripts: list[str], workspace: Workspace, log: Path) -> dict[str, list[str]]:
    """Run *scripts*; return those that did more than read, with their effects."""
    found = {script: effects(script, workspace, log) for script in scripts}
    return {script: did for script, did in found.items() if did}


@observed
def test_oracle_reports_the_effects_of_commands(workspace: Workspace, tmp_path: Path) -> None:
    """Otherwise the tests below could not fail."""
    tree = make_workspace(tmp_path / "tree")  # a separate one: these commands do change it
    log = tmp_path / "log"

    assert effects("touch new.txt", tree, log)
    assert effects("cat .env >/dev/null", tree, log)
    assert effects("cat links/environment >/dev/null", tree, log)
    assert effects("echo > /dev/tcp/127.0.0.1/9", tree, log)
    assert effects("bin/ls", tree, log)
    for used, expected in (("", 0), ("s.listen()", 1), ("s.connect(('127.0.0.1', 9))", 1)):
        opens = f"import socket; s = socket.socket(); {used}"
        found = effects(f'python3 -S -B -c "{opens}"', tree, log)
        assert len(found) == expected, found
    assert effects(
        'python3 -S -B -c "import socket as s; s.socket(s.AF_INET, s.SOCK_DGRAM)"', tree, log
    )
    assert effects("cat README.md; ls -la", tree, log) == []


@observed
def test_allowed_commands_of_the_corpus_only_read(workspace: Workspace, tmp_path: Path) -> None:
    """No file changed, no secret read, no connection made."""
    corpus = [*BENIGN, *(command for commands in DANGEROUS.values() for command in commands)]
    scripts = [script for script in corpus if allowed(script, workspace)]

    assert len(scripts) >= 17
    assert surprises(scripts, workspace, tmp_path / "log") == {}


@observed
def test_allowed_commands_of_a_fuzzed_sample_only_read(
    workspace: Workspace, tmp_path: Path
) -> None:
    """200 composed commands: quotes, redirects, substitutions, wrappers, options, paths."""
    scripts = [script for script in map(compose, SAMPLE) if allowed(script, workspace)]

    assert len(scripts) >= 20
    assert surprises(scripts, workspace, tmp_path / "log") == {}


@observed
def test_allowed_commands_with_known_options_only_read(
    workspace: Workspace, tmp_path: Path
) -> None:
    """A value taken for an operand, or an operand for a value, would be a file nobody checked."""
    scripts = [script for script in map(compose_known, range(40)) if allowed(script, workspace)]

    assert len(scripts) >= 20
    assert surprises(scripts, workspace, tmp_path / "log") == {}


@observed
def test_allowed_compound_scripts_only_read(plain_workspace: Workspace, tmp_path: Path) -> None:
    """Loops, conditions, awk, sed, jq, git, `find -exec`, `xargs`, with tricks in each."""
    reach = plain_workspace.reach(git_is_safe=True)
    scripts = [
        script
        for script in map(compose_form, range(120))
        if judge(script, CommandRules(), reach).verdict == "allow"
    ]

    assert len(scripts) >= 24
    assert surprises(scripts, plain_workspace, tmp_path / "log") == {}


@pytest.mark.slow
@observed
def test_allowed_compound_scripts_of_the_whole_fuzz_only_read(
    plain_workspace: Workspace, tmp_path: Path
) -> None:
    """5,000 composed scripts; `campaign` runs any number."""
    reach = plain_workspace.reach(git_is_safe=True)
    scripts = [
        script
        for script in map(compose_form, range(5_000))
        if judge(script, CommandRules(), reach).verdict == "allow"
    ]

    assert len(scripts) >= 1_000
    assert surprises(scripts, plain_workspace, tmp_path / "log") == {}


@pytest.mark.slow
@observed
def test_allowed_commands_with_known_options_of_the_whole_fuzz_only_read(
    workspace: Workspace, tmp_path: Path
) -> None:
    """2,000 composed commands."""
    scripts = [script for script in map(compose_known, ALL) if allowed(script, workspace)]

    assert len(scripts) >= 1_000
    assert surprises(scripts, workspace, tmp_path / "log") == {}


@pytest.mark.slow
@observed
def test_allowed_commands_of_the_whole_fuzz_only_read(workspace: Workspace, tmp_path: Path) -> None:
    """2,000 composed commands."""
    scripts = [script for script in map(compose, ALL) if allowed(script, workspace)]

    assert len(scripts) >= 200
    assert surprises(scripts, workspace, tmp_path / "log") == {}
