"""The newer events and fields of Claude Code's hooks, in the whole program."""

import json
from pathlib import Path

import pytest

from agent_cli.app.arguments import parse_arguments
from agent_cli.app.hooks import defined_hooks
from agent_cli.app.startup import start
from agent_cli.contracts.timeline import Json
from agent_cli.contracts.written_hooks import NOT_HERE
from agent_cli.hooks import file_watch
from agent_cli.hooks.events import EVENTS
from agent_cli.hooks.file_watch import FileWatch
from tests.e2e.program import agent_cli, text_of
from tests.hooks.test_scripts import bash, command, hooks, printed, result_of, script
from tests.messages_api import error, reply, serve_in_thread, tool_use
from tests.messages_api.script import Payload

LOG = """
    #!/usr/bin/env python3
    import json, os, sys

    told = json.load(sys.stdin)
    told["CLAUDE_EFFORT"] = os.environ.get("CLAUDE_EFFORT", "")
    with open("told.jsonl", "a") as file:
        file.write(json.dumps(told) + "\\n")
"""


def logged(*events: str) -> dict[str, Json]:
    """Return definitions of hooks that log each of *events*."""
    path = script("log.py", LOG)
    return {event: command(f"python3 {path}") for event in events}


def told() -> dict[str, list[Payload]]:
    found: dict[str, list[Payload]] = {}
    for line in Path("told.jsonl").read_text().splitlines():
        payload = json.loads(line)
        found.setdefault(payload["hook_event_name"], []).append(payload)
    return found


def test_hooks_get_the_batch_the_refusal_the_time_and_the_effort(tmp_path: Path) -> None:
    """One log of a run with a call that works, one that fails and one that a rule refuses.

    After a batch they may add to it, after a refusal tell the model to try again.
    """
    told_back: dict[str, Json] = {
        "PostToolBatch": {"additionalContext": "run the tests"},
        "PermissionDenied": {"retry": True},
    }
    answers = {
        event: command(f"echo '{json.dumps({'hookSpecificOutput': answer})}'")
        for event, answer in told_back.items()
    }
    log = command("python3 " + script("log.py", LOG))
    both = {event: [*log, *answer] for event, answer in answers.items()}
    hooks(None, **logged("PostToolUse", "PostToolUseFailure", "Stop"), **both)
    calls = [bash("sleep 0.2"), bash("exit 3"), tool_use("read", {"path": ".env"})]
    arguments = ("--permission-mode", "yolo", "--deny", "Read(.env)", "--effort", "high")
    (tmp_path / ".env").write_text("A=1")

    run, requests = printed(reply(*calls), reply("Done."), arguments=arguments)

    payloads = told()
    sent = [block for each in requests[1]["messages"] for block in each.get("content", ())]
    results = [text_of(block) for block in sent if block["type"] == "tool_result"]
    again = ["You may try this call again." in text for text in results]
    assert again == [False, False, True]
    assert "run the tests" in str(sent)
    assert run.code == 0, run.stderr
    [worked], [failed] = payloads["PostToolUse"], payloads["PostToolUseFailure"]
    assert 200 <= worked["duration_ms"] < 60_000
    assert isinstance(failed["duration_ms"], int)
    [batch] = payloads["PostToolBatch"]
    assert [call["tool_name"] for call in batch["tool_calls"]] == ["Bash", "Bash", "Read"]
    assert ["tool_response" in call for call in batch["tool_calls"]] == [True, True, False]
    [denied] = payloads["PermissionDenied"]
    assert (denied["tool_name"], bool(denied["reason"])) == ("Read", True)
    for each in (worked, failed, batch, denied, payloads["Stop"][0]):
        assert (each["effort"], each["CLAUDE_EFFORT"]) == ({"level": "high"}, "high")


@pytest.mark.parametrize(
    "answer",
    [
        {"decision": "block", "reason": "that is enough"},
        {"continue": False, "stopReason": "that is enough"},
    ],
)
def test_post_tool_batch_hook_may_end_the_run(answer: dict[str, Json]) -> None:
    hooks(None, PostToolBatch=command(f"echo '{json.dumps(answer)}'"))

    run, requests = printed(reply(bash("true")), reply("Done."))

    assert len(requests) == 1
    assert "that is enough" in run.stderr


def test_failed_run_runs_the_stop_failure_hook() -> None:
    hooks(None, **logged("StopFailure", "Stop"))

    run, _ = printed(error(400, "invalid_request_error", "no"))

    [failure] = told()["StopFailure"]
    assert run.code == 1
    assert (failure["error"], "no" in str(failure["error_details"])) == ("unknown", True)
    assert "Stop" not in told()


