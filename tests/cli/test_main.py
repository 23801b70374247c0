"""The outermost frame of the command line: failing streams, files and directories."""

import errno
import fcntl
import io
import json
import os
import select
import shlex
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from agent_cli import NOT_ON_WINDOWS
from agent_cli.app.arguments import Arguments, help_text
from agent_cli.cli import dispatch
from agent_cli.cli.main import run
from agent_cli.system import stop_signals
from tests.e2e.program import AGENT_CLI
from tests.tables import each_row
from tests.waiting import wait_until


def test_closed_stdout_is_no_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`agent-cli --help | true` used to end in a traceback."""
    reading, writing = os.pipe()
    os.close(reading)

    with open(writing, "w") as stdout, open(os.devnull) as stdin:  # noqa: PTH123 - a descriptor
        monkeypatch.setattr(sys, "stdout", stdout)
        monkeypatch.setattr(sys, "stdin", stdin)
        exit_code = run(["--help"])

    assert (exit_code, capsys.readouterr().err) == (141, "")


def test_closed_streams_without_a_dev_null_are_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """A chroot with no /dev ended in a traceback, even with all three streams open."""

    def is_closed(_descriptor: int, _command: int) -> int:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))

    with open(os.devnull) as stdin:  # noqa: PTH123 - as the interpreter opens it
        monkeypatch.setattr(sys, "stdin", stdin)
        monkeypatch.setattr(os, "devnull", f"{tmp_path}/null")
        as_they_are = run(["--version"])
        monkeypatch.setattr(fcntl, "fcntl", is_closed)
        closed = run(["--version"])

    assert (as_they_are, closed) == (0, 1)
    assert f"{tmp_path}/null is missing" in capsys.readouterr().err


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux sets the size of a pipe")
def test_pipes_that_never_wait_lose_nothing() -> None:
    """Node makes its pipes so: of a long answer only the first 64 kB came, and no piped prompt."""
    reading, writing = os.pipe()
    asked, asking = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4_096)
    os.set_blocking(writing, False)
    os.set_blocking(asked, False)

    with subprocess.Popen([AGENT_CLI, "--help"], stdin=asked, stdout=writing) as program:
        wait_until(lambda: _pipe_is_full(writing) or program.poll() is not None)
        os.close(writing)
        with open(reading) as stdout:  # noqa: PTH123 - a descriptor
            text = stdout.read()

    assert (text, program.returncode) == (help_text(), 0)
    assert os.get_blocking(asked)
    os.close(asked)
    os.close(asking)


def _pipe_is_full(writing: int) -> bool:
    return not select.select([], [writing], [], 0)[1]


def test_inaccessible_home_directory_is_reported_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`sudo -u` leads to this; it is simulated, because root may look everywhere."""

    def refuse(path: Path) -> bool:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "is_file", refuse)
    with open(os.devnull) as stdin, open(os.devnull, "w") as stdout:  # noqa: PTH123
        monkeypatch.setattr(sys, "stdin", stdin)
        monkeypatch.setattr(sys, "stdout", stdout)
        exit_code = run(["config", "show"])

    said = capsys.readouterr().err
    assert exit_code == 2
    assert said.endswith(
        "is out of reach (Permission denied): make it readable, or set HOME to a folder of yours\n"
    )
    assert said.count("\n") == 1


@each_row("limit", [5, 7, 8, 14, 31])
def test_a_shell_that_lets_too_few_files_be_opened_is_named_with_the_remedy(limit: int) -> None:
    """A traceback, a session that was not saved, or a refused command named something else."""
    command = f"ulimit -n {limit}; exec {shlex.quote(AGENT_CLI)} -p hi --output-format json"

    ran = subprocess.run(
        ["/bin/sh", "-c", command], stdin=subprocess.DEVNULL, capture_output=True, text=True
    )

    sentence = (
        f"a program may open only {limit} files at once here, and agent-cli needs 32: raise the"
        " limit of your shell (`ulimit -n 256`)"
    )
    assert (ran.returncode, ran.stderr) == (1, f"agent-cli: {sentence}\n")
    assert json.loads(ran.stdout)["error"] == sentence


