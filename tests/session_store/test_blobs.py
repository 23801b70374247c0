"""Long strings stored in separate files, and data that only resembles references to them."""

from pathlib import Path

import pytest
from hypothesis import given, settings

from agent_cli.contracts.timeline import Json
from agent_cli.session_store.blobs import BLOB_CHARS_MIN, Blobs
from tests.session_store.recordings import jsons

LONG = "ä" * BLOB_CHARS_MIN


def test_long_string_is_stored_in_a_separate_file_and_restored(tmp_path: Path) -> None:
    blobs = Blobs(tmp_path / "blobs")
    record = {"a": [LONG, "short"], "b": {"c": LONG + "\ud800"}}

    packed = blobs.move_out(record)

    assert LONG not in str(packed)
    assert blobs.bring_back(packed) == record
    assert len(list((tmp_path / "blobs").iterdir())) == 2


@given(jsons)
@settings(deadline=None, derandomize=True)
def test_data_that_looks_like_a_blob_reference_is_kept_as_data(value: Json) -> None:
    """JSON schemas are full of keys that begin with a dollar."""
    blobs = Blobs(Path("never-created"))

    assert blobs.bring_back(blobs.move_out({"data": value})) == {"data": value}


@pytest.mark.parametrize("name", ["../secret", "/etc/passwd", "x" * 64, "", "A" * 64])
def test_blob_reference_cannot_name_a_file_outside_its_folder(tmp_path: Path, name: str) -> None:
    """A session may come from a stranger."""
    (tmp_path / "secret").write_text("sesame")

    back = Blobs(tmp_path / "blobs").bring_back({"packed": True, "data": {"$blob": name}})

    assert back == {"data": f"[lost: {name[:12]} is missing or damaged]"}
