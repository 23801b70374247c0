"""The descriptions of the six tools for the model, and their properties for the run."""

import json
from pathlib import Path
from typing import Any

import pytest

from agent_cli.contracts.errors import AgentCliError
from agent_cli.contracts.events import ApprovalRequested
from agent_cli.contracts.timeline import Json
from agent_cli.contracts.tooling import check_input
from agent_cli.sandbox import Report
from agent_cli_tools import Workspace, builtin_tools
from agent_cli_tools.bash import job_output_tool, runs_no_git
from tests.fakes import calls, says, scripted_agent, texts, tool_use
from tests.tool_traits import traits
from tests.tools.calling import Tools

PARAMETERS = {
    "read": ["path", "offset", "limit", "pages"],
    "edit": ["path", "edits"],
    "write": ["path", "content"],
    "bash": ["command", "timeout", "background", "notify", "unsandboxed"],
    "grep": ["pattern", "path", "glob", "mode", "context", "ignore_case", "limit"],
    "glob": ["pattern", "path", "limit"],
}


async def test_builtin_tools_have_the_documented_names_and_parameters(tools: Tools) -> None:
    """Users' rules and recorded sessions refer to them."""
    found = {}
    for tool in builtin_tools(tools.workspace, None, permissions="allow"):
        properties = tool.spec.input_schema["properties"]
        assert isinstance(properties, dict)
        found[tool.name] = list(properties)

    assert found == PARAMETERS


@pytest.mark.parametrize(
    ("argument", "value", "sentence"),
    [
        ("permissions", "Ask", "permissions must be one of 'ask', 'allow', not 'Ask'"),
        ("permissions", True, "permissions must be one of 'ask', 'allow', not True"),
        ("sandbox", "off", "must be Sandbox or None, not str"),
        ("workspace", "project", "workspace must be Workspace, not str"),
    ],
)
def test_argument_that_is_none_of_the_values_is_refused(
    tmp_path: Path, argument: str, value: object, sentence: str
) -> None:
    """Any other text for permissions let every call run unasked."""
    # Any: an author without a type checker.
    arguments: dict[str, Any] = {"workspace": Workspace(tmp_path), argument: value}

    with pytest.raises(AgentCliError, match=sentence):
        builtin_tools(**arguments)


async def test_builtin_tool_definitions_stay_below_800_tokens(tools: Tools) -> None:
    """They are part of every request; measured in bytes / 4, like the budget."""
    size = sum(
        len(json.dumps([tool.spec.name, tool.spec.description, tool.spec.input_schema]).encode())
        for tool in builtin_tools(tools.workspace, None, permissions="allow")
    )

    assert size / 4 < 800


async def test_only_edit_write_and_bash_are_marked_as_changing(tools: Tools) -> None:
    """Plan mode allows the others; commands and waits for jobs have limits of their own."""
    found = builtin_tools(tools.workspace, None, permissions="allow")

    assert {tool.name: traits(tool) for tool in (*found, job_output_tool(tools.workspace))} == {
        "read": {"label": "Read", "changes": False},
        "edit": {"label": "Edit"},
        "write": {"label": "Write"},
        "bash": {"label": "Run", "parallel_safe": runs_no_git, "timeout_s": 0},
        "grep": {"label": "Grep", "changes": False},
        "glob": {"label": "Glob", "changes": False},
        "job_output": {
            "label": "Job output",
            "changes": False,
            "takes_slot": False,
            "timeout_s": 0,
        },
    }


async def test_edit_and_write_declare_the_resolved_path_they_write(tools: Tools) -> None:
    """S1-44: calls that write one file run one after the other, whatever name they use."""
    tools.file("a.txt", "x")
    (tools.root / "link").symlink_to("a.txt")
    write, edit = tools.named("write"), tools.named("edit")

    given = check_input(write, {"path": "./link", "content": ""})

    assert write.writes(given) == (str(tools.root / "a.txt"),)
    assert edit.writes(given) == (str(tools.root / "a.txt"),)


