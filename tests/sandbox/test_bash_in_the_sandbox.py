"""The bash tool with a sandbox: the model's result, and the files left."""

import asyncio
import errno
import os
import shlex
import shutil
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import pytest

from agent_cli.contracts.cancel import CancelToken
from agent_cli.contracts.errors import Aborted, ToolError
from agent_cli.contracts.timeline import Json
from agent_cli.contracts.tooling import Approval, ToolContext, ToolResult, check_input
from agent_cli.sandbox import Confinement, Sandbox, SandboxPolicy
from agent_cli.sandbox.backends import Backend
from agent_cli.sandbox.confinement import Rules, SandboxFiles
from agent_cli.system import launching
from agent_cli.system.launching import Launcher
from agent_cli_tools import Workspace, builtin_tools, command_line, processes
from agent_cli_tools.bash import bash_tool
from agent_cli_tools.command_line import CommandLine, command_environment
from agent_cli_tools.output import OutputBuffer
from agent_cli_tools.processes import start
from agent_cli_tools.session_resources import SessionResources
from tests.sandbox.creations import only_what_is_named
from tests.sandbox.world import CANARY, World, git, world
from tests.waiting import (
    LIMIT_S,
    at_growing_limits,
    is_alive,
    open_descriptors,
    unstalled_s,
    until,
    wait_until,
)

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="sandboxes of Linux")

READ_BYTES_MAX = 256 * 1024  # asyncio's limit for one read of a pipe


class Bash:
    """The tool in a world."""

    def __init__(self, place: World) -> None:
        self.place = place
        self.workspace = Workspace(place.root)
        self.tool = bash_tool(self.workspace, place.sandbox)
        self.cancel = CancelToken()

    async def __call__(self, command: str, **given: Json) -> ToolResult:
        params = check_input(self.tool, {"command": command, **given})
        with only_what_is_named(self.place.root, command):
            result = await self.tool.execute("1", params, self.cancel, ToolContext())
        assert isinstance(result, ToolResult)
        return result


@pytest.fixture
def place() -> Iterator[World]:
    with world("bwrap") as made:
        yield made


@pytest.fixture
def in_landlock() -> Iterator[World]:
    with world("landlock") as made:
        yield made


@pytest.fixture
async def bash(place: World, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Bash]:
    monkeypatch.setenv("HOME", str(place.home))
    made = Bash(place)
    yield made
    made.workspace.close()


def programs_below_us(name: str) -> list[int]:
    """Return the processes called *name* that descend from this one."""
    found = command_line.descendants(os.getpid(), below=1)
    return [each.pid for each in found if each.name == name]


class Network:
    """A network by host; each command is said to have reached one, however it ends."""

    prefix: Sequence[str] = ("/usr/bin/env",)
    mounts = ((Path("/usr"), "/run/agent-cli"),)
    variables: Mapping[str, str] = {"HTTPS_PROXY": "there"}

    def open(self, _command: str, _standing_still: object) -> "Network":
        return self

    def close(self) -> Sequence[str]:
        return ["network: reached pypi.org"]


class Vanishing:
    """A sandbox that is told to hide a path which then vanishes, as a program's socket may."""

    def __init__(self, real: Backend, path: Path, *, times: int) -> None:
        self._real = real
        self._path = path
        self.left = times

    def confine(self, rules: Rules, own_files: SandboxFiles, cwd: Path) -> Confinement:
        if not self.left:
            return self._real.confine(rules, own_files, cwd)
        self.left -= 1
        self._path.mkdir(parents=True)
        try:
            hidden = (*rules.hidden, self._path)
            return self._real.confine(replace(rules, hidden=hidden), own_files, cwd)
        finally:
            shutil.rmtree(self._path.parent)


@pytest.mark.parametrize("times", [1, 2])
async def test_command_runs_although_a_path_to_hide_has_vanished(bash: Bash, times: int) -> None:
    """The sandbox is built once more, for what is there now; twice is a fault to report."""
    sandbox = bash.place.sandbox
    real = sandbox._backend
    assert real
    vanishing = Vanishing(real, bash.place.home / "gone" / "socket", times=times)
    sandbox._backend = replace(real, confine=vanishing.confine)

    if times == 1:
        result = await bash("echo ran; exit 3")
        assert result.text.startswith("ran\n[exit 3")
    else:
        with pytest.raises(ToolError, match="did not run, because the sandbox could not be made"):
            await bash("touch ran")
        assert not (bash.place.root / "ran").exists()

    assert vanishing.left == 0


