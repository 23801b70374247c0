"""The tool bash, with real shells and real processes."""

import asyncio
import gc
import os
import re
import time
from pathlib import Path
from typing import Any

import pytest

from agent_cli.contracts.cancel import CancelToken
from agent_cli.contracts.timeline import Json
from agent_cli.system.programs import find_program
from agent_cli_tools import Workspace, command_run, processes
from agent_cli_tools.session_resources import SessionResources
from tests.fakes import calls, says, scripted_agent, tool_use
from tests.tools.calling import Tools
from tests.waiting import (
    LIMIT_S,
    at_growing_limits,
    is_alive,
    open_descriptors,
    unstalled_s,
    until,
)

OUTCOME = re.compile(r"\[exit (\d+)(?: \((\w+)\))? · (\d+\.\d) s(.*)\]$")


def outcome(text: str) -> tuple[str, ...]:
    match = OUTCOME.search(text)
    assert match is not None, text
    return match.groups()


async def test_bash_output_is_merged_and_ends_with_exit_code_and_time(tools: Tools) -> None:
    result = await tools("bash", command="echo one; echo two >&2; echo three; exit 3")

    assert not result.is_error
    assert result.text.startswith("one\ntwo\nthree\n[exit 3 · ")
    assert outcome(result.text)[0] == "3"
    assert isinstance(result.details, dict)
    assert result.details | {"duration_s": 0, "began_ns": 0} == {
        "kind": "command",
        "exit_code": 3,
        "duration_s": 0,
        "began_ns": 0,
        "spill": None,
        "status": result.text.splitlines()[-1],
    }


async def test_a_description_that_other_agents_ask_for_costs_no_round(tools: Tools) -> None:
    """Models write it with each command, although the schema has none; it changes nothing."""
    text = await tools.text("bash", command="echo one", description="Print one")

    assert text.startswith("one\n")
    properties = tools.named("bash").spec.input_schema["properties"]
    assert isinstance(properties, dict) and "description" not in properties


@pytest.mark.parametrize(
    ("given", "remedy"),
    [
        (
            {"run_in_background": True},
            "no parameter is named run_in_background:"
            " they are command, timeout, background, notify, unsandboxed",
        ),
        (
            {"timeout": 120_000},
            "timeout: Input should be less than or equal to 600 (seconds, else 120)",
        ),
    ],
)
async def test_what_another_bash_means_by_a_parameter_is_refused_with_the_remedy(
    tools: Tools, given: dict[str, Json], remedy: str
) -> None:
    """Ignored, it would change the meaning: a command in the foreground, or a thousand times."""
    text = await tools.error("bash", command="true", **given)

    assert text == f"Invalid input for bash: {remedy}. Correct it and call again."


async def test_start_of_a_command_is_not_after_its_first_change(tools: Tools) -> None:
    """By the clock of files: whether a check saw a file as it is now is read off their times."""
    before = tools.workspace.root / "before"
    before.write_text("")

    result = await tools("bash", command="echo > changed")

    assert isinstance(result.details, dict)
    changed = tools.workspace.root / "changed"
    began_ns = result.details["began_ns"]
    assert isinstance(began_ns, int)
    assert before.stat().st_mtime_ns <= began_ns <= changed.stat().st_mtime_ns


async def test_exit_line_starts_on_a_new_line_after_unterminated_output(tools: Tools) -> None:
    assert (await tools.text("bash", command="printf x")).startswith("x\n[exit 0 · ")
    assert (await tools.text("bash", command="true")).startswith("[exit 0 · ")


async def test_every_bash_call_starts_at_the_root_in_a_new_shell(tools: Tools) -> None:
    """State kept from call to call would change the meaning of a command."""
    tools.file("sub/a", "")
    await tools.text("bash", command="cd sub; export LEAK=1; leak() { :; }; alias ls=false")

    text = await tools.text("bash", command="pwd; echo ${LEAK-none}; type leak; ls")

    assert text.startswith(f"{tools.root}\nnone\n")
    assert "leak: not found" in text
    assert "sub\n" in text


