"""Untrusted text in an editor: displayed as plain text, never acted on."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_cli.acp.content import fenced, shown_blocks
from agent_cli.acp.updates import CallView
from agent_cli.contracts.events import ToolCall
from agent_cli.contracts.media_files import image_block
from agent_cli.contracts.timeline import Json, text_block
from agent_cli.contracts.tooling import ToolResult
from agent_cli_tools import Workspace, builtin_tools


@given(st.text(alphabet="`~a\n ", max_size=60))
def test_output_cannot_close_its_own_code_fence(output: str) -> None:
    """An image after the fence could send what was read to a hostile server."""
    lines = fenced(output).split("\n")

    assert set(lines[0]) == {"`"}
    assert lines[-1] == lines[0]
    assert all(not line.strip().startswith(lines[0]) for line in lines[1:-1])


def test_escape_sequences_are_stripped_from_output() -> None:
    assert fenced("\x1b[31mred\x1b[0m\x07") == "```\nred\n```"


def test_truncated_output_says_how_much_is_left_out() -> None:
    assert "[… 50,000 more characters]" in fenced("x" * 150_000)


def test_images_are_shown_and_blank_text_blocks_are_not() -> None:
    shown = shown_blocks((text_block("  \n"), image_block(b"x", "image/png")))

    assert shown == [
        {"type": "content", "content": {"type": "image", "data": "eA==", "mimeType": "image/png"}}
    ]


def test_change_with_invisible_characters_carries_a_note(tmp_path: Path) -> None:
    """An editor's diff would hide them from the user who decides."""
    (tmp_path / "a.py").write_text("x = 1\n")
    with Workspace(tmp_path) as workspace:
        calls = CallView(lambda: builtin_tools(workspace, None), tmp_path)
        written: Json = {"path": "a.py", "content": "x = 1  # \u202e2\n"}
        note, diff = calls.planned(ToolCall("c", "write", written))

    assert "invisible characters" in str(note)
    assert "'oldText': 'x = 1\\n'" in str(diff)


@pytest.mark.parametrize(
    ("tool", "given"),
    [
        ("edit", {"edits": [{"old": "x = 1\ny", "new": "x = 2\ny"}]}),
        ("write", {"content": "x = 2\ny = 1\n"}),
    ],
)
def test_change_of_a_file_with_crlf_is_a_diff_of_what_changes(
    tmp_path: Path, tool: str, given: dict[str, Json]
) -> None:
    """An edit of several lines was shown without the file, a write as a change of every line."""
    (tmp_path / "a.py").write_bytes(b"x = 1\r\ny = 1\r\n")
    with Workspace(tmp_path) as workspace:
        calls = CallView(lambda: builtin_tools(workspace, None), tmp_path)
        [diff] = calls.planned(ToolCall("c", tool, {"path": "a.py", **given}))

    assert isinstance(diff, dict)
    assert (diff["oldText"], diff["newText"]) == ("x = 1\r\ny = 1\r\n", "x = 2\r\ny = 1\r\n")


def test_long_command_is_shown_in_full_with_hidden_characters_escaped(tmp_path: Path) -> None:
    with Workspace(tmp_path) as workspace:
        calls = CallView(lambda: builtin_tools(workspace, None), tmp_path)
        command = "echo one\n" + "x" * 5_000 + "\u202e"
        [shown] = calls.planned(ToolCall("c", "bash", {"command": command}))

    assert "x" * 5_000 + "\\u202e" in str(shown).replace("\\\\", "\\")


def test_tool_call_with_invalid_input_can_be_shown(tmp_path: Path) -> None:
    """The model's input may not fit the tool's schema."""
    calls = CallView(lambda: (), tmp_path)
    wrong: list[Json] = [None, 5, "a", [], {"path": 5}, {"path": "~nobody/x", "edits": [1, {}]}]
    for written in wrong:
        shown = calls.described(ToolCall("c", "edit", written))
        assert shown["title"]
        assert all(shown["content"]) if isinstance(shown["content"], list) else False


def test_failed_edit_shows_its_error_instead_of_a_diff(tmp_path: Path) -> None:
    calls = CallView(lambda: (), tmp_path)
    failed = ToolResult.error("no", {"kind": "diff", "path": "a", "diff": "@@ -1,1 +1,1 @@"})

    assert calls.ended("c", failed) == {
        "toolCallId": "c",
        "status": "failed",
        "content": shown_blocks(failed.content),
    }