async def test_program_of_the_sandbox_starts_while_the_rules_are_made(bash: Bash) -> None:
    """Both take 2 ms of each command."""
    real = bash.place.sandbox._backend
    assert real

    def confine(rules: Rules, own_files: SandboxFiles, cwd: Path) -> Confinement:
        wait_until(lambda: bool(programs_below_us("bwrap")), "the start of bubblewrap")
        return real.confine(rules, own_files, cwd)

    bash.place.sandbox._backend = replace(real, confine=confine)

    result = await bash("cat .env; echo $TMPDIR; touch ran")

    assert "Permission denied\n/tmp\n" in result.text
    assert (bash.place.root / "ran").exists()


async def test_nothing_runs_in_a_sandbox_whose_arguments_never_come(bash: Bash) -> None:
    """As if this program was killed meanwhile, and its keeper had not noticed yet."""
    root = bash.place.root
    outline = bash.place.sandbox.outline()
    program = shutil.which("bash")
    assert outline
    assert program
    text = f"touch {root}/ran /tmp/ran"
    line = CommandLine(text, Path(program), root, command_environment(), outline)

    async def never() -> Confinement:
        return replace(outline, prefix=())

    output = OutputBuffer(SessionResources().open_spill)
    command = await start(bash.workspace.shared.launcher, line, output, confine=never)
    code = await command.wait()
    await command.drain()
    await command.finish()

    assert code == 1
    assert not command.has_begun
    assert "No such file or directory" in output.text()
    assert not (root / "ran").exists()


async def test_nothing_runs_in_a_sandbox_with_a_part_of_its_arguments(bash: Bash) -> None:
    """As if this program was killed while memory was too short to send all of them at once."""
    root, sandbox = bash.place.root, bash.place.sandbox
    program = shutil.which("bash")
    assert program
    whole = await sandbox.confine(root)
    assert whole

    def code_with(length: int | None) -> int:
        outline = sandbox.outline()
        assert outline
        text = "cat .env; touch ran"
        line = CommandLine(text, Path(program), root, command_environment(), outline)
        link, reading = bash.workspace.shared.launcher.launch(line.order())
        assert link.rest
        with link.rest:
            link.rest.write(whole.rest_of(outline)[:length])
        while not link.found("status"):
            link.take(link.socket.recv(READ_BYTES_MAX))
        link.end(LIMIT_S)
        os.close(reading)
        return int(link.found("status")["status"])

    arguments = whole.rest_of(sandbox.outline() or whole)
    options = [at + 1 for at in range(len(arguments)) if arguments[at:].startswith(b"\0--")]
    *_, before_the_link = options
    ends = (*options, len(arguments) - 2, len(arguments) - len(b"/sh\0"))

    codes = {end: code_with(end) for end in ends}

    assert codes == dict.fromkeys(ends, 1)
    assert before_the_link > arguments.index(b"--seccomp")
    assert not (root / "ran").exists()
    assert code_with(None) == 0
    assert (root / "ran").exists()
    whole.release()


