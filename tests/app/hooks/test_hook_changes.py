"""What hooks change is recorded for /undo, in the whole program against a test server."""

import json
import re
import subprocess
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import cast

import pytest

from agent_cli.contracts.dialogs import ModelDialogs, UserQuestion
from agent_cli.contracts.events import MessageEnd, ToolExecutionEnd
from agent_cli.undo.stopped_calls import why_missing
from tests.app.agents.test_agents import Script, program, started
from tests.hooks.test_scripts import command, hooks, script
from tests.messages_api import reply, tool_use
from tests.messages_api.script import Payload

pytestmark = pytest.mark.skipif(why_missing() != "", reason=why_missing() or "-")


@pytest.fixture(autouse=True)
def _files(monkeypatch: pytest.MonkeyPatch) -> None:
    # An ordinary user's hooks may gain rights, and are not watched otherwise.
    monkeypatch.setenv("AGENT_CLI_UNDO__COMMANDS", "always")
    subprocess.run(["git", "init", "--quiet"], check=True, timeout=60)
    Path("data").mkdir()
    for number in range(8):
        Path(f"data/m{number}").write_text("mine\n")
    Path("a.txt").write_text("one\n")


def edit() -> Script:
    made = tool_use("write", {"path": "made.txt", "content": "x\n"})
    return Script(go=[reply(made), reply("Done.")])


class Person:
    """Answers each question with the option *label*."""

    can_ask = True

    def __init__(self, label: str) -> None:
        self.label = label
        self.asked: list[str] = []

    async def ask(
        self, questions: Sequence[UserQuestion], *, asker: str = ""
    ) -> Sequence[str] | None:
        self.asked += [each.question for each in questions]
        return [self.label]


async def test_undo_takes_back_what_a_hook_did_to_files_that_the_agent_never_touched() -> None:
    """A formatter goes over the whole tree, and leaves files of its own."""
    formatter = "cat > /dev/null; sed -i s/mine/theirs/ data/*; rm a.txt; echo log > log.txt"
    hooks(PostToolUse=command(script("format.sh", f"#!/bin/sh\n{formatter}\n"), matcher="Write"))
    async with program(edit()) as run:
        await run.prompt()
        assert Path("data/m3").read_text() == "theirs\n"
        [ran] = run.app.file_changes.changed_runs()
        assert not run.app.file_changes.is_by_hooks(ran)

        taken = run.app.file_changes.take_back()

    assert {Path(f"data/m{n}").read_text() for n in range(8)} == {"mine\n"}
    assert Path("a.txt").read_text() == "one\n"
    assert not Path("log.txt").exists()
    assert not Path("made.txt").exists()
    assert len(taken.undone) == 1
    assert taken.faults == []


async def test_hook_reads_its_event_and_its_answers_stay_apart() -> None:
    """Standard output and error and the exit code are those of a hook that is not recorded."""
    guard = 'grep -q made.txt && echo "not that file" >&2 && echo noise && touch ran && exit 2'
    hooks(PreToolUse=command(script("guard.sh", f"#!/bin/sh\n{guard}\n"), matcher="Write"))
    async with program(edit()) as run:
        await run.prompt()

        assert run.app.file_changes.changed_runs()
    assert Path("ran").exists()
    assert not Path("made.txt").exists()


async def test_run_that_only_hooks_changed_is_known_and_can_be_passed_over() -> None:
    """A hook may keep a log in the workspace: `/undo` is to reach the agent's own run."""
    hooks(Stop=command(script("log.sh", "#!/bin/sh\ncat > /dev/null; echo ended >> log.txt\n")))
    looks = Script(go=[*edit().replies["go"], reply("Nothing to do.")])
    async with program(looks) as run:
        await run.prompt()
        await run.prompt()
        changes = run.app.file_changes
        first, second = changes.changed_runs()
        assert [changes.is_by_hooks(each) for each in (first, second)] == [False, True]

        taken = changes.take_back(but_own=True)

        assert taken.run_id == first
        [fault] = taken.faults
        assert fault.endswith("log.txt: a hook made or changed it, and it changed since")
        assert not Path("made.txt").exists()
        assert Path("log.txt").read_text() == "ended\n" * 2
        assert changes.take_back().run_id == second
        assert Path("log.txt").read_text() == "ended\n"


async def test_hook_that_changes_nothing_leaves_no_record(tmp_path: Path) -> None:
    hooks(PreToolUse=command(script("guard.sh", "#!/bin/sh\ncat > /dev/null\n"), matcher="Write"))
    async with program(edit()) as run:
        await run.prompt()

        store = Path.home() / ".local/state/agent-cli"
        assert [*store.rglob("log.jsonl")] == []


@pytest.mark.parametrize("label", ["Go on", "Stop", ""])
async def test_hook_that_deletes_much_asks_the_same_question(
    monkeypatch: pytest.MonkeyPatch, label: str
) -> None:
    """Where nobody can be asked, it is refused, and the exit code of `-p` will be 3."""
    monkeypatch.setenv("AGENT_CLI_UNDO__ASK_BEYOND_FILES", "5")
    hooks(PostToolUse=command(script("clean.sh", "#!/bin/sh\nrm -r data\ntrue\n"), matcher="Write"))
    person = Person(label)
    async with program(edit(), mode="auto-edit") as run:
        if label:
            run.app._bench.person.dialogs = cast("ModelDialogs", person)
        await run.prompt()
        left = len([*Path("data").glob("*")]) if Path("data").exists() else 0

        assert left == (0 if label == "Go on" else 3)
        assert len(run.app.refused_commands) == (not label)
        run.app.file_changes.take_back()

    assert len(person.asked) == bool(label)
    assert len([*Path("data").glob("*")]) == 8


