"""`agent-cli sessions ...` and `agent-cli replay`, as typed."""

import json
from pathlib import Path

import pytest

from agent_cli.contracts.messages import UserMessage
from agent_cli.contracts.timeline import Success, text_block
from agent_cli.core.conversation import Conversation
from agent_cli.session_store import Session, SessionStore
from agent_cli.session_store.upkeep import verify
from agent_cli.system.paths import sessions_dir
from tests.e2e.program import KEY, agent_cli
from tests.fakes import calls, says, tool_use
from tests.messages_api import Answer, broken, error, reply, script, serve_in_thread

ID = "the session's id"


@pytest.fixture
def session() -> Session:
    """A session of this directory in which a tool printed the key."""
    conversation = Conversation()
    session = SessionStore(sessions_dir()).create(conversation, Path.cwd())
    conversation.publish = session.record
    conversation.begin(UserMessage.of("Print the environment"))
    conversation.add_reply(calls(tool_use("bash", {"command": "env"}), text="I print it."))
    conversation.settle_call("t1", Success((text_block(f"ANTHROPIC_API_KEY={KEY}"),)))
    conversation.add_reply(says("Done."))
    conversation.begin(UserMessage.of("Nobody sees this"), visible=False)
    conversation.add_reply(says("Nor this."))
    conversation.complete()
    session.close()
    return session


def test_replay_prints_the_same_transcript_as_sessions_show(session: Session) -> None:
    """S2-44, S2-49: replay needs the file alone, wherever it is; the hidden prompt is left out."""
    elsewhere = Path("elsewhere.jsonl")
    elsewhere.write_bytes(session.path.read_bytes())

    shown, replayed = agent_cli("sessions", "show", session.id), agent_cli("replay", str(elsewhere))

    assert (shown.code, replayed.code) == (0, 0)
    assert shown.stdout == replayed.stdout
    assert shown.stdout.startswith("you> Print the environment\n\nI print it.\n\n* bash ")
    assert "Nobody sees this" not in shown.stdout


def test_replay_prints_the_replies_of_a_recording_in_order() -> None:
    """S2-44: without key and server; what is not recorded is not made up."""
    replies: list[Answer] = [
        error(529, "overloaded_error", "Overloaded"),
        broken(reply("Half an answer."), "eof", after=3),
        reply("I print it.", script.tool_use("bash", {"command": "echo $HOME"})),
        reply("Done\x1b[2J."),
    ]
    with serve_in_thread(*replies) as api:
        options = ("--record", "said.jsonl", "--no-session", "--permission-mode", "yolo")
        agent_cli(*options, "-p", "Hi", api=api)

    replayed = agent_cli("replay", "said.jsonl", ANTHROPIC_API_KEY=None)

    overloaded, broken_off, *played = replayed.stdout.split("\n\n")
    assert replayed.code == 0
    assert overloaded.startswith("[reply not kept: ")
    assert broken_off.startswith("Half an answer.\n[reply not kept: ")
    assert played == ["I print it.", '* bash {"command": "echo $HOME"}', "Done.\n"]
    assert replayed.stderr == (
        "agent-cli: said.jsonl is a recording: it holds no prompts, and no results of the calls\n"
    )


def test_replay_names_the_damage_of_a_recording() -> None:
    Path("said.jsonl").write_text('{"type": "response", "status": 200, "headers": {}}\n{"ty\n')

    replayed = agent_cli("replay", "said.jsonl")

    assert (replayed.code, replayed.stdout) == (1, "")
    assert "said.jsonl is not a recording made with --record" in replayed.stderr


@pytest.mark.parametrize("content", [None, b"", b"hello\n", b"[1]\n", b"\xff\n"])
def test_replay_refuses_a_file_that_is_not_a_session(content: bytes | None) -> None:
    if content is not None:
        Path("notes").write_bytes(content)

    replayed = agent_cli("replay", "notes")

    # A file that cannot be read is a mistake in the command line, as after --replay.
    assert (replayed.code, replayed.stdout) == (2 if content is None else 1, "")
    reason = (
        "No such file" if content is None else "is neither a session of agent-cli nor a recording"
    )
    assert reason in replayed.stderr


def test_replay_of_a_session_whose_first_line_is_damaged_says_so(session: Session) -> None:
    """It is one, as `sessions verify` says: nothing of it can be read."""
    damaged = session.path.read_bytes().replace(b'"kind":"session"', b'"kind":"sessiom"')
    Path("elsewhere.jsonl").write_bytes(damaged)

    replayed = agent_cli("replay", "elsewhere.jsonl")

    assert (replayed.code, replayed.stdout) == (1, "")
    assert (
        "elsewhere.jsonl is damaged: line 1 does not match its checksum; nothing is before it"
    ) in replayed.stderr


@pytest.mark.parametrize("to", ["md", "html", "json", "atif"])
def test_session_export_masks_secrets(session: Session, to: str) -> None:
    """The record must replay exactly; an export for others need not."""
    exported = agent_cli("sessions", "export", session.id, to)

    assert exported.code == 0
    assert KEY not in exported.stdout
    assert "ANTHROPIC_API_KEY=***" in exported.stdout
    assert KEY in session.path.read_text()


