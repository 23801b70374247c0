"""`verify` reports each damaged line and its fault."""

import random
from pathlib import Path

import pytest

from agent_cli.contracts.errors import SessionError
from agent_cli.contracts.messages import UserMessage
from agent_cli.core.conversation import Conversation
from agent_cli.session_store import SessionStore
from agent_cli.session_store.log_file import LogFile
from agent_cli.session_store.verify import Finding, verify
from tests.session_store.recordings import a_long_talk, recorded


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

    assert verify(talk) == [Finding(4, "does not follow the line before it")]


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

    assert finding == Finding(1, "does not say which session this is")


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
