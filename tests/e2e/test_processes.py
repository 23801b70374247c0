"""No process the program started outlives it, however the program ends."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from agent_cli.system.paths import private_dir, state_dir
from agent_cli.system.temporary_files import temporary_name
from tests.e2e.program import (
    finished,
    forked_agent_cli,
    in_terminal,
    long_sleep,
    processes_with,
    started,
)
from tests.mcp_client.conftest import RAW_SERVER
from tests.messages_api import reply, serve_in_thread, tool_use
from tests.messages_api.script import Payload
from tests.waiting import wait_until

YOLO = ("--permission-mode", "yolo", "--mcp-config", "servers.json")
GONE_WITHIN_S = 2.0


def lasting() -> str:
    """Return a command that is searched for in every command line, even that of an orphan."""
    return long_sleep(1_000)


def call() -> Payload:
    """Return a call of the tool that runs the command twice."""
    command = f"({lasting()} &) ; touch begun; {lasting()}"
    return tool_use("bash", {"command": command, "timeout": 600})


@pytest.fixture
def server() -> str:
    """Configure an MCP server whose child ignores SIGTERM; return a text of its command line."""
    marker = f"pids-{os.getpid():07}"
    options = json.dumps({"pids": marker})
    server = {"command": sys.executable, "args": ["-I", "-S", RAW_SERVER, options]}
    Path("servers.json").write_text(json.dumps({"mcpServers": {"raw": server}}))
    return marker


def everything_runs(server: str) -> None:
    """Wait until the command, its background process, and the server are running."""
    wait_until(Path("begun").exists, "the command has begun")
    wait_until(Path(server).exists, "the server has begun")
    assert processes_with(lasting())
    assert processes_with(server)


def nothing_runs(server: str) -> None:
    """Wait until none of them is left, grandchildren included."""
    pids = [Path("/proc", pid) for pid in Path(server).read_text().split()]

    def gone() -> bool:
        left = [*processes_with(lasting()), *processes_with(server)]
        return not left and not any(_lives(pid) for pid in pids)

    wait_until(gone, "no process is left", promised_s=GONE_WITHIN_S)


def _lives(process: Path) -> bool:
    try:
        return bool((process / "cmdline").read_bytes())  # a zombie has none
    except OSError:
        return False


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGKILL, -9), (signal.SIGTERM, 143), (signal.SIGINT, 130)]
)
def test_killed_run_leaves_no_process_and_no_file_in_the_workspace(
    number: signal.Signals, code: int, server: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """S1-42: kill -9 in the middle of a command, with a server up; gone within two seconds.

    So are the sandbox's files in the workspace. A killed run cannot remove its temporary files; the
    next one does.
    """
    temporary = tmp_path_factory.mktemp("tmp")
    with (
        serve_in_thread(reply(call()), reply("Done.")) as api,
        started("-p", "go", *YOLO, api=api, TMPDIR=str(temporary)) as process,
    ):
        everything_runs(server)
        process.send_signal(number)
        assert finished(process).code == code

        nothing_runs(server)
        found = {"begun", "servers.json", server}
        wait_until(
            lambda: {path.name for path in Path().iterdir()} == found, "the workspace is as it was"
        )
        assert bool(list(temporary.iterdir())) == (number == signal.SIGKILL)

        # A run with an answer at once is over before its own sandbox is.
        forked_agent_cli("-p", "go", api=api, TMPDIR=str(temporary))
        assert list(temporary.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_terminated_session_leaves_no_process(number: signal.Signals, server: str) -> None:
    """C18: the exit code is 128 + the signal's number, in the middle of a command."""
    with serve_in_thread(reply(call())) as api, in_terminal(api, *YOLO) as terminal:
        terminal.until_prompt()
        terminal.send("go\r")
        terminal.until(Path("begun").exists)
        everything_runs(server)
        terminal.child.kill(number)
        assert terminal.exit_code() == 128 + number

        nothing_runs(server)


def test_exited_session_leaves_no_process(server: str) -> None:
    """Ctrl-C ends the command and returns to the prompt; exit ends the server."""
    with (
        serve_in_thread(reply(call()), reply("Still here.")) as api,
        in_terminal(api, *YOLO) as terminal,
    ):
        terminal.until_prompt()
        terminal.send("go\r")
        terminal.until(Path("begun").exists)
        everything_runs(server)
        terminal.send("\x03")
        terminal.until("interrupted")
        wait_until(
            lambda: not processes_with(lasting()), "the command is gone", promised_s=GONE_WITHIN_S
        )
        terminal.until_prompt()
        terminal.send("and now?\r")
        terminal.until("Still here.")
        terminal.until_prompt()
        terminal.send("exit\r")
        assert terminal.exit_code() == 0

        nothing_runs(server)
    assert api.refusals == []


def test_end_of_input_leaves_no_process(server: str) -> None:
    """A closed pipe counts as leaving: exit code 0, no server left."""
    with serve_in_thread(reply("Hi.")) as api:
        ended = forked_agent_cli(*YOLO, api=api, script="hi\n")

    assert (ended.code, ended.stdout) == (0, "Hi.\n")
    assert not processes_with(server)


def test_start_removes_the_temporary_folder_of_a_killed_program(tmp_path: Path) -> None:
    """No command has to come first; the folder of a program that runs stays.

    A write that was killed right before its file replaced the old one leaves nothing either.
    """
    unfinished = tmp_path / temporary_name()
    unfinished.touch()
    note = private_dir(state_dir() / "unfinished") / unfinished.name
    note.write_bytes(os.fsencode(unfinished))
    code = "from agent_cli.system.temporary_files import OwnFolder as Own; a = Own(); print(a.path)"
    command = [sys.executable, "-u", "-c", f"{code}; input()"]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}

    def owner() -> "subprocess.Popen[str]":
        pipe = subprocess.PIPE
        return subprocess.Popen(command, env=environment, text=True, stdin=pipe, stdout=pipe)

    with owner() as killed, owner() as living:
        assert killed.stdout and living.stdout
        left, kept = Path(killed.stdout.readline()[:-1]), Path(living.stdout.readline()[:-1])
        killed.kill()
        killed.wait()
        with serve_in_thread() as api, in_terminal(api, TMPDIR=str(tmp_path)) as terminal:
            terminal.until_prompt()
            wait_until(lambda: not left.exists(), "the folder is removed")
            assert not unfinished.exists()
            assert kept.is_dir()
        living.communicate("\n")
