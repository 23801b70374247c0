"""Snapshots of file changes: kept, shown and undone; real tools on real files."""

import asyncio
import errno
import fcntl
import os
import resource
import signal
import stat
import threading
import time
import tracemalloc
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agent_cli.contracts.errors import AgentCliError
from agent_cli.contracts.events import (
    AgentEnd,
    PromptStateChanged,
    SessionOpened,
    ToolExecutionEnd,
)
from agent_cli.contracts.file_changes import is_own_run, prompt_of_run
from agent_cli.contracts.tooling import ToolResult
from agent_cli.system.keeper import LOCK
from agent_cli.system.launching import Watched
from agent_cli_tools import Workspace, builtin_tools
from agent_cli_tools.snapshots import Snapshots, contents
from agent_cli_tools.snapshots.changes import Change
from agent_cli_tools.snapshots.journal import Journal
from agent_cli_tools.stoppable import Claim
from tests.tools.undoing import ToolSession, of_edits
from tests.waiting import until

READS = ("cat", "ls")


class Session(ToolSession):
    """A session whose commands are not watched."""

    def keeper(self) -> Snapshots:
        return Snapshots(
            self.state,
            only_reads=lambda command: command.startswith(READS),
            is_foreign=lambda tool: tool.startswith("mcp__"),
        )

    def files(self) -> dict[str, str]:
        """Return every file's text, and "" for directories without any."""
        found = sorted(self.root.rglob("*"))
        return {
            str(path.relative_to(self.root)): path.read_text(errors="replace")
            if path.is_file()
            else "/"
            for path in found
        }


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    yield from of_edits(Session, tmp_path)


@contextmanager
def refusing_disk(session: Session) -> Generator[None]:
    """Make every access to the record of changes fail in the body; restore its content after."""
    away = session.state.with_name("away")
    session.state.mkdir(exist_ok=True)
    session.state.rename(away)
    session.state.write_text("no folder")
    yield
    session.state.unlink()
    away.rename(session.state)


@pytest.mark.parametrize("recovers_by", ["another change", "the run's end"])
@pytest.mark.parametrize("begins_well", [True, False])
async def test_changes_during_a_disk_failure_are_undone_after_a_restart(
    session: Session, *, begins_well: bool, recovers_by: str
) -> None:
    """Lost lines used to make /undo restore a part of a run and report success."""
    run = session.run()
    if begins_well:
        await session.write("before.txt", "new")
    with refusing_disk(session):
        await session.write("during.txt", "new")
        await session.write("during.txt", "newer")
        await session.bash("touch made")
    if recovers_by == "another change":
        await session.write("after.txt", "new")
    else:
        session.snapshots(AgentEnd((), "end_turn", None))

    session.again()
    taken = session.undo()

    wanted = {"before.txt"} if begins_well else set()
    wanted |= {"during.txt"} | ({"after.txt"} if recovers_by == "another change" else set())
    assert (taken.run_id, {path.name for path in taken.deleted}) == (run, wanted)
    assert taken.commands == ["touch made"]
    assert session.files() == {"made": ""}


def test_name_that_is_not_utf8_does_not_keep_later_changes_out_of_the_record(
    tmp_path: Path,
) -> None:
    """After a restart, /undo would say that no file was changed."""
    changes = [Change(Path(name), None, "digest") for name in ("/x/caf\udce9", "/x/later")]
    journal = Journal(tmp_path)

    for change in changes:
        journal.add("run", change)

    restarted = Journal(tmp_path)
    restarted.read()
    assert restarted.run("run").changes == changes


def test_log_of_a_command_that_runs_during_an_undo_is_in_the_further_run_alone(
    tmp_path: Path,
) -> None:
    """Else what it changes would count twice: what the undo left of the run has its logs, too."""
    journal = Journal(tmp_path)
    folder = journal.new_log("run", "server")
    with (folder / LOCK).open("w") as running:
        fcntl.flock(running, fcntl.LOCK_EX)
        journal.mark_taken_back("run", [str(tmp_path / "changed")])

    restarted = Journal(tmp_path)
    restarted.read()
    for each in (journal, restarted):
        assert [[*run.logs.values()] for run in each.runs] == [[], [], ["server"]]


