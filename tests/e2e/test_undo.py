"""The agent's file changes, shown and undone by the program as users run it."""

import subprocess
from pathlib import Path

import pytest

from agent_cli.session_store import SessionStore
from agent_cli.system.paths import sessions_dir
from tests.e2e.program import AGENT_CLI, agent_cli, environment, said_by_user
from tests.hooks.test_scripts import command, hooks, script
from tests.messages_api import reply, serve_in_thread, text, tool_use
from tests.repl.terminal import Terminal


def test_file_changes_of_runs_are_shown_undone_and_reported_to_the_model() -> None:
    """The tools are the real ones; it works after a restart, and never over a user's changes."""
    Path("a.txt").write_text("one\n")
    Path("mine.txt").write_text("one\n")
    edit = tool_use("edit", {"path": "a.txt", "edits": [{"old": "one", "new": "two"}]})
    make = tool_use("write", {"path": "src/new.txt", "content": "new\n"})
    run = tool_use("bash", {"command": "touch built && echo three > a.txt"})
    other = tool_use("edit", {"path": "mine.txt", "edits": [{"old": "one", "new": "two"}]})
    ended = reply(text("Done."))
    with serve_in_thread(
        reply(other), ended, reply(edit), reply(make), reply(run), ended, ended, ended
    ) as api:
        options = ("--permission-mode", "yolo")
        first = agent_cli(
            *options,
            script="change mine\nchange more\n/diff run\n",
            api=api,
        )
        Path("mine.txt").write_text("two, and mine\n")
        second = agent_cli(
            *options,
            "--continue",
            script="/undo\n/undo\nhello\nyou\n",
            api=api,
        )
        told = [str(request.body["messages"]) for request in api.requests[-2:]]

    assert (
        "--- a/a.txt\n+++ b/a.txt\n@@ -1,1 +1,1 @@\n-one\n+three\n"
        "--- /dev/null\n+++ b/src/new.txt\n@@ -0,0 +1,1 @@\n+new\n"
        "--- /dev/null\n+++ b/built\n(empty)\n3 files, +2 −1\n"
    ) in first.stderr
    assert (
        "taking back `touch built && echo three > a.txt` and 2 edits: 3 files, 8 bytes\n"
        "undone: change more\n  restored  a.txt\n  deleted   src/new.txt\n  deleted   built\n"
        "nothing was undone, because somebody changed these files too:"
    ) in second.stderr
    assert "and `agent-cli undo restore FILE` brings the version before the last" in second.stderr
    assert Path("a.txt").read_text() == "one\n"
    assert Path("mine.txt").read_text() == "two, and mine\n"
    assert sorted(path.name for path in Path().iterdir()) == ["a.txt", "mine.txt"]
    assert [each.count("The user took back changes") for each in told] == [1, 1]
    assert f"These files, which you had made, are gone: {Path('src/new.txt').absolute()}" in told[0]


def test_name_with_a_newline_is_one_line_to_the_user_and_to_the_model() -> None:
    """It was two names in the list, and its end could read as words of the user."""
    odd = tool_use("bash", {"command": "touch $'a\\nb\\r\\xe2\\x80\\xa8c'"})
    with serve_in_thread(reply(odd), *[reply("Done.")] * 2) as api:
        options = ("--permission-mode", "yolo")
        run = agent_cli(*options, script="go\n/diff\n/undo\nhello\n", api=api)
        told = str(api.requests[-1].body["messages"][-1]["content"])

    assert "--- /dev/null\n+++ b/a\\nb\\r\\u2028c\n" in run.stderr
    assert "  deleted   a\\nb\\r\\u2028c\n" in run.stderr
    assert not [*Path().iterdir()]
    assert f"are gone: {Path('a').absolute()}\\\\nb\\\\r\\\\u2028c." in told


