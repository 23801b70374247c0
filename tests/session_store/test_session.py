"""The written record: complete, written before the effect, on disks that fail."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from agent_cli.contracts.errors import SessionError
from agent_cli.contracts.events import ApprovalRequested, Event
from agent_cli.contracts.messages import CustomMessage, UserMessage, now_ms
from agent_cli.contracts.provider import Reply
from agent_cli.contracts.timeline import Success, Usage, WidgetOutput, text_block
from agent_cli.contracts.tooling import ToolContext, ToolResult
from agent_cli.core.agent import Agent
from agent_cli.core.conversation import Conversation
from agent_cli.core.loop_config import LoopConfig
from agent_cli.session_store import Session, SessionStore
from agent_cli.session_store.codec import JsonObject
from agent_cli.session_store.log_file import read_log
from agent_cli.session_store.upkeep import verify
from tests.fakes import MODEL, ScriptedModel, calls, does, returns, says, tool, tool_use
from tests.full_disks import full_disk
from tests.session_store.recordings import WORKSPACE, a_long_talk, agent_with, recorded


def saved(session: Session) -> list[JsonObject]:
    """Return the records on disk."""
    return [*read_log(session.path).records]


def resumed(session: Session) -> Conversation:
    """Return the conversation that another process would resume."""
    again, conversation = SessionStore(session.path.parent).resume(session.id)
    again.close()
    return conversation


async def test_resumed_session_restores_the_complete_conversation(tmp_path: Path) -> None:
    """S2-43, S2-45: all kinds of entries, inserted and replaced ones, usage and states."""
    session, conversation = await a_long_talk(SessionStore(tmp_path))
    session.close()

    again = resumed(session)

    assert again.prompts == conversation.prompts
    assert again.context() == conversation.context()
    assert (again.id, again.user_id) == (conversation.id, conversation.user_id)
    assert again.usage == conversation.usage


async def test_each_record_says_when_it_was_written(tmp_path: Path) -> None:
    """What a session cost since a time is summed by it."""
    before_ms = now_ms()
    session, _ = await a_long_talk(SessionStore(tmp_path))
    session.close()

    [header, *records] = saved(session)

    assert records
    assert all(before_ms <= each["at"] <= now_ms() for each in (header, *records))


async def test_tool_start_is_on_disk_before_the_tool_runs(tmp_path: Path) -> None:
    """After a crash during the tool its outcome is "unknown", not "not run"."""
    session = SessionStore(tmp_path).create(conversation := Conversation(), WORKSPACE)
    seen: list[JsonObject] = []

    async def look(context: ToolContext) -> ToolResult:
        seen.append(saved(session)[-1])
        return ToolResult.of("done")

    script = [calls(tool_use("look", {}, "t1")), says("Done.")]
    await agent_with(conversation, session, *script, tools=[tool("look", does(look))]).prompt("Go")
    session.close()

    [start] = seen
    assert (start["output"]["block"]["id"], start["replaced"]) == ("t1", True)
    assert start["output"]["started_at_ms"] is not None


async def test_record_is_synced_to_disk_before_external_effects(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That is at a tool's start, a question, its answer, and a prompt's end; nowhere else.

    A tool that only reads has no effect, unless it waits for others, such as agents, or only its
    server says so.
    """
    synced: list[JsonObject] = []
    sync = os.fsync

    def watched(descriptor: int) -> None:
        sync(descriptor)
        if session.path.exists() and os.fstat(descriptor).st_size and saved(session):
            synced.append(saved(session)[-1])

    names = ("peek", "wait", "claim", "guess", "look", "write")
    session = SessionStore(tmp_path).create(conversation := Conversation(), WORKSPACE)
    agent = agent_with(
        conversation,
        session,
        calls(*(tool_use(name, {}, name) for name in names)),
        says("Done."),
        tools=[
            replace(tool("peek", returns("a file")), changes=False),
            replace(tool("wait", returns("an answer")), changes=False, takes_slot=False),
            replace(tool("claim", returns("a row")), changes=False, doubt=lambda _: "who knows"),
            replace(tool("guess", returns("a row")), changes=False, doubt=lambda _: str(1 / 0)),
            tool("look", returns("a tree")),
            tool("write", returns("written")),
        ],
    )
    monkeypatch.setattr(os, "fsync", watched)
    await agent.prompt("Go")
    await agent.approve("write")
    monkeypatch.undo()
    session.close()

    assert [_short(record) for record in synced] == [
        *("wait started", "claim started", "guess started", "look started"),
        *("write held", "waiting_for_approval"),
        *("write held", "running", "write started", "completed"),
    ]


def _short(record: JsonObject) -> str:
    if record["kind"] == "state":
        return str(record["state"])
    call = record["output"]
    ended, started = call["ended_at_ms"], call["started_at_ms"]
    return f"{call['block']['id']} {'ended' if ended else 'started' if started else 'held'}"