async def test_undo_that_could_not_be_recorded_is_recorded_later(session: Session) -> None:
    """Otherwise the next /undo after a restart would undo nothing and report success."""
    session.run()
    await session.write("first.txt", "new")
    session.run()
    await session.write("second.txt", "new")
    with refusing_disk(session):
        session.undo()
    session.snapshots(AgentEnd((), "end_turn", None))

    session.again()

    assert [path.name for path in session.undo().deleted] == ["first.txt"]


async def test_undo_reverts_a_whole_run_and_then_the_run_before(session: Session) -> None:
    """New files and their directories are removed; mode and bytes of old ones are restored."""
    script = session.root / "run.sh"
    script.write_bytes(b"#!/bin/sh\r\n\xff")
    script.chmod(0o750)
    before = script.read_bytes()
    first = session.run()
    await session.tools.text("edit", path="run.sh", edits=[{"old": "/bin/sh", "new": "/bin/a"}])
    await session.tools.text("edit", path="run.sh", edits=[{"old": "/bin/a", "new": "/bin/b"}])
    kept = list(session.state.rglob("before/*"))
    await session.write("a/b/c.txt", "one")
    second = session.run()
    await session.write("a/b/c.txt", "two")
    await session.write("a/d.txt", "new")
    await session.write("a/e/f.txt", "new")
    await session.write("a/e/f.txt", "newer")

    taken = [session.undo()]
    assert session.files() | {"run.sh": ""} == {
        "a": "/",
        "a/b": "/",
        "a/b/c.txt": "one",
        "run.sh": "",
    }
    taken.append(session.undo())

    assert [(each.run_id, list(each.commands)) for each in taken] == [(second, []), (first, [])]
    assert taken[0].restored == [session.root / "a/b/c.txt"]
    assert taken[0].deleted == [session.root / "a/d.txt", session.root / "a/e/f.txt"]
    # The content between two edits of one run is never a target of undo.
    assert [path.read_bytes() for path in kept] == [before]
    assert script.read_bytes() == before
    assert stat.S_IMODE(script.stat().st_mode) == 0o750
    assert list(session.root.iterdir()) == [script]
    with pytest.raises(AgentCliError, match="in this session is undone already"):
        session.undo()


async def test_changes_after_the_undo_of_a_run_whose_agent_still_works_are_undone_next(
    session: Session,
) -> None:
    """An agent in the background goes on; "undone already" was said of what it did since."""
    (session.root / "old.txt").write_text("old")
    run = session.run()
    await session.write("old.txt", "first")
    await session.write("new.txt", "first")
    session.undo()
    (session.root / "old.txt").write_text("by hand")
    await session.write("old.txt", "second")
    await session.write("new.txt", "second")
    session.again()

    taken = session.undo()

    assert session.files() == {"old.txt": "by hand"}
    assert (prompt_of_run(taken.run_id), is_own_run(taken.run_id)) == (run, False)
    with pytest.raises(AgentCliError, match="undone already"):
        session.undo()


async def test_undo_works_after_a_restart_and_snapshots_are_private(
    session: Session, tmp_path: Path
) -> None:
    """A line cut off by a crash loses only that line, and the next one is complete."""
    (session.root / "a.txt").write_text("one")
    session.run()
    await session.write("a.txt", "two")
    journal = tmp_path / "state/s-1/changes.jsonl"
    with journal.open("ab") as file:
        file.write(b'{"run": "x", "cha')
    session.again()
    session.run()
    await session.write("b.txt", "b")
    session.again()

    session.undo()
    session.undo()

    assert session.files() == {"a.txt": "one"}
    kept = [path for path in (tmp_path / "state").rglob("*") if path.is_file()]
    assert {stat.S_IMODE(path.stat().st_mode) for path in kept} == {0o600}
    assert stat.S_IMODE((tmp_path / "state").stat().st_mode) == 0o700


async def test_undo_reverts_only_changes_of_the_current_session(
    session: Session,
) -> None:
    """/clear begins another session; without a session, changes last as long as the program."""
    session.run()
    await session.write("a.txt", "a")
    session.snapshots(SessionOpened("s-2", "path"))
    with pytest.raises(AgentCliError, match="nothing to undo: the agent's tools changed no"):
        session.undo()
    session.again(None)
    session.run()
    await session.write("b.txt", "b")

    session.undo()

    assert session.files() == {"a.txt": "a"}


