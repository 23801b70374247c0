"""Tests that run in several processes give the results that they give in one."""

from pathlib import Path

from tests.test_isolation import run_pytest

SEVERAL = ("--workers", "2", "-rA", "--tb=short")


def test_results_of_all_workers_are_reported(tmp_path: Path) -> None:
    """Each test runs once, in one of two processes, with a folder of its own."""
    printed = run_pytest(
        tmp_path,
        "import os, time, pytest\n"
        "@pytest.mark.parametrize('number', range(40))\n"
        "def test_inner(number, tmp_path_factory):\n"
        "    base = tmp_path_factory.getbasetemp().parent\n"
        "    (base / f'ran-{number}').touch(exist_ok=False)\n"
        "    (base / f'pid-{os.getpid()}').touch()\n"
        "    for _ in iter(lambda: len(list(base.glob('pid-*'))), 2):\n"
        "        time.sleep(0.01)\n"
        "    if number == 3:\n"
        "        pytest.skip('not here')\n"
        "    assert number != 21, 'as it is'\n",
        *SEVERAL,
    )

    assert "1 failed, 38 passed, 1 skipped" in printed, printed
    assert "AssertionError: as it is" in printed, printed
    assert "FAILED test_inner.py::test_inner[21]" in printed, printed
    assert "exit code 1" in printed, printed


def test_worker_that_dies_fails_the_test_it_ran(tmp_path: Path) -> None:
    """A crash names its test, and the tests that were not run are counted."""
    printed = run_pytest(
        tmp_path,
        "import os\n"
        "def test_before(): pass\n"
        "def test_crash(): os.kill(os.getpid(), 9)\n"
        "def test_lost(): pass\n",
        *SEVERAL,
    )

    assert "FAILED test_inner.py::test_crash" in printed, printed
    assert "its process ended with code -9" in printed, printed
    assert "2 tests did not run" in printed, printed
    assert "exit code 0" not in printed, printed


def test_fault_at_the_end_of_a_worker_fails_the_run(tmp_path: Path) -> None:
    """What the last test leaves open is found when its worker ends."""
    printed = run_pytest(
        tmp_path,
        "import pytest\n"
        "@pytest.fixture(scope='session', autouse=True)\n"
        "def broken():\n"
        "    yield\n"
        "    raise OSError('at the end')\n"
        "def test_inner(): pass\n",
        *SEVERAL,
    )

    assert "OSError: at the end" in printed, printed
    assert "1 passed, 1 error" in printed, printed


def test_broken_worker_fails_the_run(tmp_path: Path) -> None:
    """Plugins raise when a worker ends, for example for objects that were never closed."""
    printed = run_pytest(
        tmp_path,
        "def test_inner(pytestconfig): pytestconfig.add_cleanup(lambda: 1 / 0)\n",
        *SEVERAL,
    )

    assert "ZeroDivisionError" in printed, printed
    assert "1 failed, 1 passed" in printed, printed


def test_interrupted_workers_tear_down_their_fixtures(tmp_path: Path) -> None:
    """Ctrl-C reaches the workers too; what their tests started ends with them."""
    printed = run_pytest(
        tmp_path,
        "import os, pathlib, signal, time, pytest\n"
        "@pytest.fixture\n"
        "def server():\n"
        "    yield\n"
        "    pathlib.Path(__file__).with_name('ended').touch()\n"
        "def test_inner(server):\n"
        "    for pid in (os.getppid(), os.getpid()):\n"
        "        os.kill(pid, signal.SIGINT)\n"
        "    time.sleep(60)\n",
        *SEVERAL,
    )

    assert "KeyboardInterrupt" in printed, printed
    assert "exit code 2" in printed, printed
    assert (tmp_path / "ended").exists()


def test_workers_stop_after_the_first_failure_if_asked(tmp_path: Path) -> None:
    """`-x` leaves out the batches that no worker has begun."""
    printed = run_pytest(
        tmp_path,
        "import pytest\n"
        "@pytest.mark.parametrize('number', range(200))\n"
        "def test_inner(number): assert number\n",
        *SEVERAL,
        "-x",
    )

    assert "FAILED test_inner.py::test_inner[0]" in printed, printed
    assert "stopping after 1 failures" in printed, printed