READ = "hooks changed files that you have read"


def formatter(line: str) -> None:
    """Define a hook that runs the shell command *line* after each write and edit."""
    path = script("format.sh", f"#!/bin/sh\ncat > /dev/null\n{line}\n")
    hooks(PostToolUse=command(path, matcher="Write|Edit"))


def read(path: str) -> Payload:
    return tool_use("read", {"path": path})


def said(requests: Sequence[Payload]) -> list[int]:
    """Return how often each of *requests* tells of files that hooks changed."""
    return [json.dumps(each["messages"]).count(READ) for each in requests]


def texts(request: Payload) -> list[str]:
    """Return the messages of a request without its marks for the cache."""
    marks = re.compile(r', "cache_control": \{[^}]*\}')
    contents = [each["content"] for each in request["messages"]]
    blocks = [[found] if isinstance(found, str) else found for found in contents]
    return [marks.sub("", json.dumps(block)) for found in blocks for block in found]


async def test_model_reads_once_that_a_formatter_changed_what_it_wrote() -> None:
    """Behind the results of its calls, so that what the cache holds stays as it is."""
    formatter("sed -i s/x/X/ made.txt; echo more >> a.txt")
    wrote = tool_use("write", {"path": "made.txt", "content": "x\n"})
    other = tool_use("write", {"path": "other.txt", "content": "y\n"})
    go = [reply(read("a.txt")), reply(wrote), reply(other), reply("Done.")]
    asks = Script(go=go)
    async with program(asks) as run:
        await run.prompt()

    requests = asks.bodies("go")
    root = Path.cwd()
    assert said(requests) == [0, 0, 1, 1]
    assert f"{READ}: {root}/made.txt, {root}/a.txt]" in texts(requests[2])[-1]
    for earlier, later in pairwise(requests):
        assert texts(later)[: len(texts(earlier))] == texts(earlier)


async def test_model_reads_of_a_file_again_after_it_has_seen_the_change() -> None:
    """A hook that runs when the reply is over is told of with the next prompt."""
    append = script("append.sh", "#!/bin/sh\ncat > /dev/null; echo more >> a.txt\n")
    hooks(Stop=command(append))
    again = [reply("Nothing new."), reply(read("a.txt")), reply("Seen."), reply("Ended.")]
    asks = Script(go=[reply(read("a.txt")), reply("Done."), *again])
    async with program(asks) as run:
        for _ in range(4):
            await run.prompt()

    # Read, answered | told | silent, read, answered | told again.
    assert said(asks.bodies("go")) == [0, 0, 1, 1, 1, 2]


@pytest.mark.parametrize(
    "line",
    ["sed -i s/mine/theirs/ data/*", "sed -i s/nowhere/x/ made.txt a.txt", "touch a.txt", "true"],
    ids=["unread", "same content", "times", "nothing"],
)
async def test_model_reads_nothing_of_hooks_that_leave_what_it_read(line: str) -> None:
    formatter(line)
    wrote = tool_use("write", {"path": "made.txt", "content": "x\n"})
    asks = Script(go=[reply(read("a.txt")), reply(wrote), reply("Done.")])
    async with program(asks) as run:
        await run.prompt()

    assert said(asks.bodies("go")) == [0, 0, 0]


async def test_model_reads_nothing_of_a_change_that_it_has_seen() -> None:
    """A hook before the call changes what the call then shows."""
    append = script("append.sh", "#!/bin/sh\ncat > /dev/null; echo more >> a.txt\n")
    hooks(PreToolUse=command(append, matcher="Read"))
    asks = Script(go=[reply(read("a.txt")), reply(read("a.txt")), reply("Done.")])
    async with program(asks) as run:
        await run.prompt()

    assert Path("a.txt").read_text() == "one\nmore\nmore\n"
    assert said(asks.bodies("go")) == [0, 0, 0]


async def test_each_agent_is_told_of_the_files_that_it_has_read() -> None:
    """Hooks run after the calls of subagents too."""
    formatter("sed -i s/x/X/ made.txt; echo more >> a.txt")
    wrote = tool_use("write", {"path": "made.txt", "content": "x\n"})
    asks = Script(
        go=[reply(read("a.txt")), started("do it", agent="general"), reply("Thanks.")],
        do_it=[reply(wrote), reply("Done.")],
    )
    async with program(asks) as run:
        await run.prompt()

    told = {name: texts(asks.bodies(name)[-1])[-1] for name in ("do it", "go")}
    root = Path.cwd()
    assert f"{READ}: {root}/made.txt]" in told["do it"]
    assert f"{READ}: {root}/a.txt]" in told["go"]


async def test_model_reads_the_result_of_a_call_first_that_waits_for_a_person() -> None:
    """The hook ran before the question; nothing is said before the call has its result."""
    append = script("append.sh", "#!/bin/sh\ncat > /dev/null; echo more >> a.txt\n")
    hooks(PreToolUse=command(append, matcher="Write"))
    wrote = tool_use("write", {"path": "made.txt", "content": "x\n"})
    asks = Script(go=[reply(read("a.txt")), reply(wrote), reply("Done.")])
    async with program(asks, mode="ask") as run:
        stopped = await run.prompt()
        assert stopped.stop_reason == "waiting_for_approval"
        [call] = run.app.agent.conversation.open_calls()
        run.events.clear()
        await run.app.agent.approve(call.tool_call_id)

    requests = asks.bodies("go")
    kinds = [
        type(each)
        for each in run.events
        if isinstance(each, ToolExecutionEnd)
        or (isinstance(each, MessageEnd) and READ in str(each.message))
    ]
    assert Path("made.txt").exists()
    assert said(requests) == [0, 0, 1]
    assert kinds == [ToolExecutionEnd, MessageEnd]
