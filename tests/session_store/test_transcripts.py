"""A conversation as text, and words found in all: complete, deterministic, without secrets."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from agent_cli.contracts.listings import SessionMatch
from agent_cli.contracts.messages import UserMessage
from agent_cli.contracts.timeline import (
    BlockOutput,
    CustomOutput,
    Error,
    Output,
    Prompt,
    ReplyOutput,
    Success,
    TextOutput,
    ThinkingOutput,
    ToolOutput,
    UserOutput,
    text_block,
)
from agent_cli.core.conversation import Conversation
from agent_cli.session_store import SessionStore
from agent_cli.session_store.blobs import BLOB_CHARS_MIN
from agent_cli.session_store.transcripts import search, transcript
from agent_cli.system import programs
from agent_cli.system.redaction import Redactor
from tests.fakes import calls, says, tool_use
from tests.session_store.recordings import a_long_talk
from tests.tables import each_row

EXPECTED = """\
you> Write me
     a file.

Wait.

* look {"at": "$ref"}: done
    a tree

* write {}: approved, done
    written

[file] out.txt: two lines

[table]
    1 | 2

(thinking)
    Hm.

I wrote it.

you> And again?

* missing {}: error
    The tool 'missing' does not exist; there are: look, write.

* look {}: done
    a tree

No.

[note] {"by": "a plugin"}

[older messages were replaced by a summary]
    We wrote a file.

you> Never mind

I was
[reply not kept: aborted]

[2 older messages are no longer sent]

you> Once more.

* look {}: done
    a tree

* write {}: waits for a decision
    write needs a yes

* look {}: has not run
"""

KEY = "canary-5d1f7c9e"


async def test_transcript_is_the_same_live_and_replayed_from_the_file(tmp_path: Path) -> None:
    """S2-44, S2-49: byte for byte; the hidden prompt is left out."""
    session, conversation = await a_long_talk(SessionStore(tmp_path))
    live = transcript(conversation.prompts)
    session.close()

    replayed = transcript(SessionStore(tmp_path).read_file(session.path).prompts)

    assert live == EXPECTED
    assert replayed == live


def prompt_of(*outputs: Output) -> Prompt:
    return Prompt("p", "local", "normal", 0, output=[*outputs])


def test_transcript_contains_no_escape_sequences() -> None:
    """Output fetched months ago could still write the clipboard."""
    evil = "\x1b]52;c;aGk=\x07he\x1b[2Jllo"
    call = ToolOutput("t", 0, "r", {"type": "tool_use", "id": "1", "name": evil, "input": evil})

    shown = transcript([prompt_of(UserOutput("u", 0, (text_block(evil),)), call)])

    assert "\x1b" not in shown
    assert shown.startswith("you> hello\n")


def test_transcript_shows_every_kind_of_block() -> None:
    image = {"type": "image", "source": {"data": "QUJD"}}
    call = {"type": "tool_use", "id": "1", "name": "shot", "input": {}}
    shown = transcript(
        [
            prompt_of(
                UserOutput("u", 0, (text_block("Look:"), image)),  # type: ignore[arg-type]  # nested
                ThinkingOutput("h", 0, "r", {"type": "thinking", "thinking": " "}),
                BlockOutput("b", 0, "r", {"type": "redacted_thinking"}),
                TextOutput("x", 0, "r", text_block(" ")),
                ToolOutput("t", 0, "r", call, Success((image,))),  # type: ignore[arg-type]  # nested
                ToolOutput("v", 0, "r", call, Error(()), decision="rejected"),  # type: ignore[arg-type]
                ReplyOutput("y", 0, "r", "m", "end_turn"),
                CustomOutput("c", 0, "limit", {"text": "stopped"}),
                CustomOutput("d", 0, "note", {"text": "stopped", "by": "me"}),
            )
        ]
    )

    assert shown == (
        "you> Look:\n     [image]\n\n[redacted_thinking]\n\n* shot {}: done\n    [image]\n\n"
        "* shot {}: rejected, error\n\n"
        '[limit] stopped\n\n[note] {"text": "stopped", "by": "me"}\n'
    )


@each_row("name", ["unsent", "plugin_state"])
def test_transcript_leaves_out_what_is_kept_for_the_program(name: str) -> None:
    """The steps of `todo` stood there twice, as the call and as JSON."""
    prompt = prompt_of(CustomOutput("c", 0, name, {"plugin": "todo", "state": {}}))

    assert transcript([prompt]).strip() == ""


@pytest.fixture
def store(tmp_path: Path) -> SessionStore:
    return SessionStore(tmp_path / "sessions")


def keep(
    store: SessionStore, prompt: str, reply: str, result: str = "", *, visible: bool = True
) -> str:
    """Keep a session of one prompt; return its id."""
    conversation = Conversation()
    session = store.create(conversation, Path("/work"))
    conversation.publish = session.record
    conversation.begin(UserMessage.of(prompt), visible=visible)
    if result:
        conversation.add_reply(calls(tool_use("bash", {"command": "env"}), text="I run it."))
        conversation.settle_call("t1", Success((text_block(result),)))
    conversation.add_reply(says(reply))
    conversation.complete()
    session.close()
    return session.id


def found(store: SessionStore, *words: str) -> Sequence[SessionMatch]:
    redact = Redactor([KEY]).text
    return list(search(store, words, redact=redact))


def test_search_finds_entries_that_contain_all_words(store: SessionStore) -> None:
    """Case and order do not matter; of several entries the last is shown, with their count."""
    one = keep(store, "Fix the RACE in the queue", "The queue had a race, and now has none.")
    keep(store, "The queue is slow", "There is no such race")

    (match,) = found(store, "race", "Queue")

    assert (match.session.id, match.who, match.count) == (one, "agent", 2)
    assert match.excerpt == "The queue had a race, and now has none."
    assert found(store, "race in the QUEUE")[0].who == "you"
    assert found(store, "nowhere") == []


@pytest.mark.parametrize(
    "word", ["größe", "GRÖSSE", 'say "hi"', r"C:\temp", "a\tb", "日本", "$1.2*"]
)
def test_search_finds_words_that_are_escaped_in_the_file(store: SessionStore, word: str) -> None:
    """Records are escaped ASCII; special characters of regular expressions match literally."""
    id = keep(store, f"look: {word.lower()}", "ok")

    assert [match.session.id for match in found(store, word)] == [id]


def test_search_finds_long_output_stored_in_a_separate_file(store: SessionStore) -> None:
    """Subagents' sessions are searched, too."""
    long = keep(store, "go", "done", "needle " + "x" * BLOB_CHARS_MIN)
    of_agent = keep(store.of_agents(long), "look for it", "the needle is there")

    matches = found(store, "needle")

    assert {(match.session.id, match.who) for match in matches} == {
        (long, "bash"),
        (of_agent, "agent"),
    }
    assert sorted(len(match.excerpt) for match in matches) == [len("the needle is there"), 160]


