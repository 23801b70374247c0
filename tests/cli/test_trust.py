"""`agent-cli trust`, as typed: it lists, and only then trusts."""

import json
from pathlib import Path

import pytest

from agent_cli.system import paths
from agent_cli.trust.store import TrustStore
from tests.e2e.program import AGENT_CLI, agent_cli, environment
from tests.repl.terminal import Terminal

_COMMAND = "TOKEN=$(touch x) ./guard.sh"


@pytest.fixture(autouse=True)
def _repository() -> None:
    Path(".claude").mkdir()
    hooks = {"Stop": [{"hooks": [{"command": _COMMAND}]}]}
    Path(".claude/settings.json").write_text(json.dumps({"hooks": hooks}))
    Path("guard.sh").write_text("#!/bin/sh\ntouch \u202eevil\n")


def test_trust_show_lists_commands_and_scripts_whole_and_trusts_nothing() -> None:
    """Threats 8 and 10: what a person looks at is what would run."""
    run = agent_cli("trust", "--show")

    assert run.code == 0
    assert f"runs {_COMMAND};" in run.stdout
    assert "| touch \\u202eevil\n" in run.stdout
    assert run.stdout.endswith("it is not trusted\n")
    assert not TrustStore.of_user().is_trusted(Path())


def test_trust_lists_what_would_act_before_it_trusts() -> None:
    """Threat 10: in a script too, where nobody is asked."""
    run = agent_cli("trust")

    listed, _, told = run.stdout.rpartition("guard.sh\n    is a file that a hook runs or reads\n")
    assert f"runs {_COMMAND};" in listed
    assert told.endswith("is trusted until that changes\n")
    assert TrustStore.of_user().is_trusted(Path())


@pytest.mark.parametrize("answer", ["n", "y"])
def test_person_at_a_terminal_is_asked_after_the_list(answer: str) -> None:
    """Threat 10: the command alone is no answer to what only its list shows."""
    with Terminal(AGENT_CLI, "trust", **environment(None, {})) as terminal:
        terminal.until("until they change? [y/N]")
        assert _COMMAND in terminal.text
        assert not TrustStore.of_user().is_trusted(Path())
        terminal.send(f"{answer}\r")
        code = terminal.exit_code()

    assert (code, TrustStore.of_user().is_trusted(Path())) == (
        (0, True) if answer == "y" else (1, False)
    )


def test_trust_says_what_changed_since_it_was_given() -> None:
    """After a pull the list is the same but for a line; one who trusted it looks for that line."""
    agent_cli("trust")
    Path("guard.sh").unlink()
    Path(".claude/settings.json").write_text('{"permissions": {"deny": ["Read"]}}')
    Path(".mcp.json").write_text('{"mcpServers": {"s": {"command": "x"}}}')
    changed = agent_cli("trust", "--show").stdout
    run = agent_cli("trust")
    again = agent_cli("trust").stdout

    for line in (
        ".mcp.json (came since you trusted this folder)",
        ".claude/settings.json (changed since you trusted it)",
        "guard.sh (gone since you trusted it)",
    ):
        assert f"  {line}\n" in changed
        assert f"  {line}\n" in run.stdout
    kept = "a session that is open there keeps the hooks, rules and settings of its start\n"
    assert run.stdout.endswith(f" is trusted until that changes\n{kept}")
    assert "since you trusted" not in again
    assert kept not in again


def test_mark_of_a_file_says_what_became_of_it() -> None:
    """One that is still there is not gone, and a name is written once as it is in the list."""
    Path(".claude/commands").mkdir()
    Path(".claude/commands/caf\xe9.md").write_text("x")
    agent_cli("trust")
    Path(".claude/commands/caf\xe9.md").unlink()
    Path(".claude/settings.json").write_text("{}")

    shown = agent_cli("trust", "--show").stdout

    assert "  .claude/commands/caf\\xe9.md (gone since you trusted it)\n" in shown
    assert "  guard.sh (acted when you trusted it, and does not now)\n" in shown


def test_nothing_is_called_new_in_a_folder_whose_files_were_not_recorded() -> None:
    """An earlier version stored one hash of them, and a folder above says nothing of these."""
    agent_cli("trust")
    store = paths.trust_file()
    [name] = json.loads(store.read_text())
    store.write_text(json.dumps({name: "e3b0c44298fc1c149afbf4c8996fb924"}))
    of_earlier_version = agent_cli("trust", "--show").stdout
    Path(".git").mkdir()
    Path(".mcp.json").write_text('{"mcpServers": {"s": {"command": "x"}}}')
    agent_cli("trust")
    Path("below/.claude/commands").mkdir(parents=True)
    Path("below/.claude/commands/a.md").write_text("x")

    below = agent_cli("trust", "--show", "below").stdout

    assert "  .claude/commands/a.md\n" in below
    for shown in (of_earlier_version, below):
        assert "since you trusted" not in shown


def test_first_file_in_a_trusted_folder_is_new() -> None:
    Path("empty").mkdir()
    agent_cli("trust", "empty")
    Path("empty/.mcp.json").write_text('{"mcpServers": {"s": {"command": "x"}}}')

    shown = agent_cli("trust", "--show", "empty").stdout

    assert "  .mcp.json (came since you trusted this folder)\n" in shown
