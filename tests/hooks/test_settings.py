"""Hooks in settings: under Claude Code's names and ours, of all layers, and shown before trust."""

import json
import re
from pathlib import Path

import pytest

from agent_cli.app.arguments import parse_arguments
from agent_cli.app.hooks import covers, defined_hooks, overview
from agent_cli.app.parts import reach
from agent_cli.app.startup import StartupContext, start
from agent_cli.contracts.errors import SettingsError
from agent_cli.contracts.events import ToolCall
from agent_cli.hooks.events import EVENTS
from agent_cli.trust.effects import what_would_act
from tests.settings.files import write_user_settings
from tests.tables import each_row


def started(*words: str) -> StartupContext:
    return start(parse_arguments(words), may_ask=False)


@pytest.mark.parametrize("event", EVENTS)
def test_hooks_of_each_event_are_read_under_both_names(event: str) -> None:
    """S1-25: the names are those of Claude Code and of our settings: PreToolUse, pre_tool_use."""
    for written in (event, re.sub(r"\B(?=[A-Z])", "_", event).lower()):
        write_user_settings(f'[[hooks.{written}]]\nhooks = [{{ command = "x" }}]\n')

        hooks, problems = defined_hooks(started())

        assert [hook.event for hook in hooks] == [event]
        assert problems == []


def test_hooks_of_all_settings_layers_are_combined_and_counted(tmp_path: Path) -> None:
    """A project cannot remove a guard of the user."""
    write_user_settings('[[hooks.PreToolUse]]\nhooks = [{ command = "mine" }]\n')
    (tmp_path / "appsettings.toml").write_text(
        "[hooks]\nclaude_files = false\n"
        '[[hooks.Stop]]\nhooks = [{ command = "theirs", async = true }]\n'
    )

    startup = started("--trust")
    hooks, _ = defined_hooks(startup)

    assert [(hook.command, hook.is_project) for hook in hooks] == [
        ("mine", False),
        ("theirs", True),
    ]
    assert "2 active (guards: 1)" in overview(hooks)
    assert "claude_files cannot be set by a project" in startup.notices[0]


def test_hooks_of_claude_code_may_stand_beside_comments() -> None:
    """As editors leave them: with a byte order mark, comments and a comma at the end."""
    file = Path.home() / ".claude" / "settings.json"
    file.parent.mkdir()
    group = '{"hooks": [{"type": "command", "command": "echo // no comment"},]}'
    text = f'{{\n  // mine\n  "hooks": {{"Stop": [{group}],}}, /* all */\n}}\n'
    file.write_text(text, encoding="utf-8-sig")

    hooks, problems = defined_hooks(started())

    assert ([hook.command for hook in hooks], problems) == (["echo // no comment"], [])


def test_unreadable_hook_settings_prevent_the_start() -> None:
    """A guard in the file would have no effect."""
    file = Path.home() / ".claude" / "settings.json"
    file.parent.mkdir()
    for text, place in (('{\n  "hooks": {oops', ":2"), ("[" * 100_000, "")):
        file.write_text(text)

        with pytest.raises(SettingsError) as refused:
            started()

        assert str(refused.value).startswith(f"{file}{place} is not valid JSON, so its hooks ")
        assert "correct it, or set" in str(refused.value)


def test_the_trust_question_lists_the_effects_of_hooks(tmp_path: Path) -> None:
    (tmp_path / "guard.sh").touch()
    (tmp_path / ".claude").mkdir()
    hook = {"command": "./guard.sh --token sk-ant-api03-abcdefghijklmnop"}
    groups = {"PreToolUse": [{"matcher": "Bash", "hooks": [hook]}]}
    (tmp_path / ".claude" / "settings.json").write_text(json.dumps({"hooks": groups}))

    files = {file.path.name: file.effects for file in what_would_act(tmp_path)}

    assert files["guard.sh"] == ("is a file that a hook runs or reads",)
    [effect] = files["settings.json"]
    assert effect == (
        "runs ./guard.sh --token sk-ant-api03-abcdefghijklmnop; it gets this session's calls or"
        " messages (hook, PreToolUse Bash)"
    )


