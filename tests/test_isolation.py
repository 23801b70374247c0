"""The guards of conftest.py, seen from a test run inside a test."""

import gc
import os
import sys
from pathlib import Path

import pytest

from tests.forked import start
from tests.waiting import at_growing_limits

ROOT = Path(__file__).parents[1]
LIMIT_S = 200
"""Less than the limit of each test, so that a run that hangs tells where."""
SKIPPING = (
    "import pytest\n"
    "@pytest.mark.parametrize('number', range(3))\n"
    "def test_skipping(number):\n"
    "    if number:\n"
    "        pytest.skip('no such program: install it')\n"
    "    print('ran')\n"
)


def run_pytest(directory: Path, source: str, *options: str) -> str:
    """Run *source* as a test file under this project's conftest; return pytest's output."""
    (directory / "test_inner.py").write_text(source)
    # Options of the outer run, e.g. from its user, must not affect this one.
    inherited = {key: value for key, value in os.environ.items() if key != "PYTEST_ADDOPTS"}
    # The server of forks has imported a plugin, which pytest therefore cannot rewrite.
    quiet = ("-p", "no:cacheprovider", "-q", "-W", "ignore::pytest.PytestAssertRewriteWarning")
    # By default a run removes at its end what earlier runs left on this machine, of any size.
    base = ("--basetemp", str(directory / "base"))
    limit = ("-o", f"faulthandler_timeout={LIMIT_S}", "-o", "faulthandler_exit_on_timeout=true")
    with start(
        str(Path(sys.executable).with_name("pytest")),
        *("-p", "tests.conftest", *quiet, *base, *limit, *options, "test_inner.py"),
        environment={
            **inherited,
            "PYTHONPATH": str(ROOT),
            "ANTHROPIC_API_KEY": "k",
            "HTTP_PROXY": "p",
        },
        limit_s=LIMIT_S + 20,
        folder=directory,
    ) as run:
        stdout, stderr = run.communicate()
        return f"{stdout}{stderr}exit code {run.wait()}"


def test_each_test_is_isolated_from_the_developers_machine(tmp_path: Path) -> None:
    """A key, a proxy or a home of the developer must not change a result.

    A program in the test's process removes the workspace from its PATH; the next test has it back.
    Folders that a test left alone are another test's next, and no others.
    As many skips as are allowed fail nothing.
    """
    printed = run_pytest(
        tmp_path,
        "import os, pathlib, pytest\n"
        "from agent_cli.system.programs import shield_path, users_path\n"
        "from tests.conftest import path_with_python\n"
        "found = path_with_python()\n"
        "def test_inner(tmp_path):\n"
        "    assert 'ANTHROPIC_API_KEY' not in os.environ\n"
        "    assert 'HTTP_PROXY' not in os.environ\n"
        "    assert list(pathlib.Path.home().iterdir()) == []\n"
        "    assert pathlib.Path.cwd() == tmp_path\n"
        f"    assert pathlib.Path.home() != pathlib.Path({str(Path.home())!r})\n"
        "@pytest.mark.parametrize('number', range(2))\n"
        "def test_path(number, monkeypatch):\n"
        "    assert os.environ['PATH'] == users_path() == found\n"
        "    os.environ['PATH'] = f'bin:{found}'\n"
        "    shield_path(pathlib.Path.cwd())\n"
        "    assert users_path() == f'bin:{found}'\n"
        "@pytest.mark.parametrize('number', range(6))\n"
        "def test_folders(number, tmp_path):\n"
        "    home = pathlib.Path.home()\n"
        "    assert (tmp_path.name, home.name) == (\n"
        "        f'test_folders_{number}_0', f'test_folders_{number}_0-home')\n"
        "    assert [*home.iterdir(), *tmp_path.iterdir()] == []\n"
        "    assert oct(tmp_path.stat().st_mode).endswith('700')\n"
        "    if number == 1:\n"
        "        (home / 'left').touch()\n"
        "    if number == 3:\n"
        "        tmp_path.chmod(0o755)\n" + SKIPPING,
        *("--skips-max", "2"),
    )

    assert "10 passed, 2 skipped" in printed, printed
    assert "are allowed" not in printed
    assert "no such program" not in printed
    assert "exit code 0" in printed


def test_garbage_collector_runs_and_leaves_out_what_was_collected() -> None:
    """What a test leaves is released as in the program; modules are not looked through."""
    assert gc.isenabled()
    assert gc.get_freeze_count() > 10_000


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="a guard reads /proc")
def test_hidden_internet_access_and_a_child_left_running_fail_the_test(tmp_path: Path) -> None:
    """The program turns a refused connection into a message, so raising is not enough.

    The child is killed, so that it does not fail the next test as well.
    """
    printed = run_pytest(
        tmp_path,
        "import asyncio, contextlib, socket, subprocess, pytest, tests.conftest\n"
        "from agent_cli.system.launching import Launcher\n"
        "tests.conftest.CHILDREN_GRACE_S = 0.1\n"
        "@pytest.mark.parametrize('attempt', [\n"
        "    lambda: socket.create_connection(('192.0.2.1', 9), timeout=1),\n"
        "    lambda: socket.socket().connect_ex(('192.0.2.1', 9)),\n"
        "    lambda: socket.getaddrinfo('example.com', 443),\n"
        "    lambda: asyncio.run(asyncio.open_connection('example.com', 443)),\n"
        "])\n"
        "def test_inner(attempt):\n"
        "    with contextlib.suppress(OSError):\n"
        "        attempt()\n"
        "def test_child(request):\n"
        "    request.config.child = subprocess.Popen(['sleep', '600'])\n"
        "def test_next(request):\n"
        "    assert request.config.child.wait(timeout=10) == -9\n"
        "def test_launcher(request):\n"
        "    request.config.launcher = Launcher()\n"
        "    request.config.launcher._started()\n",
    )

    assert printed.count("- Failed: the test tried to reach") == 4, printed
    assert "left processes running: ['sleep 600 ']" in printed, printed
    assert "launcher_server.py" in printed, printed
    assert "7 passed, 6 errors" in printed, printed


def test_a_run_with_too_many_skips_fails_and_lists_the_reasons(tmp_path: Path) -> None:
    """A sandbox probe that is skipped everywhere guards nothing."""
    printed = run_pytest(tmp_path, SKIPPING, "--skips-max", "1")

    assert "2 tests skipped, 1 are allowed" in printed, printed
    assert "exit code 1" in printed
    assert "   2  Skipped: no such program: install it" in printed, printed


@pytest.mark.parametrize("outcome", ["pass", "assert False"])
async def test_a_test_that_does_not_end_is_ended(tmp_path: Path, outcome: str) -> None:
    """Such as one whose work ignores its cancellation, which its event loop waits for.

    pytest gives up the limit of a test that fails.
    """

    async def run(limit_s: int) -> str:
        return run_pytest(
            tmp_path,
            "import pytest, threading\n"
            "@pytest.fixture\n"
            "def never_ending():\n"
            "    yield\n"
            "    threading.Event().wait()\n"
            "def test_inner(never_ending):\n"
            f"    {outcome}\n",
            *("-o", f"faulthandler_timeout={limit_s}"),
        )

    # A slow machine needs a second for what comes before.
    printed = await at_growing_limits(run, lambda printed: "in never_ending" in printed)

    assert printed.endswith("exit code 1"), printed
