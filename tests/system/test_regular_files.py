"""Reading the start of a regular file."""

import os
from pathlib import Path

import pytest

from agent_cli.system.fixed_paths import start_of


def test_start_of_a_regular_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"one two")

    assert start_of(tmp_path / "a", 3) == b"one"


@pytest.mark.parametrize("name", ["pipe", "folder", "missing"])
def test_start_of_another_file_is_refused_at_once(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()

    with pytest.raises(OSError, match=name):
        start_of(tmp_path / name, 3)