async def test_pause_for_approval_is_saved_before_the_user_is_asked(tmp_path: Path) -> None:
    """S2-28: once the question is shown, another process can already answer it."""
    session = SessionStore(tmp_path).create(conversation := Conversation(), WORKSPACE)
    agent = agent_with(conversation, session, calls(tool_use("write", {}, "t1")))
    at_question: list[JsonObject] = []

    def look(event: Event) -> None:
        if isinstance(event, ApprovalRequested):
            at_question.extend(saved(session))

    agent.subscribe(look)
    await agent.prompt("Go")
    session.close()

    assert at_question[-1]["state"] == "waiting_for_approval"
    assert at_question[-2]["output"]["result"]["why"] == "approval"


async def test_records_refer_to_a_prompt_by_id(tmp_path: Path) -> None:
    """S2-13: a prompt is written once; later records refer to it."""
    session, conversation = await a_long_talk(SessionStore(tmp_path))
    session.close()

    records = saved(session)

    assert records[0]["user_id"] == "ada"
    prompts = [record["id"] for record in records if record["kind"] == "prompt"]
    assert prompts == [prompt.id for prompt in conversation.prompts]
    assert {r["prompt"] for r in records if r["kind"] in ("output", "state")} == set(prompts)


def test_session_without_a_prompt_creates_no_file(tmp_path: Path) -> None:
    """Starting and leaving the program creates no session."""
    session = recorded(SessionStore(tmp_path / "sessions"))
    session.close()

    assert list(tmp_path.iterdir()) == []


def test_long_strings_are_stored_in_separate_files(tmp_path: Path) -> None:
    """An image is stored once however often it is used, and the record stays small."""
    session = recorded(SessionStore(tmp_path), conversation := Conversation())
    image = {"type": "image", "source": {"type": "base64", "data": "QUJD" * 20_000}}
    conversation.begin(UserMessage((image, image)))  # type: ignore[arg-type]  # nested JSON
    session.close()

    assert session.path.stat().st_size < 1000
    [blob] = (tmp_path / "blobs").glob("[!.]*")
    assert (blob.stat().st_size, blob.stat().st_mode & 0o777) == (80_000, 0o600)
    assert resumed(session).prompts[0].input == conversation.prompts[0].input
    blob.unlink()
    [entry, _] = resumed(session).messages()[0].content  # type: ignore[union-attr]  # the user's
    assert "lost" in str(entry)


def test_data_json_cannot_represent_is_saved_as_text(tmp_path: Path) -> None:
    """An untyped plugin must not end the record for everything else."""
    session = recorded(SessionStore(tmp_path), conversation := Conversation())
    conversation.begin(UserMessage.of("Hi"))
    conversation.add_reply(calls(tool_use("look", {}, "t1")))
    conversation.attach(WidgetOutput("w", 1, "t1", "x", {(1, 2): Path("/a")}, ""))  # type: ignore[dict-item]
    session.close()

    widget = resumed(session).prompts[0].output[1]

    assert isinstance(widget, WidgetOutput)
    assert widget.data == {"(1, 2)": "/a"}


def three_prompts(session: Session, conversation: Conversation) -> None:
    for text in ("one", "two", "three"):
        conversation.begin(UserMessage.of(text))
        conversation.add_reply(Reply("m", "model", (text_block("ok"),), "end_turn", Usage(1, 1)))
    conversation.complete()


def test_rewind_restores_the_conversation_and_keeps_the_record(tmp_path: Path) -> None:
    """S2-53: the conversation is as before the prompt; the file still has the messages."""
    session = recorded(SessionStore(tmp_path), conversation := Conversation())
    three_prompts(session, conversation)
    second = conversation.prompts[1].id

    earlier = session.rewind(second)
    earlier.publish = session.record
    earlier.begin(UserMessage.of("other"))
    session.close()

    said = [prompt.input.content for prompt in resumed(session).prompts if prompt.input]
    assert said == [(text_block("one"),), (text_block("other"),)]
    assert "three" in session.path.read_text()
    assert earlier.id == conversation.id
    assert verify(session.path) == []


def test_usage_of_rewound_prompts_still_counts(tmp_path: Path) -> None:
    """S2-41: even after two rewinds and a restart; a list of sessions agrees."""
    store = SessionStore(tmp_path)
    session = recorded(store, conversation := Conversation())
    three_prompts(session, conversation)
    session.rewind(conversation.prompts[2].id)
    session.close()

    session, conversation = store.resume(session.id)
    earlier = session.rewind(conversation.prompts[0].id)
    session.close()

    assert (conversation.usage, earlier.usage) == (Usage(3, 3), Usage(3, 3))
    assert resumed(session).usage == Usage(3, 3)
    assert [info.usage for info in store.list()] == [Usage(3, 3)]


