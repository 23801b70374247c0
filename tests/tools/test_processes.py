"""A command's processes end with the program, even if the program is killed."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import BinaryIO

import pytest

from agent_cli.contracts.cancel import CancelToken
from agent_cli.contracts.tooling import ToolContext, ToolResult, check_input
from agent_cli.sandbox import Confinement
from agent_cli.system.keeper import LEFT_DESCRIPTOR
from agent_cli.system.launching import KeeperLink, Launcher, Order
from agent_cli.undo.logs import CommandQuestion, Loss
from agent_cli_tools import Workspace, command_line
from agent_cli_tools.bash import bash_tool
from agent_cli_tools.command_line import CommandLine, Member, group_members, threads_of_user
from agent_cli_tools.output import OutputBuffer
from agent_cli_tools.processes import TimeLimits, start
from agent_cli_tools.session_resources import SessionResources
from tests.waiting import is_alive, until

# One in the foreground, one that ignores every polite signal, one of an earlier call, one started
# as a background process: four independent cases.
SCRIPT = """
import asyncio, sys
from pathlib import Path
from agent_cli.contracts.cancel import CancelToken
from agent_cli.contracts.tooling import ToolContext, check_input
from agent_cli_tools import Workspace
from agent_cli_tools.bash import bash_tool

async def main():
    tool = bash_tool(Workspace(Path(sys.argv[1])))
    def call(**given):
        return tool.execute("1", check_input(tool, given), CancelToken(), ToolContext())
    await call(command="sleep 300 >/dev/null & echo $! >>pids")
    await call(command="echo $$ >>pids; exec sleep 300", background=True)
    await call(command="trap '' TERM HUP INT; echo $$ >>pids; (sleep 300; :) & echo $! >>pids;"
                       " touch ready; sleep 300; sleep 300")

