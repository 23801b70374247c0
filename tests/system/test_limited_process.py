"""Small programs whose output is awaited for a limited time."""

import asyncio
import sys
import tempfile
from pathlib import Path

import pytest

from agent_cli.system.asked_program import ask_watched
from agent_cli.system.desktop import output_within
from agent_cli.system.launching import Launcher, Order
from tests.waiting import LIMIT_S, is_alive

PIPE = asyncio.subprocess.PIPE


@pytest.mark.parametrize(
    ("script", "output"),
    [("print(input())", b"sent\n"), ("pass", b""), ("print(1); raise SystemExit(3)", None)],
)
async def test_output_is_returned_only_if_the_program_succeeds(
    script: str, output: bytes | None
) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-ISc", script, stdin=PIPE, stdout=PIPE
    )

    assert await output_within(LIMIT_S, process, b"sent\n") == output


async def test_program_that_takes_too_long_is_killed() -> None:
    process = await asyncio.create_subprocess_exec("sleep", "600")

    assert await output_within(0.01, process) is None
    assert not is_alive(process.pid)


async def test_program_is_killed_when_the_wait_is_cancelled() -> None:
    process = await asyncio.create_subprocess_exec("sleep", "600")
    waiting = asyncio.create_task(output_within(LIMIT_S, process))
    await asyncio.sleep(0)
    waiting.cancel()

    with pytest.raises(asyncio.CancelledError):
        await waiting

    assert not is_alive(process.pid)


@pytest.mark.skipif(sys.platform != "linux", reason="lists descriptors as Linux does")
async def test_program_without_a_place_for_its_input_leaves_no_descriptor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each hook would leave two more where temporary files cannot be written."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    order = Order(arguments=["/bin/true"], cwd="/", environment={})

    async def decide(_question: object) -> bool:
        return True

    before = [*Path("/proc/self/fd").iterdir()]
    with pytest.raises(FileNotFoundError):
        await ask_watched(order, b"sent", Launcher(), decide)
    assert len([*Path("/proc/self/fd").iterdir()]) == len(before)
