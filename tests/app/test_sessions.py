"""Sessions through the whole program: continued, and on disks that fail."""

import asyncio
import resource
import subprocess
import threading
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from agent_cli.app.app import App
from agent_cli.app.arguments import parse_arguments
from agent_cli.app.sessions import Sessions
from agent_cli.app.startup import start
from agent_cli.contracts.errors import AgentBusy, SessionError, UsageError
from agent_cli.contracts.events import AgentStart, Event, EventSink, Notice
from agent_cli.contracts.messages import UserMessage
from agent_cli.core.agent import Agent
from agent_cli.core.conversation import Conversation
from agent_cli.core.loop_config import LoopConfig
from agent_cli.session_store import Session, SessionStore
from agent_cli.session_store.upkeep import verify
from agent_cli.system.paths import sessions_dir
from tests.e2e.program import (
    AGENT_CLI,
    Finished,
    agent_cli,
    environment,
    said_by_user,
)
from tests.fakes import LIMIT_S, MODEL, ScriptedModel, says
from tests.full_disks import full_disk
from tests.messages_api import FakeMessagesApi, reply, serve_in_thread, tool_use
from tests.waiting import until

WRITE = reply(tool_use("write", {"path": "made.txt", "content": "made\n"}))
YOLO = ("--permission-mode", "yolo")


def sessions(*words: str, heard: EventSink | None = None) -> tuple[Sessions, Agent]:
    """Return the sessions of a program that was started with *words*, and its agent."""
    agent = Agent()
    begun = start(parse_arguments(words), may_ask=False)
    return Sessions(begun, agent, heard or agent.publish), agent


def busy(*_given: object, **_more: object) -> None:
    raise AgentBusy("a run is going on")


def say(agent: Agent, text: str) -> str:
    """Add a finished prompt and return its id."""
    prompt = agent.conversation.begin(UserMessage.of(text))
    agent.conversation.complete()
    return prompt.id


async def one_kept() -> str:
    """Return the id of a closed session of one prompt."""
    kept, agent = sessions()
    await kept.begin()
    say(agent, "one")
    id = kept.id
    kept.close()
    assert id is not None
    return id


def said(id: str | None) -> list[str]:
    assert id is not None
    inputs = [prompt.input for prompt in SessionStore(sessions_dir()).read(id).prompts]
    return [str(entry.content[0]["text"]) for entry in inputs if entry]


def test_each_conversation_gets_its_own_session() -> None:
    kept, agent = sessions()
    ids: list[str | None] = []
    for text in ("one", "two"):
        agent.reset()
        kept.follow()
        say(agent, text)
        ids.append(kept.id)
    kept.close()

    assert [said(id) for id in ids] == [["one"], ["two"]]
    assert kept.id is None


async def test_fork_and_export_before_the_first_prompt_are_errors() -> None:
    """The file is created with the first prompt; the error used to name an unknown session."""
    kept, _ = sessions()
    await kept.begin()

    nothing = r"^nothing was said in this session yet$"
    with pytest.raises(SessionError, match=nothing):
        await kept.fork()
    with pytest.raises(SessionError, match=nothing):
        await kept.export("md")
    kept.close()


async def test_session_whose_file_was_deleted_is_not_said_to_be_empty() -> None:
    """The file of one that is open can be deleted all the same; it said that nothing was said."""
    kept, agent = sessions()
    await kept.begin()
    say(agent, "one")
    assert kept.path
    kept.path.unlink()

    with pytest.raises(SessionError, match=r"^not done: the file of this session is gone: /"):
        await kept.fork()


async def test_session_that_is_not_saved_whole_is_neither_copied_nor_exported() -> None:
    """Both left its end out, and `/fork` went on without that; nothing said so."""
    heard: list[Event] = []
    kept, agent = sessions(heard=heard.append)
    await kept.begin()
    say(agent, "one")
    assert kept.path

    with full_disk(kept.path, free=0):
        say(agent, "two")
        for act in (lambda: kept.fork(), lambda: kept.export("md")):
            with pytest.raises(SessionError, match=r"not done: a part .* is not saved"):
                await act()
        behind = kept.id
        agent.reset()
        kept.follow()

    lost = f"the end of session {behind} could not be saved, and is lost"
    assert [event.text for event in heard if isinstance(event, Notice)][1:] == [lost]


