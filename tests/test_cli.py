"""The command line's outermost frame: what comes of a world that refuses."""

import os
import sys
from pathlib import Path

import pytest

from agent_cli.cli import run


def test_a_reader_that_went_away_is_no_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`agent-cli --help | true` ended in a traceback."""
    reading, writing = os.pipe()
    os.close(reading)

    with open(writing, "w") as stdout, open(os.devnull) as stdin:  # noqa: PTH123 - a descriptor
        monkeypatch.setattr(sys, "stdout", stdout)
        monkeypatch.setattr(sys, "stdin", stdin)
        exit_code = run(["--help"])

    assert (exit_code, capsys.readouterr().err) == (141, "")


def test_a_home_directory_out_of_reach_is_a_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As after `sudo -u`, where it ended in a traceback. Root may look everywhere."""

    def refuse(path: Path) -> bool:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "is_file", refuse)
    with open(os.devnull) as stdin, open(os.devnull, "w") as stdout:  # noqa: PTH123
        monkeypatch.setattr(sys, "stdin", stdin)
        monkeypatch.setattr(sys, "stdout", stdout)
        exit_code = run(["config", "show"])

    said = capsys.readouterr().err
    assert exit_code == 2
    assert said.endswith("is out of reach (Permission denied): set HOME to a folder of yours\n")
    assert said.count("\n") == 1
