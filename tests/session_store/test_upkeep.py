"""Deleted sessions, and the sessions that share files with them."""

import errno
import fcntl
import os
import random
import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_cli.contracts.errors import SessionError, SessionNotFound
from agent_cli.contracts.messages import UserMessage
from agent_cli.core.conversation import Conversation
from agent_cli.session_store import Session, SessionStore, blobs
from agent_cli.session_store.blobs import BLOB_CHARS_MIN, names_in
from agent_cli.session_store.export import export
from agent_cli.session_store.log_file import LogFile
from agent_cli.session_store.upkeep import Finding, delete_sessions, remove_unused, verify
from agent_cli.system import paths, private_files
from tests.fakes import LIMIT_S, says
from tests.session_store.recordings import WORKSPACE, a_long_talk, recorded

LONG = [letter * BLOB_CHARS_MIN for letter in "xyz"]
HOUR_S = 3_600


@pytest.fixture
def store(tmp_path: Path) -> SessionStore:
    return SessionStore(tmp_path / "sessions")


def keep(store: SessionStore, *texts: str) -> Session:
    """Return a closed session with a prompt for each text."""
    conversation = Conversation()
    session = store.create(conversation, WORKSPACE)
    conversation.publish = session.record
    for text in texts or ("hello",):
        conversation.begin(UserMessage.of(text))
        conversation.add_reply(says("ok"))
        conversation.complete()
    session.close()
    return session


def blobs_in(folder: Path) -> set[str]:
    """Return the names of the stored strings."""
    return {file.name for file in (folder / "blobs").glob("[!.]*")}


def named_by(paths: Iterator[Path]) -> set[str]:
    return {name for path in paths for name in names_in(path)}


@st.composite
def _plans(draw: st.DrawFn) -> tuple[list[list[int]], list[list[int]], set[int]]:
    """Return the texts of sessions, of their agents, and which sessions are deleted."""
    texts = st.lists(st.integers(0, len(LONG)), min_size=1, max_size=3)
    sessions = draw(st.lists(texts, min_size=1, max_size=4))
    agents = [draw(st.one_of(st.just([]), texts)) for _ in sessions]
    return sessions, agents, draw(st.sets(st.integers(0, len(sessions) - 1), min_size=1))


@settings(deadline=None, derandomize=True, max_examples=20)
@given(_plans())
def test_deletion_keeps_the_other_sessions_intact(
    plan: tuple[list[list[int]], list[list[int]], set[int]],
) -> None:
    """S2-43: strings are shared; each is deleted with the last session that names it."""
    texts = [*LONG, "a short one"]
    sessions, agents, doomed = plan
    with TemporaryDirectory() as folder:
        store = SessionStore(Path(folder))
        kept = [keep(store, *(texts[each] for each in session)) for session in sessions]
        fork, _ = store.fork(kept[0].id)
        fork.close()
        for session, chosen in zip(kept, agents, strict=True):
            if chosen:
                keep(store.of_agents(session.id), *(texts[each] for each in chosen))
        deleted = [kept[each] for each in sorted(doomed)]

        assert delete_sessions(store, [session.id for session in deleted]) == len(doomed)

        for session in deleted:
            assert not store.of_agents(session.id).folder.exists()
            with pytest.raises(SessionNotFound):
                store.find(session.id)
        left = {session.id for session in (*kept, fork)} - {session.id for session in deleted}
        assert {path.stem for path in store.files()} == left
        for id in left:
            for path in store.tree(store.find(id)):
                assert verify(path) == []
            assert "lost:" not in export(store.read(id), "md", redact=str)
            opened, _ = store.resume(id)
            opened.close()
        assert blobs_in(store.folder) == named_by(iter(store.files()))


