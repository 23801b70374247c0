"""Hooks that a model, an agent or a server's tool answers, in the whole program."""

import json
import sys
from pathlib import Path

from agent_cli.contracts.timeline import Json
from agent_cli.hooks.definition import HookGroup, parse_hooks
from agent_cli.trust.effects import what_would_act
from tests.e2e.program import Finished, agent_cli, results_in, text_of
from tests.forked import arguments_of
from tests.hooks.test_scripts import YOLO, bash, hooks, printed, result_of
from tests.messages_api import Gate, reply, serve_in_thread, tool_use
from tests.messages_api.script import Payload
from tests.tables import each_row
from tests.waiting import at_growing_limits

NO = '{"ok": false, "reason": "the tests come first"}'
SERVER = """
from mcp.server.mcpserver import MCPServer

server = MCPServer("guard")


@server.tool(structured_output=False)
def judge(path: str, words: list[str]) -> str:
    return '{"decision": "block", "reason": "not %s (%s)"}' % (path.rsplit("/")[-1], words[0])


server.run()
"""


def asked(kind: str, matcher: str = "", **more: Json) -> list[Json]:
    return [{"matcher": matcher, "hooks": [{"type": kind, **more}]}]


def test_prompt_hook_blocks_a_call_unless_the_model_says_ok(tmp_path: Path) -> None:
    """Its request holds the rule and the event, and its cost is the run's."""
    hooks(None, PreToolUse=asked("prompt", "Bash", prompt="No files. $ARGUMENTS", model="haiku"))
    verdicts = {
        NO: "the tests come first",
        f"I think so:\n```json\n{NO}\n```": "the tests come first",
        "maybe": "it gave no verdict ('maybe')",
        '{"ok": true}': "",
    }
    spent = {"input_tokens": 20, "output_tokens": 1_000}
    script = [
        answer
        for number, verdict in enumerate(verdicts)
        for answer in (reply(bash(f"touch made{number}")), reply(verdict, usage=spent))
    ]

    with serve_in_thread(*script, reply("Done.")) as api:
        run = agent_cli("-p", "go", *YOLO, "--output-format", "json", api=api)
        requests: list[Payload] = [request.body for request in api.requests]

    assert run.code == 0, run.stderr
    for number, why in enumerate(verdicts.values()):
        assert why in result_of(requests, 2 * number + 2)
        judge = json.dumps(requests[2 * number + 1])
        assert "No files. {" in judge
        assert f"touch made{number}" in judge
        assert "haiku" in requests[2 * number + 1]["model"]
    assert [path.name for path in tmp_path.glob("made*")] == ["made3"]
    assert json.loads(run.stdout)["usage"]["output_tokens"] >= 4_000


def test_agent_hook_reads_files_and_sends_the_model_back(tmp_path: Path) -> None:
    """It reads what the session may read unasked, and starts no hooks of its own."""
    (tmp_path / "notes.txt").write_text("unfinished business")
    hooks(
        None,
        Stop=asked("agent", prompt="Is notes.txt finished?"),
        PreToolUse=asked("prompt", "Read", prompt="never asked"),
    )
    read, write = tool_use("read", {"path": "notes.txt"}), bash("touch made")
    answers = (reply("Done."), reply(read, write), reply(NO), reply("Now."), reply('{"ok": true}'))

    run, requests = printed(*answers)

    assert (run.code, len(requests)) == (0, 5), run.stderr
    assert "unfinished business" in json.dumps(requests[2]["messages"])
    assert [tool["name"] for tool in requests[1]["tools"]] == ["read", "grep", "glob"]
    assert "the tests come first" in json.dumps(requests[3]["messages"][-1])
    assert not (tmp_path / "made").exists()


def test_agent_hook_reads_the_file_that_its_call_has_just_edited(tmp_path: Path) -> None:
    """The call holds the file until its hooks have ended: they wait for no turn with it."""
    (tmp_path / "a.txt").write_text("one\n")
    hooks(None, PostToolUse=asked("agent", "Edit", prompt="Is it good?", timeout=50))
    read = tool_use("read", {"path": "a.txt"})
    edit = tool_use("edit", {"path": "a.txt", "edits": [{"old": "one", "new": "two"}]})

    run, requests = printed(reply(read), reply(edit), reply(read), reply(NO), reply("Done."))

    assert "two" in text_of(results_in(requests[3])[0]), run.stderr
    assert "the tests come first" in json.dumps(requests[4]["messages"][-1])


def forked(script: Path) -> list[Json]:
    """Return the arguments of a server whose imports nobody waits for."""
    return [*arguments_of(str(script))]


def guarding_server(folder: Path) -> dict[str, Json]:
    """Configure a server for hooks of *folder*; return what names its tool."""
    (folder / "guard.py").write_text(SERVER)
    entry: Json = {"command": sys.executable, "args": forked(folder / "guard.py")}
    (folder / ".mcp.json").write_text(json.dumps({"mcpServers": {"guard": entry}}))
    return {"server": "guard", "tool": "judge"}


