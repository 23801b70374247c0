"""Tool calls under Claude Code's names, which hook scripts expect, and back; transcripts."""

import json
from pathlib import Path

import pytest

from agent_cli.contracts.claude_tools import CLAUDE_NAMES
from agent_cli.contracts.messages import UserMessage
from agent_cli.contracts.timeline import Json
from agent_cli.core.conversation import Conversation
from agent_cli.hooks.claude_terms import TranscriptCopy, from_claude, to_claude
from agent_cli.hooks.definition import Hook
from tests.fakes import says
from tests.full_disks import full_disk
from tests.tables import each_row

HERE = Path("/home/ann/project")


@each_row(
    ("name", "given", "theirs", "claude"),
    [
        (
            "bash",
            {"command": "ls", "timeout": 5, "background": True, "unsandboxed": True},
            "Bash",
            {
                "command": "ls",
                "timeout": 5000,
                "run_in_background": True,
                "dangerouslyDisableSandbox": True,
            },
        ),
        (
            "edit",
            {"path": "/a.py", "edits": [{"old": "a", "new": "b", "all": True}]},
            "Edit",
            {"file_path": "/a.py", "old_string": "a", "new_string": "b", "replace_all": True},
        ),
        (
            "edit",
            {"path": "/a.py", "edits": [{"old": "a", "new": "b"}, {"old": "c", "new": "d"}]},
            "MultiEdit",
            {
                "file_path": "/a.py",
                "edits": [
                    {"old_string": "a", "new_string": "b"},
                    {"old_string": "c", "new_string": "d"},
                ],
            },
        ),
        (
            "write",
            {"path": "/a.py", "content": "x"},
            "Write",
            {"file_path": "/a.py", "content": "x"},
        ),
        (
            "grep",
            {"pattern": "x", "path": "/src", "mode": "files", "context": 2, "ignore_case": True},
            "Grep",
            {
                "pattern": "x",
                "path": "/src",
                "output_mode": "files_with_matches",
                "-C": 2,
                "-i": True,
            },
        ),
        ("glob", {"pattern": "*.py"}, "Glob", {"pattern": "*.py"}),
        ("mcp__a__b", {"path": "x"}, "mcp__a__b", {"path": "x"}),
        (
            "agent",
            {"prompt": "x", "subagent_type": "a"},
            "Agent",
            {"prompt": "x", "subagent_type": "a"},
        ),
        ("skill", {"name": "pdf"}, "Skill", {"skill": "pdf"}),
    ],
)
def test_tool_names_and_fields_translate_to_claude_code_and_back(
    name: str, given: Json, theirs: str, claude: dict[str, Json]
) -> None:
    call = to_claude(name, given, HERE)

    assert (call.name, call.input) == (theirs, claude)
    assert from_claude(name, call.input) == given


@pytest.mark.parametrize(
    ("written", "absolute"),
    [("src/a.py", f"{HERE}/src/a.py"), ("@a.py", f"{HERE}/a.py"), ("../b", "/home/ann/b")],
)
def test_paths_are_absolute_for_hooks(written: str, absolute: str) -> None:
    """A guard that compares paths must see the file that the tool would touch."""
    call = to_claude("write", {"path": written, "content": ""}, HERE)

    assert call.input["file_path"] == absolute


def test_call_with_several_edits_matches_guards_of_edit_too() -> None:
    call = to_claude("edit", {"path": "a", "edits": []}, HERE)

    assert call.names == ("MultiEdit", "Edit")


def test_fields_of_list_entries_translate_too() -> None:
    todos: list[Json] = [{"content": "x", "status": "pending", "active_form": "Doing x"}]

    call = to_claude("todo", {"todos": todos}, HERE)

    assert call.input["todos"] == [{"content": "x", "status": "pending", "activeForm": "Doing x"}]


@each_row(
    ("matcher", "tool"),
    [
        *(("Task", "agent"), ("Agent", "agent"), ("^Task$", "agent"), ("TodoWrite", "todo")),
        *(("AskUserQuestion", "ask_user"), ("ExitPlanMode", "present_plan"), ("Skill", "skill")),
        *(("Bash|WebFetch", "bash"), ("bash", "bash"), ("write, edit", "edit")),
        ("BashOutput", "job_output"),
        ("WebSearch", "web_search"),
    ],
)
def test_matcher_of_either_program_matches_the_tool(matcher: str, tool: str) -> None:
    """A guard written for Claude Code must not be silent because a tool has another name here."""
    hook = Hook(event="PreToolUse", matcher=matcher)

    assert hook.matches(to_claude(tool, {}, HERE).names)
    assert hook.may_match({tool})
    assert not hook.matches(to_claude("grep", {}, HERE).names)


@each_row(
    ("event", "matcher", "may"),
    [
        *(
            ("PreToolUse", each, False)
            for each in ("KillShell", "NotebookEdit|KillShell", "^bash$")
        ),
        *(
            ("PreToolUse", each, True)
            for each in ("", "*", "mcp__x__.*", "^(?!Bash)", "fetch_page")
        ),
        *(("SessionStart", "compact", False), ("SessionStart", "clear|compact", True)),
        *(("Notification", "auth_success", False), ("SubagentStart", "anything", True)),
    ],
)
def test_matcher_that_can_match_nothing_is_known(event: str, matcher: str, *, may: bool) -> None:
    """Tools of servers come later, and agents have any name: in doubt it can match."""
    assert Hook(event=event, matcher=matcher).may_match({*CLAUDE_NAMES, "fetch_page"}) is may


def test_transcript_has_every_line_once_the_disk_has_room_again(tmp_path: Path) -> None:
    """A part of a line that was cut off would spoil the next one, and what came with it is lost."""
    conversation = Conversation()
    copy = TranscriptCopy(tmp_path / "copy.jsonl", tmp_path, {})
    # Larger than the files that others write meanwhile.
    conversation.begin(UserMessage.of("x" * 5_000_000))
    file = copy.update(conversation.prompts)
    conversation.add_reply(says("one"))
    with full_disk(file, free=20), pytest.raises(OSError, match="File too large"):
        copy.update(conversation.prompts)
    conversation.add_user(UserMessage.of("two"))
    copy.update(conversation.prompts)
    lines = [json.loads(line) for line in file.read_text().splitlines()]

    assert [line["type"] for line in lines] == ["user", "assistant", "user"]
    assert [line["parentUuid"] for line in lines] == [None, *(line["uuid"] for line in lines[:-1])]
