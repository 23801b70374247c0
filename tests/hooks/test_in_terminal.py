"""Hooks at a terminal: input typed during a run, questions, a narrow screen."""

import json
from pathlib import Path

from agent_cli.contracts.timeline import Json
from tests.e2e.program import in_terminal, text_of
from tests.hooks.test_scripts import YOLO, bash, command, hooks, script
from tests.messages_api import FakeMessagesApi, Gate, reply, serve_in_thread, tool_use
from tests.messages_api.script import Payload

CTRL_C = "\x03"
NO_SECRETS = """
    #!/usr/bin/env python3
    import json, sys

    if "secret" in json.load(sys.stdin)["prompt"]:
        print("no secrets, please", file=sys.stderr)
        sys.exit(2)
"""


def sent(api: FakeMessagesApi) -> str:
    """Return the text of all requests."""
    return json.dumps([request.body["messages"] for request in api.requests])


def until(number: int) -> Payload:
    """Return a command that says it has begun, and ends once there is a file of this number."""
    return bash(f"echo be''gun{number}; until test -e go{number}; do sleep 0.05; done")


def test_a_blocked_message_is_never_sent() -> None:
    """The run continues without the message, or has no further request; so do later prompts.

    A `/btw` reaches the model as a prompt does.
    """
    hooks(UserPromptSubmit=command(script("secrets.py", NO_SECRETS)))
    rounds = [
        answer
        for number in range(3)
        for answer in (reply(until(number)), reply(f"Done{number}."), reply(f"Fine{number}."))
    ]
    with serve_in_thread(*rounds) as api, in_terminal(api, *YOLO) as terminal:
        for number, columns in enumerate((80, 80, 30)):
            at_the_end = number == 1  # Alt-Enter
            terminal.until_prompt()
            terminal.resize(columns)
            terminal.send("go\r")
            terminal.until(f"begun{number}")
            terminal.send("my secret\x1b\r" if at_the_end else "my secret\r")
            terminal.until("when done" if at_the_end else "after this step")
            Path(f"go{number}").touch()
            terminal.until(f"Done{number}.")
            if at_the_end:
                terminal.until("it was not sent: no secrets, please")
            terminal.until_prompt()
            if not at_the_end:
                _, _, shown = terminal.text.rpartition(f"begun{number}")
                words = " ".join(shown.split())
                assert "the run goes on without it: no secrets, please" in words, columns
            terminal.send("and now\r")
            terminal.until(f"Fine{number}.")
        terminal.until_prompt()
        terminal.resize(80)
        terminal.send("/btw is my secret good?\r")
        terminal.until("a hook blocked this question; it was not sent")

    assert "secret" not in sent(api)
    assert len(api.requests) == len(rounds)
    assert api.refusals == []


def test_running_and_asking_guards_are_shown_and_esc_ends_them(tmp_path: Path) -> None:
    """A question shows the guard's reason, and comes in every mode.

    A status message, its escape characters made visible, is shown for as long as the hook runs;
    without one nobody would know what waits. After Esc no call runs, and the next prompt finds the
    session whole.
    """
    ask = json.dumps(
        {
            "hookSpecificOutput": {
                "hookEventName": "PreToolUse",
                "permissionDecision": "ask",
                "permissionDecisionReason": "it is Friday",
            }
        }
    )
    held = Gate()
    waits = "until test -e go; do sleep 0.05; done"
    judge: Json = {"type": "agent", "prompt": "No files.", "timeout": 60}
    hooks(
        PreToolUse=[
            *command(f"echo '{ask}'", "Bash"),
            *command(waits, "Write", statusMessage="checking \x1b[31mthe call"),
            *command("touch begun; sleep 600", "Glob"),
            {"matcher": "Grep", "hooks": [judge]},
        ]
    )
    script_of = (
        *(reply(bash("touch one")), reply(bash("touch two"))),
        *(reply(tool_use("write", {"path": "ran", "content": "x"})), reply("Done.")),
        reply(tool_use("glob", {"pattern": "*"})),
        *(reply(tool_use("grep", {"pattern": "x"})), reply('{"ok": true}', gate=held)),
        reply("Fine."),
    )
    with serve_in_thread(*script_of) as api, in_terminal(api, *YOLO) as terminal:
        terminal.until_prompt()
        terminal.send("go\r")
        terminal.until("it is Friday")
        terminal.until("❯ ")
        terminal.send("y\r")
        terminal.until("touch two")
        terminal.until("❯ ")
        terminal.send("not today\r")
        terminal.until("checking \\x1b[31mthe call · ")
        assert not (tmp_path / "ran").exists()
        (tmp_path / "go").touch()
        terminal.until("Done.")
        terminal.until_prompt()
        assert "checking" not in terminal.text
        terminal.send("go on\r")
        terminal.until("waiting for the PreToolUse hook touch begun; sleep 600")
        terminal.send("\x1b")
        terminal.until("interrupted")
        terminal.until_prompt()
        terminal.send("and judge\r")
        terminal.until(held.reached.is_set)
        terminal.send("\x1b")
        terminal.until(lambda: terminal.text.count("interrupted") == 2)
        terminal.until_prompt()
        terminal.send("and now\r")
        terminal.until("Fine.")
        held.open()

    assert (tmp_path / "one").exists()
    assert not (tmp_path / "two").exists()
    assert "not today" in sent(api)
    assert (tmp_path / "ran").exists()
    assert (tmp_path / "begun").exists()
    assert len(api.requests) == len(script_of)
    assert api.refusals == []
    stopped = [results for each in api.requests[-1].body["messages"] for results in each["content"]]
    assert "no files match" not in str(stopped)


