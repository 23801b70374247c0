"""Shell completion: real shells run the scripts and the program that the scripts ask."""

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import get_args

import pytest

from agent_cli.app.option_table import COMMANDS, OPTIONS
from agent_cli.contracts.messages import UserMessage
from agent_cli.contracts.options import ThinkingLevel
from agent_cli.core.conversation import Conversation
from agent_cli.session_store import SessionStore
from agent_cli.system.paths import sessions_dir
from tests.e2e.program import AGENT_CLI, agent_cli
from tests.forked import arguments_of
from tests.repl.terminal import NewTerminal, Terminal

SHELLS = ("bash", "zsh", "fish")


@pytest.fixture
def script() -> str:
    return agent_cli("completion", "bash").stdout


def search_path() -> str:
    """Return a PATH on which `agent-cli` is this program."""
    folder = Path("bin").absolute()
    folder.mkdir(exist_ok=True)
    program = folder / "agent-cli"
    started = shlex.join([sys.executable, *arguments_of(AGENT_CLI)])
    program.write_text(f'#!/bin/sh\nexec {started} "$@"\n')
    program.chmod(0o700)
    return f"{folder}{os.pathsep}{os.environ['PATH']}"


def _typed_shows(terminal: Terminal, lines: Mapping[str, str]) -> None:
    """Type the keys one after the other; each time the row with the prompt must be as given."""
    for keys, shown in {"": "ready>", **lines}.items():
        terminal.send(keys)
        terminal.until(partial(_shows, terminal, shown))


def _shows(terminal: Terminal, row: str) -> bool:
    return terminal.last_row == row