async def test_run_resumed_after_an_approval_is_undone_as_one_run(session: Session) -> None:
    """After a restart it continues without a start event: its calls belong to its prompt."""
    run = session.run()
    await session.write("a.txt", "a")
    session.again()
    session.snapshots(PromptStateChanged(run, "running"))
    await session.write("b.txt", "b")

    assert session.undo().run_id == run
    assert session.files() == {}


@pytest.mark.parametrize(
    "meddle",
    [
        lambda path: path.write_text("mine"),
        lambda path: path.unlink(),
        lambda path: (path.unlink(), path.mkdir()),
        lambda path: (path.unlink(), path.symlink_to("b.txt")),
    ],
)
async def test_file_changed_after_the_run_blocks_the_whole_undo(
    session: Session, meddle: Callable[[Path], object]
) -> None:
    """All or nothing, and the message names the file."""
    (session.root / "a.txt").write_text("one")
    session.run()
    await session.write("a.txt", "two")
    await session.write("b.txt", "new")
    meddle(session.root / "a.txt")
    before = session.files()

    with pytest.raises(AgentCliError, match=r"nothing was undone.*work/a\.txt;"):
        session.undo()

    assert session.files() == before


async def test_undo_is_refused_if_the_user_changed_a_file_between_two_edits(
    session: Session,
) -> None:
    """The file has the agent's last content, but undo would drop the user's words as well."""
    session.run()
    await session.write("a.txt", "one")
    (session.root / "a.txt").write_text("one, and mine")
    await session.write("a.txt", "one, and mine, two")

    with pytest.raises(AgentCliError, match=r"somebody changed these files too: .*a\.txt"):
        session.undo()


async def test_file_already_restored_by_hand_does_not_block_undo(session: Session) -> None:
    """Such a file already has the target content."""
    (session.root / "a.txt").write_text("one")
    session.run()
    await session.write("a.txt", "two")
    (session.root / "a.txt").write_text("one")
    await session.write("b.txt", "b")

    taken = session.undo()

    assert (taken.restored, taken.deleted) == ([], [session.root / "b.txt"])


async def test_undo_reverts_what_commands_did_to_files_the_tools_changed(
    session: Session,
) -> None:
    """A formatter after an edit is no conflict; other effects of commands are only named."""
    (session.root / "a.txt").write_text("one")
    session.run()
    await session.write("a.txt", "two")
    session.run()
    await session.bash("printf formatted > a.txt; rm -f b.txt; touch made")
    await session.bash("cat a.txt")
    await session.write("b.txt", "b")
    session.snapshots(ToolExecutionEnd("c", "mcp__db__drop", ToolResult.of("done"), False))
    session.snapshots(ToolExecutionEnd("c", "mcp__db__drop", ToolResult.error("no"), True))

    taken = [session.undo(), session.undo()]

    assert session.files() == {"a.txt": "one", "made": ""}
    assert [[*each.commands] for each in taken] == [
        ["printf formatted > a.txt; rm -f b.txt; touch made", "mcp__db__drop"],
        [],
    ]


async def test_undo_restores_a_file_deleted_by_a_command_with_its_mode(session: Session) -> None:
    """Its directory is restored too."""
    path = session.root / "bin/tool"
    path.parent.mkdir()
    path.write_text("one")
    path.chmod(0o755)
    session.run()
    await session.write("bin/tool", "two")
    await session.bash("rm -r bin")
    await session.write("bin/tool", "three")

    session.undo()

    assert (path.read_text(), stat.S_IMODE(path.stat().st_mode)) == ("one", 0o755)


async def test_undo_is_refused_if_a_command_replaced_a_file_by_a_directory(
    session: Session,
) -> None:
    """The directory must not be overwritten."""
    (session.root / "a.txt").write_text("one")
    session.run()
    await session.write("a.txt", "two")
    await session.bash("rm a.txt && mkdir a.txt && touch a.txt/b")

    with pytest.raises(AgentCliError, match=r"somebody changed these files too: .*a\.txt"):
        session.undo()
    assert session.files() == {"a.txt": "/", "a.txt/b": ""}