async def test_path_that_will_be_refused_is_not_declared_as_written(tools: Tools) -> None:
    """The refusal is the call's answer, not a planning error."""
    write = tools.named("write")

    assert write.writes(check_input(write, {"path": ".env", "content": ""})) == ()


async def test_every_builtin_tool_has_a_summary_for_the_screen(tools: Tools) -> None:
    inputs: dict[str, Json] = {
        "read": {"path": "a.txt"},
        "edit": {"path": "a.txt", "edits": [{"old": "a", "new": "b"}]},
        "write": {"path": "a.txt", "content": ""},
        "bash": {"command": "echo one\necho two"},
        "grep": {"pattern": "x+"},
        "glob": {"pattern": "*.py", "path": "src"},
    }

    found = {
        tool.name: tool.summary(check_input(tool, inputs[tool.name]))
        for tool in builtin_tools(tools.workspace, None, permissions="allow")
    }

    assert found == {
        "read": "a.txt",
        "edit": "a.txt",
        "write": "a.txt",
        "bash": "echo one …",
        "grep": "x+ in .",
        "glob": "*.py in src",
    }


async def test_unknown_parameter_is_named_in_the_error(tools: Tools) -> None:
    """S2-21: a misspelt parameter must not be ignored."""
    assert "limits" in await tools.error("read", path="a", limits=3)


async def test_builtin_tools_declare_the_paths_they_read_and_write(tools: Tools) -> None:
    """C1: a read after an edit of the same file runs after it; a command may read everything."""
    root = tools.workspace.dirs[0]
    given: dict[str, Json] = {
        "read": {"path": "@a.txt"},
        "edit": {"path": "a.txt", "edits": [{"old": "x", "new": "y"}]},
        "write": {"path": "/elsewhere/a.txt", "content": ""},
        "bash": {"command": "make"},
        "grep": {"pattern": "x"},
        "glob": {"pattern": "x", "path": "src"},
    }
    touched = {}
    for tool in builtin_tools(tools.workspace, None, permissions="allow"):
        params = check_input(tool, given[tool.name])
        touched[tool.name] = [*tool.reads(params)], [*tool.writes(params)]

    assert touched == {
        "read": ([f"{root}/a.txt"], []),
        "edit": ([], [f"{root}/a.txt"]),
        "write": ([], ["/elsewhere/a.txt"]),  # a person may open it
        "bash": ([root], []),
        "grep": ([root], []),
        "glob": ([f"{root}/src"], []),
    }


async def test_library_calls_that_change_something_wait_for_approval(tmp_path: Path) -> None:
    """Safe by default: reading runs, other calls pause the run."""
    with Workspace(tmp_path) as workspace:
        agent, _, events = scripted_agent(
            calls(
                tool_use("glob", {"pattern": "*"}, "t1"),
                tool_use("write", {"path": "a", "content": "x"}, "t2"),
                tool_use("bash", {"command": "touch b"}, "t3"),
            ),
            tools=list(builtin_tools(workspace)),
        )

        result = await agent.prompt("go")
        assert result.stop_reason == "waiting_for_approval"
        result = await agent.reject("t2")

    asked = {e.call.name: e.call.reason for e in events if isinstance(e, ApprovalRequested)}
    assert result.stop_reason == "waiting_for_approval"
    assert asked == {"write": "it changes a file", "bash": "it runs a command"}
    assert list(tmp_path.iterdir()) == []


async def test_library_commands_do_not_run_without_a_sandbox(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bash never runs with full permissions by accident."""
    monkeypatch.setattr("agent_cli.sandbox.sandbox.Sandbox.probe", lambda _self: Report("none"))
    with Workspace(tmp_path) as workspace:
        agent, _, _ = scripted_agent(
            calls(tool_use("bash", {"command": "touch b"})),
            says("ok"),
            tools=list(builtin_tools(workspace, permissions="allow")),
        )

        result = await agent.prompt("go")

    assert "sandbox" in texts(result.messages)["t1"]
    assert list(tmp_path.iterdir()) == []
