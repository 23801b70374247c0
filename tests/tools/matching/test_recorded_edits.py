"""Real edits from commit histories are reproduced byte for byte, exact and as models misquote them.

The recordings are not part of the repository; without them these tests are skipped.
"""

import base64
import gzip
import json
from collections import Counter
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path

import pytest

from agent_cli.contracts.timeline import Json
from agent_cli_tools.matching import Edit, apply_edits
from agent_cli_tools.matching.document import Document
from agent_cli_tools.textio import decode, encode
from benchmarks._cases import Case
from benchmarks._distortions import DISTORTIONS, Distortion
from benchmarks.edits import outcome
from tests.tables import each_row
from tests.tools.calling import Tools

RECORDINGS = next(
    (f for p in Path(__file__).parents if (f := p / "shared" / "data" / "edits.jsonl.gz").exists()),
    Path(),
)
DISTORTED_MAX = 600
RIGHT_MIN = 0.98

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


async def test_edit_tool_reproduces_every_recording_byte_for_byte(tools: Tools) -> None:
    """File by file, as a model would call the tool."""
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


def test_decoding_and_encoding_recorded_files_changes_nothing() -> None:
    for recording in recordings():
        for raw in (recording.before, recording.after):
            text, encoding = decode(raw)
            assert encode(text, encoding) == raw


@cache
def first_edits() -> tuple[Case, ...]:
    """The first edit of each recording, and the resulting file."""
    cases = []
    for recording in recordings()[:DISTORTED_MAX]:
        text, _ = decode(recording.before)
        edit = recording.edits[0]
        cases.append(Case(recording.id, text, edit, apply_edits(text, [edit]).text))
    return tuple(cases)


@cache
def outcomes() -> dict[Distortion, Counter[str]]:
    """Count how the edits of each distortion end.

    Case by case: the distortions of a case share the document of its file, which takes a third of
    the time. It is not changed, and kept for one case only.
    """
    counts: dict[Distortion, Counter[str]] = {each: Counter() for each in DISTORTIONS}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Document, "of", lru_cache(1)(Document.of))
        for case in first_edits():
            for distortion, count in counts.items():
                count[outcome(case, distortion)[0]] += 1
    return counts


@each_row("distortion", DISTORTIONS, ids=[distortion.name for distortion in DISTORTIONS])
def test_misquoted_edits_are_repaired_correctly_or_refused(distortion: Distortion) -> None:
    """No result is wrong, and nearly all misquotations with one reading are repaired."""
    counts = outcomes()[distortion]

    assert counts["wrong"] == 0
    if distortion.is_guess:
        assert counts["right"] == 0
    elif not distortion.has_readings:
        tried = sum(counts[each] for each in ("right", "refused", "one parses"))
        assert counts["right"] >= RIGHT_MIN * tried