async def test_command_begins_anew_whose_rules_are_longer_than_a_pipe(
    bash: Bash, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sent in pieces, some of them would be missing if this program was killed in between."""
    await bash("true")  # starts the launcher
    before = open_descriptors()
    monkeypatch.setattr(launching, "REST_BYTES_MAX", 100)

    result = await bash("cat .env; echo $TMPDIR; touch ran")

    assert "Permission denied\n/tmp\n" in result.text
    assert (bash.place.root / "ran").exists()
    assert open_descriptors() <= before
    assert not programs_below_us("bwrap")


async def test_command_reads_the_full_output_of_an_earlier_one(bash: Bash) -> None:
    """The result names its file, which lies below /tmp; the sandbox has a /tmp of its own."""
    begin = (await bash("seq 1 100000")).text
    path = begin.partition("all of it is in ")[2].partition(" ")[0]

    result = await bash(f"grep 77777 {path}; touch ran")

    assert result.text.startswith("77777\n[exit 0")


async def test_command_begins_anew_where_many_secrets_are_hidden(bash: Bash) -> None:
    """Another program hides them than the one that was started before the rules were known."""
    for number in range(160):
        (bash.place.root / f"{number}.pem").write_text(CANARY)
        (bash.place.root / f"{number}.txt").write_text("shown\n")

    result = await bash("cat *.txt; cat *.pem; exit 3")

    assert "shown\n[the line above ×160]" in result.text
    assert CANARY not in result.text
    assert "[exit 3" in result.text


async def test_program_of_a_sandbox_that_cannot_be_made_is_ended(bash: Bash) -> None:
    real = bash.place.sandbox._backend
    assert real
    started: list[int] = []

    def confine(*_given: object) -> NoReturn:
        wait_until(lambda: bool(programs_below_us("bwrap")), "the start of bubblewrap")
        started.extend(programs_below_us("bwrap"))
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    await bash("true")  # starts the launcher
    bash.place.sandbox._backend = replace(real, confine=confine)
    before = open_descriptors()

    with pytest.raises(ToolError, match="Is the disk full"):
        await bash("touch ran")

    assert started
    assert not any(map(is_alive, started))
    assert open_descriptors() <= before
    assert not (bash.place.root / "ran").exists()


@pytest.mark.parametrize(
    ("number", "advice"),
    [
        (errno.EMFILE, "Tell the user to raise the limit of open files (`ulimit -n`)."),
        (errno.ENOSPC, "Is the disk full? Tell the user."),
    ],
)
async def test_sandbox_that_cannot_be_made_names_the_cause(
    bash: Bash, number: int, advice: str
) -> None:
    def confine(*_given: object) -> NoReturn:
        raise OSError(number, os.strerror(number))

    sandbox = bash.place.sandbox
    assert sandbox._backend
    sandbox._backend = replace(sandbox._backend, confine=confine)

    with pytest.raises(ToolError) as refused:
        await bash("touch ran")

    assert f"{os.strerror(number)}. {advice}" in str(refused.value)
    assert not (bash.place.root / "ran").exists()


async def test_output_of_a_command_built_again_is_shown_while_it_runs(bash: Bash) -> None:
    sandbox = bash.place.sandbox
    real = sandbox._backend
    assert real
    vanishing = Vanishing(real, bash.place.home / "gone" / "socket", times=1)
    sandbox._backend = replace(real, confine=vanishing.confine)
    shown: list[str] = []
    context = ToolContext(update=lambda partial: shown.append(partial.text))
    params = check_input(
        bash.tool, {"command": "echo so far; until [ -e go ]; do sleep 0.01; done"}
    )
    running = asyncio.ensure_future(bash.tool.execute("1", params, bash.cancel, context))

    await until(lambda: any("so far" in text for text in shown))
    (bash.place.root / "go").touch()

    assert isinstance(result := await running, ToolResult)
    assert "exit 0" in result.text


async def test_failed_command_is_explained_without_a_search_in_the_event_loop(
    bash: Bash, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a large workspace on a slow disk the screen would stand still meanwhile."""
    threads: list[threading.Thread] = []
    look = SandboxPolicy._look

    def noted(policy: SandboxPolicy) -> object:
        threads.append(threading.current_thread())
        return look(policy)

    monkeypatch.setattr(SandboxPolicy, "_look", noted)

    assert "blocked by the sandbox: a file that may hold secrets" in (await bash("cat .env")).text
    assert threads
    assert threading.main_thread() not in threads


async def test_nobody_is_asked_about_settings_written_beside_a_background_command(
    bash: Bash,
) -> None:
    """They vanished two seconds after a write that the user had approved."""
    root = bash.place.root
    _, _, write, *_ = builtin_tools(bash.workspace, bash.place.sandbox, permissions="allow")
    await bash("sleep 600", background=True)

    params = check_input(write, {"path": "sub/.vscode/tasks.json", "content": "{}"})
    await write.execute("2", params, bash.cancel, ToolContext())
    await bash("kill %1")
    await bash("true")

    assert (root / "sub" / ".vscode" / "tasks.json").exists()


async def test_sandbox_is_found_although_a_path_to_hide_has_vanished(place: World) -> None:
    """Otherwise the whole session would go on without one."""
    real = place.sandbox._backend
    assert real
    vanishing = Vanishing(real, place.home / "gone" / "socket", times=1)
    (place.sandbox._state_dir / "sandbox.json").unlink()  # or it would not be tried again
    sandbox = Sandbox(
        lambda: place.sandbox._policy,
        mode="auto",
        state_dir=place.sandbox._state_dir,
        find=lambda *_own_files: [replace(real, confine=vanishing.confine)],
    )

    report = await sandbox.ready()
    sandbox.close()

    assert (report.state, report.reason, vanishing.left) == ("bwrap", "", 0)


async def test_command_that_fails_is_not_run_again(bash: Bash) -> None:
    """Not even if it says what a sandbox that cannot be built says."""
    await bash('echo >> runs; echo "bwrap: Can\'t mkdir parents" >&2; exit 1')
    await bash("echo >> runs; kill -9 $$")

    assert (bash.place.root / "runs").read_text() == "\n\n"


async def test_sandbox_denial_names_its_cause_and_the_unsandboxed_option(bash: Bash) -> None:
    text = (await bash("echo x > ~/.bashrc")).text

    assert "Read-only file system" in text
    assert text.splitlines()[-1] == (
        "blocked by the sandbox: writing here (outside the workspace, or a protected file);"
        " call again with unsandboxed=true to ask the user"
    )
    assert "blocked by the sandbox: network" in (await bash("exec 3<>/dev/tcp/127.0.0.1/9")).text
    assert "blocked by the sandbox: a file that may" in (await bash("cat .env")).text
    assert "blocked" not in (await bash("exit 3")).text


@pytest.fixture
def branches(place: World) -> Path:
    """Return a clean repository; its branch `other` changes a protected file and others."""
    root, settings = place.root, place.root / ".claude" / "settings.json"
    git(root, "checkout", "--quiet", "-b", "main")
    settings.parent.mkdir(exist_ok=True)
    for branch, text in (("main", "{}\n"), ("other", '{"model": "opus"}\n')):
        git(root, "checkout", "--quiet", "-B", branch)
        settings.write_text(text)
        (root / "kept.txt").write_text(text)
        if branch == "other":
            (root / ".new.txt").write_text(text)
        git(root, "add", "--force", ".claude", "kept.txt", *[".new.txt"][: branch == "other"])
        git(root, "commit", "--quiet", "--message", branch)
    git(root, "checkout", "--quiet", "main")
    return root


async def test_git_that_stops_half_way_is_told_with_the_way_back(
    bash: Bash, branches: Path
) -> None:
    """The same command outside the sandbox fails on the files that git wrote before it stopped."""
    text = (await bash("git merge --quiet other")).text

    assert text.splitlines()[-1] == (
        "blocked by the sandbox: git may not write .claude/settings.json, and stopped half-way:"
        " put back what `git status` shows that it wrote (`git checkout HEAD -- FILE`; delete new"
        " files), and nothing else, then --abort what it shows in progress; only then does it work"
        " with unsandboxed=true, which asks the user"
    )
    with pytest.raises(subprocess.CalledProcessError):
        git(branches, "merge", "--quiet", "other")
    await bash("git checkout HEAD -- kept.txt; rm .new.txt")
    git(branches, "merge", "--quiet", "other")


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("git checkout -q -b tracking --track other", 0),
        # What fails behind it is another program's.
        ("git checkout -b tracking --track other && false", 1),
    ],
)
async def test_git_that_leaves_only_its_configuration_is_not_to_be_repeated(
    command: str, code: int, bash: Bash, branches: Path
) -> None:
    """Outside the sandbox the same command fails: its branch exists."""
    text = (await bash(command)).text

    assert f"[exit {code}" in text
    assert text.splitlines()[-1] == (
        "blocked by the sandbox: git could not write .git/config, and did the rest, so do not"
        " repeat that git command: where it is needed, `git submodule init` or `git branch"
        " --set-upstream-to=UPSTREAM`, alone, with unsandboxed=true asks the user"
    )
    git(branches, "branch", "--quiet", "--set-upstream-to=other")


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("git merge other | tail -n 1", "and stopped half-way: put back"),
        ("git checkout -q other", "git left .claude/settings.json as before"),
        ("git switch -q other; true", "git left .claude/settings.json as before"),
    ],
)
async def test_git_whose_exit_code_does_not_tell_is_told_of_as_well(
    command: str, said: str, bash: Bash, branches: Path
) -> None:
    text = (await bash(command)).text

    assert "[exit 0" in text
    assert said in text.splitlines()[-1]