@pytest.mark.parametrize(
    ("hook", "effect"),
    [
        ({"Command": "./guard.sh on"}, "runs ./guard.sh on"),
        ({"COMMAND": "./guard.sh", "ARGS": ["on"]}, "runs ./guard.sh on"),
        (
            {"command": "./guard.sh on", "url": "https://x.example"},
            "runs ./guard.sh on and sends calls to https://x.example",
        ),
        ({"type": "http", "URL": "https://x.example"}, "sends calls to https://x.example"),
        ({"type": "http"}, "runs nothing"),
    ],
)
def test_the_trust_question_reads_hooks_as_they_are_run(
    tmp_path: Path, hook: dict[str, object], effect: str
) -> None:
    """A repository must not be able to hide the command that it runs."""
    (tmp_path / "guard.sh").touch()
    group = {"hooks": [hook]}
    # The key of our settings may be written with its dot.
    (tmp_path / "appsettings.json").write_text(json.dumps({"Hooks.Stop": [group]}))
    (tmp_path / ".claude").mkdir()
    (tmp_path / ".claude" / "settings.json").write_text(json.dumps({"hooks": {"Stop": [group]}}))

    files = {file.path.name: file.effects for file in what_would_act(tmp_path)}

    gets = "" if effect == "runs nothing" else "; it gets this session's calls or messages"
    assert files["settings.json"] == (f"{effect}{gets} (hook, Stop)",)
    assert files["appsettings.json"] == (f"{effect}{gets} (hook, Hooks.Stop)",)
    assert ("guard.sh" in files) == ("guard.sh" in effect)


def test_claude_code_settings_without_hooks_need_no_trust(tmp_path: Path) -> None:
    """Files that change nothing need no question."""
    (tmp_path / ".claude").mkdir()
    (tmp_path / ".claude" / "settings.json").write_text('{"model": "x"}')

    assert what_would_act(tmp_path) == ()


@each_row(
    ("rule", "command", "expected"),
    [
        ("Bash(git *)", "git push", True),
        ("Bash(git:*)", "cd x && git push", True),
        ("Bash(git *)", "ls", False),
        ("Bash", "ls", True),
        ("Edit(*.py)", "ls", False),
        ("Bash(git *)", 'eval "$X"', True),
        ("not a rule (", "ls", True),
    ],
)
def test_hook_condition_is_a_permission_rule_that_matches_when_in_doubt(
    rule: str,
    command: str,
    expected: bool,
) -> None:
    call = ToolCall("t1", "bash", {"command": command})

    assert covers(call, rule, reach(started())) is expected


def test_hook_condition_with_a_file_pattern_matches_paths() -> None:
    call = ToolCall("t1", "write", {"path": "src/a.py", "content": ""})

    here = reach(started())
    assert covers(call, "Write(*.py)", here)
    assert not covers(call, "Write(*.md)", here)


def test_hook_condition_matches_the_file_that_only_looks_as_written() -> None:
    """The tools take it, so a guard of that file ran for none of their calls."""
    here = reach(started())
    (here.root / "it\u2019s.md").touch()

    assert covers(ToolCall("t1", "read", {"path": "it's.md"}), "Read(it\u2019s.md)", here)


def test_a_hook_of_the_user_runs_no_file_of_an_untrusted_workspace(tmp_path: Path) -> None:
    (tmp_path / "guard.sh").touch()
    write_user_settings('[[hooks.PreToolUse]]\nhooks = [{ command = "./guard.sh" }]\n')

    [untrusted], _ = defined_hooks(started())
    [trusted], _ = defined_hooks(started("--trust"))

    assert "not trusted" in untrusted.fault
    assert trusted.fault == ""