def test_tool_of_a_server_answers_like_a_program_but_the_mode_asks_for_a_project(
    tmp_path: Path,
) -> None:
    """A repository's hook has no more rights with a server than the model."""
    judge = guarding_server(tmp_path)
    given: Json = {"path": "${tool_input.file_path}", "words": ["${tool_name}", "x"]}
    hooks(None, PreToolUse=asked("mcp_tool", "Write", input=given, **judge))
    hooks(tmp_path, PreToolUse=asked("mcp_tool", "Grep", input=given, **judge))
    write = tool_use("write", {"path": "a.txt", "content": "x"})
    grep = tool_use("grep", {"pattern": "x"})

    _, requests = printed(reply(write), reply(grep), reply("Done."), arguments=("--trust",))

    assert "not a.txt (Write)" in result_of(requests)
    assert not (tmp_path / "a.txt").exists()
    assert "needs a rule of yours" in result_of(requests, 2)


def test_hook_of_a_project_calls_no_tool_that_a_rule_denies(tmp_path: Path) -> None:
    judge = guarding_server(tmp_path)
    given: Json = {"path": "p", "words": ["w"]}
    hooks(tmp_path, PreToolUse=asked("mcp_tool", "Grep", input=given, **judge))
    grep = tool_use("grep", {"pattern": "x"})

    rules = ("--deny", "mcp__guard")
    _, requests = printed(reply(grep), reply("Done."), arguments=("--trust", *rules))

    assert "is not allowed" in result_of(requests)


def test_trust_question_shows_what_models_and_servers_are_asked(tmp_path: Path) -> None:
    hooks(
        tmp_path,
        Stop=asked("agent", prompt="Is it done?"),
        PreToolUse=asked("mcp_tool", server="s", tool="t", input={"a": "${cwd}"}),
    )

    [file] = what_would_act(tmp_path)

    assert "has an agent that reads files judge, at your cost, by: Is it done?" in file.effects[0]
    assert 'calls t of MCP server s with {"a": "${cwd}"}' in file.effects[1]


@each_row(
    ("event", "hook", "fault"),
    [
        ("Stop", {"type": "prompt"}, "needs a prompt"),
        ("SessionStart", {"type": "prompt", "prompt": "p"}, "cannot run at SessionStart"),
        ("Stop", {"type": "mcp_tool", "server": "s"}, "needs a server and a tool"),
        ("Stop", {"type": "wasm"}, "use one of command, http, prompt, agent, mcp_tool"),
    ],
)
def test_faulty_definitions_are_named(event: str, hook: dict[str, Json], fault: str) -> None:
    _, [problem] = parse_hooks([HookGroup(event, {"hooks": [hook]}, "here:7")])

    assert problem.startswith("here:7: ")
    assert fault in problem


async def test_agent_hook_over_its_time_limit_blocks_and_its_request_ends(tmp_path: Path) -> None:
    """Nothing of its agent works on, and the run does."""

    async def run_with(limit_s: int) -> tuple[Finished, list[Payload], str]:
        held = Gate()
        hooks(None, PreToolUse=asked("agent", "Bash", prompt="No files.", timeout=limit_s))
        script_of = (reply(bash("touch made")), reply("late", gate=held), reply("Done."))
        with serve_in_thread(*script_of) as api:
            run = agent_cli("-p", "go", *YOLO, api=api)
            requests: list[Payload] = [request.body for request in api.requests]
            held.open()
        return run, requests, f"it took longer than {limit_s} s"

    run, requests, told = await at_growing_limits(run_with, lambda found: len(found[1]) == 3)

    assert run.code == 0, run.stderr
    assert told in result_of(requests, 2)
    assert not (tmp_path / "made").exists()


def test_cost_limit_reached_within_an_agent_hook_ends_the_run_and_runs_no_tool(
    tmp_path: Path,
) -> None:
    """The agent's calls are the run's: the guard blocks, and nothing more is asked."""
    (tmp_path / "a").write_text("text")
    hooks(None, PreToolUse=asked("agent", "Bash", prompt="No files.", model="opus"))
    read = tool_use("read", {"path": "a"})
    spent = {"input_tokens": 300_000, "output_tokens": 1_000}
    script_of = (reply(bash("touch made")), *[reply(read, usage=spent)] * 3)

    with serve_in_thread(*script_of) as api:
        run = agent_cli("-p", "go", *YOLO, "--max-cost", "1.00", "--output-format", "json", api=api)

    assert (run.code, len(api.requests)) == (4, 2), run.stderr
    assert json.loads(run.stdout)["stop_reason"] == "max_cost"
    assert "its agent ended early (cost limit reached: " in run.stderr
    assert "send a message" not in run.stderr
    assert not (tmp_path / "made").exists()