@pytest.mark.parametrize(
    "command", ["git checkout other", "git checkout without", "git merge without"]
)
async def test_git_that_leaves_a_file_as_it_was_is_told(
    command: str, bash: Bash, branches: Path
) -> None:
    """The next commit of all changes would take the new content back.

    Git names the file from the top of the repository, and the commit may have removed it.
    """
    git(branches, "checkout", "--quiet", "-b", "without")
    git(branches, "rm", "--quiet", "--cached", ".claude/settings.json")
    git(branches, "commit", "--quiet", "--message", "without")
    git(branches, "checkout", "--quiet", "--force", "main")
    (branches / "src").mkdir()

    text = (await bash(f"cd src && {command}")).text
    said = text.splitlines()[-1]

    assert "[exit 0" in text
    assert said.startswith("blocked by the sandbox: git left .claude/settings.json as before, so")
    assert said.endswith("`, alone, with unsandboxed=true asks the user")
    git(branches / "src", *shlex.split(said.split("`")[1])[1:])
    assert (branches / ".claude/settings.json").exists() is ("other" in command)
    git(branches, "diff", "--exit-code", "HEAD")


async def test_git_that_stops_behind_another_one_that_went_on_is_told_as_stopped(
    bash: Bash, branches: Path
) -> None:
    """Other files are written; a log that quotes such an error is none."""
    text = (await bash("git checkout -b third && git merge other")).text
    shown = (
        await bash("cat .git/HEAD; echo \"error: unable to unlink old 'x': Read-only file system\"")
    ).text

    assert "and stopped half-way: put back" in text.splitlines()[-1]
    assert "blocked" not in shown


