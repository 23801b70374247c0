"""Untrusted text in an editor: displayed as it is, never acted on."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from agent_cli.acp.content import fenced, shown_blocks
from agent_cli.acp.tool_calls import CallView
from agent_cli.contracts.events import ToolCall
from agent_cli.contracts.timeline import Json, image_block, text_block
from agent_cli.contracts.tooling import ToolResult
from agent_cli_tools import Workspace, builtin_tools


@given(st.text(alphabet="`~a\n ", max_size=60))
def test_no_output_ends_its_own_fence(output: str) -> None:
    """An image after it would tell a hostile server the content read."""
    lines = fenced(output).split("\n")

    assert set(lines[0]) == {"`"}
    assert lines[-1] == lines[0]
    assert all(not line.strip().startswith(lines[0]) for line in lines[1:-1])


def test_output_comes_without_escape_sequences() -> None:
    assert fenced("\x1b[31mred\x1b[0m\x07") == "```\nred\n```"


def test_long_output_says_what_is_left_out() -> None:
    assert "[… 50,000 more characters]" in fenced("x" * 150_000)


def test_pictures_are_shown_and_empty_texts_are_not() -> None:
    shown = shown_blocks((text_block("  \n"), image_block(b"x", "image/png")))

    assert shown == [
        {"type": "content", "content": {"type": "image", "data": "eA==", "mimeType": "image/png"}}
    ]


def test_invisible_characters_that_a_change_brings_are_named(tmp_path: Path) -> None:
    """An editor's diff would hide them from the user who decides."""
    (tmp_path / "a.py").write_text("x = 1\n")
    with Workspace(tmp_path) as workspace:
        calls = CallView(lambda: builtin_tools(workspace, None), tmp_path)
        written: Json = {"path": "a.py", "content": "x = 1  # \u202e2\n"}
        note, diff = calls.planned(ToolCall("c", "write", written))

    assert "invisible characters" in str(note)
    assert "'oldText': 'x = 1\\n'" in str(diff)


def test_a_command_is_shown_whole_with_what_it_hides(tmp_path: Path) -> None:
    with Workspace(tmp_path) as workspace:
        calls = CallView(lambda: builtin_tools(workspace, None), tmp_path)
        command = "echo one\n" + "x" * 5_000 + "\u202e"
        [shown] = calls.planned(ToolCall("c", "bash", {"command": command}))

    assert "x" * 5_000 + "\\u202e" in str(shown).replace("\\\\", "\\")


def test_a_call_with_any_input_can_be_shown(tmp_path: Path) -> None:
    """The model's input need not fit the tool."""
    calls = CallView(lambda: (), tmp_path)
    wrong: list[Json] = [None, 5, "a", [], {"path": 5}, {"path": "~nobody/x", "edits": [1, {}]}]
    for written in wrong:
        shown = calls.described(ToolCall("c", "edit", written))
        assert shown["title"]
        assert all(shown["content"]) if isinstance(shown["content"], list) else False


def test_a_failed_change_shows_why(tmp_path: Path) -> None:
    calls = CallView(lambda: (), tmp_path)
    failed = ToolResult.error("no", {"kind": "diff", "path": "a", "diff": "@@ -1,1 +1,1 @@"})

    assert calls.ended("c", failed) == {
        "toolCallId": "c",
        "status": "failed",
        "content": shown_blocks(failed.content),
    }
