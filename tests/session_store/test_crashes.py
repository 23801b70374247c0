"""A program may end at any byte: recorded entries count, and open calls are closed once."""

import random
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from agent_cli.contracts.timeline import Error, Pending, ToolOutput, text_of
from agent_cli.core.conversation import Conversation
from agent_cli.session_store import SessionStore
from agent_cli.session_store.history import NEVER_STARTED, UNKNOWN_OUTCOME
from agent_cli.session_store.log_file import read_log
from agent_cli.session_store.upkeep import verify
from tests.fakes import calls, says, tool_use
from tests.session_store.recordings import a_long_talk, agent_with, faults


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "sessions"


async def a_talk(folder: Path) -> bytes:
    """Return the file of a long session."""
    session, _ = await a_long_talk(SessionStore(folder))
    session.close()
    return session.path.read_bytes()


def check_cut(folder: Path, data: bytes, size: int) -> None:
    """Resume a session of which only *size* bytes were written, and check its content."""
    path = folder / "cut.jsonl"
    path.write_bytes(data[:size])
    whole = read_log(path).records

    session, conversation = SessionStore(folder).resume("cut")
    session.close()

    assert faults(conversation) == []
    assert read_log(path).records[: len(whole)] == whole, "an earlier record was lost"
    assert [finding for finding in verify(path) if finding.damage] == []
    assert all(not is_open(call) or conversation.waiting for call in tool_calls(conversation))
    again, resumed = SessionStore(folder).resume("cut")
    again.close()
    assert resumed.prompts == conversation.prompts


def tool_calls(conversation: Conversation) -> Iterator[ToolOutput]:
    for prompt in conversation.prompts:
        yield from (output for output in prompt.output if isinstance(output, ToolOutput))


def is_open(call: ToolOutput) -> bool:
    return isinstance(call.result, Pending)


async def test_session_truncated_at_any_record_can_be_resumed(folder: Path) -> None:
    """Every end of a record, one byte before and after it, and a few bytes in between.

    A part of the first record is no session: `test_store` has what is said then.
    """
    data = await a_talk(folder)
    first, *ends = [end for end, byte in enumerate(data) if byte == ord("\n")]
    sample = random.Random(1).sample(range(first + 1, len(data)), 20)
    near = {end + step for end in ends for step in (0, 1, 2)}

    for size in sorted({first + 1, first + 2, *near, *sample}):
        check_cut(folder, data, min(size, len(data)))


@pytest.mark.slow
async def test_session_truncated_at_every_byte_can_be_resumed(folder: Path) -> None:
    data = await a_talk(folder)

    for size in range(data.index(b"\n") + 1, len(data) + 1):
        check_cut(folder, data, size)


@pytest.mark.parametrize("flips", [50, pytest.param(2_000, marks=pytest.mark.slow)])
async def test_session_with_a_flipped_byte_is_read_up_to_the_damage(
    folder: Path, flips: int
) -> None:
    """Reading never raises, and returns nothing after the damage."""
    store = SessionStore(folder)
    data = await a_talk(folder)
    lines = data.splitlines(keepends=True)
    path = folder / "flipped.jsonl"
    for place in random.Random(2).sample(range(len(data)), flips):
        damaged = bytearray(data)
        damaged[place] ^= 0x55
        path.write_bytes(damaged)

        history = store.read("flipped")

        line = data[:place].count(b"\n")
        assert faults(Conversation(history.prompts)) == []
        assert len(read_log(path).records) == line, (place, lines[line])


async def started_then_cut(folder: Path, *, at: str) -> Conversation:
    """Resume a session of two calls, cut after the record that *at* names."""
    store = SessionStore(folder)
    conversation = Conversation()
    session = store.create(conversation, folder)
    uses = [tool_use("look", {}, "t1"), tool_use("look", {}, "t2")]
    await agent_with(conversation, session, calls(*uses), says("Done.")).prompt("Look")
    session.close()
    lines = session.path.read_bytes().splitlines(keepends=True)
    last = next(number for number, line in enumerate(lines) if at in line.decode())
    session.path.write_bytes(b"".join(lines[: last + 1]))
    resumed, again = store.resume(session.id)
    resumed.close()
    return again


def answers(conversation: Conversation) -> dict[str, str]:
    """Return call id → text for the model."""
    return {
        call.tool_call_id: text_of(call.result.content)
        for call in tool_calls(conversation)
        if isinstance(call.result, Error)
    }


