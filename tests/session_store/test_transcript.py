"""Transcripts for people: the same bytes each time, and no terminal control characters."""

from pathlib import Path

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
from agent_cli.session_store import SessionStore
from agent_cli.session_store.transcript import transcript
from tests.session_store.recordings import a_long_talk

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