def test_question_of_a_guard_offers_no_rule_that_would_answer_it() -> None:
    """An "always" for one call would answer the guard's question about the next, too."""
    ask = json.dumps({"hookSpecificOutput": {"permissionDecision": "ask"}})
    hooks(PreToolUse=command(f"echo '{ask}'", "Write"))
    calls = [tool_use("write", {"path": name, "content": "x"}) for name in ("one.md", "two.md")]
    script_of = (reply(bash("mkdir three")), reply(*calls), reply("Done."))
    with serve_in_thread(*script_of) as api, in_terminal(api) as terminal:
        terminal.until_prompt()
        terminal.send("go\r")
        for shown, offers in (("mkdir three", True), ("two.md", False)):
            terminal.until(shown)
            terminal.until("❯ ")
            _, _, question = terminal.text.rpartition(shown)
            assert (" this session" in question) is offers
            terminal.send("y\r")
        terminal.until("Done.")
        terminal.until_prompt()


def test_question_of_a_guard_is_the_same_after_a_restart() -> None:
    """Its reason says that a hook asks, so that no rule is offered there either."""
    answer = {"permissionDecision": "ask", "permissionDecisionReason": "it is Friday"}
    hooks(PreToolUse=command(f"echo '{json.dumps({'hookSpecificOutput': answer})}'", "Write"))
    calls = [tool_use("write", {"path": "two.md", "content": "x"})]
    with serve_in_thread(reply(*calls), reply("Done.")) as api:
        for words, keys in (((), "go\r"), (("--continue",), "")):
            with in_terminal(api, *words) as terminal:
                if keys:
                    terminal.until_prompt()
                    terminal.send(keys)
                terminal.until("a hook asks: it is Friday")
                terminal.until("❯ ")
                assert " this session" not in terminal.text
                if not keys:
                    terminal.send("y\r")
                    terminal.until("Done.")


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


def test_hook_in_the_background_wakes_the_model() -> None:
    """It ends with exit code 2 when the session is idle, or while the last reply arrives."""
    words = "until test -e go; do sleep 0.05; done; echo 'the build broke' >&2; exit 2"
    more: dict[str, Json] = {"rewakeMessage": "Review:", "rewakeSummary": "a review has ended"}
    hooks(PostToolUse=command(words, "Bash", asyncRewake=True, **more))
    gate = Gate()
    replies = [
        *(reply(bash("true")), reply("First."), reply("Mended.")),
        *(reply(bash("true")), reply("Second.", gate=gate), reply("Once more.")),
    ]
    with serve_in_thread(*replies) as api, in_terminal(api, *YOLO) as terminal:
        terminal.until_prompt()
        terminal.send("go\r")
        terminal.until("First.")
        terminal.until_prompt()
        Path("go").touch()
        terminal.until("a review has ended")
        terminal.until("Mended.")
        terminal.until_prompt()
        Path("go").unlink()
        terminal.send("go on\r")
        terminal.until(lambda: len(api.requests) == 5)
        Path("go").touch()
        terminal.until(lambda: terminal.text.count("a review has ended") == 2)
        gate.open()
        terminal.until("Once more.")
        terminal.until_prompt()

    for number in (2, 5):
        last = api.requests[number].body["messages"][-1]
        assert "Review:\nthe build broke" in text_of(last)
    assert len(api.requests) == len(replies)
