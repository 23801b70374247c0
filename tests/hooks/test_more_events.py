"""The newer events and fields of Claude Code's hooks, in the whole program."""

import json
from pathlib import Path

import pytest

from agent_cli.app.arguments import parse_arguments
from agent_cli.app.hooks.lifecycle import defined_hooks
from agent_cli.app.startup import start
from agent_cli.contracts.timeline import Json
from agent_cli.hooks.events import EVENTS, NOT_HERE
from agent_cli.hooks.watching import FileWatch
from tests.hooks.test_scripts import bash, command, hooks, printed, result_of, script
from tests.messages_api import error, reply, tool_use
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
    """One log of a run with a call that works, one that fails and one that a rule refuses."""
    events = ("PostToolUse", "PostToolUseFailure", "PostToolBatch", "PermissionDenied", "Stop")
    hooks(None, **logged(*events))
    calls = [bash("sleep 0.2"), bash("exit 3"), tool_use("read", {"path": ".env"})]
    arguments = ("--permission-mode", "yolo", "--deny", "Read(.env)", "--effort", "high")
    (tmp_path / ".env").write_text("A=1")

    run, _ = printed(reply(*calls), reply("Done."), arguments=arguments)

    payloads = told()
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
    ("answer", "requests_sent"),
    [
        ({"hookSpecificOutput": {"additionalContext": "run the tests"}}, 2),
        ({"decision": "block", "reason": "that is enough"}, 1),
        ({"continue": False, "stopReason": "that is enough"}, 1),
    ],
)
def test_post_tool_batch_hook_adds_context_or_ends_the_run(
    answer: dict[str, Json], requests_sent: int
) -> None:
    hooks(None, PostToolBatch=command(f"echo '{json.dumps(answer)}'"))

    run, requests = printed(reply(bash("true")), reply("Done."))

    assert len(requests) == requests_sent
    said = json.dumps(requests[-1]["messages"][-1]) if requests_sent == 2 else run.stderr
    assert ("run the tests" if requests_sent == 2 else "that is enough") in said


def test_permission_denied_hook_may_tell_the_model_to_try_again() -> None:
    answer = {"hookSpecificOutput": {"retry": True}}
    hooks(None, PermissionDenied=command(f"echo '{json.dumps(answer)}'"))

    _, requests = printed(
        reply(bash("touch a")), reply("Done."), arguments=("--deny", "Bash(touch *)")
    )

    assert "You may try this call again." in result_of(requests)


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
    """The names of the matcher and the watchPaths of a SessionStart hook are watched."""
    (tmp_path / "conf").mkdir()
    watched = {"hookSpecificOutput": {"watchPaths": [str(tmp_path / "conf")]}}
    log = "python3 " + script("log.py", LOG)
    hooks(
        None,
        SessionStart=command(f"echo '{json.dumps(watched)}'"),
        FileChanged=[*command(log, "notes.txt|other"), *command(log, "conf.toml")],
    )
    (tmp_path / "notes.txt").write_text("x")
    wait = "until grep -q conf.toml told.jsonl && grep -q notes.txt told.jsonl; do sleep 0.1; done"
    change = "echo y >> notes.txt; echo z > conf/conf.toml; echo n > conf/nobody; "

    run, _ = printed(reply(bash(f"{change} timeout 20 sh -c '{wait}'")), reply("Done."))

    changes = told()["FileChanged"]
    assert run.code == 0
    assert {(Path(str(each["file_path"])).name, each["event"]) for each in changes} == {
        ("notes.txt", "change"),
        ("conf.toml", "add"),
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
