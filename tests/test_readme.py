"""What the README shows is what the program does."""

import os
import re
import subprocess
import sys
from itertools import groupby
from pathlib import Path

from agent_cli.repl.commands import COMMANDS
from tests.e2e.program import AGENT_CLI
from tests.messages_api import reply, serve_in_thread
from tests.repl.terminal import Terminal

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
ESCAPES = re.compile(r"\x1b\[[0-9;]*m")
DURATIONS = re.compile(r"\d+\.\d s|\d+ s")


def comparable(transcript: str) -> list[str]:
    """Return the lines without durations; tools that ran together end in no fixed order."""
    lines = DURATIONS.sub("n s", transcript).strip("\n").split("\n")
    lines = [line.rstrip() for line in lines]
    groups = groupby(lines, key=lambda line: line.startswith("  done in"))
    return [line for ended, group in groups for line in (sorted(group) if ended else group)]


def test_the_transcript_of_the_demo_is_what_the_demo_prints() -> None:
    """On a terminal, line by line, durations aside."""
    shown = README.partition("```text\n$ agent-cli demo\n")[2].partition("\n```")[0]

    with Terminal(AGENT_CLI, "demo") as terminal:
        code = terminal.exit_code()
        printed = ESCAPES.sub("", terminal.bytes.decode()).replace("\r\n", "\n")

    assert code == 0
    assert comparable(printed) == comparable(shown)


def test_every_command_of_the_prompt_is_named() -> None:
    """And none that does not exist."""
    table = README.partition("| at the prompt | |")[2].partition("\n\n")[0]
    named = set(re.findall(r"`/([a-z]+)", table))

    assert named == {command.name for command in COMMANDS}


def test_the_example_of_the_library_runs(tmp_path: Path) -> None:
    """S0-71, S3-01: as it stands, with a server in place of the real one."""
    program = README.partition("```python\n")[2].partition("```")[0]
    (tmp_path / "example.py").write_text(program, encoding="utf-8")

    with serve_in_thread(reply("Hello yourself!")) as api:
        ran = subprocess.run(
            [sys.executable, "example.py"],
            env={**os.environ, "ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": api.base_url},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    assert (ran.stdout, ran.returncode, api.refusals) == ("Hello yourself!", 0, []), ran.stderr
