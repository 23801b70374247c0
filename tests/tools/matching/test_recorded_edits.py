"""Real edits from commit histories come out to the byte, and as models misquote them.

The recordings are not part of the repository; without them these tests are skipped.
"""

import base64
import gzip
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from agent_cli.contracts.timeline import Json
from agent_cli_tools.matching.edits import Edit, NoMatch, apply_edits
from agent_cli_tools.textio import decode, encode
from tests.tools.calling import Tools

RECORDINGS = next(
    (f for p in Path(__file__).parents if (f := p / "shared" / "data" / "edits.jsonl.gz").exists()),
    Path(),
)
PERTURBED_MAX = 200

pytestmark = pytest.mark.skipif(not RECORDINGS.is_file(), reason="no recordings here")


@dataclass(frozen=True)
class Recording:
    id: str
    before: bytes
    edits: tuple[Edit, ...]
    after: bytes


@cache
def recordings() -> tuple[Recording, ...]:
    with gzip.open(RECORDINGS, "rt") as file:
        return tuple(_recording(json.loads(line)) for line in file)


def _recording(line: dict[str, str]) -> Recording:
    edits: list[dict[str, str]] = line["edits"]  # type: ignore[assignment]  # from JSON
    return Recording(
        line["id"],
        base64.b64decode(line["before_b64"]),
        tuple(Edit(e["old_string"], e["new_string"], bool(e["replace_all"])) for e in edits),
        base64.b64decode(line["after_b64"]),
    )


async def test_every_recording_comes_out_to_the_byte(tools: Tools) -> None:
    """Through the tool, file by file, as a model would call it."""
    wrong: list[tuple[str, str]] = []
    for number, recording in enumerate(recordings()):
        path = tools.file(f"{number}", recording.before)
        edits: list[Json] = [
            {"old": edit.old, "new": edit.new, "all": edit.all} for edit in recording.edits
        ]
        result = await tools("edit", path=path.name, edits=edits)
        if result.is_error or path.read_bytes() != recording.after:
            wrong.append((recording.id, result.text))

    assert wrong == []
    assert len(recordings()) > 0


def test_decoding_every_recorded_file_and_back_changes_nothing() -> None:
    for recording in recordings():
        for raw in (recording.before, recording.after):
            text, encoding = decode(raw)
            assert encode(text, encoding) == raw


def _by_line(change: Callable[[str], str]) -> Callable[[str], str]:
    """Return what changes each line that is not blank."""
    return lambda text: "\n".join(
        change(line) if line.strip() else line for line in text.split("\n")
    )


def _numbered(text: str) -> str:
    body = text.removesuffix("\n")
    lines = [f"{number:6}\t{line}" for number, line in enumerate(body.split("\n"), 41)]
    return "\n".join(lines) + text[len(body) :]


def perturbed(change: Callable[[str], str]) -> Iterator[str]:
    """Yield "right", "refused" or "wrong" for each first edit that *change* alters."""
    for recording in recordings()[:PERTURBED_MAX]:
        text, _ = decode(recording.before)
        edit = recording.edits[0]
        quoted = Edit(change(edit.old), change(edit.new), edit.all)
        if quoted.old == edit.old or edit.old == edit.new:
            continue
        expected = apply_edits(text, [edit]).text
        try:
            yield "right" if apply_edits(text, [quoted]).text == expected else "wrong"
        except NoMatch:
            yield "refused"


@pytest.mark.parametrize(
    ("change", "right_min", "wrong_max"),
    [
        # A commit may change nothing but blanks at line ends; quoted with more, it can not be told.
        pytest.param(_by_line(lambda line: line + "  "), 0.98, 2, id="trailing blanks"),
        pytest.param(_by_line(lambda line: "  " + line), 0.98, 1, id="indented by two"),
        pytest.param(lambda text: text.replace('"', "”"), 0.99, 0, id="typographic quotes"),
        pytest.param(_numbered, 0.99, 0, id="line numbers"),
        pytest.param(lambda text: text.replace("\n", "\r\n"), 1.0, 0, id="CRLF in the call"),
    ],
)
def test_what_models_misquote_is_repaired(
    change: Callable[[str], str], right_min: float, wrong_max: int
) -> None:
    outcomes = list(perturbed(change))

    assert len(outcomes) > 10
    assert outcomes.count("right") >= right_min * len(outcomes)
    assert outcomes.count("wrong") <= wrong_max


def test_one_wrong_word_is_always_refused() -> None:
    """Where only a word differs, any place would be a guess."""
    outcomes = set(perturbed(lambda text: re.sub(r"[A-Za-z]{3,}", "zqxzq", text, count=1)))

    assert outcomes == {"refused"}