async def test_call_interrupted_after_its_start_has_an_unknown_outcome(folder: Path) -> None:
    """The call may have had an effect: only the model, or the user, can check."""
    conversation = await started_then_cut(folder, at='"replaced"')

    assert answers(conversation) == {"t1": UNKNOWN_OUTCOME, "t2": NEVER_STARTED}
    assert conversation.prompts[-1].state == "completed"


async def test_call_interrupted_before_its_start_is_answered_as_never_started(folder: Path) -> None:
    conversation = await started_then_cut(folder, at='"kind":"reply"')

    assert answers(conversation) == {"t1": NEVER_STARTED, "t2": NEVER_STARTED}


async def test_reply_without_its_end_record_is_dropped(folder: Path) -> None:
    """An incomplete reply would be a tool call that cannot be answered."""
    conversation = await started_then_cut(folder, at='"id":"t2"')

    assert [prompt.output for prompt in conversation.prompts] == [[]]
    assert conversation.prompts[-1].state == "completed"


async def test_repair_after_a_crash_is_recorded_once(folder: Path) -> None:
    """The repair is in the file; a second restart finds nothing to repair."""
    conversation = await started_then_cut(folder, at='"replaced"')
    path = folder / f"{conversation.id}.jsonl"
    before = path.read_bytes()

    session, again = SessionStore(folder).resume(conversation.id)
    session.close()

    assert path.read_bytes() == before
    assert before.decode().count(UNKNOWN_OUTCOME) == 1
    assert again.prompts == conversation.prompts


async def approved(folder: Path, *, restart: bool) -> Sequence[object]:
    """Answer a question, in the process that asked or in the next one; return all messages."""
    store = SessionStore(folder)
    conversation = Conversation()
    session = store.create(conversation, folder)
    uses = [tool_use("look", {}, "t1"), tool_use("write", {}, "t2"), tool_use("look", {}, "t3")]
    agent = agent_with(conversation, session, calls(*uses), says("Done."))
    await agent.prompt("Write")
    if restart:
        # A copy of the file while the process waits, as kill -9 would leave it.
        shutil.copy(session.path, folder / "killed.jsonl")
        session, conversation = store.resume("killed")
        agent = agent_with(conversation, session, says("Done."))
    assert [call.tool_call_id for call in conversation.questions()] == ["t2"]
    await agent.approve("t2")
    session.close()
    return [(type(m).__name__, getattr(m, "content", None)) for m in conversation.messages()]


async def test_pending_question_survives_a_restart(folder: Path, tmp_path: Path) -> None:
    """S2-31, S2-47: killed while it waits, approved after a restart: the same conversation."""
    without = await approved(tmp_path / "other", restart=False)

    assert await approved(folder, restart=True) == without


async def test_question_recorded_without_the_pause_is_still_asked(folder: Path) -> None:
    """S2-28: the question is written before the pause; a kill in between must not lose it."""
    store = SessionStore(folder)
    conversation = Conversation()
    session = store.create(conversation, folder)
    await agent_with(conversation, session, calls(tool_use("write", {}, "t1"))).prompt("Write")
    session.close()
    lines = session.path.read_bytes().splitlines(keepends=True)
    assert b"waiting_for_approval" in lines[-1]
    session.path.write_bytes(b"".join(lines[:-1]))

    resumed, again = store.resume(session.id)
    resumed.close()

    assert again.waiting
    assert [call.tool_call_id for call in again.questions()] == ["t1"]


async def test_approved_call_that_never_ran_is_closed_on_resume(folder: Path) -> None:
    """Killed between the approval and the run: the call is answered, and nothing waits for ever."""
    store = SessionStore(folder)
    conversation = Conversation()
    session = store.create(conversation, folder)
    agent = agent_with(conversation, session, calls(tool_use("write", {}, "t1")), says("Done."))
    await agent.prompt("Write")
    await agent.approve("t1")
    session.close()
    lines = session.path.read_bytes().splitlines(keepends=True)
    decided = next(n for n, line in enumerate(lines) if b'"decision":"approved"' in line)
    session.path.write_bytes(b"".join(lines[: decided + 1]))

    resumed, again = store.resume(session.id)
    resumed.close()

    assert answers(again) == {"t1": NEVER_STARTED}
    assert not again.waiting