def test_text_of_a_command_may_be_blocked_before_it_is_sent(tmp_path: Path) -> None:
    folder = tmp_path / ".claude" / "commands"
    folder.mkdir(parents=True)
    (folder / "ship.md").write_text("Ship $ARGUMENTS now.")
    hooks(
        None,
        UserPromptExpansion=[
            *command("echo 'not on a Friday' >&2; exit 2", "ship"),
            *command("python3 " + script("log.py", LOG)),
        ],
    )

    run, requests = printed(arguments=("--trust",), prompt="/ship it")

    [payload] = told()["UserPromptExpansion"]
    assert (run.code, requests) == (2, []), run.stderr
    assert "not on a Friday" in run.stderr
    assert payload["command_name"] == "ship"
    assert (payload["command_args"], payload["prompt"]) == ("it", "Ship it now.")


def test_watched_files_run_file_changed_hooks(tmp_path: Path) -> None:
    """The names of the matcher and the watchPaths of a SessionStart hook are watched.

    A change at the end of a run is told, too: short runs of `-p` ended before the next look.
    """
    (tmp_path / "conf").mkdir()
    watched = {"hookSpecificOutput": {"watchPaths": [str(tmp_path / "conf")]}}
    log = "python3 " + script("log.py", LOG)
    hooks(
        None,
        SessionStart=command(f"echo '{json.dumps(watched)}'"),
        FileChanged=[*command(log, "notes.txt|late.txt"), *command(log, "conf.toml")],
    )
    (tmp_path / "notes.txt").write_text("x")
    wait = "until grep -q conf.toml told.jsonl && grep -q notes.txt told.jsonl; do sleep 0.1; done"
    change = "echo y >> notes.txt; echo z > conf/conf.toml; echo n > conf/nobody; "

    run, _ = printed(
        reply(bash(f"{change} timeout 20 sh -c '{wait}'")),
        reply(bash("echo y > late.txt")),
        reply("Done."),
    )

    changes = told()["FileChanged"]
    assert run.code == 0
    assert {(Path(str(each["file_path"])).name, each["event"]) for each in changes} == {
        ("notes.txt", "change"),
        ("conf.toml", "add"),
        ("late.txt", "add"),
    }


def test_watch_tells_what_came_changed_and_went(tmp_path: Path) -> None:
    watch = FileWatch(tmp_path, ["a"])
    assert watch.look() == []

    (tmp_path / "a").write_text("1")
    came = watch.look()
    (tmp_path / "a").write_text("12")
    changed = watch.look()
    (tmp_path / "a").unlink()

    assert [each.what for each in (*came, *changed, *watch.look())] == ["add", "change", "unlink"]


