"""Hooks at a terminal: input typed during a run, questions, a narrow screen."""

import json
from pathlib import Path

import pytest

from agent_cli.contracts.timeline import Json
from tests.e2e.program import in_terminal
from tests.hooks.test_scripts import YOLO, bash, command, hooks, script
from tests.messages_api import FakeMessagesApi, Gate, reply, serve_in_thread

CTRL_C = "\x03"
NO_SECRETS = """
    #!/usr/bin/env python3
    import json, sys

    if "secret" in json.load(sys.stdin)["prompt"]:
        print("no secrets, please", file=sys.stderr)
        sys.exit(2)
"""
UNTIL_GO = "echo be''gun; until test -e go; do sleep 0.05; done"


def sent(api: FakeMessagesApi) -> str:
    """Return the text of all requests."""
    return json.dumps([request.body["messages"] for request in api.requests])


@pytest.mark.parametrize("columns", [80, 30])
def test_a_blocked_message_typed_during_a_run_is_never_sent(columns: int) -> None:
    """The run continues without the message, and so do later prompts."""
    hooks(UserPromptSubmit=command(script("secrets.py", NO_SECRETS)))
    script_of = (reply(bash(UNTIL_GO)), reply("Done."), reply("Fine."))
    with serve_in_thread(*script_of) as api, in_terminal(api, *YOLO) as terminal:
        terminal.until_prompt()
        terminal.resize(columns)
        terminal.send("go\r")
        terminal.until("begun")
        terminal.send("my secret\r")
        terminal.until("after this step")
        Path("go").touch()
        terminal.until("Done.")
        terminal.until_prompt()
        shown = " ".join(terminal.text.split())
        terminal.send("and now\r")
        terminal.until("Fine.")

    assert "the run goes on without it: no secrets, please" in shown
    assert "secret" not in sent(api)
    assert api.refusals == []


def test_a_blocked_message_after_the_last_reply_ends_the_run() -> None:
    """There is no further request; the conversation continues with the next prompt."""
    hooks(UserPromptSubmit=command(script("secrets.py", NO_SECRETS)))
    script_of = (reply(bash(UNTIL_GO)), reply("Done."), reply("Fine."))
    with serve_in_thread(*script_of) as api, in_terminal(api, *YOLO) as terminal:
        terminal.until_prompt()
        terminal.send("go\r")
        terminal.until("begun")
        terminal.send("my secret\x1b\r")  # Alt-Enter: at the end of the run
        terminal.until("when done")
        Path("go").touch()
        terminal.until("it was not sent: no secrets, please")
        terminal.until_prompt()
        terminal.send("and now\r")
        terminal.until("Fine.")

    assert "secret" not in sent(api)
    assert api.refusals == []


def test_ask_decision_of_a_guard_asks_in_the_terminal(tmp_path: Path) -> None:
    """The question shows the guard's reason, and comes in every mode."""
    ask = json.dumps(
        {
            "hookSpecificOutput": {
                "hookEventName": "PreToolUse",
                "permissionDecision": "ask",
                "permissionDecisionReason": "it is Friday",
            }
        }
    )
    hooks(PreToolUse=command(f"echo '{ask}'", "Bash"))
    script_of = (reply(bash("touch one")), reply(bash("touch two")), reply("Done."))
    with serve_in_thread(*script_of) as api, in_terminal(api, *YOLO) as terminal:
        terminal.until_prompt()
        terminal.send("go\r")
        terminal.until("it is Friday")
        terminal.until("❯ ")
        terminal.send("y\r")
        terminal.until("touch two")
        terminal.until("❯ ")
        terminal.send("not today\r")
        terminal.until("Done.")

    assert (tmp_path / "one").exists()
    assert not (tmp_path / "two").exists()
    assert "not today" in sent(api)


def test_status_message_of_a_running_hook_is_shown(tmp_path: Path) -> None:
    """It is shown for as long as the hook runs, with escape characters made visible."""
    guard = command(
        "until test -e go; do sleep 0.05; done", statusMessage="checking \x1b[31mthe call"
    )
    hooks(PreToolUse=guard)
    script_of = (reply(bash("touch ran")), reply("Done."))
    with serve_in_thread(*script_of) as api, in_terminal(api, *YOLO) as terminal:
        terminal.until_prompt()
        terminal.send("go\r")
        terminal.until("checking \\x1b[31mthe call · ")
        assert not (tmp_path / "ran").exists()
        (tmp_path / "go").touch()
        terminal.until("Done.")
        terminal.until_prompt()

    assert "checking" not in terminal.text
    assert (tmp_path / "ran").exists()


def test_hook_that_takes_long_is_named_where_the_run_is_shown(tmp_path: Path) -> None:
    """Without a status message nobody would know what waits; Esc ends it as it ends the run."""
    hooks(PreToolUse=command("touch begun; sleep 600"))
    with serve_in_thread(reply(bash("touch ran"))) as api, in_terminal(api, *YOLO) as terminal:
        terminal.until_prompt()
        terminal.send("go\r")
        terminal.until("waiting for the PreToolUse hook touch begun; sleep 600")
        terminal.send("\x1b")
        terminal.until_prompt()

    assert (tmp_path / "begun").exists()
    assert not (tmp_path / "ran").exists()


