"""What the README shows is what the program does."""

import os
import re
import subprocess
import sys
from pathlib import Path

from agent_cli.repl.commands.registry import COMMANDS
from tests.e2e.program import AGENT_CLI
from tests.messages_api import reply, serve_in_thread
from tests.repl.terminal import Terminal

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
DURATIONS = re.compile(r"\d+\.\d+ ?s\b|\d+ s\b")
# A path that may be long, and a sandbox if it was found that soon.
GREETING = re.compile(r"(?<=the tests run\.\n\n).*?(?=you> )", re.DOTALL)
# Pythons tell failures in more or fewer lines.
FOLDED = re.compile(r"\d+ more lines")


def comparable(transcript: str) -> list[str]:
    """Return the lines without what differs from one computer to another."""
    text = FOLDED.sub("n more lines", GREETING.sub("", DURATIONS.sub("n s", transcript)))
    return [line.rstrip() for line in text.strip("\n").split("\n")]


def test_the_transcript_of_the_demo_is_what_the_demo_prints() -> None:
    """On a terminal of 100 columns, line by line."""
    shown = README.partition("```text\n$ agent-cli demo\n")[2].partition("\n```")[0]

    with Terminal(AGENT_CLI, "demo", TERM="xterm-256color") as terminal:
        assert terminal.exit_code() == 0

        assert comparable(terminal.text) == comparable(shown)


def test_the_program_of_the_library_chapter_is_an_example() -> None:
    """So that both type checkers read it."""
    example = (Path(__file__).parents[1] / "examples" / "real_model.py").read_text()

    shown = README.partition("```python\n")[2].partition("```")[0]
    assert example.partition('"""\n\n')[2] == shown


def test_every_command_of_the_prompt_is_named() -> None:
    """And none that does not exist."""
    table = README.partition("| at the prompt | |")[2].partition("\n\n")[0]
    named = set(re.findall(r"`/([a-z-]+)", table))

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