def test_files_beyond_the_limit_push_none_out_that_is_still_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A storm of new files, as by a checkout, tells of no file that went."""
    monkeypatch.setattr(file_watch, "FILES_MAX", 100)
    for i in range(80):
        (tmp_path / f"b{i}").touch()
    watch = FileWatch(tmp_path, [])
    watch.watch([str(tmp_path)])
    watch.look()
    for i in range(150):
        (tmp_path / f"a{i}").touch()

    changes = [*watch.look(), *watch.look()]
    (tmp_path / "b7").unlink()

    assert {each.what for each in changes} == {"add"}
    assert len(changes) == 20
    assert (tmp_path / "b7", "unlink") in watch.look()


def test_events_of_claude_code_that_are_not_here_are_named_with_their_line() -> None:
    """All 33 are known: each runs, or a sentence says why it does not."""
    path = Path.home() / ".claude" / "settings.json"
    path.parent.mkdir()
    groups = json.dumps({event: command("true") for event in (*EVENTS, *NOT_HERE)}, indent=1)
    path.write_text(f'{{"hooks": {groups}}}')

    found, problems = defined_hooks(start(parse_arguments([]), may_ask=False))

    assert len({*EVENTS, *NOT_HERE}) == 33
    assert {hook.event for hook in found} == {*EVENTS}
    assert len(problems) == len(NOT_HERE)
    lines = path.read_text().splitlines()
    for event, problem in zip(NOT_HERE, problems, strict=True):
        number = next(at for at, line in enumerate(lines, 1) if f'"{event}"' in line)
        assert problem.startswith(f"{path}:{number}: hooks for {event} do not run: ")


def test_instructions_loaded_hooks_hear_of_each_file_once_with_its_reason(tmp_path: Path) -> None:
    """At the start, by import, in a folder that a tool comes to, and by the paths of a rule."""
    hooks(None, **logged("InstructionsLoaded"))
    for name, text in {
        "AGENTS.md": "Be brief. @docs/style.md",
        "docs/style.md": "Short words. @more.md",
        "docs/more.md": "Few words.",
        "CLAUDE.local.md": "Mine.",
        "src/AGENTS.md": "Here is code.",
        "src/a.py": "pass",
        ".claude/rules/py.md": "---\npaths: src/**/*.py\n---\nTyped.",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)

    run, _ = printed(
        reply(tool_use("read", {"path": "src/a.py"})),
        reply(tool_use("read", {"path": "src/a.py"})),
        reply("Done."),
    )

    keys = ("load_reason", "memory_type", "globs", "trigger_file_path", "parent_file_path")
    found = {
        str(Path(each["file_path"]).relative_to(tmp_path)): tuple(each.get(key) for key in keys)
        for each in told()["InstructionsLoaded"]
    }
    at = {name: str(tmp_path / name) for name in ("src/a.py", "AGENTS.md", "docs/style.md")}
    assert run.code == 0, run.stderr
    assert len(told()["InstructionsLoaded"]) == len(found)
    assert found == {
        "AGENTS.md": ("session_start", "Project", None, None, None),
        "docs/style.md": ("include", "Project", None, None, at["AGENTS.md"]),
        "docs/more.md": ("include", "Project", None, None, at["docs/style.md"]),
        "CLAUDE.local.md": ("session_start", "Local", None, None, None),
        "src/AGENTS.md": ("nested_traversal", "Project", None, at["src/a.py"], None),
        ".claude/rules/py.md": (
            "path_glob_match",
            "Project",
            ["src/**/*.py"],
            at["src/a.py"],
            None,
        ),
    }


def test_instructions_that_a_tool_brings_back_after_a_compaction_say_so(tmp_path: Path) -> None:
    """Nobody waits for these hooks, so that either may write its line first."""
    hooks(None, **logged("InstructionsLoaded", "UserPromptSubmit"))
    (tmp_path / "src").mkdir()
    (tmp_path / "src/AGENTS.md").write_text("Here is code.")
    (tmp_path / "src/a.py").write_text("pass")
    read = reply(tool_use("read", {"path": "src/a.py"}))

    with serve_in_thread(
        *(read, *[reply("ok")] * 3, reply("The notes."), read, *[reply("ok")] * 3)
    ) as api:
        run = agent_cli(
            api=api,
            script="one\ntwo\nthree\n/compact\nfour\n",
            AGENT_CLI_COMPACTION__PROTECTED_TAIL_MESSAGES="2",
        )

    assert run.code == 0, run.stderr
    prompts = {each["prompt_id"]: each["prompt"] for each in told()["UserPromptSubmit"]}
    loaded = told()["InstructionsLoaded"]
    reasons = {prompts[each["prompt_id"]]: each["load_reason"] for each in loaded}
    assert (len(loaded), reasons) == (2, {"one": "nested_traversal", "four": "compact"})
    assert "Here is code." in str(api.requests[-1].body["messages"])


def steps(**status: str) -> Payload:
    """Return a call that writes the list of steps: the name of each and its status."""
    return tool_use("todo", {"todos": [{"content": k, "status": v} for k, v in status.items()]})


def test_task_hooks_hear_of_new_and_done_steps_and_may_keep_the_list_as_it_was() -> None:
    """A hook that says no leaves the list alone, and the model reads why."""
    gate = script(
        "gate.py",
        LOG
        + """
    if told["task_subject"] == "ship":
        print("the tests fail", file=sys.stderr)
        sys.exit(2)
    """,
    )
    log = logged("TaskCreated")
    hooks(None, **log, TaskCompleted=command(f"python3 {gate}"))

    run, requests = printed(
        reply(steps(test="in_progress", ship="pending")),
        reply(steps(test="completed", ship="pending")),
        reply(steps(test="completed", ship="completed")),
        reply("Done."),
    )

    payloads = told()
    assert run.code == 0, run.stderr
    assert [(each["task_id"], each["task_subject"]) for each in payloads["TaskCreated"]] == [
        ("1", "test"),
        ("2", "ship"),
    ]
    assert [each["task_subject"] for each in payloads["TaskCompleted"]] == ["test", "ship"]
    assert "1 of 2 done" in result_of(requests, 2)
    assert "the list stays as it was: the tests fail" in result_of(requests, 3)
