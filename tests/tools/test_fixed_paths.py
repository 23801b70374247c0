"""The path that was checked is the path that is opened."""

import ctypes
import os
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agent_cli.contracts.errors import ToolError
from agent_cli.system.fixed_paths import directory_at, open_file
from agent_cli_tools.atomic_write import write_atomic
from agent_cli_tools.textio import read_bytes
from tests.tools.calling import Tools
from tests.waiting import open_descriptors

CANARY = "CANARY"


def test_a_directory_swapped_for_a_symlink_is_not_entered(tmp_path: Path) -> None:
    """Threat 3: swapped after the check; nothing is read, created or written elsewhere."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "a").write_text(CANARY)
    (tmp_path / "sub").symlink_to("elsewhere")

    with pytest.raises(ToolError):
        read_bytes(tmp_path / "sub" / "a", bytes_max=100)
    for name, before in (("a", CANARY.encode()), ("new", None), ("deep/new", None)):
        with pytest.raises(ToolError):
            write_atomic(tmp_path / "sub" / name, b"x", before=before)

    assert [path.name for path in (tmp_path / "elsewhere").iterdir()] == ["a"]
    assert (tmp_path / "elsewhere" / "a").read_text() == CANARY


def test_missing_directories_are_created_on_request(tmp_path: Path) -> None:
    with directory_at(tmp_path / "a" / "b", create=True) as place:
        assert os.listdir(tmp_path / "a") == ["b"]  # noqa: PTH208 - names
        assert os.stat(".", dir_fd=place).st_ino == (tmp_path / "a" / "b").stat().st_ino


def test_open_file_leaks_no_file_descriptor(tmp_path: Path) -> None:
    before = open_descriptors()

    os.close(open_file(tmp_path / "new", os.O_WRONLY | os.O_CREAT))
    with pytest.raises(FileNotFoundError):
        open_file(tmp_path / "none" / "file", os.O_RDONLY)

    assert open_descriptors() <= before


@contextmanager
def flipping(directory: Path, outside: Path, *, times: int) -> Generator[None]:
    """Keep exchanging *directory* and a symlink to *outside*, at least *times* times."""
    link = directory.with_name("link")
    link.symlink_to(outside)
    exchange = ctypes.CDLL(None).renameat2
    here, both, swap = -100, [os.fsencode(directory), os.fsencode(link)], 2

    stop = threading.Event()

    def flip() -> None:
        count = 0
        while count < times or not stop.is_set():
            exchange(here, both[0], here, both[1], swap)
            count += 1

    thread = threading.Thread(target=flip)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


async def hammered(tools: Tools, tmp_path: Path, *, times: int, calls: int) -> None:
    """Read and write through a path that leads out of the workspace half of the time."""
    outside = tmp_path / "outside"
    outside.mkdir()
    for name in ("a.txt", "b.txt"):
        (outside / name).write_text(CANARY)
        tools.file(f"sub/{name}", "inside\n")
    answers: list[str] = []
    with flipping(tools.root / "sub", outside, times=times):
        for call in range(calls):
            answers.append((await tools("read", path="sub/a.txt")).text)
            await tools("edit", path="sub/b.txt", edits=[{"old": "inside", "new": "inside"}])
            await tools("write", path=f"sub/new{call}.txt", content="x")
            await tools("write", path=f"sub/deep{call}/new.txt", content="x")

    assert any(answer.startswith("1\t") for answer in answers)
    assert not any(CANARY in answer for answer in answers)
    assert sorted(path.name for path in outside.iterdir()) == ["a.txt", "b.txt"]
    assert {path.read_text() for path in outside.iterdir()} == {CANARY}


@pytest.mark.skipif(sys.platform != "linux", reason="two names are exchanged by a call of Linux")
async def test_symlink_swapped_in_repeatedly_never_leads_out(tools: Tools, tmp_path: Path) -> None:
    """Threat 3: between check and open, and between open and rename."""
    await hammered(tools, tmp_path, times=1_000, calls=100)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="two names are exchanged by a call of Linux")
async def test_symlink_swapped_in_ten_thousand_times_never_leads_out(
    tools: Tools, tmp_path: Path
) -> None:
    """Threat 3: the same for longer."""
    await hammered(tools, tmp_path, times=10_000, calls=3_000)