def test_rewind_to_an_unknown_prompt_is_an_error(tmp_path: Path) -> None:
    session = recorded(SessionStore(tmp_path))

    with pytest.raises(SessionError, match="has no prompt nowhere"):
        session.rewind("nowhere")


@pytest.mark.parametrize("free", [0, 1, 150, 700])
def test_full_disk_is_reported_once_and_damages_no_record(tmp_path: Path, free: int) -> None:
    """The run continues; once there is space again, all missing records are saved in order."""
    told: list[str] = []
    session = recorded(SessionStore(tmp_path, tell=told.append), conversation := Conversation())
    conversation.begin(UserMessage.of("before"))
    whole = saved(session)

    with full_disk(session.path, free=free):
        three_prompts(session, conversation)
        assert saved(session)[: len(whole)] == whole
        was_behind = session.is_behind
    assert len(told) == 1
    assert told[0].startswith("the session is no longer being saved: File too large")

    conversation.begin(UserMessage.of("after"))
    conversation.complete()
    session.close()

    assert (was_behind, session.is_behind) == (True, False)
    assert told[1:] == ["the session is being saved again, with all that was missing"]
    assert verify(session.path) == []
    assert resumed(session).prompts == conversation.prompts


def test_deleted_file_is_reported_once_at_the_next_save(tmp_path: Path) -> None:
    """Only the end of the program said it, when all that was said meanwhile was lost."""
    told: list[str] = []
    session = recorded(SessionStore(tmp_path, tell=told.append), conversation := Conversation())
    conversation.begin(UserMessage.of("before"))
    session.path.unlink()

    conversation.complete()
    conversation.begin(UserMessage.of("after"))
    conversation.complete()
    session.close()

    assert told == [
        f"the file of this session was deleted ({session.path}): it is no longer saved, and cannot"
        " be resumed; a new session is saved again"
    ]
    assert not session.path.exists()


async def test_unwritable_session_folder_does_not_stop_the_run(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file where a folder should be")
    told: list[str] = []
    store = SessionStore(tmp_path / "state" / "sessions", tell=told.append)
    session = store.create(conversation := Conversation(), WORKSPACE)
    agent = agent_with(conversation, session, calls(tool_use("look", {}, "t1")), says("Done."))

    result = await agent.prompt("Go")
    session.close()

    assert result.final_message and result.final_message.text == "Done."
    assert len(told) == 1
    assert told[0].startswith("the session is no longer being saved: ")


async def test_api_key_is_not_in_the_record(tmp_path: Path) -> None:
    """The key goes to the model's server with each request, and nowhere else."""
    session = SessionStore(tmp_path).create(conversation := Conversation(), WORKSPACE)
    model = ScriptedModel(says("Done."))
    options = LoopConfig(model=MODEL, stream_fn=model, get_api_key=lambda _provider: "sk-sesame")
    agent = Agent(options, conversation=conversation)
    agent.subscribe(session.record)

    await agent.prompt("Go")
    session.close()

    assert model.requests[0].api_key == "sk-sesame"
    assert "sesame" not in session.path.read_text()


def test_usage_without_a_reply_is_saved(tmp_path: Path) -> None:
    """The usage of a summary has no entry of its own, and a refused one has no other either."""
    session = recorded(SessionStore(tmp_path), conversation := Conversation())
    three_prompts(session, conversation)
    conversation.begin(UserMessage.of("four"))
    conversation.answer_open_calls()
    conversation.complete()
    conversation.add_usage(Usage(100, 100, cost_microdollars=None))
    session.close()

    assert resumed(session).usage == Usage(103, 103, cost_microdollars=None)


def test_events_that_change_no_entry_are_not_recorded(tmp_path: Path) -> None:
    session = recorded(SessionStore(tmp_path), conversation := Conversation())
    conversation.begin(UserMessage.of("Hi"))
    conversation.add_reply(calls(tool_use("look", {}, "t1")))
    conversation.settle_call("t1", Success(()))
    before = session.path.read_bytes()

    session.record(ApprovalRequested(None))  # type: ignore[arg-type]  # not looked at
    session.close()

    assert session.path.read_bytes() == before


def test_late_change_of_another_conversation_is_not_recorded(tmp_path: Path) -> None:
    """A tool that ignored its cancellation may write state after the user began a new session."""
    before, now = Conversation(), Conversation()
    before.begin(UserMessage.of("before"))
    session = SessionStore(tmp_path).create(now, WORKSPACE)
    before.publish = now.publish = session.record
    now.begin(UserMessage.of("hello"))
    before.note(CustomMessage("late"))

    session.close()

    assert [record["kind"] for record in saved(session)] == ["session", "prompt"]
