"""The folder of sessions: find, list, continue, fork."""

import json
import math
import os
import random
import re
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_cli.contracts.errors import SessionError, SessionNotFound
from agent_cli.contracts.events import (
    Event,
    PromptCompleted,
    PromptOutput,
    PromptStarted,
    PromptStateChanged,
)
from agent_cli.contracts.messages import CustomMessage, UserMessage
from agent_cli.contracts.provider import Reply
from agent_cli.contracts.timeline import (
    Error,
    FileOutput,
    Output,
    Success,
    ToolOutput,
    Usage,
    WidgetOutput,
    text_block,
)
from agent_cli.core.conversation import Conversation
from agent_cli.core.projection import entries
from agent_cli.session_store import Session, SessionStore
from agent_cli.session_store.codec import JsonObject
from agent_cli.session_store.export import export
from agent_cli.session_store.history import NEVER_STARTED, cost_since
from agent_cli.session_store.listing import as_json, last_used, row
from agent_cli.session_store.log_file import LogFile, read_log
from agent_cli.session_store.transcripts import search
from agent_cli.session_store.upkeep import verify
from agent_cli.system.paths import unix_ms
from tests.fakes import calls, says, tool_use
from tests.session_store.recordings import WORKSPACE, a_long_talk, agent_with, faults, recorded


@pytest.fixture
def store(tmp_path: Path) -> SessionStore:
    return SessionStore(tmp_path / "sessions")


def short_session(store: SessionStore, text: str, *, at: Path = WORKSPACE) -> Session:
    """Return a closed session of one prompt."""
    conversation = Conversation()
    session = store.create(conversation, at)
    conversation.publish = session.record
    conversation.begin(UserMessage.of(text))
    conversation.add_reply(Reply("m", "x", (text_block("ok"),), "end_turn", Usage(2, 3)))
    conversation.complete()
    session.close()
    return session


def used_in_this_order(*sessions: Session) -> None:
    """Set the times of the files in order: a fast machine writes several in one tick."""
    for second, session in enumerate(sessions, start=1_000_000):
        os.utime(session.path, (second, second))


def test_sessions_are_listed_most_recently_used_first(store: SessionStore) -> None:
    first = short_session(store, "the first one")
    second = short_session(store, "\x1b[31m fix\n\n  the   bug " + "x" * 100)
    used_in_this_order(second, first)

    found = store.list()

    assert [info.id for info in found] == [first.id, second.id]
    assert found[1].title == f"fix the bug {'x' * 67}…"
    assert (found[0].title, found[0].workspace) == ("the first one", str(WORKSPACE))
    assert (found[0].prompts, found[0].usage) == (1, Usage(2, 3))
    assert (found[0].updated_at_ms, found[0].problem) == (1_000_001_000, "")
    assert [info.id for info in store.list(limit=1)] == [first.id]


def test_session_without_a_prompt_is_found_but_neither_listed_nor_continued(
    store: SessionStore,
) -> None:
    """A client may hold its id."""
    used = short_session(store, "hello")
    unused = store.create(Conversation(id="unused"), WORKSPACE)
    unused.keep()
    unused.close()
    used_in_this_order(used, unused)

    assert [info.id for info in store.list(limit=1)] == [used.id]
    assert store.latest(WORKSPACE) == used.id
    session, conversation = store.resume("unused")
    session.close()
    assert (conversation.id, list(conversation.prompts)) == ("unused", [])


@pytest.mark.parametrize("year", [-1_200, 33_658])
def test_time_of_a_file_that_no_calendar_has_is_shown_as_another_one(
    store: SessionStore, year: int
) -> None:
    """One such file ended the whole list with an internal error, on file systems that keep it."""
    session = store.create(Conversation(), Path("/w"))
    session.keep()
    info = replace(
        store.describe(session.path), updated_at_ms=unix_ms((year - 1_970) * 31_556_952 * 10**9)
    )

    assert last_used(info)[:4] in ("1970", "1969", "9999")


def test_session_list_ignores_broken_links_and_folders(store: SessionStore) -> None:
    """A link to a moved session used to end every list in a traceback."""
    session = short_session(store, "hello")
    session.path.with_name("link.jsonl").symlink_to("moved-away.jsonl")
    session.path.with_name("folder.jsonl").mkdir()

    assert [info.id for info in store.list()] == [session.id]
    assert store.latest(WORKSPACE) == session.id
    with pytest.raises(SessionNotFound):
        store.find("folder")


def test_session_list_reads_only_changed_sessions_again(
    store: SessionStore,
) -> None:
    """Completing an id lists the sessions at each key."""
    old, used = short_session(store, "old"), short_session(store, "used")
    before = {info.id: info for info in store.list()}
    session, conversation = store.resume(used.id)
    conversation.publish = session.record
    conversation.begin(UserMessage.of("more"))
    session.close()

    after = {info.id: info for info in store.list()}

    assert after[old.id] is before[old.id]
    assert (before[used.id].prompts, after[used.id].prompts) == (1, 2)