async def test_session_is_copied_and_exported_once_its_end_could_be_saved() -> None:
    kept, agent = sessions()
    await kept.begin()
    say(agent, "one")
    assert kept.path
    with full_disk(kept.path, free=0):
        say(agent, "two")

    exported = (await kept.export("md")).read_text()
    await kept.fork()

    assert "two" in exported
    assert said(kept.id) == ["one", "two"]


async def test_copy_that_cannot_be_saved_is_told_of_where_events_may_be_published() -> None:
    """The notice came from the thread that copied: its listeners failed, and nothing was shown."""
    loops: list[asyncio.AbstractEventLoop] = []

    def heard(event: Event) -> None:
        if isinstance(event, Notice):
            assert event.text.startswith("the session is no longer being saved")
            loops.append(asyncio.get_running_loop())

    kept, agent = sessions(heard=heard)
    await kept.begin()
    say(agent, "one " * 300)
    assert kept.path
    short = Path("short")
    short.touch()

    with full_disk(short, free=9):
        await kept.fork()

    assert loops == [asyncio.get_running_loop()]


async def test_export_that_saves_what_was_missing_says_so_where_events_may_be_published() -> None:
    """The thread that wrote the file published it."""
    loops: list[asyncio.AbstractEventLoop] = []

    def heard(event: Event) -> None:
        if isinstance(event, Notice) and "is being saved again" in event.text:
            loops.append(asyncio.get_running_loop())

    kept, agent = sessions(heard=heard)
    await kept.begin()
    say(agent, "one")
    assert kept.path
    with full_disk(kept.path, free=0):
        say(agent, "two")

    await kept.export("md")

    assert loops == [asyncio.get_running_loop()]


async def test_conversation_continues_after_resume_fork_and_rewind() -> None:
    """S2-53: each time the agent has the new conversation, and its session records it."""
    kept, agent = sessions()
    await kept.begin()
    say(agent, "one")
    second, first = say(agent, "two"), kept.id
    assert first is not None

    kept.rewind(second)
    say(agent, "2")
    await kept.fork()
    say(agent, "forked")
    fork = kept.id
    await kept.resume(first)
    say(agent, "resumed")
    kept.close()

    assert said(first) == ["one", "2", "resumed"]
    assert said(fork) == ["one", "2", "forked"]


async def test_rewind_during_a_run_is_refused_before_anything_is_recorded() -> None:
    """A background job began a run while the user chose; the record lost what came after."""
    agent = Agent(LoopConfig(model=MODEL, stream_fn=ScriptedModel(says("done"))))
    kept = Sessions(start(parse_arguments(()), may_ask=False), agent, agent.publish)
    await kept.begin()
    first = say(agent, "one")
    refused: list[str] = []

    def rewind(event: Event) -> None:
        if isinstance(event, AgentStart):
            with pytest.raises(AgentBusy):
                kept.rewind(first)
            refused.append(first)

    agent.subscribe(rewind)
    await agent.prompt("two")
    id = kept.id
    kept.close()

    assert refused == [first]
    assert said(id) == ["one", "two"]


