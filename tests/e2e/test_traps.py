"""No program we start is looked up in the workspace, whatever the current directory."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.e2e.program import (
    AGENT_CLI,
    KEY,
    agent_cli,
    environment,
    in_terminal,
    new_agent_cli,
    results_in,
    text_of,
)
from tests.forked import start
from tests.messages_api import reply, serve_in_thread, tool_use

COMMANDS = (
    ("--version",),
    ("--help",),
    # Looked at closer below, where strace is there.
    *([] if shutil.which("strace") else [("doctor",)]),
    ("config", "show", "--origin"),
    ("trust",),
    ("sessions", "list"),
    ("permissions", "explain", "bash", "git status"),
    ("permissions", "explain", "grep", "."),
    ("mcp", "list"),
    ("demo",),
)
# In one new interpreter, where what each command imports is imported for the first time.
ONE_BY_ONE = """
import json, os, sys
from pathlib import Path
from agent_cli.cli.main import run
from agent_cli.system import programs

path, marks, codes, started = os.environ["PATH"], Path("marks"), {}, {}
for words in json.loads(sys.argv[1]):
    os.environ["PATH"], programs._USERS.path = path, None
    try:
        code = run(words)
    except SystemExit as end:
        code = end.code
    codes[" ".join(words)] = code
    if marks.exists():
        started[" ".join(words)] = marks.read_text().split("\\n")
        marks.unlink()
Path(sys.argv[2]).write_text(json.dumps([codes, started]))
"""


@pytest.fixture(scope="module")
def trapped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a repository with a trap for every program of this machine, in thousands of links."""
    root = tmp_path_factory.mktemp("trapped")
    trap = root / "trap"
    trap.write_text(f'#!/bin/sh\necho "$0" >> "{root}/marks"\nexit 1\n')
    trap.chmod(0o755)
    # Before the test's environment is made: a hook of git names its own repository there.
    own = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    subprocess.run(["git", "init", "-q", root], env=own, check=True)
    names = {
        name
        for folder in ("/usr/bin", "/bin", "/usr/sbin", "/sbin", str(Path(AGENT_CLI).parent))
        if Path(folder).is_dir()
        for name in os.listdir(folder)  # noqa: PTH208 - names are all that is wanted
    }
    names |= {"rg", "bwrap", "uname", "file", "xdg-open", "tmux", "xclip", "ldconfig", "gcc", "ps"}
    for folder in (root, root / "bin"):
        folder.mkdir(exist_ok=True)
        for name in names:
            if not (folder / name).exists():
                (folder / name).hardlink_to(trap)  # in a tenth of the time of a symlink
    return root


@pytest.fixture
def traps(trapped: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in the folder of traps; return their log."""
    monkeypatch.chdir(trapped)
    marks = trapped / "marks"
    marks.unlink(missing_ok=True)
    return marks


def sprung(marks: Path) -> list[str]:
    return sorted(set(marks.read_text().splitlines())) if marks.exists() else []


def test_no_command_runs_a_program_of_the_working_directory(traps: Path, tmp_path: Path) -> None:
    """Threat 13: PATH begins with ., an empty entry and a folder of the repository."""
    # Started by its full path, with a full interpreter path: only the programs it starts count.
    search_path = f".::{Path('bin').resolve()}:{os.environ['PATH']}"
    script, report = tmp_path / "one_by_one.py", tmp_path / "report.json"
    script.write_text(ONE_BY_ONE)
    arguments = (json.dumps(COMMANDS), str(report))

    with (
        serve_in_thread(reply("ok")) as api,
        start(
            *(str(script), *arguments),
            environment=environment(api, {"PATH": search_path}),
            fresh=True,
        ) as program,
    ):
        _, complaints = program.communicate()

    assert program.returncode == 0, complaints
    codes, started = json.loads(report.read_text())
    assert started == {}
    # In its sandbox a trap can leave no mark, but then its tests fail.
    assert len(codes) == len(COMMANDS)
    assert codes["demo"] == 0


def test_run_with_tools_runs_no_program_of_the_workspace(traps: Path) -> None:
    """Threat 13: this includes searches, the sandbox and programs that the API's library starts.

    A new interpreter has nothing to say about it, either.
    """
    search_path = f".:{Path('bin').resolve()}:{os.environ['PATH']}"

    with serve_in_thread(
        reply(tool_use("grep", {"pattern": "x"})),
        reply(tool_use("glob", {"pattern": "*.py"})),
        reply("Done."),
    ) as api:
        ran = new_agent_cli("-p", "look", api=api, PATH=search_path)

    assert (ran.stdout, ran.stderr) == ("Done.\n", "")
    assert sprung(traps) == []


def test_bash_command_finds_programs_on_the_users_path(traps: Path) -> None:
    """Users with a folder of the repository in PATH want its programs in their own commands."""
    Path("own").mkdir()
    Path("own/greet").write_text("#!/bin/sh\necho hello\n")
    Path("own/greet").chmod(0o755)

    with serve_in_thread(
        reply(tool_use("bash", {"command": "greet > said.txt"})), reply("Done.")
    ) as api:
        agent_cli(
            *("-p", "greet", "--permission-mode", "yolo"),
            api=api,
            PATH=f"{Path('own').resolve()}:{os.environ['PATH']}",
        )

    assert Path("said.txt").read_text() == "hello\n"
    assert sprung(traps) == []


@pytest.mark.skipif(not shutil.which("strace"), reason="needs strace")
def test_strace_sees_no_program_of_the_working_directory(traps: Path, tmp_path: Path) -> None:
    """An attempt is as bad as a start: tomorrow the file may exist."""
    log = tmp_path / "strace.log"
    search_path = f".:{Path('bin').resolve()}:{os.environ['PATH']}"
    here = str(Path.cwd())

    subprocess.run(
        ["/usr/bin/strace", "-f", "-qq", "-e", "trace=execve", "-o", str(log), AGENT_CLI, "doctor"],
        env={
            **os.environ,
            "PATH": search_path,
            "ANTHROPIC_API_KEY": KEY,
            "ANTHROPIC_BASE_URL": "http://127.0.0.1:9",
        },
        capture_output=True,
        timeout=120,
        check=False,
    )

    calls = [line for line in log.read_text().splitlines() if 'execve("' in line]
    started = [line.partition('execve("')[2].partition('"')[0] for line in calls]
    assert [each for each in started if each.startswith((here, ".")) or "/" not in each] == []
    assert AGENT_CLI in started
    assert sprung(traps) == []


def test_session_goes_on_when_the_current_directory_is_deleted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each prompt ended in a FileNotFoundError, because none of its programs is looked up there."""
    here = Path("here").absolute()
    here.mkdir()
    monkeypatch.chdir(here)
    listing = tool_use("bash", {"command": "ls"})
    with serve_in_thread(reply(listing), reply("It is gone.")) as api, in_terminal(api) as it:
        it.send('!rm -r "$PWD"\r')
        it.until(lambda: not here.exists())
        it.send("list\r")
        it.until("It is gone.")
        it.until_prompt()
        it.send("/search gone\r")
        it.until("type to filter")

        [result] = results_in(api.requests[-1].body)
        assert "could not be started: [Errno 2] No such file or directory" in text_of(result)
        assert "FileNotFoundError" not in it.text
