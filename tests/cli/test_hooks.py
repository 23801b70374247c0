"""`agent-cli hooks`: the defined hooks, their answer to an input, Claude Code's hooks as TOML."""

import json
import tomllib
from pathlib import Path

from agent_cli.contracts.timeline import Json
from tests.e2e.program import agent_cli
from tests.messages_api import serve_in_thread


def claude_settings(**events: Json) -> None:
    path = Path.home() / ".claude" / "settings.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"hooks": events}))


def guard(command: str, **more: Json) -> list[Json]:
    return [{"matcher": "Bash", "hooks": [{"type": "command", "command": command, **more}]}]


def test_hooks_list_shows_event_command_and_kind() -> None:
    claude_settings(PreToolUse=guard("check.sh"), FileChanged=[])

    run = agent_cli("hooks", "list")

    assert run.stdout.startswith("PreToolUse Bash: check.sh (guard, ")


def test_hooks_test_says_why_its_input_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "half.json").write_text("{")

    missing = agent_cli("hooks", "test", "PreToolUse", "--input", "gone.json")
    half = agent_cli("hooks", "test", "PreToolUse", "--input", str(tmp_path / "half.json"))

    assert "--input: gone.json cannot be read: No such file or directory\n" in missing.stderr
    assert "half.json:1 is not valid JSON: Expecting property name" in half.stderr


def test_hooks_test_runs_a_hook_with_the_given_input(tmp_path: Path) -> None:
    claude_settings(PreToolUse=guard("grep -q 'rm -rf' && { echo no >&2; exit 2; } || true"))
    given = tmp_path / "input.json"
    given.write_text(json.dumps({"tool_name": "Bash", "tool_input": {"command": "rm -rf /"}}))

    harmless = agent_cli("hooks", "test", "PreToolUse")
    harmful = agent_cli("hooks", "test", "PreToolUse", "--input", str(given))

    assert "together: no decision" in harmless.stdout
    assert "together: deny" in harmful.stdout
    assert (harmless.code, harmful.code) == (0, 0)


def test_hooks_test_fails_for_a_guard_that_cannot_run() -> None:
    claude_settings(PreToolUse=guard("./gone.sh"))

    run = agent_cli("hooks", "test", "PreToolUse")

    assert run.code == 1
    assert "there is no" in run.stdout


def test_hooks_import_prints_claude_codes_hooks_as_toml() -> None:
    groups = guard('echo "a" | b', timeout=5)
    claude_settings(PreToolUse=groups)

    run = agent_cli("hooks", "import")

    assert tomllib.loads(run.stdout) == {"hooks": {"PreToolUse": groups}}


def test_doctor_names_a_hook_program_that_cannot_run() -> None:
    claude_settings(PreToolUse=guard("./gone.sh"))

    with serve_in_thread() as api:
        run = agent_cli("doctor", api=api)

    assert "1 active (guards: 1)" in run.stdout
    assert "PreToolUse ./gone.sh: there is no" in run.stdout


def test_doctor_names_an_unknown_hook_event() -> None:
    """It counted no hook "from" nowhere, and left out why."""
    claude_settings(PreTool=guard("true"))

    with serve_in_thread() as api:
        run = agent_cli("doctor", api=api)

    assert "hooks for PreTool do not run: there is no such event; did you mean" in run.stdout
    assert "0 active" not in run.stdout


def test_unknown_hook_event_or_command_is_refused() -> None:
    unknown, wrong = agent_cli("hooks", "test", "Nothing"), agent_cli("hooks", "fly")

    assert (unknown.code, wrong.code) == (2, 2)
    assert "there is no event Nothing" in unknown.stderr
    assert "hooks list" in wrong.stderr