def test_sessions_verify_names_and_counts_damage(session: Session) -> None:
    """A line cut off by a kill is reported as well, but counts as no loss."""
    whole = agent_cli("sessions", "verify")
    data = session.path.read_bytes()
    session.path.write_bytes(data[:-1])
    torn = agent_cli("sessions", "verify")
    session.path.write_bytes(data.replace(b"Done.", b"Gone."))

    damaged = agent_cli("sessions", "verify", session.id)

    assert (whole.code, whole.stdout) == (0, "1 session checked, 0 damaged\n")
    assert (torn.code, torn.stdout) == (0, whole.stdout)
    assert f"line {len(data.splitlines())} is torn" in torn.stderr
    assert (damaged.code, damaged.stdout) == (1, "1 session checked, 1 damaged\n")
    assert f"{session.path.name}: line {verify(session.path)[0].line} does not match" in (
        damaged.stderr
    )


@pytest.mark.parametrize(
    "command",
    [
        ("sessions", "list"),
        ("sessions", "search", "environment"),
        ("sessions", "verify"),
        ("sessions", "show", ID),
        ("sessions", "export", ID),
        ("--resume", ID, "-p", "go on"),
    ],
    ids=" ".join,
)
def test_every_command_about_sessions_says_where_one_is_damaged_and_what_to_do(
    session: Session, command: tuple[str, ...]
) -> None:
    session.path.write_bytes(session.path.read_bytes().replace(b"Done.", b"Gone."))
    [finding] = verify(session.path)[:1]

    ran = agent_cli(*(session.id if word == ID else word for word in command))

    assert f"line {finding.line} does not match its checksum" in ran.stderr
    assert f"--fork {session.id} goes on from what is before it" in ran.stderr


@pytest.mark.parametrize("command", [("sessions", "list"), ("sessions", "show", ID)], ids=" ".join)
def test_damage_of_a_subagents_session_is_said_where_it_is_listed(
    session: Session, command: tuple[str, ...]
) -> None:
    """It was listed, or counted, as if all of it could be read."""
    store = SessionStore(sessions_dir()).of_agents(session.id)
    looked = Conversation()
    agent = store.create(looked, Path.cwd(), parent=session.id, agent="explorer")
    looked.publish = agent.record
    looked.begin(UserMessage.of("Look around"))
    looked.add_reply(says("Done."))
    looked.complete()
    agent.close()
    agent.path.write_bytes(agent.path.read_bytes().replace(b"Done.", b"Gone."))

    ran = agent_cli(*(session.id if word == ID else word for word in command))

    [finding] = verify(agent.path)
    assert ran.stderr == (
        f"agent-cli: session {agent.id} is damaged: {finding}; {finding.remedy}\n"
    )


def test_going_on_says_which_session_it_left_out(session: Session) -> None:
    """Nobody knows of which directory it is; an older conversation went on in its place."""
    with serve_in_thread(reply("First."), reply("Second.")) as api:
        agent_cli("-p", "one", api=api)
        session.path.write_bytes(session.path.read_bytes().replace(b'"session"', b'"nothing"', 1))

        went_on = agent_cli("-c", "-p", "two", api=api)

    assert (went_on.code, went_on.stdout) == (0, "Second.\n")
    assert went_on.stderr == (
        f"session {session.id} is left out, because it does not say of which directory it is:"
        f" line 1 does not match its checksum; `agent-cli sessions verify {session.id}` says what"
        " to do\n"
    )


def test_session_with_a_damaged_first_line_can_only_be_deleted(session: Session) -> None:
    """A copy of what is before it would be empty."""
    session.path.write_bytes(session.path.read_bytes().replace(b'"session"', b'"nothing"', 1))

    listed = agent_cli("sessions", "list")
    deleted = agent_cli("sessions", "delete", session.id, "--yes")

    assert "line 1 does not match its checksum; nothing is before it" in listed.stderr
    assert f"`agent-cli sessions delete {session.id}`" in listed.stderr
    assert (deleted.code, session.path.exists()) == (0, False)


def test_replay_of_a_damaged_file_says_so(session: Session) -> None:
    """The file may lie anywhere, where its id names no session to fork."""
    elsewhere = Path("elsewhere.jsonl")
    elsewhere.write_bytes(session.path.read_bytes().replace(b"Done.", b"Gone."))

    replayed = agent_cli("replay", str(elsewhere))

    assert replayed.code == 0
    assert "I print it." in replayed.stdout
    assert "Done." not in replayed.stdout
    line = verify(elsewhere)[0].line
    assert f"elsewhere.jsonl is damaged: line {line} does not match" in replayed.stderr
    assert "it is read up to there" in replayed.stderr


def test_sessions_list_and_verify_print_json(session: Session) -> None:
    """Scripts read the same facts as people."""
    listed = json.loads(agent_cli("sessions", "list", "--json").stdout)
    checked = json.loads(agent_cli("sessions", "verify", "--json").stdout)

    assert [each["id"] for each in listed] == [session.id]
    assert checked == {session.id: []}


def test_sessions_search_finds_words_and_masks_secrets(session: Session) -> None:
    """A key in a tool's output is in neither the lines nor the JSON."""
    shown = agent_cli("sessions", "search", "anthropic_api_key")
    as_json = agent_cli("sessions", "search", "I print", "--json")
    none = agent_cli("sessions", "search", "canary")
    missing = agent_cli("sessions", "search")

    assert session.id in shown.stdout
    assert "ANTHROPIC_API_KEY=***" in shown.stdout
    assert KEY not in shown.stdout
    (match,) = json.loads(as_json.stdout)
    assert (match["id"], match["who"], match["matches"]) == (session.id, "agent", 1)
    assert match["excerpt"] == "I print it."
    assert (none.code, none.stdout) == (0, "no session has an entry with all of that\n")
    assert (missing.code, missing.stderr.strip()) == (
        2,
        "agent-cli: usage: agent-cli sessions search WORD... [--all] [--json]",
    )
