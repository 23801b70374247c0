"""FileChanged hooks hear of what calls of tools changed: real hooks, in the whole program."""

import json
from collections.abc import Iterable, Mapping, Sequence
from os.path import relpath
from pathlib import Path

import pytest

from agent_cli.core.conversation import Conversation
from agent_cli.hooks.definition import Hook, HookGroup, parse_hooks
from agent_cli.hooks.event_hooks import EventHooks
from agent_cli.hooks.events import Payloads
from agent_cli.hooks.file_watch import FileChange
from agent_cli.hooks.run import HookEnvironment
from agent_cli.hooks.runs import HookRuns
from agent_cli.undo.stopped_calls import why_missing
from tests.e2e.program import agent_cli
from tests.hooks.test_scripts import bash, command, hooks, printed, script
from tests.messages_api import reply, serve_in_thread, tool_use
from tests.waiting import LIMIT_S

pytestmark = pytest.mark.skipif(why_missing() != "", reason=why_missing() or "-")

# Python would take ten times as long for each of a hundred of them.
LOG = """
    #!/bin/sh
    printf '%s\\t%s\\n' "$1" "$(cat)" >> told
"""

FORMAT = """
    #!/usr/bin/env python3
    import json, sys

    text = sys.stdin.read()
    with open("told", "a") as file:
        file.write(f"\\t{text.strip()}\\n")
    told = json.loads(text)
    with open(told["file_path"], "a") as file:
        file.write(told["event"])
"""


def log() -> str:
    """Return the command of a hook that adds a line to a file in the workspace."""
    return script("log.sh", LOG)


def told_by_number() -> list[tuple[str, str, str]]:
    """Return the argument of each hook that ran, and the event and the file that it was told."""
    path = Path("told")
    lines = path.read_text().splitlines() if path.exists() else []
    payloads = (
        (number, json.loads(told)) for number, _, told in (x.partition("\t") for x in lines)
    )
    return [(number, told["event"], relpath(told["file_path"])) for number, told in payloads]


def told() -> list[tuple[str, str]]:
    """Return each event and file that the hook was told."""
    return [(event, file) for _number, event, file in told_by_number()]


def test_file_that_a_command_changed_runs_the_hooks_that_match_it() -> None:
    """Once for each change; the file that the hooks themselves write is none of them.

    The name of its folder is no reason to leave the file to the looks, which see it come and go.
    """
    matchers = (
        "src/a.py",
        "*.py",
        "src/*",
        "./src/",
        "x | ./src/a.py",
        "**/a.py",
        "x|a.py",
        "*",
        "",
    )
    of_others = ("src", "b.py|lib/a.py|*.txt|src|./a.py|./*.py|/a.py")
    written = [*matchers, *of_others]
    each = [command(f"{log()} {at}", name)[0] for at, name in enumerate(written)]
    hooks(None, FileChanged=each)

    run, _ = printed(
        reply(bash("mkdir src; echo x > src/a.py")),
        reply(bash("echo y >> src/a.py; cat src/a.py")),
        reply(bash("rm src/a.py")),
        reply("Done."),
    )

    assert run.code == 0, run.stderr
    lines = told_by_number()
    life = [("add", "src/a.py"), ("change", "src/a.py"), ("unlink", "src/a.py")]
    for at, matcher in enumerate(matchers):
        of_matcher = [(event, file) for number, event, file in lines if number == str(at)]
        assert of_matcher == life, matcher
    assert {number for number, _, _ in lines} == set(map(str, range(len(matchers))))


def test_change_that_the_poll_sees_too_is_told_once() -> None:
    """It looks at the names in the root, also while the command that changed one still runs."""
    hooks(None, FileChanged=command(log(), "notes.txt|*.py"))
    Path("notes.txt").write_text("x")
    seen = f"timeout {LIMIT_S} sh -c 'until grep -qs notes.txt told; do sleep 0.1; done'"

    run, _ = printed(
        reply(bash(f"echo y >> notes.txt; echo x > a.py; {seen}")),
        reply(bash("echo z >> notes.txt")),
        reply("Done."),
    )

    assert run.code == 0, run.stderr
    assert sorted(told()) == [("add", "a.py"), ("change", "notes.txt"), ("change", "notes.txt")]