def test_sessions_of_subagents_are_read_once(store: SessionStore) -> None:
    """A goal with a limit of cost reads them in each round: 50 of 5 MB took three seconds."""
    short_session(store.of_agents("root"), "look")

    assert store.of_agents("root").list()[0] is store.of_agents("root").list()[0]


async def test_session_list_marks_waiting_sessions_and_omits_hidden_prompts(
    store: SessionStore,
) -> None:
    """S2-49: the hidden prompt is in the record and in no count."""
    session, conversation = await a_long_talk(store)
    session.close()

    [info] = store.list()

    assert len(conversation.prompts) == info.prompts + 1
    assert info.waiting


def test_session_list_shows_the_problem_of_unreadable_sessions(store: SessionStore) -> None:
    """One bad file must not hide the others, nor be hidden."""
    damaged, newer, fine = (short_session(store, text) for text in ("damaged", "newer", "fine"))
    damaged.path.write_bytes(damaged.path.read_bytes().replace(b'"ok"', b'"no"'))
    log = LogFile.create(newer.path.with_name("later.jsonl"))
    header = {"kind": "session", "format": 99, "id": "later", "program": "agent-cli 9"}
    log.append([header], sync=False)
    log.close()

    problems = {info.id: info.problem for info in store.list()}

    assert problems[damaged.id] == "line 3 does not match its checksum"
    assert problems["later"].endswith("update agent-cli to open it")
    assert problems[fine.id] == ""


def test_session_row_shows_use_cost_workspace_title_and_state(store: SessionStore) -> None:
    used = datetime.fromtimestamp(1_000_000).strftime("%Y-%m-%d %H:%M")
    session = short_session(store, "fix the bug")
    used_in_this_order(session)
    [info] = store.list()

    newer = replace(info, usage=Usage(cost_microdollars=None), waiting=True, problem="a newer one")

    whole = (session.id, used, "1", "$0.00", "/somewhere/project", "fix the bug", "")
    assert row(info) == whole
    assert row(replace(info, waiting=True))[-1] == "waits for a decision"
    assert row(newer) == (*whole[:3], "unknown", *whole[4:6], "unreadable: a newer one")
    assert row(replace(info, problem="line 2 is", remedy="fork"))[-1] == "damaged: line 2 is"
    assert as_json(info)["updated_at_ms"] == info.updated_at_ms


WRONG_SHAPES: Final = (
    {"kind": "state", "prompt": "nobody", "state": "completed"},
    {"kind": "state", "state": "asleep"},
    {"kind": "output", "prompt": "p", "index": 0},
    {"kind": "output", "index": 0, "output": {"kind": "later", "id": "x", "at_ms": math.inf}},
    {"kind": "output", "index": 0, "output": {"kind": "trim", "id": "x", "at_ms": math.inf}},
    {"kind": "output", "index": 0, "output": ["no", "object"]},
    {"kind": "output", "index": 7, "output": {"kind": "trim", "id": "x", "at_ms": 1}},
    {
        "kind": "output",
        "index": 0,
        "output": {"kind": "trim", "id": "x", "at_ms": 1},
        "replaced": True,
    },
    {"kind": "output", "index": 2, "output": {"kind": "user", "id": "x", "at_ms": 1, "content": 5}},
    {
        "kind": "output",
        "index": 2,
        "output": {"kind": "user", "id": "x", "at_ms": 1, "content": ["text"]},
    },
    {
        "kind": "output",
        "index": 2,
        "output": {"kind": "text", "id": "x", "at_ms": 1, "reply_id": "r", "block": {"text": "t"}},
    },
    {
        "kind": "output",
        "index": 2,
        "output": {
            "kind": "tool",
            "id": "x",
            "at_ms": 1,
            "reply_id": "r",
            "block": {"type": "tool_use", "id": "t", "name": "n"},
            "result": {"state": "success", "content": [None], "details": None},
        },
    },
    {
        "kind": "output",
        "index": 2,
        "output": {
            "kind": "tool",
            "id": "x",
            "at_ms": 1,
            "reply_id": "r",
            "block": {"type": "x", "id": "t", "name": "n", "input": {}},
        },
    },
    {
        "kind": "output",
        "index": 2,
        "output": {
            "kind": "text",
            "id": "x",
            "at_ms": 1,
            "reply_id": "r",
            "block": {"type": "tool_use", "id": "t", "name": "n", "input": {}},
        },
    },
    {
        "kind": "output",
        "index": 2,
        "output": {
            "kind": "tool",
            "id": "x",
            "at_ms": 1,
            "reply_id": "r",
            "block": {"type": "tool_use", "id": "t", "name": "n", "input": "ls"},
        },
    },
    {"kind": "prompt", "id": 5, "user_id": "u", "model": "m", "at_ms": 1, "visible": True},
    {"kind": "held", "usage": {"input_tokens": "many"}},
    {"kind": "held", "usage": {"cost_microdollars": 10**400}},
    {
        "kind": "output",
        "index": 2,
        "output": {
            "kind": "compaction",
            "id": "x",
            "at_ms": 1,
            "summary": "s",
            "first_kept_id": "y",
        },
    },
    {
        "kind": "output",
        "index": 2,
        "output": {
            "kind": "trim",
            "id": "x",
            "at_ms": 1,
            "first_kept_id": "y",
            "removed_messages": 1,
        },
    },
    {"kind": "rewound", "prompt": "nobody"},
    {"no": "kind"},
)