async def test_edit_during_a_command_is_undone_with_the_same_run(session: Session) -> None:
    """Whatever the two did to the file, in whatever order, nobody else was involved."""
    path = session.root / "a.txt"
    path.write_text("one")
    session.run()
    await session.write("a.txt", "two")
    waiting = asyncio.create_task(
        session.bash("printf three > a.txt; touch changed; until [ -e go ]; do sleep 0.01; done")
    )
    await until((session.root / "changed").exists)
    await session.write("a.txt", "four")
    (session.root / "go").touch()
    await waiting

    session.undo()

    assert path.read_text() == "one"


async def test_failed_edit_leaves_nothing_to_undo(session: Session) -> None:
    """A refused edit never happened."""
    (session.root / "a.txt").write_text("one")
    session.run()

    await session.tools.error("edit", path="a.txt", edits=[{"old": "x", "new": "y"}])
    await session.tools.error("write", path="a.txt", content="not read yet")

    with pytest.raises(AgentCliError, match="nothing to undo"):
        session.undo()


async def test_file_too_large_for_a_snapshot_can_be_edited_but_not_undone(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tool never fails because the old content could not be stored."""
    monkeypatch.setattr(contents, "TOTAL_BYTES_MAX", 5)
    (session.root / "a.txt").write_text("too large")
    session.run()
    await session.write("a.txt", "two")

    with pytest.raises(AgentCliError, match=r"what .*a\.txt held before was not kept"):
        session.undo()
    assert session.files() == {"a.txt": "two"}


async def test_content_that_cannot_be_kept_is_one_warning_for_each_cause(
    session: Session, caplog: pytest.LogCaptureFixture
) -> None:
    """On a full disk each edit used to print three, at the prompt too."""
    session.run()
    with refusing_disk(session):
        await session.write("a.txt", "one")
        await session.write("a.txt", "two")
        session.snapshots(AgentEnd((), "end_turn", None))

    warned = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
    assert len(warned) == 2
    for text, event, about in zip(
        warned, ("changes not read", "content not kept for /undo"), ("s-1", "a.txt"), strict=True
    ):
        assert event in text
        assert about in text
        assert os.strerror(errno.ENOTDIR) in text


async def test_undo_restores_an_empty_file_that_a_command_filled(session: Session) -> None:
    """Empty is a content like any other."""
    session.run()
    await session.write("a.txt", "")
    session.run()
    await session.bash("echo full > a.txt")

    session.undo()

    assert session.files() == {"a.txt": ""}


async def test_diff_of_a_file_that_became_huge_needs_little_memory(session: Session) -> None:
    """A command may have turned the agent's file into gigabytes."""
    session.run()
    await session.write("a.txt", "small")
    await session.bash("truncate -s 50M a.txt")
    tracemalloc.start()

    [difference] = session.snapshots.differences()

    assert difference.note == "binary"
    assert tracemalloc.get_traced_memory()[1] < 20_000_000
    tracemalloc.stop()


async def test_file_that_a_command_made_too_large_is_known_by_its_size_and_time(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reading gigabytes around every command would take minutes."""
    monkeypatch.setattr(contents, "DIGESTED_BYTES_MAX", 50)
    (session.root / "old.txt").write_text("old")
    session.run()
    await session.write("old.txt", "small")
    session.run()
    await session.write("new.txt", "small")
    await session.bash("seq 100 | tee new.txt >old.txt")
    session.run()
    await session.bash("true; : changes nothing")

    with pytest.raises(
        AgentCliError, match=r"these files are too large now: .*old\.txt; /diff run"
    ):
        session.undo()
    (session.root / "old.txt").write_text("other")
    with pytest.raises(AgentCliError, match=r"somebody changed these files too: .*old\.txt;"):
        session.undo()
    assert len(session.snapshots._current.open().runs[-1].changes) == 0
    assert (session.root / "new.txt").read_text().endswith("\n100\n")


async def test_new_file_that_a_command_made_too_large_is_removed(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contents, "DIGESTED_BYTES_MAX", 50)
    session.run()
    await session.write("new.txt", "small")
    await session.bash("seq 100 >new.txt")

    session.undo()

    assert session.files() == {}


@pytest.mark.parametrize("stops", [False, True])
async def test_files_are_read_around_a_command_beside_the_event_loop(
    session: Session, monkeypatch: pytest.MonkeyPatch, *, stops: bool
) -> None:
    """They may be large, or on a slow disk; the next command finds no watch left over."""
    session.run()
    await session.write("a.txt", "one")
    threads: list[threading.Thread] = []
    stopping = asyncio.current_task()
    loop, stopped = asyncio.get_running_loop(), threading.Event()
    of = contents.Digests.of

    def stop() -> None:
        assert stopping
        stopping.cancel()
        stopped.set()

    def noted(digests: contents.Digests, path: Path) -> str | None:
        threads.append(threading.current_thread())
        if stops and len(threads) == 1:
            loop.call_soon_threadsafe(stop)
            assert stopped.wait(60)
        return of(digests, path)

    monkeypatch.setattr(contents.Digests, "of", noted)
    if stops:
        with pytest.raises(asyncio.CancelledError):
            await session.bash("touch made")
    else:
        await session.bash("touch made")

    assert threads
    assert threading.main_thread() not in threads
    assert session.snapshots._watches == []
    assert (session.root / "made").exists() is not stops
    assert [run.commands for run in session.snapshots._current.open().runs] == [
        [] if stops else ["touch made"]
    ]


async def test_watch_of_a_stopped_command_ends_after_it_has_begun(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both are in threads: its log would be made behind its end, and stay."""
    session.run()
    await session.write("a.txt", "one")
    stopping, loop = asyncio.current_task(), asyncio.get_running_loop()
    ended, ended_first = threading.Event(), list[bool]()
    begin, end = session.snapshots._begin, session.snapshots._end

    def slowly_begun(watch: contents.Watch, command: str) -> Watched | None:
        assert stopping
        loop.call_soon_threadsafe(stopping.cancel)
        ended_first.append(ended.wait(0.3))
        return begin(watch, command)

    def noted_end(watch: contents.Watch, command: str) -> None:
        end(watch, command)
        ended.set()

    monkeypatch.setattr(session.snapshots, "_begin", slowly_begun)
    monkeypatch.setattr(session.snapshots, "_end", noted_end)

    with pytest.raises(asyncio.CancelledError):
        await session.bash("touch made")

    assert ended_first == [False]
    assert ended.is_set()
    assert session.snapshots._watches == []


def test_snapshot_on_a_full_disk_leaves_no_partial_copy(tmp_path: Path) -> None:
    """A size limit stands in for the disk."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, limits[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            contents.ContentStore(tmp_path).keep(b"x" * 100_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, before)

    assert list(tmp_path.iterdir()) == []


async def test_snapshots_are_deleted_a_month_after_a_sessions_last_change(
    session: Session, tmp_path: Path
) -> None:
    """Copies of users' files are not kept for ever; the current session is spared."""
    for id in ("old", "young", "s-1"):
        session.again(id)
        session.run()
        await session.write(f"{id}.txt", "x")
    month_ago_s = time.time() - 31 * 86_400
    for id in ("old", "s-1"):
        os.utime(tmp_path / f"state/{id}/changes.jsonl", (month_ago_s, month_ago_s))
    session.again("s-1")
    session.run()

    await session.write("next.txt", "x")

    sessions = sorted(path.name for path in (tmp_path / "state").iterdir() if path.is_dir())
    assert sessions == ["s-1", "young"]
    assert len(session.snapshots.differences()) == 2


async def test_unwritable_state_directory_does_not_stop_tools_or_undo(
    session: Session, tmp_path: Path
) -> None:
    """The changes are known while the program runs, so new files can still be undone."""
    session.run()
    assert session.snapshots.differences() == []
    (tmp_path / "state").write_text("a file in the way")
    await session.write("b.txt", "b")

    session.undo()

    assert session.files() == {}


async def test_differences_are_relative_to_the_start_of_the_session_or_last_run(
    session: Session,
) -> None:
    """Reverted changes are not listed; files that others changed too are marked."""
    for name in ("a.txt", "same.txt", "gone.txt", "bin"):
        (session.root / name).write_text("one\n")
    session.run()
    for name in ("a.txt", "same.txt", "gone.txt", "bin"):
        await session.write(name, "two\n")
    session.run()
    await session.write("same.txt", "one\n")
    await session.write("new.txt", "new\n")
    await session.bash("rm gone.txt; printf 'a\\0' > bin")
    (session.root / "a.txt").write_text("mine\n")

    found = session.snapshots.differences()
    last = session.snapshots.differences(last_run=True)

    assert [(each.path.name, each.kind, each.diff, each.note) for each in found] == [
        ("a.txt", "changed", "@@ -1,1 +1,1 @@\n-one\n+mine", "changed by somebody else too"),
        ("gone.txt", "deleted", "@@ -1,1 +0,0 @@\n-one", ""),
        ("bin", "changed", "", "binary"),
        ("new.txt", "new", "@@ -0,0 +1,1 @@\n+new", ""),
    ]
    assert (found[0].added, found[0].removed) == (1, 1)
    assert [(each.path.name, each.kind) for each in last] == [
        ("same.txt", "changed"),
        ("new.txt", "new"),
        ("gone.txt", "deleted"),
        ("bin", "changed"),
    ]


async def test_long_difference_is_returned_in_full(session: Session) -> None:
    """Only the screen folds it; 1,000 lines in, 1,000 lines out."""
    session.run()
    await session.write("a.txt", "".join(f"line {n}\n" for n in range(1_000)))

    (found,) = session.snapshots.differences()

    assert len(found.diff.splitlines()) == 1_001


async def test_difference_has_whole_lines_and_only_the_screen_cuts_them(session: Session) -> None:
    """`git apply` refused the changes where a line of more than 500 characters was cut."""
    lead = "a" * 9_000
    session.run()
    await session.write("a.txt", f"{lead}old\n{lead}\n")
    session.run()
    await session.write("a.txt", f"{lead}new\n{lead}\n")

    (found,) = session.snapshots.differences(last_run=True)

    assert found.diff == f"@@ -1,2 +1,2 @@\n-{lead}old\n+{lead}new\n {lead}"
    assert "+…" in found.shown
    assert len(found.shown) < 2_000


def test_tools_work_without_a_snapshot_store(tmp_path: Path) -> None:
    """Users of the library need no snapshots."""
    workspace = Workspace(tmp_path)

    workspace.write(tmp_path / "a", b"x", before=None, claim=Claim())

    assert (tmp_path / "a").read_bytes() == b"x"
    assert len(builtin_tools(workspace, None)) == 6


async def test_undo_without_file_changes_names_the_commands_that_ran(
    session: Session,
) -> None:
    """After `rm app.py`, /undo said that no file was changed, and /diff showed no difference."""
    (session.root / "app.py").write_text("precious")
    session.run()
    await session.bash("rm app.py")

    with pytest.raises(AgentCliError) as raised:
        session.undo()

    assert str(raised.value) == (
        "nothing to undo: the agent's tools changed no file in this session."
        " Commands ran, and what they changed is not recorded, so it cannot be undone: rm app.py;"
        " version control may show it"
    )
    assert session.snapshots.differences() == []
    assert session.snapshots.commands() == ["rm app.py"]
    assert session.snapshots.commands(last_run=True) == ["rm app.py"]


async def test_forked_session_can_undo_changes_of_the_original(
    session: Session,
) -> None:
    """`/fork` then `/undo`; what the copy changes later does not affect the original."""
    session.run()
    await session.write("a.txt", "one")
    session.run()
    await session.write("a.txt", "two")
    await session.bash("touch made")

    session.snapshots.copy("s-1", "s-2")
    session.snapshots(SessionOpened("s-2", "path", resumed=True))
    taken = session.undo()

    assert (session.root / "a.txt").read_text() == "one"
    assert taken.commands == ["touch made"]
    session.again("s-1")
    assert [len(run.changes) for run in session.snapshots._current.open().runs] == [1, 1]
    assert not any(run.taken_back for run in session.snapshots._current.open().runs)