def test_deletion_removes_folders_kept_for_a_session_and_its_agents(
    store: SessionStore,
) -> None:
    """An agent's session that was resumed has agents of its own."""
    session, other = keep(store), keep(store)
    agent = keep(store.of_agents(session.id), "look for it")
    nested = keep(store.of_agents(agent.id), "look there")
    for each in (session, other, agent, nested):
        (paths.changes_dir() / each.id / "before").mkdir(parents=True)
        paths.server_files_dir(each.id).mkdir(parents=True)

    delete_sessions(store, [session.id])

    assert [path.name for path in paths.changes_dir().iterdir()] == [other.id]
    assert [path.name for path in paths.server_files_dir("").iterdir()] == [other.id]
    assert [*(store.folder / "agents").iterdir()] == []
    assert [path.stem for path in store.files()] == [other.id]


def test_agents_session_can_be_deleted_alone_or_together_with_its_parent(
    store: SessionStore,
) -> None:
    session = keep(store)
    one, two = (keep(store.of_agents(session.id), LONG[0], text) for text in (LONG[1], LONG[2]))

    assert delete_sessions(store, [one.id[:-1], one.id]) == 1

    assert store.tree(session.path) == [session.path, two.path]
    assert verify(two.path) == []
    assert len(blobs_in(two.path.parent)) == 2
    assert delete_sessions(store, [session.id, two.id]) == 2
    assert not two.path.parent.exists()


def test_open_session_or_agent_prevents_the_whole_deletion(store: SessionStore) -> None:
    closed, parent = keep(store), keep(store)
    agent = keep(store.of_agents(parent.id), "look")
    opened, _ = store.resume(agent.id)

    with pytest.raises(SessionError, match=f"session {agent.id} is open in another agent-cli: "):
        delete_sessions(store, [closed.id, parent.id])

    assert {path.stem for path in store.files()} == {closed.id, parent.id}
    opened.close()
    assert delete_sessions(store, [closed.id, parent.id]) == 2


def test_unknown_session_prevents_the_whole_deletion(store: SessionStore) -> None:
    session = keep(store)

    with pytest.raises(SessionNotFound):
        delete_sessions(store, [session.id, "unknown"])

    assert session.path.exists()


def test_a_damaged_session_can_be_deleted(store: SessionStore) -> None:
    """Its strings are deleted, too, even those named after the damage."""
    session = keep(store, LONG[0])
    data = session.path.read_bytes()
    session.path.write_bytes(b"rubbish\n" + data)

    delete_sessions(store, [session.id])

    assert [*store.files()] == []
    assert blobs_in(store.folder) == set()


@pytest.mark.parametrize("place", ["", "agents/{}/"])
def test_session_file_named_dots_is_not_a_session(store: SessionStore, place: str) -> None:
    """`agents/..` is the folder of all sessions."""
    session, other = keep(store), keep(store)
    keep(store.of_agents(session.id), "look")
    odd = store.folder / place.format(session.id) / "...jsonl"
    odd.write_bytes(session.path.read_bytes())

    with pytest.raises(SessionNotFound):
        delete_sessions(store, ["."])
    delete_sessions(store, [session.id])

    assert [path.stem for path in store.files()] == [other.id]


