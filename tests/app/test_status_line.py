"""The status line: the user's own program for the line below the prompt, in the whole program."""

import json
import textwrap
import time
from pathlib import Path

import pytest

from agent_cli.app.arguments import parse_arguments
from agent_cli.app.startup import start
from agent_cli.app.status_line import status_line
from agent_cli.system import paths
from tests.e2e.program import AGENT_CLI, agent_cli, environment, long_sleep, processes_with
from tests.messages_api import error, reply, serve_in_thread, tool_use
from tests.repl.terminal import Terminal
from tests.waiting import wait_until

YOLO = ("--permission-mode", "yolo")


def settings(command: str, more: str = "") -> None:
    """Set the command in the user's file."""
    path = paths.user_settings_file()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"[status_line]\ncommand = {json.dumps(command)}\n{more}")


async def line_of(command: str, more: str = "", *arguments: str) -> str:
    """Return the line that the command prints here."""
    settings(command, more)
    made = status_line(start(parse_arguments(arguments), may_ask=False))
    assert made is not None
    return await made.run({"session_id": "s-1"})


def test_status_line_script_of_claude_code_works_unchanged() -> None:
    """The script gets Claude Code's names on stdin after each turn; only colours pass."""
    script = Path.home() / "status.sh"
    script.write_text(
        textwrap.dedent(
            r"""
            cat >>~/told.jsonl
            echo >>~/told.jsonl
            printf '\033[31mred\033[0m \033]0;title\007+%s \033[2Jleft%070dright\nsecond line\n' \
                "$(sed 's/.*lines_added":\([0-9]*\).*/\1/' ~/told.jsonl | tail -1)"
            """
        )
    )
    settings(f"sh {script}")
    write = tool_use("write", {"path": "new.txt", "content": "one\ntwo\n"})
    with (
        serve_in_thread(reply(write), reply("Done.")) as api,
        Terminal(AGENT_CLI, *YOLO, **environment(api, {"TERM": "xterm-256color"})) as terminal,
    ):
        terminal.until("red +0 left")
        terminal.send("go\r")
        terminal.until("red +2 left")
        shown = terminal.text
        terminal.resize(60)
        terminal.until(lambda: "000…" in terminal.text)
        narrow = terminal.text
        terminal.send("/exit\r")
        assert terminal.exit_code() == 0
        raw = terminal.bytes

    told = [json.loads(line) for line in (Path.home() / "told.jsonl").read_text().splitlines()]
    last = told[-1]
    assert "second line" not in shown
    assert "0000right" in shown
    assert "right" not in narrow
    assert b"\x1b]0;title" not in raw
    assert b"\x1b[2J" not in raw
    assert b"\x1b[0;31m" in raw
    assert told[0]["context_window"]["used_percentage"] is None
    assert last["cost"]["total_cost_usd"] > 0
    assert last["cost"]["total_api_duration_ms"] <= last["cost"]["total_duration_ms"]
    assert Path(last["transcript_path"]).stem == last["session_id"]
    assert last["workspace"] == {"current_dir": last["cwd"], "project_dir": last["cwd"]}
    assert last["cwd"] == str(Path.cwd())
    assert last["permission_mode"] == "yolo"


def test_status_line_command_gets_no_fast_mode_that_the_api_did_not_give() -> None:
    """The line below the prompt showed the usual speed; the command still got `-fast`."""
    settings('sed \'s/.*display_name":"\\([^"]*\\).*/by \\1 ./\'')
    with (
        serve_in_thread(error(429, "rate_limit_error", "limit"), reply("Hello.")) as api,
        Terminal(AGENT_CLI, "--model", "opus-fast", **environment(api, {})) as terminal,
    ):
        terminal.until("by claude-opus-5-5-fast .")
        terminal.send("hi\r")
        terminal.until("by claude-opus-5-5 .")
        terminal.send("/exit\r")
        assert terminal.exit_code() == 0


def test_slow_status_line_command_delays_neither_keys_nor_exit() -> None:
    """The command runs in the background, and ends with the program."""
    settings(f"echo started >&2; touch here; exec {long_sleep(4_711)}")
    with (
        serve_in_thread(reply("Hello.")) as api,
        Terminal(AGENT_CLI, **environment(api, {})) as terminal,
    ):
        terminal.until_prompt()
        terminal.until(lambda: Path("here").exists())
        terminal.send("hi\r")
        terminal.until("Hello.")
        terminal.send("/exit\r")
        assert terminal.exit_code() == 0

    wait_until(lambda: not processes_with(long_sleep(4_711)), "its command ends")


async def test_status_line_command_over_its_time_limit_is_killed_and_reported() -> None:
    """The limit is a setting; the next turn starts the command again."""
    began_s = time.monotonic()

    line = await line_of(long_sleep(4_711), "timeout_s = 0.1\n")

    assert line == "status line: its command took longer than 0.1 s"
    assert time.monotonic() - began_s < 60
    wait_until(lambda: not processes_with(long_sleep(4_711)), "its command ends")


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("echo no tool >&2; exit 3", "status line: its command ended with exit code 3: no tool"),
        ("exit 3", "status line: its command ended with exit code 3: 'exit 3'"),
        ("yes", "status line: its command printed more than 1 MB"),
        ("true", ""),
    ],
)
async def test_fault_of_the_status_line_command_is_shown_in_the_line(
    command: str, told: str
) -> None:
    """Nothing is printed above the prompt: the message would repeat after each turn."""
    assert await line_of(command) == told


def test_status_line_script_runs_again_at_the_refresh_interval() -> None:
    """The script may show a clock, or values that other programs change."""
    settings("echo x >>count; wc -l <count", "refresh_s = 0.3\n")
    with (
        serve_in_thread() as api,
        # The command names a file of the workspace, for all we know to run it.
        Terminal(AGENT_CLI, "--trust", **environment(api, {})) as terminal,
    ):
        terminal.until(lambda: Path("count").exists() and len(Path("count").read_text()) > 6)


def test_project_settings_cannot_set_the_status_line() -> None:
    """Trust does not change this: the command runs with all permissions of the user."""
    Path("appsettings.toml").write_text('[status_line]\ncommand = "touch pwned"\n')

    shown = agent_cli("--trust", "config", "show")

    assert "status_line.command cannot be set by a project" in shown.stderr
    assert "touch pwned" not in shown.stdout


async def test_status_line_script_in_an_untrusted_workspace_is_not_run() -> None:
    """The command is the user's, but the file is a stranger's."""
    Path("status.sh").write_text("echo owned\n")

    assert "is not trusted" in await line_of("sh ./status.sh")
    assert await line_of("sh ./status.sh", "", "--trust") == "owned"


def test_writing_the_status_line_script_needs_approval() -> None:
    """No sandbox confines the status line: a command that changes its script would escape."""
    Path("status.sh").write_text("echo mine\n")
    settings("sh ./status.sh")
    change = tool_use("write", {"path": "status.sh", "content": "echo theirs\n"})
    look = tool_use("read", {"path": "status.sh"})
    with serve_in_thread(reply(look), reply(change), reply("Done.")) as api:
        run = agent_cli("-p", "go", "--trust", *YOLO, api=api)

    assert run.code == 3
    assert Path("status.sh").read_text() == "echo mine\n"