def test_user_without_a_home_folder_is_told_to_set_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A container may run as a user id that no account has; it was an internal error."""
    monkeypatch.delenv("HOME")
    monkeypatch.setattr("os.getuid", lambda: 54321)
    with open(os.devnull) as stdin, open(os.devnull, "w") as stdout:  # noqa: PTH123
        monkeypatch.setattr(sys, "stdin", stdin)
        monkeypatch.setattr(sys, "stdout", stdout)
        exit_code = run(["config", "show"])

    assert (exit_code, capsys.readouterr().err) == (
        2,
        "agent-cli: HOME is not set, and user 54321 has no home folder here: set HOME to a folder"
        " of yours\n",
    )


def test_limit_of_threads_is_named_with_the_remedy(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Containers limit them; "install agent-cli again" was no help. Root has no such limit."""

    def starting(_arguments: Arguments) -> int:
        threading.Thread(target=print).start()
        raise AssertionError("it was started")

    def no_thread(*_arguments: object, **_named: object) -> None:  # as Python 3.13 calls it
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr("threading._start_new_thread", no_thread, raising=False)
    monkeypatch.setattr("threading._start_joinable_thread", no_thread, raising=False)
    monkeypatch.setitem(dispatch.COMMANDS, "doctor", starting)
    with open(os.devnull) as stdin, open(os.devnull, "w") as stdout:  # noqa: PTH123
        monkeypatch.setattr(sys, "stdin", stdin)
        monkeypatch.setattr(sys, "stdout", stdout)
        exit_code = run(["doctor"])

    assert (exit_code, capsys.readouterr().err) == (
        1,
        "agent-cli: no more threads can be started here: end some processes, or raise `ulimit -u`"
        "\n",
    )


def test_control_characters_in_a_message_are_shown_not_executed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Threat 7: the name of a file in a repository may rename the window or forge the screen."""
    with open(os.devnull) as stdin, open(os.devnull, "w") as stdout:  # noqa: PTH123
        monkeypatch.setattr(sys, "stdin", stdin)
        monkeypatch.setattr(sys, "stdout", stdout)
        exit_code = run(["replay", "\x1b]0;forged\x07\u202e.jsonl"])

    assert exit_code == 2
    assert r"\x1b]0;forged\x07\u202e.jsonl" in capsys.readouterr().err


@pytest.mark.parametrize("output_format", ["text", "json", "stream-json"])
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_signal_before_the_run_starts_still_prints_a_result(
    monkeypatch: pytest.MonkeyPatch, number: signal.Signals, code: int, output_format: str
) -> None:
    """S1-30: on a busy machine the start takes seconds, and a reader of JSON waits for a result."""

    def starting(_arguments: Arguments) -> int:
        signal.raise_signal(number)
        raise AssertionError("the program went on")

    stdout = io.TextIOWrapper(io.BytesIO())
    monkeypatch.setattr(sys, "stdout", stdout)
    monkeypatch.setitem(dispatch.COMMANDS, "print", starting)
    monkeypatch.setattr(stop_signals, "_raised", [])  # the signal must not stop a later test's run
    stop_signals.raise_stopped()
    with open(os.devnull) as stdin:  # noqa: PTH123 - as above
        monkeypatch.setattr(sys, "stdin", stdin)
        exit_code = run(["-p", "hi", "--output-format", output_format])

    stdout.seek(0)
    printed = stdout.read()
    assert exit_code == code
    if output_format == "text":
        assert printed == ""
    else:
        result = json.loads(printed)
        told = (result["type"], result["exit_code"], result["stop_reason"])
        assert told == ("app.result", code, "aborted")


@each_row(
    "code",
    ["from agent_cli import query", "import agent_cli.__main__ as program; program.main()"],
)
def test_windows_is_refused_in_one_sentence(code: str) -> None:
    """The library lacked a module called fcntl there, and the program a function of `signal`."""
    ran = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.platform = 'win32'; {code}"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert ran.returncode == 1
    assert ran.stderr.splitlines()[-1].endswith(NOT_ON_WINDOWS)
