"""Faults at realistic size: their cost in memory and time, and the state afterwards."""

import gc
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tools.calling import Tools
from tests.waiting import at_growing_limits, is_alive, unstalled_s

GIB = 2**30
HANG_ENDS_WITHIN_S = 1.5
PID_LINE = re.compile(r"(?m)^\d+$")

_STATUS = Path("/proc/self/status")
_FULL_DISK = """
import sys
from pathlib import Path
from agent_cli_tools.atomic_write import write_atomic
path = Path(sys.argv[1])
path.write_bytes(b"old")
write_atomic(path, b"x" * 400_000, before=b"old")
"""

linux = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc and namespaces of Linux")


def peak_kb() -> int:
    """Return the peak memory of this process since `forget_peak`."""
    [line] = [line for line in _STATUS.read_text().splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1])


def forget_peak() -> None:
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")


@pytest.mark.slow
@linux
async def test_gibibyte_of_output_needs_less_than_30_mb_of_memory(tools: Tools) -> None:
    """Threat 14: and 64 MB of disk, of which the model reads 32 KB."""
    await tools.text("bash", command="seq 100000")
    forget_peak()
    before_kb = peak_kb()

    result = await tools("bash", command=f"head -c {GIB} /dev/zero | tr '\\0' x", timeout=300)

    assert peak_kb() - before_kb < 30_000
    assert isinstance(result.details, dict)
    assert Path(str(result.details["spill"])).stat().st_size == 64 * 2**20
    assert len(result.text) < 50 * 1024
    assert f"of {GIB:,} characters left out" in result.text


@pytest.mark.slow
@linux
async def test_line_of_300_mb_is_read_in_less_than_30_mb_of_memory(tools: Tools) -> None:
    """Threat 14: its beginning and its end are read."""
    with tools.file("a", "").open("wb") as file:
        for _ in range(300):
            file.write(b"x" * 1_000_000)
    forget_peak()
    before_kb = peak_kb()

    texts = [(await tools("read", path="a", offset=offset)).text for offset in (1, -1)]

    assert texts[0].startswith("1\txxx")
    assert texts[1].startswith("-1\txxx")

    assert peak_kb() - before_kb < 30_000


@pytest.mark.parametrize(
    "command",
    [
        "echo $$; exec sleep 300",
        "trap '' TERM HUP INT; echo $$; while :; do sleep 1; done",
        "echo $$; yes >/dev/null & wait",
    ],
    ids=["sleeps", "ignores every request", "spins"],
)
async def test_hanging_command_ends_soon_after_its_timeout(tools: Tools, command: str) -> None:
    """No process of the command is left."""
    took_s = list[float]()

    async def run(limit_s: int) -> str:
        began_s = unstalled_s()
        text = await tools.error("bash", command=command, timeout=limit_s)
        took_s.append(unstalled_s() - began_s - limit_s)
        return text

    text = await at_growing_limits(run, PID_LINE.search)

    assert took_s[-1] < HANG_ENDS_WITHIN_S
    pid = next(int(line) for line in text.splitlines() if line.isdigit())
    assert not is_alive(pid)


@pytest.mark.parametrize(
    "command",
    ["python3 -c 'input()'", "bash -i", "su root </dev/tty", "git rebase -i x", "sudo -k true"],
)
async def test_command_that_wants_input_from_a_user_ends_by_itself(
    tools: Tools, command: str
) -> None:
    """Commands get no input, no terminal, no editor and no password."""
    program = command.partition(" ")[0]
    if not shutil.which(program):
        pytest.skip(f"no {program}")

    assert "[exit " in await tools.text("bash", command=command, timeout=60)


@linux
def test_full_disk_leaves_the_old_file_intact(tmp_path: Path) -> None:
    """With a real file system of 256 KB: no part of the new text, no temporary file."""
    mount = f"mount -t tmpfs -o size=256k none {tmp_path}"
    namespace = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
    if (
        not shutil.which("unshare")
        or subprocess.run([*namespace, mount], capture_output=True, check=False).returncode
    ):
        pytest.skip("no file system can be mounted here")
    write = f'{mount} && "$0" -c "$1" {tmp_path}/a; ls -A {tmp_path}; cat {tmp_path}/a'

    run = subprocess.run(
        [*namespace, write, sys.executable, _FULL_DISK],
        capture_output=True,
        text=True,
        check=False,
    )

    assert "ToolError: The disk is full" in run.stderr
    assert run.stdout == "a\nold"