@pytest.mark.parametrize(
    ("name", "commands"), [("notes.txt", "always"), ("src/a.py", "always"), ("notes.txt", "off")]
)
def test_change_that_a_hook_makes_to_its_file_runs_it_no_second_time(
    name: str, commands: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A formatter, which each time changes something, would run for ever.

    There is another look when the run ends. Where hooks are not recorded, what happens to the file
    while its hooks run counts as theirs.
    """
    # An ordinary user's hooks may gain rights, and are not watched otherwise.
    monkeypatch.setenv("AGENT_CLI_UNDO__COMMANDS", commands)
    path = script("format.py", FORMAT)
    hooks(None, FileChanged=command(f"python3 {path}", name))
    Path(name).parent.mkdir(exist_ok=True)
    waits = f"timeout {LIMIT_S} sh -c 'until grep -q add {name}; do sleep 0.1; done'"

    run, _ = printed(
        reply(bash(f"echo x > {name}")),
        reply(bash(waits)),
        reply("Done."),
    )

    assert run.code == 0, run.stderr
    assert told() == [("add", name)]


def test_edits_jobs_agents_and_moves_run_the_hooks_with_what_they_changed() -> None:
    """A job when it has ended, an agent after each of its calls, a moved folder by its files."""
    hooks(None, FileChanged=command(log(), "*.py"))
    Path("src/in").mkdir(parents=True)
    Path("src/in/a.py").write_text("x")
    ends = {"command": "echo x > job.py", "background": True}
    wait = tool_use("job_output", {"id": 1, "wait": True})
    agent = tool_use("agent", {"prompt": "go", "description": "go"})
    edit = {"path": "own/a.py", "edits": [{"old": "x = 1", "new": "x = 2"}]}

    run, _ = printed(
        reply(tool_use("write", {"path": "own/a.py", "content": "x = 1\n"})),
        reply(tool_use("edit", edit)),
        reply(tool_use("bash", ends)),
        reply(wait),
        reply(agent),
        reply(bash("echo x > agent.py")),
        reply("Done there."),
        reply(bash("mkdir new; echo x > new/b.py; mv new lib; mv src to; mv to old")),
        reply("Done."),
    )

    assert run.code == 0, run.stderr
    changes = told()
    assert changes[:4] == [
        ("add", "own/a.py"),
        ("change", "own/a.py"),
        ("add", "job.py"),
        ("add", "agent.py"),
    ]
    assert sorted(changes[4:]) == [
        ("add", "lib/b.py"),
        ("add", "old/in/a.py"),
        ("unlink", "src/in/a.py"),
    ]


def test_secrets_and_files_that_a_rule_hides_are_told_to_no_hook() -> None:
    """The sandbox masks them; a command without it may still change one."""
    hooks(None, FileChanged=command(log(), "*"))
    write = "echo A=1 > .env; mkdir d; echo x > d/hidden; echo x > d/a"

    with serve_in_thread(reply(bash(write)), reply("Done.")) as api:
        run = agent_cli(
            *("-p", "go", "--permission-mode", "yolo", "--deny", "Read(d/hidden)"),
            api=api,
            AGENT_CLI_SANDBOX__MODE="off",
        )

    assert run.code == 0, run.stderr
    assert Path(".env").exists()
    assert Path("d/hidden").exists()
    assert told() == [("add", "d/a")]


class Call:
    """A call that changed *files*; the records of hooks are empty."""

    records_hooks = True

    def __init__(self, files: Iterable[Path]) -> None:
        self._changes = [FileChange(path, "add") for path in files]

    def take(self) -> Iterable[Sequence[FileChange]]:
        return [self._changes]

    def take_own(self) -> Mapping[Path, tuple[int, int] | None]:
        return {}

    def is_masked(self, path: Path) -> bool:
        return False


def test_only_the_first_files_of_a_call_are_told(tmp_path: Path) -> None:
    """A checkout must not run thousands of hooks; a hook that nothing matches costs no place."""
    hook = Hook(event="FileChanged", matcher="*.py", command="true")
    payloads = Payloads(tmp_path, session_id=str, transcript=str, mode=lambda: "ask")
    runs = HookRuns([hook], HookEnvironment(tmp_path, {}))
    asking = EventHooks(runs, payloads, conversation=Conversation, publish=lambda _event: None)
    names = [f"{number}.{kind}" for number in range(130) for kind in ("txt", "py")]
    asking.changes = Call(tmp_path / name for name in names)

    watch = asking.watched_files()

    assert watch
    assert [each.path.name for each in watch.look()] == [f"{number}.py" for number in range(100)]


@pytest.mark.parametrize("matcher", ["*.py", "src/**/[a-z]?.py", "+"])
def test_matcher_of_files_is_no_regular_expression(matcher: str) -> None:
    found, problems = parse_hooks(
        [HookGroup("FileChanged", command("true", matcher)[0], "settings.json")]
    )

    assert problems == []
    assert found == [
        Hook(event="FileChanged", matcher=matcher, command="true", origin="settings.json")
    ]