async def test_api_keys_are_not_visible_to_commands(
    tools: Tools, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command's output goes to the model, and anyone may have written the command."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "CANARY-1")
    monkeypatch.setenv("SOMEBODYS_TOKEN", "CANARY-2")
    monkeypatch.setenv("BASH_ENV", str(tools.file("evil.sh", "echo CANARY-3")))

    text = await tools.text("bash", command="env; set; cat /proc/$$/environ /proc/$PPID/environ")

    assert "CANARY" not in text
    assert "TERM=dumb" in text
    assert "CI=1" in text


async def test_commands_cannot_ask_for_input(tools: Tools) -> None:
    """Input ends at once, and there is no terminal for questions."""
    text = await tools.text("bash", command='cat; read x; echo "read: $?"; echo x >/dev/tty')

    assert "read: 1\n" in text
    assert "/dev/tty" in text
    assert outcome(text)[0] == "1"


async def test_commands_get_default_signal_handlers(tools: Tools) -> None:
    """A test of interrupts in a command must not find them ignored."""
    command = "bash -c 'kill -INT $$'; echo $?; bash -c 'kill -TERM $$'; echo $?"

    text = await tools.text("bash", command=command)

    assert "130" in text
    assert "143" in text


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("kill -9 $$", ("137", "SIGKILL")),
        ("kill -TERM 0", ("143", "SIGTERM")),
        ("kill -9 0", ("137", "SIGKILL")),
        ("exec sh -c 'exit 200'", ("200", None)),
        ("nosuchcommand", ("127", None)),
    ],
)
async def test_exit_code_and_signal_of_a_command_are_reported(
    tools: Tools, command: str, expected: tuple[str, str | None]
) -> None:
    assert outcome(await tools.text("bash", command=command))[:2] == expected


async def test_long_output_is_cut_in_the_middle_and_saved_to_a_file(tools: Tools) -> None:
    result = await tools("bash", command="seq 20000")

    assert isinstance(result.details, dict)
    spill = Path(str(result.details["spill"]))
    assert spill.read_text() == "".join(f"{n}\n" for n in range(1, 20_001))
    assert spill.stat().st_mode & 0o777 == 0o600
    assert result.text.startswith("1\n2\n")
    assert "19999\n20000\n[exit 0 · " in result.text
    assert len(result.text.encode()) < 50 * 1024
    assert "1\t1\n" in await tools.text("read", path=str(spill), limit=1)


async def test_fifty_megabytes_of_output_need_little_memory(tools: Tools) -> None:
    before = _resident_kb()

    text = await tools.text("bash", command="head -c 50000000 /dev/zero | tr '\\0' x")

    assert "of 50,000,000 characters left out" in text
    assert _resident_kb() - before < 20_000


async def test_output_is_streamed_while_the_command_runs(tools: Tools) -> None:
    """The first part is visible before the command ends."""
    async with asyncio.TaskGroup() as group:
        call = group.create_task(
            tools.text("bash", command="echo first; until [ -e go ]; do sleep 0.02; done")
        )
        await until(lambda: tools.updates)
        assert tools.updates == ["first\n"]
        assert tools.update_details == [{"lines": 1}]
        tools.file("go", "")

    assert call.result().startswith("first\n")


async def test_output_updates_come_at_most_five_times_a_second(tools: Tools) -> None:
    started = time.monotonic()

    await tools.text("bash", command="for i in $(seq 100); do echo $i; sleep 0.01; done")

    assert 1 <= len(tools.updates) <= 1 + (time.monotonic() - started) / 0.2


async def test_command_is_ended_at_its_timeout_and_its_output_returned(tools: Tools) -> None:
    took_s = dict[int, float]()

    async def run(limit_s: int) -> str:
        began_s = unstalled_s()
        command = "echo $$; echo so far; sleep 300"
        text = await tools.error("bash", command=command, timeout=limit_s)
        took_s[limit_s] = unstalled_s() - began_s
        return text

    text = await at_growing_limits(run, lambda text: "so far" in text)

    [*_, limit_s] = took_s
    assert f"took longer than {limit_s} s" in text
    assert "at most 600" in text
    assert text.endswith("so far\n")
    assert took_s[limit_s] - limit_s < 4
    assert not is_alive(int(text.splitlines()[-2]))