@pytest.mark.parametrize("record", WRONG_SHAPES)
async def test_record_of_a_wrong_shape_is_damage_to_all_that_read_it(
    tmp_path: Path, record: JsonObject
) -> None:
    """S2-01: a checksum detects damage, not forgery; what is before the record is used."""
    told: list[str] = []
    store = SessionStore(tmp_path, tell=told.append)
    session, other = short_session(store, "fix the bug"), short_session(store, "other")
    [prompt] = store.read(session.id).prompts
    log, before = LogFile.open(session.path)
    log.append([{"prompt": prompt.id, **record}, {"kind": "dropped"}], sync=False)
    log.close()
    line = len(before.records) + 1

    with pytest.raises(SessionError, match=f"line {line} is a record.*--fork {session.id}"):
        store.resume(session.id)
    copy, forked = store.fork(session.id)
    copy.close()

    listed = {info.id: info for info in store.list()}
    assert listed[session.id].problem.startswith(f"line {line} is a record ")
    assert (listed[session.id].title, listed[other.id].problem) == ("fix the bug", "")
    assert [(each.line, each.damage) for each in verify(session.path)] == [(line, True)]
    assert [each.input for each in forked.prompts] == [prompt.input]
    assert len([*search(store, ["bug"], redact=str)]) == 2
    assert export(store.read(session.id), "md", redact=str)
    assert (
        told
        == [
            f"session {session.id} is damaged: {listed[session.id].problem};"
            " the copy goes on from what is before it"
        ]
        + [
            f"session {session.id} is damaged: {listed[session.id].problem};"
            f" --fork {session.id} goes on from what is before it"
        ]
        * 2  # for the search and the export
    )


@pytest.mark.parametrize("number", [1, 2])
async def test_session_damaged_before_its_first_prompt_is_not_copied(
    tmp_path: Path, number: int
) -> None:
    """The copy was empty, and a run of `-p --fork` went on without the conversation."""
    store = SessionStore(tmp_path)
    session = short_session(store, "fix the bug")
    lines = session.path.read_bytes().splitlines(keepends=True)
    lines[number - 1] = lines[number - 1][:20] + b"\n"
    session.path.write_bytes(b"".join(lines))

    with pytest.raises(SessionError) as refused:
        store.fork(session.id)

    assert str(refused.value) == (
        f"session {session.id} is damaged: line {number} is not a record; nothing is before it to"
        " go on from: copy what you need out of the file, then"
        f" `agent-cli sessions delete {session.id}`"
    )
    assert [each.id for each in store.list()] == [session.id]


@pytest.mark.parametrize("left", [b"", bytes(4096), b'{"sum":"1'])
async def test_session_of_which_nothing_is_left_is_neither_resumed_nor_copied(
    tmp_path: Path, left: bytes
) -> None:
    """A power failure may empty a file or fill it with zeros; `-p --resume` began anew, unsaid."""
    store = SessionStore(tmp_path)
    session = short_session(store, "fix the bug")
    session.path.write_bytes(left)

    for go_on in (store.resume, store.fork):
        with pytest.raises(SessionError) as refused:
            go_on(session.id)
        assert str(refused.value) == (
            f"session {session.id} is damaged: nothing is in its file, as after a power failure;"
            f" `agent-cli sessions delete {session.id}`"
        )
    assert session.path.read_bytes() == left


CUT_AT_THE_ANSWER: Final[JsonObject] = {
    "kind": "output",
    "index": 2,
    "output": {"kind": "trim", "id": "x", "at_ms": 1, "first_kept_id": "a", "removed_messages": 1},
}
A_TEXT: Final[JsonObject] = {"kind": "text", "id": "a", "at_ms": 1, "reply_id": "r"} | {
    "block": {"type": "text", "text": "and more"}
}
ANSWER: Final[JsonObject] = {"kind": "output", "index": 2, "output": A_TEXT}
END: Final[JsonObject] = {
    "kind": "output",
    "index": 3,
    "output": {
        "kind": "reply",
        "id": "e",
        "at_ms": 1,
        "reply_id": "r",
        "model": "m",
        "stop_reason": "end_turn",
    },
}