async def test_row_of_commits_that_stops_half_way_works_once_it_is_taken_back(
    bash: Bash, branches: Path
) -> None:
    """Git refuses to begin another one while it is in progress."""
    git(branches, "checkout", "--quiet", "-b", "row")
    (branches / "first.txt").touch()
    git(branches, "add", "first.txt")
    git(branches, "commit", "--quiet", "--message", "first")
    git(branches, "cherry-pick", "other")
    git(branches, "checkout", "--quiet", "main")

    text = (await bash("git -c user.name=T -c user.email=t@example.com cherry-pick main..row")).text
    await bash("git checkout HEAD -- kept.txt; rm .new.txt; git cherry-pick --abort")

    assert "then --abort what it shows in progress" in text.splitlines()[-1]
    git(branches, "cherry-pick", "main..row")


async def test_denial_is_named_where_a_pipe_hides_the_exit_code(bash: Bash) -> None:
    """As `pip install x | tail` does: the model would look for the fault in the package."""
    text = (await bash("git ls-remote https://example.invalid 2>&1 | tail -3")).text

    assert "[exit 0" in text
    assert text.splitlines()[-1].startswith("blocked by the sandbox: network; call again with")
    assert "blocked" not in (await bash("echo 'a.log: curl: (6) Could not resolve host: x'")).text