def test_compaction_runs_pre_compact_and_post_compact_hooks(tmp_path: Path) -> None:
    """The output of PreCompact goes to the summary; its denial prevents the compaction."""
    hooks(
        PreCompact=command("cat > before.json; test ! -e no || exit 2; echo keep the names"),
        PostCompact=command("cat > after.json"),
    )
    script_of = (*(reply(f"{'Yes, ' * 50}{n}.") for n in range(8)), reply("A summary."))
    with serve_in_thread(*script_of) as api, in_terminal(api, *YOLO) as terminal:
        for number in range(8):
            terminal.until_prompt()
            terminal.send(f"prompt {number}\r")
            terminal.until(f"Yes, {number}.")
        (tmp_path / "no").touch()
        terminal.until_prompt()
        terminal.send("/compact the tests\r")
        terminal.until("blocked it")
        assert not (tmp_path / "after.json").exists()
        (tmp_path / "no").unlink()
        terminal.until_prompt()
        terminal.send("/compact the tests\r")
        terminal.until((tmp_path / "after.json").exists)
        terminal.until_prompt()

    before = json.loads((tmp_path / "before.json").read_text())
    assert (before["trigger"], before["custom_instructions"]) == ("manual", "the tests")
    assert "keep the names" in json.dumps(api.requests[-1].body)


def test_hooks_keep_a_model_ask_about_another_and_hear_of_folders(tmp_path: Path) -> None:
    """PreModelSwitch denies and asks, PostModelSwitch and DirectoryAdded are told."""
    ask: Json = {"hookSpecificOutput": {"permissionDecision": "ask"}, "reason": "it is dear"}
    hooks(
        PreModelSwitch=[
            *command("echo too small >&2; exit 2", ".*haiku.*"),
            *command(f"echo '{json.dumps(ask)}'", ".*opus.*"),
        ],
        PostModelSwitch=command("cat > part1; mv part1 switched.json"),
        DirectoryAdded=command("cat > part2; mv part2 added.json"),
    )
    more = tmp_path.with_name(f"{tmp_path.name}-more")
    more.mkdir()
    with serve_in_thread() as api, in_terminal(api) as terminal:
        terminal.until_prompt()
        terminal.send("/model haiku\r")
        terminal.until("too small")
        terminal.until_prompt()
        terminal.send("/model opus\r")
        terminal.until("it is dear")
        terminal.send("\r")
        terminal.until("model: claude-opus")
        terminal.until_prompt()
        terminal.send(f"/add-dir {more}\r")
        terminal.until((tmp_path / "added.json").exists)
        terminal.until((tmp_path / "switched.json").exists)

    switched = json.loads((tmp_path / "switched.json").read_text())
    assert "opus" in switched["to_model"]
    added = json.loads((tmp_path / "added.json").read_text())
    assert added["directory"] == str(more)


@pytest.mark.parametrize("when", ["idle", "running"])
def test_hook_in_the_background_wakes_the_model(when: str) -> None:
    """It ends with exit code 2 when the session is idle, or while the last reply arrives."""
    words = "until test -e go; do sleep 0.05; done; echo 'the build broke' >&2; exit 2"
    more: dict[str, Json] = {"rewakeMessage": "Review:", "rewakeSummary": "a review has ended"}
    hooks(PostToolUse=command(words, "Bash", asyncRewake=True, **more))
    gate = Gate()
    last = reply("First.", gate=gate) if when == "running" else reply("First.")
    with (
        serve_in_thread(reply(bash("true")), last, reply("Mended.")) as api,
        in_terminal(api, *YOLO) as terminal,
    ):
        terminal.until_prompt()
        terminal.send("go\r")
        terminal.until(lambda: len(api.requests) == 2)
        if when == "idle":
            terminal.until("First.")
            terminal.until_prompt()
        Path("go").touch()
        terminal.until("a review has ended")
        gate.open()
        terminal.until("Mended.")
        terminal.until_prompt()

    assert "Review:\\nthe build broke" in sent(api)
    assert len(api.requests) == 3


def test_esc_during_an_agent_hook_ends_its_request_and_the_run(tmp_path: Path) -> None:
    """No call runs, and the next prompt finds the session whole."""
    held = Gate()
    judge: Json = {"type": "agent", "prompt": "No files.", "timeout": 60}
    hooks(PreToolUse=[{"matcher": "Bash", "hooks": [judge]}])
    script_of = (reply(bash("touch ran")), reply('{"ok": true}', gate=held), reply("Fine."))
    with serve_in_thread(*script_of) as api, in_terminal(api, *YOLO) as terminal:
        terminal.until_prompt()
        terminal.send("go\r")
        terminal.until(held.reached.is_set)
        terminal.send("\x1b")
        terminal.until("interrupted")
        terminal.until_prompt()
        terminal.send("and now\r")
        terminal.until("Fine.")
        held.open()

    assert len(api.requests) == 3
    assert not (tmp_path / "ran").exists()
    assert api.refusals == []


def test_question_beside_the_work_that_a_guard_blocks_is_never_sent() -> None:
    """A `/btw` reaches the model as a prompt does."""
    hooks(UserPromptSubmit=command(script("secrets.py", NO_SECRETS)))
    with serve_in_thread(reply("first"), reply("never")) as api, in_terminal(api) as terminal:
        terminal.until_prompt()
        terminal.send("hi\r")
        terminal.until("first")
        terminal.until_prompt()
        terminal.send("/btw is my secret good?\r")
        terminal.until("a hook blocked this question; it was not sent")

        assert len(api.requests) == 1
