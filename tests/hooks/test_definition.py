"""Hooks in settings files: read in Claude Code's shape, or kept as guards that block."""

import pytest

from agent_cli.hooks.definition import Hook, HookGroup, parse_hooks
from tests.tables import each_row


def group(event: str = "PreToolUse", **written: object) -> HookGroup:
    return HookGroup(event, written, "here:1")


def hooks_of(*groups: HookGroup) -> list[Hook]:
    return parse_hooks(groups)[0]


def test_a_hook_of_claude_code_is_read_with_all_its_fields() -> None:
    """Files of other tools work unchanged."""
    written = {
        "type": "command",
        "command": "guard.py",
        "args": ["--strict"],
        "if": "Bash(git *)",
        "timeout": 30,
        "onFailure": "block",
        "statusMessage": "checking",
        "once": True,
        "async": False,
    }

    hooks, problems = parse_hooks([group(matcher="Bash|Edit", hooks=[written])])

    assert problems == []
    assert hooks == [
        Hook(
            event="PreToolUse",
            matcher="Bash|Edit",
            command="guard.py",
            args=("--strict",),
            condition="Bash(git *)",
            timeout_s=30,
            status="checking",
            once=True,
            origin="here:1",
        )
    ]


@each_row(
    ("event", "written", "limit_s"),
    [
        ("Stop", {"command": "make test"}, 600),
        ("PreToolUse", {"type": "mcp_tool", "server": "s", "tool": "t"}, 600),
        ("PreToolUse", {"type": "http", "url": "https://example.com"}, 60),
        ("Stop", {"type": "agent", "prompt": "Is it done?"}, 60),
        ("Stop", {"type": "prompt", "prompt": "Is it done?"}, 30),
        ("UserPromptSubmit", {"command": "x"}, 30),
        ("UserPromptSubmit", {"command": "x", "timeout": 90}, 90),
        ("PreToolUse", {"command": "x", "timeout": 60_000}, 3_600),
        ("SessionEnd", {"command": "x"}, 5),
        ("SessionEnd", {"command": "x", "timeout": 30}, 30),
        ("SessionEnd", {"command": "x", "timeout": 600}, 60),
    ],
)
def test_hook_without_a_timeout_has_the_limit_of_its_kind_and_event(
    event: str, written: dict[str, object], limit_s: float
) -> None:
    """A Stop hook may run the tests; the end of the program is not held up for long."""
    [hook] = hooks_of(group(event, hooks=[written]))

    assert hook.limit_s == limit_s


@pytest.mark.parametrize("key", ["onFailure", "on_failure"])
def test_guard_blocks_on_failure_unless_set_to_allow(key: str) -> None:
    [closed] = hooks_of(group(hooks=[{"command": "x"}]))
    [opened] = hooks_of(group(hooks=[{"command": "x", key: "allow"}]))

    assert (closed.guards, opened.guards) == (True, False)


@each_row(
    "hook",
    [
        {"type": "prompt"},
        {"type": "command"},
        {"command": "x", "timeout": -1},
        {"command": "x", "async": "yes"},
        {"command": "x\0y"},
        {"type": "http", "url": "file:///etc/passwd"},
        "guard.sh",
    ],
)
def test_unusable_guard_is_kept_and_blocks(hook: object) -> None:
    """A guard that was dropped would guard nothing."""
    hooks, problems = parse_hooks([group(hooks=[hook])])

    assert [bool(each.fault) and each.guards for each in hooks] == [True]
    assert len(problems) == 1
    assert "it blocks" in problems[0]


@pytest.mark.parametrize("written", [{"matcher": "(", "hooks": [{"command": "x"}]}, {}, "x"])
def test_a_broken_group_of_guards_blocks(written: object) -> None:
    [hook], _ = parse_hooks([HookGroup("PreToolUse", written, "here")])

    assert hook.fault
    assert hook.matches(["Bash"])


def test_broken_observing_hook_is_dropped_with_a_warning() -> None:
    hooks, problems = parse_hooks([group("PostToolUse", hooks=[{"type": "agent"}])])

    assert hooks == []
    assert "never runs" in problems[0]


def test_unknown_hook_events_and_keys_are_reported_once() -> None:
    written = group(hooks=[{"command": "x", "voice": True}])

    hooks, problems = parse_hooks(
        [group("Nothing", hooks=[]), group("PreToolUs", hooks=[]), written, written]
    )

    assert len(hooks) == 1
    assert problems == [
        "here:1: hooks for Nothing do not run: there is no such event",
        "here:1: hooks for PreToolUs do not run: there is no such event; did you mean PreToolUse?",
        "here:1: PreToolUse hook: voice not supported; ignored",
    ]


@each_row(
    ("matcher", "matching", "others"),
    [
        ("", "Bash", ""),
        ("*", "Bash", ""),
        ("Edit", "Edit", "MultiEdit"),
        ("Edit|Write", "Write", "Bash"),
        ("Edit, Write", "Write", "Bash"),
        ("mcp__github__.*", "mcp__github__list", "mcp__other__list"),
    ],
)
def test_matcher_of_a_hook_is_a_tool_name_or_a_pattern(
    matcher: str, matching: str, others: str
) -> None:
    [hook] = hooks_of(group(matcher=matcher, hooks=[{"command": "x"}]))

    assert hook.matches([matching])
    assert not (others and hook.matches([others]))