def _answer_of(*shell: str) -> str:
    """Run a shell that finds this program; return its output, and expect no complaint."""
    run = subprocess.run(
        shell,
        env={**os.environ, "PATH": search_path()},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert run.stderr == ""
    return run.stdout


def completed(script: str, *words: str) -> Sequence[str]:
    """Return bash's completions for the last of *words*, without the program's name."""
    typed = " ".join(map(shlex.quote, ("agent-cli", *words)))
    asked = (
        f"{script}\nCOMP_WORDS=({typed}); COMP_CWORD={len(words)}; _agent_cli\n"
        '[ "${#COMPREPLY[@]}" = 0 ] || printf "%s\\n" "${COMPREPLY[@]}"'
    )
    return _answer_of("bash", "--norc", "-u", "-c", asked).split()


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
def test_bash_completes_commands_options_and_their_values(script: str) -> None:
    """The script is made from the table of the command line parser, so nothing is missing."""
    first = {name.split()[0] for name in COMMANDS}

    assert set(completed(script, "")) == first
    assert completed(script, "se") == ["sessions"]
    assert completed(script, "--vi", "sessions", "ex") == ["export"]
    assert completed(script, "sessions", "export", "x", "m") == ["md"]
    assert completed(script, "--eff") == ["--effort"]
    assert completed(script, "--effort", "h") == ["high"]
    assert completed(script, "--effort", "=", "xh") == ["xhigh"]
    modes = ["ask", "auto-edit", "auto", "plan", "yolo"]
    assert completed(script, "--permission-mode", "=") == modes
    assert completed(script, "--permission-mode=y") == ["--permission-mode=yolo"]
    assert completed(script, "mcp", "exe") == ["exercise"]
    assert completed(script, "completion", "") == ["bash", "zsh", "fish"]
    # Options with a value are no commands.
    assert completed(script, "--model", "sessions", "do") == ["doctor"]
    # File names are left to the shell.
    assert completed(script, "--settings", "") == []


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
def test_tab_completes_in_an_interactive_bash(script: str) -> None:
    """It is set up as in docs/install.md; readline splits words at "="."""
    conversation = Conversation()
    session = SessionStore(sessions_dir()).create(conversation, Path.cwd())
    conversation.publish = session.record
    conversation.begin(UserMessage.of("Hello"))
    session.close()
    Path("bashrc").write_text(f"{script}\nPS1='ready> '\nbind 'set bell-style none'\n")
    Path("notes.toml").touch()
    bash = ("bash", "--noprofile", "--rcfile", "bashrc", "-i")
    lines = {
        "agent-cli sess\t": "ready> agent-cli sessions",
        "ex\t": "ready> agent-cli sessions export",
        f"{session.id[:4]}\t": f"ready> agent-cli sessions export {session.id}",
        "\x15agent-cli --permission-mode=y\t": "ready> agent-cli --permission-mode=yolo",
        "\x15agent-cli --settings not\t": "ready> agent-cli --settings notes.toml",
    }
    with NewTerminal(*bash, PATH=search_path(), TERM="xterm", INPUTRC="/dev/null") as terminal:
        _typed_shows(terminal, lines)


@pytest.mark.skipif(shutil.which("zsh") is None, reason="no zsh: install it to test its completion")
def test_tab_completes_in_an_interactive_zsh(tmp_path: Path) -> None:
    """It is set up with bashcompinit, as in docs/install.md."""
    rc = "PS1='ready> '\nunsetopt PROMPT_SP\nsource <(agent-cli completion zsh)\n"
    (tmp_path / ".zshrc").write_text(rc)
    Path("notes.toml").touch()
    lines = {
        "agent-cli sess\t": "ready> agent-cli sessions",
        "ex\t": "ready> agent-cli sessions export",
        "\x15agent-cli --permission-mode=y\t": "ready> agent-cli --permission-mode=yolo",
        "\x15agent-cli --settings not\t": "ready> agent-cli --settings notes.toml",
    }
    where = {"PATH": search_path(), "ZDOTDIR": str(tmp_path), "TERM": "xterm"}
    with NewTerminal("zsh", "-i", **where) as terminal:
        _typed_shows(terminal, lines)


@pytest.mark.skipif(
    shutil.which("fish") is None, reason="no fish: install it to test its completion"
)
def test_fish_completes_commands_options_and_their_values() -> None:
    """fish itself lists what Tab would offer."""
    Path("agent-cli.fish").write_text(agent_cli("completion", "fish").stdout)
    Path("notes.toml").touch()
    offered = {
        "sess": ["sessions"],
        "sessions ex": ["export"],
        "sessions export x m": ["md"],
        "--effort h": ["high"],
        "--permission-mode=y": ["--permission-mode=yolo"],
        "--settings not": ["notes.toml"],
        "trust --rev": ["--revoke"],
        "--rev": [],
    }
    asked = "; ".join(f"complete -C 'agent-cli {typed}'; echo ." for typed in offered)

    said = _answer_of("fish", "--no-config", "-c", f"source agent-cli.fish; {asked}")

    answers = said.removesuffix(".\n").split(".\n")
    assert [answer.split() for answer in answers] == [*offered.values()]


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
def test_bash_offers_a_commands_own_switches_only_after_the_command(script: str) -> None:
    """`--revoke` means something for `trust` only."""
    assert completed(script, "trust", "--re") == [
        *(
            "--revoke",
            "--require-check",
            "--retries",
            "--retry-failed",
            "--resume",
            "--record",
            "--replay",
        ),
        "--require-tools",
    ]
    assert completed(script, "--rev") == []
    assert completed(script, "sessions", "list", "--js") == ["--json", "--json-schema"]


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
def test_bash_completes_the_ids_of_current_sessions(script: str) -> None:
    """They are listed when the key is pressed, so sessions newer than the script are included."""
    assert completed(script, "--resume", "") == []
    conversation = Conversation()
    session = SessionStore(sessions_dir()).create(conversation, Path.cwd())
    conversation.publish = session.record
    conversation.begin(UserMessage.of("hello"))
    session.close()

    assert completed(script, "-r", session.id[:4]) == [session.id]
    assert completed(script, "sessions", "show", "") == [session.id]
    assert completed(script, "sessions", "delete", "x", "y", session.id[:4]) == [session.id]
    assert completed(script, "sessions", "delete", "x", "--y") == ["--yes"]
    assert completed(script, "--resume", "--vi", "sessions", "show", "") == [session.id]
    assert "opus" in " ".join(completed(script, "--model", ""))


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
def test_completion_never_runs_a_model_name_as_shell_code(script: str) -> None:
    """Threat 10: bash expands the words it completes, and a project may name models."""
    Path("appsettings.toml").write_text('[models]\n"$(touch${IFS}ran)" = "x"\nmine = "y"\n')
    agent_cli("trust")

    offered = completed(script, "--model", "")

    assert "mine" in offered
    assert [word for word in offered if "$" in word] == []
    assert not Path("ran").exists()


@pytest.mark.parametrize("shell", SHELLS)
def test_each_shells_script_names_every_option_and_command(shell: str) -> None:
    """If the shell is installed, it also parses the script without errors."""
    printed = agent_cli("completion", shell)

    names = [name[2:] for name in OPTIONS] + [word for name in COMMANDS for word in name.split()]
    assert (printed.code, printed.stderr) == (0, "")
    assert [name for name in names if name not in printed.stdout] == []
    if program := shutil.which(shell):
        read = subprocess.run(
            [program, "-n"], input=printed.stdout, capture_output=True, text=True, timeout=60
        )
        assert (read.returncode, read.stderr) == (0, "")


def test_completed_effort_levels_match_the_settings() -> None:
    """The table is read before the settings' schema is imported, so it repeats them."""
    assert OPTIONS["--effort"].values.split() == [*get_args(ThinkingLevel)]


def test_completion_for_an_unknown_shell_is_refused() -> None:
    """The message lists the supported shells."""
    refused = agent_cli("completion", "tcsh")

    assert (refused.code, refused.stdout) == (2, "")
    assert "there is no completion for 'tcsh': bash, zsh or fish" in refused.stderr
