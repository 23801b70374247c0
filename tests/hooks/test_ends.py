"""However a run ends while a hook runs, no process of the hook is left."""

import signal
from pathlib import Path

import pytest

from tests.e2e.program import finished, processes_with, started
from tests.hooks.test_scripts import YOLO, bash, command, hooks
from tests.messages_api import reply, serve_in_thread
from tests.waiting import wait_until


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGKILL, -9), (signal.SIGTERM, 143), (signal.SIGINT, 130)]
)
def test_no_hook_process_survives_the_end_of_the_program(
    number: signal.Signals, code: int, tmp_path: Path
) -> None:
    """A waiting guard dies with the program, and its call never runs."""
    mark = f"{tmp_path.name}-mark"
    hooks(PreToolUse=command(f"touch begun; sh -c 'sleep 600; : {mark}' & wait"))

    with serve_in_thread(reply(bash("touch ran")), reply("ok")) as api:
        with started("-p", "go", *YOLO, api=api) as process:
            wait_until((tmp_path / "begun").exists, "the hook runs")
            process.send_signal(number)
            assert process.wait() == code
        wait_until(lambda: not processes_with(mark), "the hook has ended")

    assert not (tmp_path / "ran").exists()


def test_interrupt_ends_the_wait_for_a_session_end_hook_and_keeps_the_result(
    tmp_path: Path,
) -> None:
    """The run is over: its answer and its exit code stay."""
    hooks(SessionEnd=command("touch begun; sleep 600", timeout=60))

    with serve_in_thread(reply("the answer")) as api, started("-p", "go", api=api) as process:
        wait_until((tmp_path / "begun").exists, "the hook runs")
        process.send_signal(signal.SIGINT)
        run = finished(process)

    assert (run.code, run.stdout) == (0, "the answer\n")
    assert "longer than" not in run.stderr