def test_deletion_keeps_a_string_that_another_session_is_about_to_name(
    store: SessionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That program found the string stored, and writes its record after all others were read."""
    doomed, other = keep(store, LONG[0]), keep(store)
    [name] = blobs_in(store.folder)
    stored = blobs.Blobs(store.folder / "blobs")
    log, _ = LogFile.open(other.path)
    lock, has_to_wait = private_files.wait_for_lock, threading.Event()

    def tell(descriptor: int, path: Path, kind: int) -> None:
        try:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            has_to_wait.set()
        lock(descriptor, path, kind)

    monkeypatch.setattr(private_files, "wait_for_lock", tell)
    deleting = threading.Thread(target=lambda: delete_sessions(store, [doomed.id]))
    with stored.moved_out([{"kind": "x", "text": LONG[0]}]) as packed:
        deleting.start()
        assert has_to_wait.wait(LIMIT_S)
        log.append(packed, sync=False)
    deleting.join()
    log.close()

    assert not doomed.path.exists()
    assert verify(other.path) == []
    assert blobs_in(store.folder) == {name}


def test_deletion_removes_old_strings_without_a_session(store: SessionStore) -> None:
    """A killed program leaves strings and drafts; nothing else in the folder is removed.

    What is younger than an hour may belong to a session that is being written.
    """
    session = keep(store, LONG[0])
    folder = store.folder / "blobs"
    old, young = folder / ("a" * 64), folder / ("b" * 64)
    draft, foreign = folder / f".{'c' * 64}.{'1' * 16}", folder / "notes.txt"
    for file in (old, young, draft, foreign):
        file.touch()
    for file in (old, draft, foreign, young):
        minutes = 59 if file == young else 61
        changed_s = time.time() - minutes * 60
        os.utime(file, (changed_s, changed_s))

    delete_sessions(store, [session.id])

    assert {file.name for file in folder.iterdir()} == {young.name, foreign.name, ".lock"}


def test_lock_that_is_never_released_is_reported(
    store: SessionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stopped program may hold it: every wait has a limit, and a session saves again later."""
    monkeypatch.setattr(private_files, "LIMIT_S", 0.0)
    doomed, told = keep(store, LONG[0]), list[str]()
    writing = SessionStore(store.folder, tell=told.append)
    session = writing.create(conversation := Conversation(), WORKSPACE)
    conversation.publish = session.record

    with blobs.Blobs(store.folder / "blobs").locked(fcntl.LOCK_EX):
        conversation.begin(UserMessage.of(LONG[1]))
        with pytest.raises(SessionError, match=r"\.lock: another agent-cli holds the lock; long"):
            delete_sessions(store, [doomed.id])
    session.close()

    assert [text.partition(":")[0] for text in told] == [
        "the session is no longer being saved",
        "the session is being saved again, with all that was missing",
    ]
    assert verify(session.path) == []
    assert not doomed.path.exists()


def test_deletion_that_fails_names_the_folder_and_keeps_the_session(
    store: SessionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    session, gone = keep(store), keep(store, LONG[0])
    folder = paths.changes_dir() / session.id
    folder.mkdir(parents=True)

    def refuse(folder: Path) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(folder))

    monkeypatch.setattr(shutil, "rmtree", refuse)
    with pytest.raises(SessionError, match=f"^{folder} cannot be removed: Permission denied$"):
        delete_sessions(store, [gone.id, session.id])

    assert [path.stem for path in store.files()] == [session.id]
    assert blobs_in(store.folder) == set()


def test_deletion_removes_a_symlink_to_a_folder_without_following_the_link(
    store: SessionStore, tmp_path: Path
) -> None:
    session = keep(store)
    (tmp_path / "notes.txt").touch()
    link = paths.changes_dir() / session.id
    link.parent.mkdir(parents=True)
    link.symlink_to(tmp_path)

    delete_sessions(store, [session.id])

    assert not link.is_symlink()
    assert (tmp_path / "notes.txt").exists()


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="no way to open a deleted file")
def test_session_deleted_while_being_opened_is_not_resumed(store: SessionStore) -> None:
    """Otherwise its new records would be lost."""
    session = keep(store)
    descriptor = os.open(session.path, os.O_RDWR)
    delete_sessions(store, [session.id])

    with pytest.raises(SessionError, match="was deleted a moment ago"):
        LogFile.open(Path(f"/proc/self/fd/{descriptor}"))

    os.close(descriptor)