async def test_output_printed_after_sigterm_at_the_timeout_is_returned(
    tools: Tools, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many programs report their progress when asked to stop."""
    monkeypatch.setattr(processes, "GRACE_S", LIMIT_S)  # its last line, on a busy machine too
    command = "trap 'echo was at 42; exit' TERM; echo up; while :; do sleep 0.05; done"

    async def run(limit_s: int) -> str:
        return await tools.error("bash", command=command, timeout=limit_s)

    assert "was at 42" in await at_growing_limits(run, lambda text: "\nup\n" in text)
    silent = await tools.error("bash", command="sleep 300", timeout=0.1)
    assert silent.endswith("does not end by itself. It printed nothing.")


async def test_processes_that_ignore_sigterm_are_killed_at_the_timeout(tools: Tools) -> None:
    command = (
        "trap '' TERM; (trap '' TERM; echo $BASHPID; sleep 300)& echo $$; sleep 300; sleep 300"
    )

    async def pids_of(limit_s: int) -> list[int]:
        text = await tools.error("bash", command=command, timeout=limit_s)
        return [int(line) for line in text.splitlines() if line.isdigit()]

    pids = await at_growing_limits(pids_of, lambda pids: len(pids) == 2)

    await until(lambda: not any(map(is_alive, pids)))


async def test_cancelling_ends_the_command_and_its_children(tools: Tools) -> None:
    """Ctrl-C: no process is left after two seconds."""
    token = tools.cancel = CancelToken()
    command = "echo up; sleep 61 & (trap '' TERM; sleep 62; sleep 63) & echo $! $$ > pids; wait"
    pids = tools.root / "pids"
    async with asyncio.TaskGroup() as group:
        call = group.create_task(tools.error("bash", command=command))
        await until(lambda: pids.exists() and pids.read_text().endswith("\n"))
        await until(lambda: tools.updates != [])  # its start is confirmed too
        started_s = unstalled_s()
        token.cancel()
        assert (await call).endswith("s. Its output until then:\nup\n")

    assert unstalled_s() - started_s < 2
    await until(lambda: not any(is_alive(int(pid)) for pid in pids.read_text().split()))


async def test_command_stopped_before_its_start_is_confirmed_reports_its_output(
    tools: Tools, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a busy machine it may print long before."""

    async def unconfirmed(*given: Any, **_named: Any) -> None:
        *_, output, _on_output = given
        output.add(b"up\n")
        token.cancel()
        await asyncio.Event().wait()

    token = tools.cancel = CancelToken()
    monkeypatch.setattr(command_run, "start_command", unconfirmed)

    assert (await tools.error("bash", command="echo up")).endswith("until then:\nup\n")


@pytest.mark.parametrize("lines", [3, 4_000])
async def test_stopped_command_reports_what_it_had_printed(tools: Tools, lines: int) -> None:
    """All of it, or the end and where all of it is."""
    token = tools.cancel = CancelToken()
    command = f"seq {lines}; touch printed; sleep 60"
    async with asyncio.TaskGroup() as group:
        call = group.create_task(tools.error("bash", command=command))
        await until((tools.root / "printed").exists)
        await until(lambda: tools.updates != [])
        token.cancel()
        told = await call

    begin, *printed = told.splitlines()
    assert printed == [str(n + 1) for n in range(lines)][-len(printed) :]
    if lines == 3:
        assert begin.endswith("s. Its output until then:")
        assert len(printed) == 3
    else:
        log = Path(begin.partition("all of it is in ")[2].removesuffix("):"))
        assert len(log.read_text().splitlines()) == lines
        assert len(told) < 4_000


async def test_background_process_does_not_delay_the_end_of_the_call(tools: Tools) -> None:
    """The process holds the pipe, continues and is named; its later output does not kill it."""
    started_s = unstalled_s()
    command = "(until [ -e go ]; do sleep 0.02; done; echo late; touch done) & echo $!"

    text = await tools.text("bash", command=command)

    pid = int(text.splitlines()[0])
    assert unstalled_s() - started_s < 5
    assert re.search(rf"still running: .*\bbash {pid}\b", outcome(text)[3])
    assert is_alive(pid)
    tools.file("go", "")
    await until((tools.root / "done").exists)


async def test_background_process_is_ended_when_the_workspace_closes(tools: Tools) -> None:
    text = await tools.text("bash", command="sleep 300 >/dev/null 2>&1 & echo $!")
    pid = int(text.splitlines()[0])
    assert is_alive(pid)

    tools.workspace.close()

    await until(lambda: not is_alive(pid))


async def test_background_command_is_refused_without_a_log_file(tools: Tools) -> None:
    """Its output would be lost without a notice."""
    tools.workspace = Workspace(
        tools.root, shared=SessionResources(spill_dir=tools.file("out", "").parent / "out")
    )

    assert "No log file" in await tools.error("bash", command="sleep 300", background=True)


async def test_background_command_that_fails_at_once_returns_its_result(
    tools: Tools, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command_run, "_SETTLE_S", 20.0)  # A generous "at once" for a busy machine.

    text = await tools.text("bash", command="echo no; exit 4", background=True)

    assert text.startswith("no\n[exit 4 · ")


async def test_bash_calls_leak_no_process_and_no_file_descriptor(tools: Tools) -> None:
    """A session runs thousands of commands."""
    await tools.text("bash", command="true")
    await asyncio.sleep(0)
    gc.collect()  # Objects of earlier tests may be collected at any time.
    before = open_descriptors()

    for command in ("true", "seq 10000", "kill -9 0", "sleep 0.01 & true"):
        await tools("bash", command=command)
    await tools("bash", command="sleep 9", timeout=0.05)
    await tools.text("bash", command="sleep 300 & true")
    tools.workspace.close()
    await asyncio.sleep(0)  # Closing a pipe takes another iteration of the loop.

    assert open_descriptors() < before, "the launcher's is closed with the workspace"


async def test_commands_run_concurrently(tools: Tools) -> None:
    """S1-44: each command waits for the other, so they can only end together."""
    one = "touch a; until [ -e b ]; do sleep 0.01; done"
    other = "touch b; until [ -e a ]; do sleep 0.01; done"

    async with asyncio.timeout(60):
        await asyncio.gather(tools.text("bash", command=one), tools.text("bash", command=other))


async def test_git_commands_of_one_reply_run_in_their_order(tools: Tools) -> None:
    """S1-44: side by side, the second one finds the index locked, or what was not yet added."""
    tools.file("a.txt", "a\n")
    commands = ("sleep 0.2; git init -q && git add -A", "git status --short")
    asks = calls(*(tool_use("bash", {"command": each}, each) for each in commands))
    agent, _, events = scripted_agent(asks, says("ok"), tools=[tools.named("bash")])
    await agent.prompt("go")

    ends = [event for event in events if event.type == "tool_execution_end"]
    assert [event.result.text.partition("[")[0] for event in ends] == ["", "A  a.txt\n"]


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("echo \0", "could not be started"),
        ("echo \ud800", "could not be started"),
        ("#" * 200_000, "write it to a file"),
    ],
)
async def test_command_that_cannot_be_started_is_an_error_with_the_reason(
    tools: Tools, command: str, words: str
) -> None:
    assert words in await tools.error("bash", command=command)


