"""Tool calls under Claude Code's names, which hook scripts expect, and back."""

from pathlib import Path

import pytest

from agent_cli.contracts.timeline import Json
from agent_cli.hooks.claude_names import from_claude, to_claude

HERE = Path("/home/ann/project")


@pytest.mark.parametrize(
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