def test_undo_takes_back_what_a_formatter_of_a_hook_made_of_an_edit() -> None:
    """It is no change of somebody else, with a watched command beside it, too."""
    formatter = script("format.sh", "#!/bin/sh\nsed -i s/two/2/ *.txt\n")
    hooks(PostToolUse=command(formatter, matcher="Edit"))
    Path("a.txt").write_text("one\n")
    edit = tool_use("edit", {"path": "a.txt", "edits": [{"old": "one", "new": "two"}]})
    run = tool_use("bash", {"command": "touch built"})
    with serve_in_thread(reply(edit), reply(run), reply(text("Done."))) as api:
        first = agent_cli("--permission-mode", "yolo", script="go\n/diff\n/undo\n", api=api)

    assert "-one\n+2\n" in first.stderr
    assert "undone: go" in first.stderr, first.stderr
    assert Path("a.txt").read_text() == "one\n"
    assert not Path("built").exists()


def test_fork_at_an_entry_continues_from_that_entry() -> None:
    """S2-53: the model gets that part; `/undo` knows later runs; the fork can be resumed."""
    writes = [
        reply(text("I write."), tool_use("write", {"path": f"{name}.txt", "content": f"{name}\n"}))
        for name in ("one", "two")
    ]
    answers = [reply(text(word)) for word in ("First.", "Second.", "Third.", "Fourth.", "Fifth.")]
    options = ("--permission-mode", "yolo")
    with serve_in_thread(writes[0], answers[0], writes[1], *answers[1:]) as api:
        agent_cli(*options, script="make one\nmake two\n", api=api)
        [original] = SessionStore(sessions_dir()).list()
        shown = agent_cli("sessions", "show", original.id, "--entries")
        rows = [line.split("  ", 1) for line in shown.stdout.splitlines()]
        half, whole = rows[0][0], rows[1][0]

        copy = agent_cli(
            *options, "--fork", f"{original.id}@{whole}", script="/undo\nthree\n", api=api
        )
        resumed = agent_cli(*options, "--continue", script="/fork 2\nfour\n", api=api)
        agent_cli("--fork", f"{original.id}@{half}", "-p", "five", api=api)
        sent = [said_by_user(request.body) for request in api.requests[-3:]]

    assert [text.strip() for _, text in rows] == [
        "I write. · write",
        "you> make one",
        "I write. · write",
        "you> make two",
    ]
    assert "undone: a run that is no longer part of this conversation\n  deleted   two.txt" in (
        copy.stderr
    )
    assert sorted(path.name for path in Path().glob("*.txt")) == ["one.txt"]
    assert [each[0] for each in sent] == ["make one"] * 3
    assert [
        [word for word in ("one", "two", "three", "four", "five") if word in each.split()]
        for each in map(" ".join, sent)
    ] == [["one", "three"], ["one", "four"], ["one", "five"]]
    assert "it ends with: you> make one" in resumed.stderr
    assert len(api.requests[-1].body["messages"]) == 3  # the partial answer, result and prompt
    assert api.refusals == []
    assert len(SessionStore(sessions_dir()).list()) == 4


def test_rewind_restores_files_and_conversation_in_one_step() -> None:
    """Both prompts are gone from the next request, and so are their changes."""
    Path("a.txt").write_text("one\n")
    edit = tool_use("edit", {"path": "a.txt", "edits": [{"old": "one", "new": "two"}]})
    make = tool_use("write", {"path": "new.txt", "content": "new\n"})
    ended = reply(text("Done."))
    with (
        serve_in_thread(reply(edit), ended, reply(make), ended, reply("Here.")) as api,
        Terminal(AGENT_CLI, "--permission-mode", "auto-edit", **environment(api, {})) as terminal,
    ):
        terminal.until_prompt()
        for done, prompt in enumerate(("change it", "make one"), 1):
            terminal.send(f"{prompt}\r")
            terminal.until(lambda done=done: terminal.text.count("Done.") == done)  # type: ignore[misc]
            terminal.until_prompt()
        changed = Path("a.txt").read_text(), Path("new.txt").exists()
        terminal.send("/rewind\r")
        terminal.until("to before which?")
        terminal.send("\x1b[B\r")
        terminal.until("restore what?")
        terminal.send("\r")
        terminal.until("back to before: change it")
        terminal.until(lambda: terminal.last_row == "you> change it")
        terminal.send("\x15instead\r")
        terminal.until("Here.")

        said = said_by_user(api.requests[-1].body)

    assert changed == ("two\n", True)
    assert Path("a.txt").read_text() == "one\n"
    assert not Path("new.txt").exists()
    assert "instead" in str(said)
    assert "make one" not in str(said)