asyncio.run(main())
"""


def started(script: str, workspace: Path) -> "subprocess.Popen[bytes]":
    return subprocess.Popen([sys.executable, "-c", script, str(workspace)])


async def test_no_process_survives_a_sigkill_of_the_program(tmp_path: Path) -> None:
    """PR_SET_PDEATHSIG would reach one process only."""
    with started(SCRIPT, tmp_path) as program:
        await until((tmp_path / "ready").exists)
        pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
        assert len(pids) == 4
        assert all(map(is_alive, pids))

        program.send_signal(signal.SIGKILL)

    await until(lambda: not any(map(is_alive, pids)))


def test_members_of_the_own_process_group_include_the_process_itself() -> None:
    """A process name from the kernel may contain blanks and parentheses."""
    members = group_members(os.getpgid(0))

    assert os.getpid() in {member.pid for member in members}
    assert os.getppid() in {m.parent for m in members if m.pid == os.getpid()}


@pytest.mark.skipif(not Path("/proc").exists(), reason="no /proc")
async def test_number_of_processes_is_limited_without_a_sandbox_too(tmp_path: Path) -> None:
    """Threat 15: the limit is relative to the processes that the user has at the start."""
    stop = threading.Event()
    before = threads_of_user()
    threads = [threading.Thread(target=stop.wait) for _ in range(50)]
    for thread in threads:
        thread.start()
    counted = threads_of_user()
    stop.set()

    tool = bash_tool(Workspace(tmp_path))
    params = check_input(tool, {"command": "ulimit -u"})
    result = await tool.execute("1", params, CancelToken(), ToolContext())

    assert counted - before > 20  # Other processes come and go meanwhile.
    assert isinstance(result, ToolResult)
    assert 512 < int(result.text.split("\n")[0]) < counted + 1_000


@pytest.mark.skipif(not Path("/bin/ps").exists(), reason="no ps")
def test_process_group_is_read_from_ps_if_proc_is_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(command_line, "_PROC", tmp_path)

    members = group_members(os.getpgid(0))

    assert os.getpid() in {member.pid for member in members}
    assert all(isinstance(member, Member) and member.name for member in members)


@pytest.mark.skipif(sys.platform != "linux", reason="needs a subreaper")
async def test_daemon_does_not_survive_a_sigkill_of_the_program(tmp_path: Path) -> None:
    """S1-42, threat 15: no signal to the group reaches it, and no sandbox confines it."""
    daemon = "setsid sh -c 'trap : TERM HUP; echo $$ >daemon; sleep 300; sleep 300' &"
    script = SCRIPT.replace(
        "touch ready;", f"{daemon} until [ -s daemon ]; do :; done; touch ready;"
    )
    with started(script, tmp_path) as program:
        await until((tmp_path / "ready").exists)
        pids = [
            int((tmp_path / "daemon").read_text()),
            *map(int, (tmp_path / "pids").read_text().split()),
        ]
        assert all(map(is_alive, pids))
        program.send_signal(signal.SIGKILL)

    await until(lambda: not any(map(is_alive, pids)))


@pytest.mark.skipif(sys.platform != "linux", reason="needs a subreaper")
async def test_daemon_ends_with_its_command_but_a_background_process_does_not(
    tmp_path: Path,
) -> None:
    """Threat 15: the model is told of processes in the group, and can end them; not of daemons."""
    left = "echo $$ >NAME; sleep 300; :"
    command = (
        f"setsid sh -c '{left.replace('NAME', 'daemon')}' >/dev/null &"
        f" sh -c '{left.replace('NAME', 'job')}' >/dev/null &"
        " until [ -s daemon ] && [ -s job ]; do :; done; exit 7"
    )
    workspace = Workspace(tmp_path)
    tool = bash_tool(workspace)

    result = await tool.execute(
        "1", check_input(tool, {"command": command}), CancelToken(), ToolContext()
    )

    assert isinstance(result, ToolResult)
    assert "[exit 7" in result.text
    job, daemon = (int((tmp_path / name).read_text()) for name in ("job", "daemon"))
    assert is_alive(job)
    assert not is_alive(daemon)
    workspace.close()
    await until(lambda: not is_alive(job))


@pytest.mark.parametrize("command_text", ["true", "sleep 600"])
async def test_cleanup_after_a_command_runs_once_outside_the_event_loop(
    tmp_path: Path, command_text: str
) -> None:
    """In a large workspace it takes long enough to stall a stream of answers."""
    threads: list[threading.Thread] = []

    def release() -> Sequence[str]:
        threads.append(threading.current_thread())
        return ["put back"]

    confinement = Confinement(release=release)
    line = CommandLine(command_text, Path("/bin/bash"), tmp_path, dict(os.environ), confinement)
    launcher = Launcher()
    command = await start(launcher, line, OutputBuffer(SessionResources().open_spill))
    if command_text == "true":
        assert await command.wait() == 0
    else:
        await command.stop()

    await asyncio.gather(command.finish(), command.finish())
    command.close()
    launcher.close()

    assert command.put_back == ["put back"]
    assert [each is threading.main_thread() for each in threads] == [False]


async def test_processes_that_a_sandbox_ended_are_named_without_the_mark_of_its_start(
    tmp_path: Path,
) -> None:
    """S1-44: its first line tells that it was built; the others are what other calls did not end.

    The wrapper stands for bubblewrap: it writes as our command for its inside does.
    """
    wrapper = tmp_path / "sandbox"
    wrapper.write_text(f"#!/bin/sh\nprintf 'begun\\nsleep\\ncat\\n' >&{LEFT_DESCRIPTOR}\n")
    wrapper.chmod(0o700)
    confinement = Confinement(prefix=[str(wrapper)], nested=True)
    line = CommandLine("true", Path("/bin/bash"), tmp_path, dict(os.environ), confinement)
    launcher = Launcher()
    command = await start(launcher, line, OutputBuffer(SessionResources().open_spill))

    assert await command.wait() == 0
    await command.finish()
    command.close()
    launcher.close()

    assert command.ended_with_it == ["sleep", "cat"]
    assert command.has_begun


async def test_cleanup_after_a_failed_start_runs_outside_the_event_loop(tmp_path: Path) -> None:
    threads: list[threading.Thread] = []

    def release() -> Sequence[str]:
        threads.append(threading.current_thread())
        return ()

    launcher, confinement = Launcher(), Confinement(release=release)
    for text, bash in (("\0", "/bin/bash"), ("true", "/no/bash")):
        line = CommandLine(text, Path(bash), tmp_path, dict(os.environ), confinement)
        with pytest.raises((OSError, ValueError)):
            await start(launcher, line, OutputBuffer(SessionResources().open_spill))
    launcher.close()

    assert [each is threading.main_thread() for each in threads] == [False, False]


async def test_command_cancelled_during_its_start_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command runs already, but no object exists yet that could end it."""
    loop = asyncio.get_running_loop()
    connect = loop.connect_read_pipe

    async def cancelled(factory: Callable[[], asyncio.BaseProtocol], pipe: BinaryIO) -> object:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        return await connect(factory, pipe)

    monkeypatch.setattr(loop, "connect_read_pipe", cancelled)
    text = "echo $$ >pid; sleep 600"
    line = CommandLine(text, Path("/bin/bash"), tmp_path, dict(os.environ), Confinement())
    launcher = Launcher()
    task = asyncio.create_task(start(launcher, line, OutputBuffer(SessionResources().open_spill)))

    with pytest.raises(asyncio.CancelledError):
        await task

    folders = list(Path("/proc").glob("[0-9]*/cwd"))
    here = [int(path.parent.name) for path in folders if runs_in(path, tmp_path)]
    assert here == [os.getpid()]  # the tests run in there, too
    launcher.close()


def runs_in(link: Path, folder: Path) -> bool:
    try:
        return link.resolve() == folder
    except OSError:
        return False


class _Asking(Launcher):
    """Starts commands that stand still at once, until a question about a file is answered."""

    def launch(self, order: Order, errors: int = -1) -> tuple[KeeperLink, int]:
        link, output = super().launch(order, errors)
        link.messages.append({"asks": asdict(Loss(1, 1, ["/a"], "/b", 1, ""))})
        return link, output


async def test_question_of_a_job_is_withdrawn_in_its_event_loop(tmp_path: Path) -> None:
    """Its processes are ended in a thread, where no task may be cancelled."""
    asyncio.get_running_loop().set_debug(True)  # then asyncio raises for that
    line = CommandLine("sleep 60", Path("/bin/bash"), tmp_path, dict(os.environ), Confinement())
    launcher, asked = _Asking(), asyncio.Event()
    command = await start(launcher, line, OutputBuffer(SessionResources().open_spill))

    async def decide(_question: CommandQuestion) -> bool:
        asked.set()
        return await asyncio.Event().wait()

    command.decide = decide
    assert not command.has_ended()
    await asked.wait()

    await command.stop()
    launcher.close()

    assert command.has_ended()


async def test_time_limit_stands_still_while_a_person_is_asked() -> None:
    """Also one that begins meanwhile, and for as long as any question is open."""
    limits, loop, ended = TimeLimits(), asyncio.get_running_loop(), asyncio.Event()

    with limits.standing_still():
        async with limits.within(0.02):
            with limits.standing_still():
                loop.call_later(0.05, ended.set)
            await ended.wait()
    with pytest.raises(TimeoutError):
        async with limits.within(0.02):
            with limits.standing_still():
                pass
            await asyncio.Event().wait()