async def test_deleted_workspace_is_the_reason_why_a_command_cannot_start(tools: Tools) -> None:
    """The model was told to shorten the command."""
    tools.root.rmdir()

    error = await tools.error("bash", command="ls")

    assert error.endswith(" The workspace is gone, so no command can run. Tell the user.")


@pytest.mark.parametrize("timeout", [0, -1, 601])
async def test_timeout_must_be_within_its_limits(tools: Tools, timeout: int) -> None:
    assert "timeout" in await tools.error("bash", command="true", timeout=timeout)


async def test_a_bash_in_the_workspace_is_not_run(
    tools: Tools, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A repository may contain a program of that name, and PATH may lead there."""
    fake = tools.file("bin/bash", "#!/bin/sh\necho CANARY\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{fake.parent}:{os.environ['PATH']}")

    assert "CANARY" not in await tools.text("bash", command="true")


async def test_a_bash_below_the_current_directory_is_not_run(
    tools: Tools, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Threat 13: the demo has its workspace elsewhere, and may be started in a repository."""
    folder = tmp_path_factory.mktemp("repository")
    fake = folder / "bin" / "bash"
    fake.parent.mkdir()
    fake.write_text("#!/bin/sh\necho CANARY\n")
    fake.chmod(0o755)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PATH", f"{fake.parent}:{os.environ['PATH']}")

    assert "CANARY" not in await tools.text("bash", command="true")


def test_system_programs_are_found_if_the_workspace_is_the_root_directory() -> None:
    """Containers start in that directory."""
    assert find_program("bash", outside=Path("/")) is not None


async def test_missing_bash_is_an_error_for_the_model(
    tools: Tools, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tools.root))

    assert "bash is not installed" in await tools.error("bash", command="true")


def _resident_kb() -> int:
    status = Path("/proc/self/status").read_text()
    return int(next(line for line in status.splitlines() if "VmRSS" in line).split()[1])
