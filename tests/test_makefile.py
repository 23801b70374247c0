"""The two commands that set everything up, with a fake interpreter."""

import os
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.waiting import is_alive, wait_until

ROOT = Path(__file__).parents[1]
PINS = ("pyproject.toml", "constraints.txt")

STARTS_OTHERS = f'case "$2" in *execv*) exec {shlex.quote(sys.executable)} "$@";; esac'
HANGS_S = 300

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="there is no make")


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A directory with a space in its name, with the files set-up reads."""
    directory = tmp_path / "a clone"
    directory.mkdir()
    for name in ("Makefile", *PINS):
        shutil.copy(ROOT / name, directory)
    return directory


def make(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run make as from a shell: without variables of an outer make."""
    environment = {name: value for name, value in os.environ.items() if "MAKE" not in name}
    return subprocess.run(
        ["make", *arguments],
        cwd=directory,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def script(path: Path, body: str) -> Path:
    """Write an executable shell script."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


def test_too_old_python_is_refused_with_its_version(clone: Path) -> None:
    """The message names the version found and the command to type instead."""
    old = script(clone / "old", '[ "$1" = --version ] && echo Python 3.9.2 || exit 1')

    done = make(clone, "demo", f"PYTHON=./{old.name}")

    assert done.returncode != 0
    assert "needs Python 3.11 or later; ./old is Python 3.9.2" in done.stderr
    assert not (clone / ".venv").exists()


def test_failed_virtual_environment_is_removed(clone: Path) -> None:
    """A partial environment would be taken for a complete one the next time."""
    body = 'case "$1$2" in -mvenv) mkdir -p .venv/bin; touch .venv/bin/python; exit 1;; esac'
    script(clone / "broken", body)

    done = make(clone, "demo", "PYTHON=./broken")

    assert done.returncode != 0
    assert not (clone / ".venv").exists()


@pytest.mark.parametrize(
    ("command", "options"),
    [("demo", "-e ."), ("test", "--ignore-requires-python -e .[test]")],
)
def test_set_up_runs_once_and_again_when_a_pin_changes(
    clone: Path, command: str, options: str
) -> None:
    """The second run starts at once; a changed dependency is never missed."""
    python = script(
        clone / ".venv/bin/python", 'case "$*" in *install*) echo "$*" >> installs;; esac'
    )
    for tool in ("agent-cli", "ruff", "mypy", "pyright", "lint-imports"):
        script(python.with_name(tool), "exit 0")
    installs = clone / "installs"

    first, second = make(clone, command), make(clone, command)
    once = installs.read_text().splitlines()
    pin = clone / "constraints.txt"
    os.utime(pin, (later := pin.stat().st_mtime + 60, later))
    make(clone, command)

    assert (first.returncode, second.returncode) == (0, 0), first.stderr
    assert once == [f"-m pip install --quiet -c constraints.txt {options}"]
    assert len(installs.read_text().splitlines()) == 2
    assert "installing" in first.stdout
    assert "installing" not in second.stdout


def test_make_test_runs_every_check_and_stops_at_the_first_failure(clone: Path) -> None:
    """A failed check must not scroll away above a passed one."""
    script(clone / ".venv/bin/python", "exit 0")
    for tool in ("ruff", "mypy", "pyright"):
        script(clone / f".venv/bin/{tool}", "exit 0")
    lint = script(clone / ".venv/bin/lint-imports", "exit 0")

    green = make(clone, "test")
    script(lint, "exit 1")
    red = make(clone, "test")

    steps = [line for line in green.stdout.splitlines() if line.startswith("==> ")]
    checks = [
        "ruff format --check",
        "ruff check",
        "lint-imports",
        "pytest",
        "mypy --strict, begun beside the first",
        "pyright, begun beside the first",
    ]
    assert steps[-6:] == [f"==> {check}" for check in checks]
    assert red.returncode != 0
    assert "==> pytest" not in red.stdout


@pytest.mark.parametrize("checker", ["mypy", "pyright"])
def test_failure_of_a_parallel_check_fails_make_test(clone: Path, checker: str) -> None:
    """Its messages come last, where they are seen."""
    script(clone / ".venv/bin/python", STARTS_OTHERS)
    for tool in ("ruff", "mypy", "lint-imports", "pyright"):
        script(clone / f".venv/bin/{tool}", "exit 0")
    script(clone / f".venv/bin/{checker}", "echo 1 error; exit 1")

    done = make(clone, "test")

    assert done.returncode != 0
    assert done.stdout.splitlines()[-1] == "1 error"


@pytest.mark.parametrize("is_interrupted", [False, True], ids=["failed check", "Ctrl-C"])
def test_no_checker_goes_on_behind_make_test(clone: Path, is_interrupted: bool) -> None:
    """pyright starts another program, and a shell's background jobs ignore Ctrl-C."""
    script(clone / ".venv/bin/python", STARTS_OTHERS)
    for tool in ("mypy", "pyright"):
        script(clone / f".venv/bin/{tool}", f"sleep {HANGS_S} & echo $! > {tool}.pid; wait")
    begun = "until [ -s mypy.pid ] && [ -s pyright.pid ]; do :; done; echo $$ > ruff.pid"
    ends = f"exec sleep {HANGS_S}" if is_interrupted else "exit 1"
    script(clone / ".venv/bin/ruff", f"{begun}; {ends}")
    environment = {name: value for name, value in os.environ.items() if "MAKE" not in name}

    with subprocess.Popen(
        ["make", "test"], cwd=clone, env=environment, start_new_session=True
    ) as making:
        pids = [clone / f"{tool}.pid" for tool in ("mypy", "pyright", "ruff")]
        wait_until(lambda: all(each.exists() and each.read_text() for each in pids), "all begun")
        if is_interrupted:
            os.killpg(making.pid, signal.SIGINT)
        failed = making.wait(60)

    assert failed
    wait_until(lambda: not any(is_alive(int(each.read_text())) for each in pids), "all have ended")


def test_coverage_is_reported_though_a_test_fails(clone: Path) -> None:
    """`make test` reports failed tests; here only too low a branch coverage fails."""
    python = clone / ".venv/bin/python"
    script(python, 'case "$*" in *pytest*) exit 1;; *report*) echo "${COVERAGE_ROOT}";; esac')
    reported = make(clone, "coverage")
    script(python, 'case "$*" in *report*) exit 2;; esac')
    too_low = make(clone, "coverage")

    assert reported.returncode == 0
    assert reported.stdout.splitlines()[-1] == str(clone)
    assert too_low.returncode != 0


def test_continuous_integration_runs_the_same_command() -> None:
    """Local and remote results must agree."""
    run = ROOT / ".ci" / "run"

    assert os.access(run, os.X_OK)
    assert run.read_text().splitlines()[-1] == "exec make test"