async def test_read_only_workspace_is_not_blamed_on_the_sandbox(
    bash: Bash, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a mounted image: without the sandbox nothing can be written there either."""
    root, access = bash.place.root, os.access
    monkeypatch.setattr(os, "access", lambda path, mode: path != root and access(path, mode))

    text = (await bash("echo 'x: Read-only file system' >&2; exit 1")).text

    assert text.splitlines()[-1] == f"{root} is read-only here, with and without the sandbox"
    assert "unsandboxed" not in text


async def test_unsandboxed_command_needs_approval_and_then_runs_unconfined(bash: Bash) -> None:
    """Threat 19: no rule and no mode replaces this approval."""
    ask = bash.tool.require_approval
    assert callable(ask)
    for given, required in (({}, False), ({"unsandboxed": True}, True)):
        approval = ask(check_input(bash.tool, {"command": "true", **given}))
        assert isinstance(approval, Approval)
        assert approval.required is required

    assert CANARY in (await bash("cat ~/.ssh/id_ed25519", unsandboxed=True)).text
    assert CANARY not in (await bash("cat ~/.ssh/id_ed25519")).text


async def test_command_can_print_after_sigterm_at_its_timeout(
    bash: Bash, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The signal goes to the command, not to the processes that hold its namespace."""
    monkeypatch.setattr(processes, "GRACE_S", LIMIT_S)  # its last line, on a busy machine too
    command = "trap 'echo was at 42; exit' TERM; echo up; while :; do sleep 0.05; done"

    result = await at_growing_limits(
        lambda limit_s: bash(command, timeout=limit_s), lambda result: "\nup\n" in result.text
    )

    assert result.is_error
    assert "was at 42" in result.text


async def test_each_end_of_a_command_names_the_hosts_it_reached(bash: Bash) -> None:
    """Also one at the limit, and one by the user: what it sent by then is on record."""
    bash.workspace.shared.network = Network()

    done = await bash("echo $HTTPS_PROXY")
    late = await bash("sleep 62.5", timeout=0.2)
    shown: list[str] = []
    params = check_input(bash.tool, {"command": "echo up; sleep 63.5"})
    context = ToolContext(update=lambda partial: shown.append(partial.text))
    stopping = asyncio.ensure_future(bash.tool.execute("1", params, bash.cancel, context))
    await until(lambda: shown)
    bash.cancel.cancel()
    with pytest.raises(ToolError) as stop:
        await stopping

    assert done.text.startswith("there\n[exit 0")
    assert [each.text.splitlines()[-1] for each in (done, late)] == [*Network().close()] * 2
    assert str(stop.value).splitlines()[-1] == "network: reached pypi.org"


async def test_command_runs_without_a_network_where_a_rule_hides_what_opens_it(bash: Bash) -> None:
    hidden = Network()
    hidden.prefix = (str(bash.place.root / ".env"),)
    bash.workspace.shared.network = hidden

    assert (await bash("echo ${HTTPS_PROXY-none}")).text.startswith("none\n[exit 0")


async def test_command_that_ignores_sigterm_is_killed_at_its_timeout(bash: Bash) -> None:
    started_s = unstalled_s()

    await bash("trap '' TERM; sleep 61.5 & sleep 61.5; sleep 61.5", timeout=0.2)

    assert unstalled_s() - started_s < 5
    await until(lambda: not processes_named("61.5"))


async def test_cancelling_ends_the_command_and_its_daemons(bash: Bash) -> None:
    async with asyncio.TaskGroup() as group:
        call = group.create_task(_stopped(bash, "touch up; setsid sleep 62.5 & sleep 62.5"))
        await until((bash.place.root / "up").exists)
        bash.cancel.cancel()
        await call

    await until(lambda: not processes_named("62.5"))
    assert not (bash.place.root / ".mcp.json").exists()


async def _stopped(bash: Bash, command: str) -> None:
    # A command may have begun before its start was confirmed; then there is no report.
    with pytest.raises((Aborted, ToolError)):
        await bash(command)


async def test_daemon_left_by_a_command_ends_with_the_command(bash: Bash) -> None:
    """Threat 15: setsid leaves the process group, but not the namespace."""
    result = await bash("setsid sleep 63.5 >/dev/null 2>&1 & disown; echo left")

    assert result.text.startswith("left\n[exit 0 · ")
    await until(lambda: not processes_named("63.5"))


async def test_daemon_in_landlock_ends_with_its_command(in_landlock: World) -> None:
    """Threat 15: Landlock cannot keep a process in its group."""
    bash = Bash(in_landlock)

    result = await bash("setsid sleep 67.5 >/dev/null 2>&1 & disown; echo left; exit 3")

    assert result.text.startswith("left\n[exit 3 · ")
    await until(lambda: not processes_named("67.5"))
    assert (await bash("cat /proc/self/oom_score_adj")).text.startswith("1000\n")


async def test_repository_can_be_cloned_into_an_empty_workspace(bash: Bash, tmp_path: Path) -> None:
    """Scaffolders need an empty folder too; files that make programs run code are moved away."""
    source = bash.place.base / "source"
    source.mkdir()
    git(source, "init", "--quiet")
    (source / ".vscode").mkdir()
    (source / ".vscode" / "settings.json").write_text("{}")
    (source / "code").write_text("x")
    git(source, "add", ".")
    git(source, "commit", "--quiet", "--message", "one")
    for path in bash.place.root.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()

    result = await bash(f"ls -A; git clone -q {source} . && git status --short && : .vscode")

    assert "[exit 0" in result.text, result.text
    assert sorted(path.name for path in bash.place.root.iterdir()) == [".git", "code"]
    assert ".vscode makes other programs run commands, so it was moved to" in result.text


async def test_processes_ended_with_the_command_are_reported(
    bash: Bash, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the model would believe that a server started with & still runs."""
    sleeps = "until grep -q sleep /proc/$one/comm && grep -q sleep /proc/$!/comm; do :; done"

    result = await bash(f"sleep 68.5 & one=$!; (exec -a x sleep 68.5) & {sleeps}; echo started")

    assert result.text.splitlines()[-1] == (
        "sleep, sleep were stopped when the command ended;"
        " call with background=true for a program that is to go on"
    )
    await until(lambda: not processes_named("68.5"))
    # A busy machine may need longer for what ends by itself.
    patient = command_line._NESTED.replace("sleep 0.05", "sleep 1")
    monkeypatch.setattr(command_line, "_NESTED", patient)
    quiet = await bash("sleep 0.02 & seq 3 > >(cat >/dev/null); exit 3")
    assert quiet.text.splitlines()[-1].startswith("[exit 3 · "), quiet.text


async def test_background_command_runs_until_the_workspace_closes(bash: Bash) -> None:
    result = await bash("echo up; exec sleep 64.5", background=True)
    assert result.text.startswith("Started as job 1. ")
    await until(lambda: processes_named("64.5"))

    bash.workspace.close()

    await until(lambda: not processes_named("64.5"))
    assert not (bash.place.root / ".mcp.json").exists()


async def test_later_call_can_kill_a_background_command_by_its_job_number(bash: Bash) -> None:
    """Each sandbox has its own processes: a process id of one means nothing in another."""
    result = await bash("echo up; setsid sleep 66.5 & sleep 66.5", background=True)
    assert isinstance(result.details, dict)
    log = Path(str(result.details["spill"]))
    await until(lambda: log.read_text() == "up\n")

    assert (await bash("true; kill %1")).text.count("no such job") == 1
    assert processes_named("66.5")
    assert (await bash("kill %1")).text.endswith("has ended.")

    await until(lambda: not processes_named("66.5"))
    assert "no such job" in (await bash("kill %1")).text


async def test_command_has_the_highest_oom_score(bash: Bash) -> None:
    """Threat 15: memory use cannot be prevented, but the kernel kills the command first."""
    assert (await bash("cat /proc/self/oom_score_adj")).text.startswith("1000\n")
    assert Path("/proc/self/oom_score_adj").read_text() != "1000\n"


async def test_hundred_daemons_of_a_command_end_at_its_timeout(bash: Bash) -> None:
    """Threat 15: daemons that ignore every request to end."""
    storm = (
        "for i in $(seq 100); do setsid sh -c \"trap '' TERM HUP; touch s$i; sleep 65.5\" & done;"
        " wait; sleep 65.5"
    )

    result = await at_growing_limits(
        lambda limit_s: bash(storm, timeout=limit_s),
        lambda _result: list(bash.place.root.glob("s*")),
    )

    assert result.is_error
    await until(lambda: not processes_named("65.5"))


@pytest.mark.skipif(os.geteuid() == 0, reason="the kernel exempts root from this limit")
async def test_number_of_processes_of_a_command_is_limited(bash: Bash) -> None:
    """Threat 15: counted in the namespace alone, so that other processes are not limited."""
    assert (await bash("ulimit -u")).text.startswith("4096\n")


async def test_variables_of_a_hook_reach_the_command_and_not_the_shell_around_it(
    place: World,
) -> None:
    """`OPTIND=x` would end a /bin/sh that exports it."""
    text = 'printf "%s|" "$A"; ulimit -u; exit 7'
    line = await line_in(place, text, exports=("A=b  c$x", "OPTIND=x", "IFS=/"))

    code, output = await ended(line)

    assert (code, output.text()) == (7, "b  c$x|4096\n")


async def test_command_that_floods_its_output_is_killed(place: World) -> None:
    """Threat 14: memory and disk use are bounded; nothing is read during the kill."""
    line = await line_in(place, "yes", output_bytes_max=3_000_000)

    code, output = await ended(line)

    assert code == 137
    assert 3_000_000 < output.total_bytes <= 3_000_000 + READ_BYTES_MAX


async def line_in(place: World, text: str, **given: Any) -> CommandLine:
    """Return the line that runs *text* in the sandbox of *place*."""
    bash = shutil.which("bash")
    confinement = await place.sandbox.confine(place.root)
    assert bash is not None
    assert confinement is not None
    return CommandLine(text, Path(bash), place.root, command_environment(), confinement, **given)


async def ended(line: CommandLine) -> tuple[int, OutputBuffer]:
    """Run *line*; return its exit code and output."""
    output = OutputBuffer(SessionResources().open_spill)
    launcher = Launcher()
    command = await start(launcher, line, output)
    code = await command.wait()
    await command.drain()
    command.close()
    launcher.close()
    return code, output


async def test_python_modules_in_the_workspace_are_not_imported(bash: Bash) -> None:
    """Threat 12: no helper of a command is a Python process, which would import them."""
    (bash.place.root / "json.py").write_text("open('CANARY', 'w')")
    (bash.place.root / "sitecustomize.py").write_text("open('CANARY', 'w')")

    await bash("true")

    assert not (bash.place.root / "CANARY").exists()


async def test_bash_tool_starts_no_program_of_the_workspace(
    bash: Bash, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Threat 13: the repository's programs are first on PATH."""
    folder = bash.place.root / "bin"
    folder.mkdir()
    for name in ("bash", "bwrap", "true", "sh"):
        (folder / name).write_text(f"#!/bin/sh\necho {name} >> {bash.place.root}/CANARY\n")
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")

    await bash("echo fine")

    assert not (bash.place.root / "CANARY").exists()


async def test_required_mode_refuses_commands_without_a_sandbox(tmp_path: Path) -> None:
    policy = SandboxPolicy((tmp_path,), home=tmp_path, own=(), is_secret=lambda _path: False)
    sandbox = Sandbox(
        lambda: policy, mode="required", state_dir=tmp_path / "state", find=lambda *_own_files: ()
    )
    tool = bash_tool(Workspace(tmp_path), sandbox)

    with pytest.raises(ToolError, match=r"No command can run: sandbox\.mode is .required"):
        params = check_input(tool, {"command": "touch ran"})
        await tool.execute("1", params, CancelToken(), ToolContext())

    assert not (tmp_path / "ran").exists()


async def test_landlock_restores_and_reports_changed_git_hooks(
    in_landlock: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(in_landlock.home))
    bash = Bash(in_landlock)

    text = (await bash("echo evil > .git/hooks/pre-commit; cat ~/.ssh/id_ed25519")).text
    bash.workspace.close()

    assert "hooks was changed, and was put back" in text
    assert CANARY not in text
    assert not (in_landlock.root / ".git" / "hooks" / "pre-commit").exists()


async def test_sandboxed_commands_leak_no_file_descriptor(bash: Bash) -> None:
    """A session runs thousands of commands."""
    await bash("true")
    before = open_descriptors()

    for _ in range(3):
        await bash("seq 1000")
    with pytest.raises(ToolError):
        await bash("#" * 200_000)
    await asyncio.sleep(0)

    assert open_descriptors() <= before


def test_with_permissions_allow_only_sandboxed_bash_can_require_approval(place: World) -> None:
    tools = builtin_tools(Workspace(place.root), place.sandbox, permissions="allow")

    assert [tool.name for tool in tools if tool.require_approval] == ["bash"]


def processes_named(words: str) -> list[str]:
    """Return the command lines of all processes that contain *words*."""
    found: list[str] = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if f"sleep {words}" in line:
            found.append(line)
    return found
