"""Programs that get the terminal, without one."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from agent_cli.system import launching
from agent_cli.system.launching import on_terminal
from tests.system.test_supervisor import read_pids
from tests.waiting import is_alive, wait_until


def test_program_on_the_terminal_gives_its_exit_code_and_may_leave_others() -> None:
    """It stays in our group, to get our keys."""
    script = "ps -o pgid= -p $$ > group; sleep 600 > /dev/null & echo $! > left; exit 3"

    code = subprocess.run(on_terminal(["sh", "-c", script]), check=False, timeout=60).returncode

    [left] = read_pids(Path("left"))
    assert is_alive(left)
    os.kill(left, signal.SIGKILL)
    assert (code, read_pids(Path("group"))) == (3, [os.getpgid(0)])


# Whoever left the session, and an editor.
PROGRAMS = (
    "mkfifo begun; setsid sh -c 'echo $$ > daemon; : > begun; exec sleep 600' & : < begun;"
    " sh -c 'trap \"echo saved > draft; exit\" HUP; echo $$ > editor; sleep 600 & wait' &"
)


@pytest.mark.parametrize(
    ("ending", "grace_s"),
    [
        (" wait", 600),  # nobody waits for it where all have ended
        pytest.param(" trap '' HUP TERM; wait; sleep 600", 10, marks=pytest.mark.slow),
    ],
    ids=["ends", "ignores it"],
)
def test_request_to_end_hangs_up_the_program_and_spares_those_that_left_the_terminal(
    monkeypatch: pytest.MonkeyPatch, ending: str, grace_s: float
) -> None:
    """An editor saves its draft; the server of a terminal multiplexer is to outlive it."""
    monkeypatch.setattr(launching, "HANG_UP_GRACE_S", grace_s)
    with subprocess.Popen(on_terminal(["sh", "-c", PROGRAMS + ending])) as process:
        wait_until(lambda: read_pids(Path("editor")) != [])
        process.terminate()
        process.wait(60)

    [daemon] = read_pids(Path("daemon"))
    assert is_alive(daemon)
    os.kill(daemon, signal.SIGKILL)
    assert Path("draft").read_text() == "saved\n"