@pytest.mark.parametrize("is_cancelled", [False, True])
async def test_fork_that_is_given_up_leaves_no_copy(
    is_cancelled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The copy was made in a thread when a run began, or the user stopped waiting for it."""
    agent = Agent(LoopConfig(model=MODEL, stream_fn=ScriptedModel(says("done"))))
    kept = Sessions(start(parse_arguments(()), may_ask=False), agent, agent.publish)
    await kept.begin()
    say(agent, "one")
    id, fork = kept.id, SessionStore.fork
    copying, may_go_on = threading.Event(), threading.Event()

    def fork_then(*given: Any, **more: Any) -> tuple[Session, Conversation]:
        copying.set()
        assert may_go_on.wait(LIMIT_S)
        return fork(*given, **more)

    monkeypatch.setattr(SessionStore, "fork", fork_then)
    forking = asyncio.create_task(kept.fork())
    await until(copying.is_set)
    if is_cancelled:
        forking.cancel()
        await asyncio.sleep(0)
        may_go_on.set()
    else:
        monkeypatch.setattr(agent, "adopt", busy)
        may_go_on.set()
    with pytest.raises(asyncio.CancelledError if is_cancelled else AgentBusy):
        await forking

    await until(lambda: [path.stem for path in sessions_dir().glob("*.jsonl")] == [id])
    assert kept.id == id
    kept.close()


async def test_failed_resume_fork_or_rewind_keeps_the_current_session() -> None:
    kept, agent = sessions()
    await kept.begin()
    say(agent, "one")
    id = kept.id
    assert id is not None

    for impossible in ("nowhere", id):
        with pytest.raises(SessionError):
            await kept.resume(impossible)
    with pytest.raises(SessionError):
        await kept.fork("nowhere")
    with pytest.raises(SessionError):
        kept.rewind("nowhere")
    say(agent, "two")
    kept.close()

    assert said(id) == ["one", "two"]


async def test_reading_a_session_does_not_block_the_event_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A long session takes a second to read, and the user types meanwhile."""
    id = await one_kept()
    loop_runs, resume = threading.Event(), SessionStore.resume

    def resume_then(store: SessionStore, wanted: str) -> tuple[Session, Conversation]:
        assert loop_runs.wait(LIMIT_S)
        return resume(store, wanted)

    monkeypatch.setattr(SessionStore, "resume", resume_then)
    words = ("--resume", id, "--no-mcp", "--no-plugins")
    app = App(start(parse_arguments(words), may_ask=False), one_shot=True)
    asyncio.get_running_loop().call_soon(loop_runs.set)
    async with app:
        assert app.session_id == id


async def test_session_can_be_resumed_after_a_cancelled_resume(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The session used to stay locked until the program ended."""
    id = await one_kept()
    kept, _ = sessions()
    stopped, closed = threading.Event(), asyncio.Event()
    resume, close = SessionStore.resume, Session.close

    def resume_then(store: SessionStore, wanted: str) -> tuple[Session, Conversation]:
        assert stopped.wait(LIMIT_S)
        return resume(store, wanted)

    def close_and_tell(session: Session) -> None:
        close(session)
        closed.set()

    monkeypatch.setattr(SessionStore, "resume", resume_then)
    monkeypatch.setattr(Session, "close", close_and_tell)
    resuming = asyncio.create_task(kept.resume(id))
    await asyncio.sleep(0)
    resuming.cancel()
    with pytest.raises(asyncio.CancelledError):
        await resuming
    stopped.set()
    async with asyncio.timeout(LIMIT_S):
        await closed.wait()
    await kept.resume(id)

    assert kept.id == id
    kept.close()


async def test_forked_session_belongs_to_the_directory_of_the_fork(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`--continue` finds it there, and `sessions approve` runs its calls there."""
    here, elsewhere, id = Path.cwd(), Path("elsewhere").resolve(), await one_kept()
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    heard: list[Event] = []

    copy, _ = sessions("--fork", id, heard=heard.append)
    await copy.begin()
    [_, moved] = heard

    assert copy.id is not None
    header = SessionStore(sessions_dir()).read(copy.id).header
    assert header is not None
    assert (header.workspace, header.parent) == (str(elsewhere), id)
    text = f"this session was about {here}; from now on its tools work in {elsewhere}"
    assert moved == Notice("warning", text)
    copy.close()


async def test_fork_option_copies_a_session_up_to_an_entry() -> None:
    """S2-53: `--fork ID@ENTRY`; a prefix of either id is sufficient."""
    kept, agent = sessions()
    await kept.begin()
    first, _ = say(agent, "one"), say(agent, "two")
    id = kept.id
    assert id is not None
    kept.close()

    copy, copied = sessions("--fork", f"{id[:8]}@{first[:8]}")
    await copy.begin()
    say(copied, "2")
    copy_id = copy.id
    copy.close()

    assert copy_id != id
    assert (said(id), said(copy_id)) == (["one", "two"], ["one", "2"])
    for wrong, told in ((f"{id}@", f"--fork {id}@ needs an entry"), (f"{id}@zz", "entry 'zz'")):
        refused, _ = sessions("--fork", wrong)
        with pytest.raises(UsageError, match=told):
            await refused.begin()


async def test_fork_option_takes_a_name_that_has_an_at_sign() -> None:
    kept, agent = sessions("--name", "mail@home")
    await kept.begin()
    first, _ = say(agent, "one"), say(agent, "two")
    kept.close()

    for given, prompts in (("mail@home", ["one", "two"]), (f"mail@home@{first}", ["one"])):
        copy, _ = sessions("--fork", given)
        await copy.begin()
        copy_id = copy.id
        copy.close()
        assert said(copy_id) == prompts


async def test_session_gets_no_name_that_is_not_shown() -> None:
    """A list would show its first prompt, and no text would find it."""
    kept, _ = sessions("--name", "\x1b[31m\x07")

    with pytest.raises(SessionError, match="no character of it is shown"):
        await kept.begin()
    kept.close()


async def test_name_option_names_a_new_session_and_one_that_goes_on() -> None:
    kept, agent = sessions("--name", "login  bug")
    await kept.begin()
    say(agent, "one")
    id = kept.id
    kept.close()
    again, _ = sessions("-r", "login bug", "-n", "old")
    await again.begin()
    again.close()

    assert [(info.id, info.title) for info in SessionStore(sessions_dir()).list()] == [(id, "old")]


def test_no_session_option_resumes_none_that_would_be_written_to() -> None:
    """`--no-session --resume` is refused, but `/resume` went on and wrote what followed."""
    with serve_in_thread(reply("One.")) as api:
        agent_cli("-p", "one", api=api)
        [path] = sessions_dir().glob("*.jsonl")
        before = path.read_bytes()
        script = f"/resume\n/resume {path.stem}\n/search one\n"
        run = agent_cli("--no-session", api=api, script=script)

    assert run.stderr.count("sessions are off, and this needs one: remove --no-session") == 2
    assert path.read_bytes() == before


async def test_no_session_option_records_nothing() -> None:
    """The option cannot be combined with those that open a session."""
    kept, agent = sessions("--no-session")
    await kept.begin()
    prompt = say(agent, "one")

    assert not sessions_dir().exists()
    with pytest.raises(SessionError, match="sessions are off, and this needs one"):
        kept.rewind(prompt)
    for words in (("-c",), ("--resume",), ("--resume", "1"), ("--fork", ""), ("--name", "a")):
        unwanted, _ = sessions("--no-session", *words)
        with pytest.raises(UsageError, match="remove --no-session"):
            await unwanted.begin()


def with_full_disk(api: FakeMessagesApi, *arguments: str, free_in: Path) -> Finished:
    """Run the program with a limit on file size: that of *free_in*, give or take a record."""
    limit = free_in.stat().st_size + 100
    ended = subprocess.run(
        [AGENT_CLI, *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        # Its bytecode must not be written either: truncated files would break every later start.
        env=environment(api, {}) | {"PYTHONDONTWRITEBYTECODE": "1"},
        timeout=60,
        check=False,
        preexec_fn=partial(resource.setrlimit, resource.RLIMIT_FSIZE, (limit, limit)),
    )
    return Finished(ended.returncode, ended.stdout, ended.stderr)


def test_full_disk_is_reported_at_once_and_the_run_continues() -> None:
    """S2-43: the tool works, the answer arrives, and earlier records are intact."""
    with serve_in_thread(reply("First."), WRITE, reply("Second."), reply("Third.")) as api:
        agent_cli("-p", "one " * 300, api=api)
        [path] = sessions_dir().glob("*.jsonl")
        before = path.read_bytes()

        full = with_full_disk(api, "--continue", *YOLO, "-p", "two", free_in=path)
        damage = [finding for finding in verify(path) if finding.damage]
        after = agent_cli("--continue", "-p", "three", api=api)

    assert (full.code, full.stdout) == (0, "Second.\n")
    assert full.stderr.count("the session is no longer being saved: File too large") == 1
    assert Path("made.txt").read_text() == "made\n"
    assert damage == []
    assert path.read_bytes().startswith(before)
    assert (after.code, after.stdout) == (0, "Third.\n")
    assert said_by_user(api.requests[-1].body)[0].startswith("one one")
    assert api.refusals == []


def test_unwritable_session_folder_is_reported_and_the_run_continues() -> None:
    """S2-43: root may write anywhere, so a file takes the place of the folder."""
    sessions_dir().parent.mkdir(parents=True)
    sessions_dir().write_text("in the way")

    with serve_in_thread(WRITE, reply("Made.")) as api:
        run = agent_cli(*YOLO, "-p", "make it", api=api)

    assert (run.code, run.stdout) == (0, "Made.\n")
    assert run.stderr.count("the session is no longer being saved: ") == 1
    assert Path("made.txt").read_text() == "made\n"
    assert sessions_dir().read_text() == "in the way"


@pytest.mark.parametrize("option", ["--resume", "--fork"])
@pytest.mark.parametrize("more", [("--prompts-from", "-"), ("-p", "hello")])
def test_unknown_session_id_is_a_usage_error(option: str, more: tuple[str, ...]) -> None:
    """With input that ends before the lookup, this used to be silent, with exit code 0."""
    run = agent_cli(option, "nosuch", *more)

    assert (run.code, run.stdout) == (2, "")
    assert "session 'nosuch' does not exist; `agent-cli sessions list --all`" in run.stderr


def test_session_resumed_in_another_directory_says_where_it_works_now(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its paths now mean files of another directory."""
    here, elsewhere = Path.cwd(), Path("elsewhere").resolve()
    elsewhere.mkdir()
    with serve_in_thread(reply("First."), reply("Second.")) as api:
        agent_cli("-p", "one", api=api)
        [info] = SessionStore(sessions_dir()).list()
        monkeypatch.chdir(elsewhere)

        latest = agent_cli("--continue", "-p", "two", api=api)
        resumed = agent_cli("--resume", info.id[:6], "-p", "two", api=api)

    assert (latest.code, f"no session of {elsewhere}" in latest.stderr) == (2, True)
    assert (resumed.code, resumed.stdout) == (0, "Second.\n")
    assert f"this session was about {here}; from now on its tools work in {elsewhere}" in (
        resumed.stderr
    )


def test_session_goes_on_with_its_model_and_effort_unless_others_are_named() -> None:
    """The settings' model would read the whole conversation anew; a prompt of /with counts not."""
    script = "one\n/with small two\n/exit\n"
    with serve_in_thread(answer=lambda _request: reply("Done.")) as api:
        agent_cli("--model", "high", "--effort", "low", api=api, script=script)
        kept = agent_cli("-c", "-p", "three", api=api)
        agent_cli("-c", "-p", "four", "--model", "normal", "--effort", "high", api=api)

    asked = [request.body for request in api.requests]
    assert [body["model"] for body in asked] == [
        *("claude-opus-5-5", "claude-haiku-5-5", "claude-opus-5-5", "claude-sonnet-5-5")
    ]
    assert [efforts_in(body)[-1] for body in asked] == ["low", "low", "low", "high"]
    assert "as before, with claude-opus-5-5 and effort low" in kept.stderr


def efforts_in(body: dict[str, Any]) -> list[str]:
    """Return the levels that a request states, in order."""
    stated = [body, *(each for each in body["messages"] if "output_config" in each)]
    return [each["output_config"]["effort"] for each in stated if "output_config" in each]