@pytest.mark.parametrize(
    "records",
    [
        [ANSWER, END, CUT_AT_THE_ANSWER, {"kind": "dropped", "outputs": ["a"]}],
        [ANSWER, END, CUT_AT_THE_ANSWER, {"kind": "dropped", "outputs": ["e"]}],
        [ANSWER, CUT_AT_THE_ANSWER],
        [
            *(ANSWER, END, CUT_AT_THE_ANSWER),
            {**CUT_AT_THE_ANSWER, "index": 2, "replaced": True}
            | {"output": {**CUT_AT_THE_ANSWER["output"], "first_kept_id": "nothing"}},
        ],
        [
            *(ANSWER, END, CUT_AT_THE_ANSWER),
            {**END, "index": 4, "replaced": True, "output": {**END["output"], "reply_id": "s"}},
        ],
    ],
    ids=["dropped", "its end dropped", "without an end", "another cut", "another reply"],
)
def test_record_that_removes_what_a_cut_keeps_is_damage(
    store: SessionStore, records: list[JsonObject]
) -> None:
    """S2-01: resume() raised, or the next request did: a context began at an entry not there."""
    session = short_session(store, "fix the bug")
    [prompt] = store.read(session.id).prompts
    log, before = LogFile.open(session.path)
    log.append([{**record, "prompt": prompt.id} for record in records], sync=False)
    log.close()
    line = len(before.records) + len(records)

    read = store.read(session.id)
    copy, forked = store.fork(session.id)
    copy.close()

    assert read.damage is not None
    assert (read.damage.number, [each.line for each in verify(session.path)]) == (line, [line])
    assert faults(forked) == []
    with pytest.raises(SessionError, match=f"line {line} is a record of the kind"):
        store.resume(session.id)


@pytest.mark.parametrize(
    "record",
    [
        {"kind": "held", "usage": {"input_tokens": "many"}},
        {"kind": "held", "at": "noon", "usage": {"cost_microdollars": 7}},
        {"kind": "held", "at": [], "usage": None},
    ],
)
def test_cost_of_a_session_is_counted_up_to_a_record_of_a_wrong_shape(
    store: SessionStore, record: JsonObject
) -> None:
    """It is an agent's, and the limit of the session that started it counts it at each request."""
    session = short_session(store, "fix the bug")
    log, _ = LogFile.open(session.path)
    spent = {"kind": "held", "prompt": store.read(session.id).prompts[0].id}
    log.append(
        [
            {**spent, "at": 10, "usage": {"cost_microdollars": 30}},
            {**spent, "at": 20, "usage": {"cost_microdollars": 50}},
            {**spent, **record},
        ],
        sync=False,
    )
    log.close()
    info = replace(store.describe(session.path), usage=Usage(cost_microdollars=50), created_at_ms=1)

    assert [cost_since(info, at_ms) for at_ms in (1, 15, 25)] == [50, 20, 0]


def test_rewinding_what_a_cut_keeps_is_damage(store: SessionStore) -> None:
    """S2-01: the cut stands in an earlier prompt, as no program writes it."""
    session = short_session(store, "fix the bug")
    log, before = LogFile.open(session.path)
    [first] = store.read(session.id).prompts
    assert first.input is not None
    [begun] = [each for each in before.records if each["kind"] == "prompt"]
    later = {**begun, "id": "later", "input": {**begun["input"], "id": "a"}}
    del later["prev"]
    cut = {**CUT_AT_THE_ANSWER, "prompt": first.id}
    log.append([later, cut, {"kind": "rewound", "prompt": "later"}], sync=False)
    log.close()

    read = store.read(session.id)

    assert read.damage is not None
    assert read.damage.number == len(before.records) + 3
    assert len(read.prompts) == 2


def _edited(
    records: Sequence[JsonObject], how: str, here: int, dice: random.Random
) -> list[JsonObject]:
    """Return *records*, the header in its place, with number *here* deleted, doubled or moved."""
    edited = [*records]
    record = edited[here] if how == "doubled" else edited.pop(here)
    there = dice.randrange(here if how == "doubled" else 1, len(edited)) + 1
    return edited if how == "deleted" else [*edited[:there], record, *edited[there:]]