def test_undo_asks_whether_to_take_back_the_files_that_did_not_change_since() -> None:
    """The user's own file stays, after a no or Esc all do; the rest goes back as it was then."""
    Path("a.txt").write_text("one\n")
    edit = tool_use("edit", {"path": "a.txt", "edits": [{"old": "one", "new": "two"}]})
    make = tool_use("bash", {"command": "echo new > new.txt; echo old > old.txt"})
    with (
        serve_in_thread(reply(edit), reply(make), reply("Done."), reply("Well.")) as api,
        Terminal(AGENT_CLI, "--permission-mode", "yolo", **environment(api, {})) as terminal,
    ):
        terminal.until_prompt()
        terminal.send("go\r")
        terminal.until("Done.")
        terminal.until_prompt()
        Path("a.txt").write_text("two, and mine\n")
        terminal.send("/undo\r")
        terminal.until("a.txt changed since and stays as it is; take back the rest,")
        terminal.send("n\r")
        terminal.until("nothing was undone")
        terminal.until_prompt()
        terminal.send("/undo\r")
        terminal.until(lambda: terminal.text.count("take back the rest") == 2)
        terminal.send("\x1b")
        terminal.until("interrupted")
        terminal.until_prompt()
        before = sorted(path.name for path in Path().glob("*.txt"))
        terminal.send("/undo\r")
        terminal.until(lambda: terminal.text.count("take back the rest") == 2)
        terminal.send("y\r")
        terminal.until("kept      a.txt")
        terminal.until_prompt()
        left = {path.name: path.read_text() for path in Path().glob("*.txt")}
        terminal.send("/diff\r")
        terminal.until("a.txt  +1 −1  (changed by somebody else too)")
        terminal.until_prompt()
        Path("a.txt").write_text("two\n")
        terminal.send("/undo\r")
        terminal.until("restored  a.txt")
        terminal.until_prompt()
        terminal.send("hello\r")
        terminal.until("Well.")
        told = str(api.requests[-1].body["messages"])

    assert before == ["a.txt", "new.txt", "old.txt"]
    assert left == {"a.txt": "two, and mine\n"}
    assert Path("a.txt").read_text() == "one\n"
    assert told.count("The user took back changes") == 2


def test_command_that_deletes_much_is_refused_without_a_person_and_asked_about_with_one() -> None:
    """`-p` ends with 3; in the terminal the command waits for the answer, and goes on."""
    subprocess.run(["git", "init", "-q"], check=True)
    Path("clean.sh").write_text("rm f?")
    for number in range(8):
        Path(f"f{number}").touch()
    removing = reply(tool_use("bash", {"command": "sh clean.sh"}))
    more = {"AGENT_CLI_UNDO__ASK_BEYOND_FILES": "5"}
    options = ("--permission-mode", "auto-edit")
    with serve_in_thread(removing, reply(text("Done.")), removing, reply(text("Well."))) as api:
        run = agent_cli("-p", "go", "--output-format", "json", *options, api=api, **more)
        if "sandbox: no" in run.stderr:
            pytest.skip("no sandbox works here")
        left = sorted(path.name for path in Path().glob("f?"))
        # Less than the five files, so that it asks about the first of the three that are left.
        more["AGENT_CLI_UNDO__ASK_BEYOND_FILES"] = "1"
        with Terminal(AGENT_CLI, *options, **environment(api, {**more})) as terminal:
            terminal.until_prompt()
            terminal.send("go\r")
            terminal.until("`sh clean.sh` has deleted or overwritten 1 file")
            terminal.until("let this command finish")
            terminal.until("❯ 1")  # from now on Enter answers
            terminal.send("\r")
            terminal.until("Well.")

    assert (run.code, run.result["refused_commands"], left) == (
        3,
        ["sh clean.sh"],
        ["f5", "f6", "f7"],
    )
    assert not [*Path().glob("f?")]