def test_excerpt_shows_the_match_near_its_beginning(store: SessionStore) -> None:
    """A list at the prompt cuts it at 50 characters, and did not show the word."""
    keep(store, "go", "so it goes on and on " * 20 + "until a needle is in it")

    (match,) = found(store, "needle")

    assert match.excerpt == "…s on and on until a needle is in it"


def test_search_does_not_find_secrets_hidden_or_rewound_prompts(store: SessionStore) -> None:
    """No output holds a key, as in an export, and a search cannot be used to guess one."""
    shown = keep(store, "go", "done", f"TOKEN={KEY} here")
    keep(store, "a hidden thing", "hidden indeed", visible=False)
    session, conversation = store.resume(keep(store, "taken back", "taken back"))
    session.rewind(conversation.prompts[0].id)
    session.close()

    (match,) = found(store, "TOKEN")

    assert match.session.id == shown
    assert KEY not in match.excerpt
    for words in ("canary", "hidden", "taken"):
        assert found(store, words) == []


def test_search_without_ripgrep_reads_every_session(
    store: SessionStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The search is slower then, with the same result."""
    id = keep(store, "find me", "ok")
    monkeypatch.setattr(programs, "_SYSTEM", frozenset())
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("sysconfig.get_path", lambda _name: str(tmp_path))

    assert [match.session.id for match in found(store, "FIND")] == [id]


def test_search_skips_a_damaged_session_and_finds_the_others(
    store: SessionStore, tmp_path: Path
) -> None:
    """`sessions verify` names the damage."""
    id = keep(store, "find me", "ok")
    (tmp_path / "sessions" / "broken.jsonl").write_text("find me\n")

    assert [match.session.id for match in found(store, "find")] == [id]
    assert found(SessionStore(tmp_path / "none"), "find") == []