@pytest.mark.parametrize("how", ["deleted", "doubled", "moved"])
async def test_edited_records_are_read_alike_by_all_and_the_history_stays_valid(
    tmp_path: Path, how: str
) -> None:
    """S2-01: a record may name a prompt, an entry or a call that is not there, or is there twice.

    The chain of checksums is right, as an editing program would leave it.
    """
    source, _ = await a_long_talk(SessionStore(tmp_path / "source"))
    source.close()
    records = [*read_log(source.path).records]
    for each in records:
        del each["prev"]  # the log writes its own
    dice = random.Random(28)
    assert len(records) > 20
    for here in range(1, len(records), 2):
        store = SessionStore(tmp_path / str(here))
        store.folder.mkdir()
        log = LogFile.create(store.folder / source.path.name)
        log.append(_edited(records, how, here, dice), sync=False)
        log.close()

        damage = store.read(source.id).damage
        if store.read(source.id).prompts:
            session, conversation = store.fork(source.id)
            session.close()
        else:
            conversation = Conversation()
            with pytest.raises(SessionError, match="nothing is before it to go on from"):
                store.fork(source.id)
        if damage is None:
            session, conversation = store.resume(source.id)
            session.close()
        else:
            with pytest.raises(SessionError, match=f"line {damage.number} is a record of"):
                store.resume(source.id)

        assert faults(conversation) == []
        path = store.find(source.id)
        assert [each.line for each in verify(path)] == ([damage.number] if damage else [])
        assert store.describe(path).problem == (str(verify(path)[0]) if damage else "")
        assert export(store.read(source.id), "md", redact=str)


def test_session_is_found_by_a_prefix_of_its_id(store: SessionStore) -> None:
    session = short_session(store, "hello")

    assert store.find(session.id[:6]) == session.path
    assert store.find(session.id) == session.path
    for none in ("zzz", "../x", ""):
        with pytest.raises(
            SessionNotFound, match=r"does not exist; `agent-cli sessions list --all` shows all"
        ):
            store.find(none)


def test_session_is_listed_and_found_by_the_name_that_the_user_gave(store: SessionStore) -> None:
    """The last name counts, through a restart; two of one name are told apart by their ids."""
    used, other = short_session(store, "first words"), short_session(store, "others")
    for name in ("wrong", "Login \x1b[31mbug"):
        session, _ = store.resume(used.id)
        session.rename(name)
        session.close()

    assert [info.title for info in store.list() if info.id == used.id] == ["Login bug"]
    assert store.find("login BUG") == used.path
    assert store.find("others") == other.path
    with pytest.raises(SessionNotFound, match="'wrong' does not exist"):
        store.find("wrong")
    session, _ = store.resume(other.id)
    session.rename("login bug")
    session.close()
    with pytest.raises(SessionNotFound, match="matches several"):
        store.find("login bug")


def test_name_wins_over_the_beginning_of_an_id_and_over_a_first_prompt(
    store: SessionStore,
) -> None:
    """A name such as 42 is also hexadecimal: `sessions delete 42` must not take another one."""
    named, other = short_session(store, "a"), short_session(store, "Fix it")
    begins = other.path.rename(other.path.with_name("42aa00112233.jsonl"))
    short_session(store, "login")

    for name in ("42", "fix it", "LOGIN"):
        session, _ = store.resume(named.id)
        session.rename(name)
        session.close()

        assert store.find(name.title()) == named.path
        assert store.find("42a") == begins


def test_session_with_an_invisible_name_is_listed_by_its_first_prompt(store: SessionStore) -> None:
    used = short_session(store, "\x1b[31m")
    session, conversation = store.resume(used.id)
    conversation.publish = session.record
    conversation.begin(UserMessage.of("second words"))
    session.rename("\x07")
    session.close()

    assert [(info.title, info.name) for info in store.list()] == [("second words", "")]


def test_session_that_is_named_first_is_written_with_its_first_prompt(store: SessionStore) -> None:
    conversation = Conversation()
    session = store.create(conversation, WORKSPACE)
    session.rename("plans")

    assert not session.path.exists()

    conversation.publish = session.record
    conversation.begin(UserMessage.of("hello"))
    session.close()
    assert [info.title for info in store.list()] == ["plans"]


def test_ambiguous_session_id_prefix_is_an_error(store: SessionStore) -> None:
    for session in (short_session(store, "a"), short_session(store, "b")):
        session.path.rename(session.path.with_name(f"same-{session.id}.jsonl"))

    with pytest.raises(SessionNotFound, match="matches several: same-"):
        store.find("same")


def test_full_session_id_wins_over_a_longer_id_with_that_prefix(store: SessionStore) -> None:
    session = short_session(store, "a")
    longer = session.path.with_name(f"{session.id}0.jsonl")
    longer.write_bytes(session.path.read_bytes())

    assert store.find(session.id) == session.path


def test_latest_session_is_the_latest_of_the_workspace(store: SessionStore) -> None:
    """`--continue` in one project must not open another project's session."""
    here = [short_session(store, text, at=Path("/here")) for text in ("old", "new")]
    there = short_session(store, "elsewhere", at=Path("/there"))
    used_in_this_order(*here, there)

    assert store.latest(Path("/here")) == here[1].id
    with pytest.raises(SessionNotFound, match=r"no session of /else/nowhere to continue yet$"):
        store.latest(Path("/else/nowhere"))


