"""Long strings stored beside the record, and data that only resembles them."""

from pathlib import Path

import pytest
from hypothesis import given, settings

from agent_cli.contracts.timeline import Json
from agent_cli.session_store.blobs import BLOB_CHARS_MIN, Blobs
from tests.session_store.recordings import jsons

LONG = "ä" * BLOB_CHARS_MIN


def test_a_long_string_is_moved_out_and_brought_back(tmp_path: Path) -> None:
    blobs = Blobs(tmp_path / "blobs")
    record = {"a": [LONG, "short"], "b": {"c": LONG + "\ud800"}}

    packed = blobs.move_out(record)

    assert LONG not in str(packed)
    assert blobs.bring_back(packed) == record
    assert len(list((tmp_path / "blobs").iterdir())) == 2


@given(jsons)
@settings(deadline=None, derandomize=True)
def test_data_that_looks_like_a_reference_is_not_taken_for_one(value: Json) -> None:
    """JSON schemas are full of keys that begin with a dollar."""
    blobs = Blobs(Path("never-created"))

    assert blobs.bring_back(blobs.move_out({"data": value})) == {"data": value}


@pytest.mark.parametrize("name", ["../secret", "/etc/passwd", "x" * 64, "", "A" * 64])
def test_a_reference_cannot_name_another_file(tmp_path: Path, name: str) -> None:
    """A session may come from a stranger."""
    (tmp_path / "secret").write_text("sesame")

    back = Blobs(tmp_path / "blobs").bring_back({"packed": True, "data": {"$blob": name}})

    assert back == {"data": f"[lost: {name[:12]} is missing or damaged]"}
