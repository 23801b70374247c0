"""Commands that take over the terminal, detected by their words and run on a real one."""

import os
import signal
import sys
from pathlib import Path

import pytest

from agent_cli.repl.own_commands import needs_terminal
from tests.e2e.program import processes_with
from tests.repl.terminal import SCRIPTED, NewTerminal, Terminal
from tests.repl.test_repl import sent
from tests.tables import each_row
from tests.waiting import wait_until

CTRL_C, CTRL_Z = "\x03", "\x1a"
INSTALLED_SHELLS = [
    shell
    for shell in ("/bin/bash", "/bin/sh", "/usr/bin/zsh", "/usr/bin/fish")
    if Path(shell).exists()
]
# Reports whether it has the terminal, reads a line at a time, and ends with 3 at `q`.
PROGRAM = f"""#!{sys.executable} -IS
import os, select, signal, sys
signal.signal(signal.SIGINT, lambda *_: os.write(1, b"SIGINT\\n"))
signal.signal(signal.SIGCONT, lambda *_: os.write(1, b"goes on\\n"))
if os.isatty(0) and os.isatty(1):
    print("on the whole screen", flush=True)
while True:
    # A signal just before the wait has its handler run after it, so none waits for long.
    if select.select([0], [], [], 1)[0]:
        line = os.read(0, 100).decode()
        if line in ("", "q\\n"):
            sys.exit(3 if line else 0)
        print("line", line, flush=True)
"""


@each_row(
    "command",
    [
        "vim",
        "/usr/bin/vim a.txt",
        "cd src && EDITOR=x command less a",
        "git log | less",
        "cat a; top",
        "sudo ls | cat",
        "git commit",
        "git commit --amend",
        "git -P rebase -i HEAD~3",
        "git add -p",
        "crontab -e",
        "python3",
        "env A=1 bash",
        "my-editor a.txt",
    ],
)
def test_full_screen_program_is_detected_by_its_command(command: str) -> None:
    """This includes the user's own editor, and programs that ask for a password."""
    assert needs_terminal(command, {"EDITOR": "/opt/my-editor --wait"})


@each_row(
    "command",
    [
        "ls",
        "echo vim",
        "man ls | grep -c a",
        "less a > b",
        "git log",
        "git commit -am 'vim'",
        "git commit --amend --no-edit",
        "git rebase main",
        "python3 less.py",
        "bash -c top.sh",
        "grep 'a | less",
        "&& ;",
        "",
    ],
)
def test_ordinary_command_is_not_taken_for_a_full_screen_program(command: str) -> None:
    """Its output is shown between the other rows, and offered to the model."""
    assert not needs_terminal(command, {})


@pytest.mark.parametrize("shell", INSTALLED_SHELLS)
def test_a_full_screen_program_has_the_terminal_until_it_ends(shell: str) -> None:
    """It gets keys and Ctrl-C; its exit code is shown and reported, and the draft returns."""
    with Terminal(PATH=f"{installed('vim')}:/usr/bin:/bin", SHELL=shell) as terminal:
        terminal.until_loaded()
        terminal.send("!vim a.txt\r")
        terminal.until("on the whole screen")
        terminal.send("x\r")
        terminal.until("line x")
        terminal.send(CTRL_C)
        terminal.until("SIGINT")
        terminal.send("q\r")
        terminal.until("[vim a.txt: exit code 3]")
        terminal.until_prompt()
        terminal.send("so\r")
        terminal.until("You said")

        assert "Ctrl-C again" not in terminal.text
        assert "interrupted" not in terminal.text
    note = "[on the terminal, output not recorded; exit code 3]"
    assert sent() == [f"I ran this command:\n$ vim a.txt\n{note}\n\nso"]


@pytest.mark.parametrize("shell", INSTALLED_SHELLS)
def test_ctrl_c_ends_a_program_that_does_not_handle_it(shell: str) -> None:
    """The rest of the line does not run, as in any shell."""
    with Terminal(PATH=f"{installed('vim')}:/usr/bin:/bin", SHELL=shell) as terminal:
        terminal.until_loaded()
        terminal.send("!sh -c 'echo up; exec sleep 300'; echo later; false && vim\r")
        terminal.until("\nup")
        terminal.send(CTRL_C)
        terminal.until("&& vim: exit code 130]")
        terminal.until_prompt()

        assert "\nlater" not in terminal.text


def test_ctrl_z_suspends_the_full_screen_program_and_agent_cli() -> None:
    """`fg` continues the program, as with any job."""
    programs = installed("vim")
    with NewTerminal(
        "/bin/bash", "--norc", "-i", PATH=f"{programs}:/usr/bin:/bin", PS1="shell> "
    ) as terminal:
        terminal.until("shell>")
        terminal.send(f"{sys.executable} {SCRIPTED} repl\r")
        terminal.until_loaded()
        terminal.send("!vim\r")
        terminal.until("on the whole screen")
        terminal.send(CTRL_Z)
        terminal.until("Stopped")
        terminal.until(lambda: terminal.last_row == "shell>")
        # Until it has stopped, the line it waits for is the next one typed, also to the shell.
        terminal.until(lambda: is_stopped(f"{programs}/vim"))
        terminal.send("fg\r")
        terminal.until("goes on")
        terminal.send("q\r")
        terminal.until("[vim: exit code 3]")
        terminal.until_prompt()
        terminal.send("exit\r")
        terminal.until(lambda: terminal.last_row == "shell>")


@pytest.mark.parametrize("is_killed", [True, False])
def test_program_on_the_terminal_ends_when_agent_cli_is_killed_or_the_window_closed(
    is_killed: bool,
) -> None:
    """Even if it ignores hang-ups, and is not the shell that runs the line."""
    mark = f"{Path.cwd().name}-mark"
    variables = {"PATH": f"{installed('vim')}:/usr/bin:/bin", "HANG_UP_GRACE_S": "0.05"}
    with NewTerminal("/bin/bash", "--norc", "-i", PS1="shell> ", **variables) as terminal:
        terminal.until("shell>")
        terminal.send(f"{sys.executable} {SCRIPTED} repl\r")
        terminal.until("logs: agent.log")
        terminal.until_prompt()
        terminal.send(f'!sh -c \'trap "" HUP; echo u""p; sleep 600; : {mark}\'; vim\r')
        terminal.until(lambda: terminal.text.endswith("\nup"))
        if is_killed:
            shell = terminal.child.pid
            [program] = Path(f"/proc/{shell}/task/{shell}/children").read_text().split()
            os.kill(int(program), signal.SIGKILL)
            terminal.until(lambda: not processes_with(mark))
    wait_until(lambda: not processes_with(mark), "it ends")


def is_stopped(name: str) -> bool:
    """Return whether the process that has *name* in its command line is stopped."""
    [process] = processes_with(name)
    stat = Path(f"/proc/{process.partition(':')[0]}/stat").read_text()
    return stat.rpartition(")")[2].split()[0] == "T"


def installed(name: str) -> Path:
    """Create a program and return its folder."""
    programs = Path("programs").absolute()
    programs.mkdir()
    (programs / name).write_text(PROGRAM)
    (programs / name).chmod(0o755)
    return programs