def test_session_of_a_folder_that_was_moved_is_named(store: SessionStore, tmp_path: Path) -> None:
    """Renamed, or moved elsewhere under its name; one that still stands has its own sessions."""
    (tmp_path / "kept").mkdir()
    short_session(store, "kept", at=tmp_path / "kept")
    session = short_session(store, "old", at=tmp_path / "old")
    named = f"-r {session.id} goes on with the last one of {tmp_path / 'old'}, which is gone"

    for workspace in (tmp_path / "new", tmp_path / "archive" / "old"):
        with pytest.raises(SessionError, match=re.escape(named)):
            store.latest(workspace)
    with pytest.raises(SessionError, match=r"to continue yet$"):
        store.latest(tmp_path / "archive" / "other")


def test_session_of_a_folder_above_is_named_and_not_continued(store: SessionStore) -> None:
    """Its tools would work in another directory than the one the user stands in."""
    above = [short_session(store, text, at=Path("/here")) for text in ("old", "new")]
    used_in_this_order(*above, short_session(store, "elsewhere", at=Path("/here/other")))

    with pytest.raises(SessionError, match=f"yet; -r {above[1].id} .* the last one of /here$"):
        store.latest(Path("/here/deep/down"))


def test_session_can_be_open_only_once(store: SessionStore) -> None:
    session = short_session(store, "hello")
    first, _ = store.resume(session.id)

    with pytest.raises(SessionError, match="open in another agent-cli"):
        store.resume(session.id)
    first.close()
    store.resume(session.id)[0].close()


async def test_resumed_session_appends_to_the_same_file(store: SessionStore) -> None:
    session, before = await a_long_talk(store)
    session.close()
    old = session.path.read_bytes()

    again, conversation = store.resume(session.id)
    agent = agent_with(conversation, again, says("Done."))
    await agent.reject("t6", "no")
    again.close()

    assert session.path.read_bytes().startswith(old)
    _, last = store.resume(session.id)
    assert last.prompts == conversation.prompts
    assert len(last.prompts) == len(before.prompts)


async def test_record_tells_who_was_asked_what_why_and_when(store: SessionStore) -> None:
    """S2-51: approved, rejected and open calls, across a restart."""
    session = store.create(conversation := Conversation(user_id="ada"), WORKSPACE)
    script = [calls(tool_use("write", {}, f"t{number}")) for number in (1, 2, 3)]
    agent = agent_with(conversation, session, *script)
    await agent.prompt("Write")
    await agent.approve("t1")
    session.close()
    session, conversation = store.resume(session.id)
    await agent_with(conversation, session, script[-1]).reject("t2", "not today")
    session.close()

    [prompt] = store.read(session.id).prompts
    asked = [out for out in prompt.output if isinstance(out, ToolOutput)]

    assert prompt.user_id == "ada"
    assert [(call.asked_reason, call.decision) for call in asked] == [
        ("write needs a yes", "approved"),
        ("write needs a yes", "rejected"),
        ("write needs a yes", None),
    ]
    assert asked[1].result == Error((text_block("not today"),))
    times = [(call.asked_at_ms or 0, call.decided_at_ms or 0) for call in asked]
    assert all(0 < asked_at <= decided_at for asked_at, decided_at in times[:2])
    assert times[2][0] >= times[1][1]
    assert times[2][1] == 0