def test_session_list_skips_sessions_deleted_meanwhile(
    store: SessionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = keep(store)
    gone = session.path.with_name("gone.jsonl")
    monkeypatch.setattr(SessionStore, "_paths", lambda _self: iter([gone, session.path]))

    assert store.files() == [session.path]
    monkeypatch.setattr(SessionStore, "files", lambda _self: [gone, session.path])
    assert [info.id for info in store.list()] == [session.id]


def test_only_unused_sessions_of_more_than_a_month_are_removed(store: SessionStore) -> None:
    """A client opens one with each window; none goes that has a prompt, or is open."""
    for id in ("old", "open", "new", "used"):
        conversation = Conversation(id=id)
        session = store.create(conversation, WORKSPACE)
        session.keep()
        if id == "used":
            conversation.publish = session.record
            conversation.begin(UserMessage.of("hello"))
        if id != "open":
            session.close()
        age_s = HOUR_S if id == "new" else 31 * 24 * HOUR_S
        used_at_s = time.time() - age_s
        os.utime(session.path, (used_at_s, used_at_s))

    remove_unused(store)

    assert sorted(path.stem for path in store.files()) == ["new", "open", "used"]


@pytest.fixture
async def talk(tmp_path: Path) -> Path:
    """Return the file of a long session."""
    session, _ = await a_long_talk(SessionStore(tmp_path))
    session.close()
    return session.path


async def test_verify_finds_nothing_in_an_intact_session(talk: Path) -> None:
    assert verify(talk) == []


async def test_verify_finds_a_flipped_bit_and_names_the_line(talk: Path) -> None:
    """Every line once, at a random place, line ends included; the first finding names the line."""
    chance = random.Random(4)
    data = talk.read_bytes()
    end = 0
    for number, text in enumerate(data.splitlines(keepends=True), start=1):
        for place in {0, len(text) - 1, chance.randrange(len(text))}:
            damaged = bytearray(data)
            damaged[end + place] ^= 1 << chance.randrange(8)
            talk.write_bytes(damaged)

            first = verify(talk)[0]

            assert first.line == number, (place, first)
        end += len(text)


async def test_verify_finds_a_removed_line(talk: Path) -> None:
    lines = talk.read_bytes().splitlines(keepends=True)
    talk.write_bytes(b"".join(lines[:3] + lines[4:]))

    [finding] = verify(talk)
    assert (finding.line, finding.problem) == (4, "does not follow the line before it")
    assert finding.remedy == f"--fork {talk.stem} goes on from what is before it"


async def test_verify_finds_an_inserted_line(talk: Path) -> None:
    lines = talk.read_bytes().splitlines(keepends=True)
    talk.write_bytes(b"".join([*lines[:3], b"hello\n", *lines[3:]]))

    assert [str(finding) for finding in verify(talk)] == ["line 4 is not a record"]


def test_verify_finds_a_missing_session_header(tmp_path: Path) -> None:
    """The checksums are right, but the first record is missing."""
    log = LogFile.create(tmp_path / "headless.jsonl")
    log.append([{"kind": "state", "prompt": "p", "state": "completed"}], sync=False)
    log.close()

    [finding] = verify(tmp_path / "headless.jsonl")

    assert (finding.line, finding.problem) == (1, "does not say which session this is")


async def test_verify_reports_an_incomplete_last_line_but_not_as_damage(talk: Path) -> None:
    lines = talk.read_bytes().splitlines(keepends=True)
    talk.write_bytes(b"".join(lines[:-1]) + lines[-1][:-1])

    [finding] = verify(talk)

    assert (finding.line, finding.damage) == (len(lines), False)


@pytest.mark.parametrize("damage", ["gone", "changed"])
def test_verify_names_a_missing_or_damaged_blob_and_the_line(tmp_path: Path, damage: str) -> None:
    conversation = Conversation()
    session = recorded(SessionStore(tmp_path), conversation)
    conversation.begin(UserMessage.of("x" * 40_000))
    session.close()
    [blob] = (tmp_path / "blobs").glob("[!.]*")
    if damage == "gone":
        blob.unlink()
    else:
        blob.write_text("y")

    assert verify(session.path) == [
        Finding(2, f"needs blobs/{blob.name}, which is missing or damaged")
    ]


def test_verify_of_a_missing_file_raises_an_error(tmp_path: Path) -> None:
    with pytest.raises(SessionError, match="No such file"):
        verify(tmp_path / "none.jsonl")
