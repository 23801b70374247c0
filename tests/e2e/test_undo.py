"""What the agent did to files, shown and taken back by the program as users run it."""

from pathlib import Path

from tests.e2e.program import agent_cli
from tests.messages_api import reply, serve_in_thread, text, tool_use


def test_what_runs_changed_is_shown_taken_back_and_told_to_the_model() -> None:
    """Through the real tools; after a restart too, and not over what a person wrote."""
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
        first = agent_cli(*options, script="change mine\nchange more\n/diff run\n", api=api)
        Path("mine.txt").write_text("two, and mine\n")
        second = agent_cli(*options, "--continue", script="/undo\n/undo\nhello\nyou\n", api=api)
        told = [str(request.body["messages"]) for request in api.requests[-2:]]

    assert (
        "--- a/a.txt\n+++ b/a.txt\n@@ -1,1 +1,1 @@\n-one\n+three\n"
        "--- /dev/null\n+++ b/src/new.txt\n@@ -0,0 +1,1 @@\n+new\n2 files, +2 −1\n"
    ) in first.stderr
    assert (
        "undone: change more\n  restored  a.txt\n  deleted   src/new.txt\n"
        "commands ran too; other changes they made stay: touch built && echo three > a.txt\n"
        "nothing was undone, because somebody changed these files too:"
    ) in second.stderr
    assert Path("a.txt").read_text() == "one\n"
    assert Path("mine.txt").read_text() == "two, and mine\n"
    assert sorted(path.name for path in Path().iterdir()) == ["a.txt", "built", "mine.txt"]
    assert [each.count("The user took back changes") for each in told] == [1, 1]
    assert f"These files, which you had made, are gone: {Path('src/new.txt').absolute()}" in told[0]