def test_session_files_and_folders_are_private(store: SessionStore, tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        session = short_session(store, "x" * 40_000)
    finally:
        os.umask(old)

    modes = {p.name: p.stat().st_mode & 0o777 for p in (tmp_path / "sessions").iterdir()}
    assert modes == {session.path.name: 0o600, "blobs": 0o700}
    assert (tmp_path / "sessions").stat().st_mode & 0o777 == 0o700


async def test_fork_at_any_entry_has_a_valid_history(store: SessionStore) -> None:
    """S2-53: a prompt is an entry, too; the original is unchanged, the copy names its origin."""
    session, conversation = await a_long_talk(store)
    session.close()
    before = session.path.read_bytes()
    places = [output.id for prompt in conversation.prompts for output in prompt.output]

    for place in [*places, *(prompt.id for prompt in conversation.prompts)]:
        copy, forked = store.fork(session.id, at=place)
        copy.close()
        again, resumed = store.resume(copy.id)
        again.close()

        assert faults(forked) == []
        assert resumed.prompts == forked.prompts
        assert (again.header.parent, again.header.parent_at) == (session.id, place)
        assert [p.id for p in forked.prompts] == [
            p.id for p in conversation.prompts[: len(forked.prompts)]
        ]
    assert session.path.read_bytes() == before


async def test_fork_before_a_compaction_has_the_uncompacted_messages(store: SessionStore) -> None:
    """S2-53, S2-45: the summary is a separate entry; a fork after it sends only the summary."""
    session = recorded(store, conversation := Conversation())
    for said in ("one", "two", "three"):
        conversation.begin(UserMessage.of(said))
        conversation.add_reply(says(f"heard {said}"))
        conversation.complete()
    first, second, third = conversation.prompts
    assert third.input
    conversation.compact("They counted.", third.input.id)
    session.close()

    sent: dict[str, str] = {}
    for at in (first.id, second.id, third.output[-2].id, third.id):
        copy, forked = store.fork(session.id, at=at)
        copy.close()
        again, resumed = store.resume(copy.id)
        again.close()
        assert resumed.context() == forked.context()
        sent[at] = str(forked.context())

    assert ["They counted." in each for each in sent.values()] == [False, False, False, True]
    assert ["heard one" in each for each in sent.values()] == [True, True, True, False]


async def test_fork_copies_the_session_except_for_the_pending_question(store: SessionStore) -> None:
    """Approved in both sessions, the call would run twice."""
    session, conversation = await a_long_talk(store)

    copy, forked = store.fork(session.id)
    copy.close()
    session.close()

    assert conversation.waiting
    assert not forked.waiting
    texts = [o.result for o in entries(forked.prompts) if isinstance(o, ToolOutput)]
    assert texts[-1] == texts[-2] == Error((text_block(NEVER_STARTED),))
    assert forked.prompts[:-1] == conversation.prompts[:-1]


def test_fork_of_a_damaged_session_ends_before_the_damage(store: SessionStore) -> None:
    session = recorded(store, conversation := Conversation())
    for text in ("one", "two"):
        conversation.begin(UserMessage.of(text))
        conversation.add_reply(says("ok"))
    session.close()
    session.path.write_bytes(session.path.read_bytes().replace(b'"two"', b'"2wo"'))

    with pytest.raises(SessionError, match=f"--fork {session.id}"):
        store.resume(session.id)
    copy, forked = store.fork(session.id)
    copy.close()

    assert [prompt.input for prompt in forked.prompts] == [conversation.prompts[0].input]


def test_fork_at_an_unknown_entry_is_an_error(store: SessionStore) -> None:
    session = short_session(store, "a")

    with pytest.raises(SessionError, match="no prompt or entry 'nowhere'"):
        store.fork(session.id, at="nowhere")


def test_existing_conversation_is_saved_completely(store: SessionStore) -> None:
    conversation = Conversation()
    conversation.begin(UserMessage.of("one"))
    conversation.add_reply(says("ok", usage=Usage(1, 2)))

    session = store.create(conversation, WORKSPACE)
    session.close()

    assert store.read(session.id).prompts[0].output == conversation.prompts[0].output
    assert store.read(session.id).prompts[0].usage == Usage(1, 2)


def test_record_of_an_unknown_kind_is_skipped_and_kept(store: SessionStore) -> None:
    """A newer version of the same format may write records that this one does not know."""
    session = short_session(store, "a")
    log, _ = LogFile.open(session.path)
    log.append([{"kind": "mood", "at": 1, "text": "good"}], sync=False)
    log.close()

    again, conversation = store.resume(session.id)
    conversation.publish = again.record
    conversation.begin(UserMessage.of("b"))
    again.close()

    kinds = [record["kind"] for record in read_log(session.path).records]
    assert kinds == ["session", "prompt", "output", "output", "state", "mood", "prompt"]


def test_file_that_is_not_a_session_is_refused(store: SessionStore, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text(json.dumps({"hello": 1}))

    with pytest.raises(SessionError, match="is neither a session of agent-cli nor a recording"):
        store.read_file(tmp_path / "notes.txt")
    with pytest.raises(SessionError, match="No such file"):
        store.read_file(tmp_path / "none")


# Actions of a user, a model and the program, one letter each; impossible ones are skipped.
Step = Callable[[Conversation], object]
STEPS: dict[str, Step] = {
    "say": lambda c: c.begin(UserMessage.of("hello")),
    "steer": lambda c: c.add_user(UserMessage.of("wait")),
    "reply": lambda c: c.add_reply(says("fine", thinking="hm")),
    "call": lambda c: c.add_reply(calls(tool_use("a", {}, "t1"), tool_use("b", {}, "t2"))),
    "start": lambda c: c.start_call(c.open_calls()[0].tool_call_id),
    "settle": lambda c: c.settle_call(c.open_calls()[0].tool_call_id, Success(())),
    "pause": lambda c: c.pause({c.open_calls()[-1].tool_call_id: "sure?"}),
    "approve": lambda c: c.decide_call(c.questions()[0].tool_call_id, "approved"),
    "edit": lambda c: c.decide_call(
        c.questions()[0].tool_call_id, "approved", edited={"path": "other"}
    ),
    "reject": lambda c: c.decide_call(c.questions()[0].tool_call_id, "rejected", "no"),
    "go on": lambda c: c.set_state("running"),
    "file": lambda c: c.attach(_file(c)),
    "widget": lambda c: c.attach(_widget(c)),
    "note": lambda c: c.note(CustomMessage("note", {"by": "a plugin"})),
    "refuse": lambda c: c.discard_reply("", "refusal"),
    "uncompact": lambda c: c.uncompact(),
    "cut early": lambda c: c.compact("long ago", _some_entry(c, back=2).id),
    "abort": lambda c: _abort(c),
    "compact": lambda c: c.compact("so far", _some_entry(c).id),
    "trim": lambda c: c.trim(_some_entry(c).id, removed_messages=1),
    "complete": lambda c: c.complete(),
}


def _abort(conversation: Conversation) -> None:
    conversation.answer_open_calls()
    conversation.discard_reply("I w", "aborted")


def _file(conversation: Conversation) -> FileOutput:
    call = conversation.open_calls()[0]
    return FileOutput("", 0, call.tool_call_id, "a.txt", "text/plain", "a")


def _widget(conversation: Conversation) -> WidgetOutput:
    call = conversation.open_calls()[-1]
    return WidgetOutput("", 0, call.tool_call_id, "table", [[1]], "1")


def _some_entry(conversation: Conversation, *, back: int = 1) -> Output:
    """Return an entry at which a cut may begin: a user message, the last entry or one before it."""
    said = [out for out in entries(conversation.prompts) if out.kind == "user"]
    return said[-min(back, len(said))]


def fits(conversation: Conversation, step: str) -> bool:
    """Whether the loop could perform *step* now."""
    if not conversation.prompts:
        return step == "say"
    state, is_open = conversation.prompts[-1].state, bool(conversation.open_calls())
    match step:
        case "start" | "settle" | "pause" | "file" | "widget":
            return is_open and state == "running"
        case "approve" | "edit" | "reject":
            return conversation.waiting and bool(conversation.questions())
        case "abort":
            return state == "running"
        case "note" | "uncompact":
            return not is_open
        case "go on":
            return conversation.waiting and not conversation.questions()
        case _:
            return (state == "running" and not is_open) or (step == "say" and state == "completed")


def reopened(store: SessionStore, id: str, step: str) -> tuple[Session, Conversation]:
    """Perform "reload", "fork", or "fork at" (an entry in the middle)."""
    if step == "reload":
        return store.resume(id)
    said = [out.id for prompt in store.read(id).prompts for out in prompt.output]
    return store.fork(id, at=said[len(said) // 2] if said and step == "fork at" else None)


class Rebuilt:
    """A listener's view of a conversation: prompts rebuilt from its events, nothing else."""

    def __init__(self, session: Session, conversation: Conversation) -> None:
        self._session = session
        self.prompts = deepcopy(list(conversation.prompts))
        conversation.publish = self.hear

    def hear(self, event: Event) -> None:
        self._session.record(event)
        match event:
            case PromptStarted():
                self.prompts.append(replace(event.prompt, output=[]))
            case PromptOutput(replaced=True):
                assert self.prompts[-1].output[event.index].id == event.output.id
                self.prompts[-1].output[event.index] = event.output
            case PromptOutput():
                self.prompts[-1].output.insert(event.index, event.output)
            case PromptStateChanged(state=state):
                self.prompts[-1].state = "running" if state == "running" else "waiting_for_approval"
            case PromptCompleted():
                self.prompts[-1].state = "completed"
            case _:
                pass


@given(st.lists(st.sampled_from([*STEPS, "reload", "fork", "fork at", "rewind"]), max_size=40))
@settings(deadline=None, derandomize=True)
def test_record_restores_any_random_history(
    tmp_path_factory: pytest.TempPathFactory, steps: list[str]
) -> None:
    """S2-43, S2-45, S2-53: across restarts, forks and rewinds; listeners and file agree."""
    store = SessionStore(tmp_path_factory.mktemp("s"))
    conversation = Conversation()
    session = store.create(conversation, WORKSPACE)
    heard = Rebuilt(session, conversation)
    for step in steps:
        if step in STEPS:
            if fits(conversation, step):
                STEPS[step](conversation)
        elif step == "rewind" and conversation.prompts:
            conversation = session.rewind(conversation.prompts[-1].id)
            heard = Rebuilt(session, conversation)
        elif step != "rewind" and session.path.exists():
            session.close()
            session, conversation = reopened(store, session.id, step)
            heard = Rebuilt(session, conversation)
        assert faults(conversation) == []
        told = [replace(prompt, usage=Usage()) for prompt in conversation.prompts]
        assert [replace(prompt, usage=Usage()) for prompt in heard.prompts] == told
    session.close()
    if not session.path.exists():
        return
    first, once = store.resume(session.id)
    first.close()
    second, twice = store.resume(session.id)
    second.close()
    assert once.prompts == twice.prompts
    assert faults(once) == []
    settled = [p for p in conversation.prompts if p.state == "completed"]
    assert [p for p in once.prompts if p.id in {s.id for s in settled}] == settled
