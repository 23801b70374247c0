"""The files of a project that its hooks run or read."""

from pathlib import Path

import pytest

from agent_cli.contracts.timeline import Json
from agent_cli.settings import WrittenHooks
from agent_cli.settings.hook_files import all_scripts_of, scripts_of_command


def trusted_files(line: str) -> tuple[Path, ...]:
    group: Json = {"hooks": [{"type": "command", "command": line}]}
    return all_scripts_of([WrittenHooks("stop", group, "", from_project=True)], Path.cwd())


@pytest.mark.parametrize(
    "line",
    [
        "echo a >> log",
        "date>log",
        "jq -r .x 2>log | tee -a log",
        'echo a >> "$CLAUDE_PROJECT_DIR/log"',
        'echo a >> "$CLAUDE_PROJECT_DIR"/log; true',
    ],
)
def test_file_that_a_hook_only_writes_is_no_part_of_what_is_trusted(line: str) -> None:
    """A log of the workspace changes with each run, and trust ended with the first one."""
    log = Path.cwd() / "log"
    log.write_text("")

    assert trusted_files(line) == ()
    # A link in its place leads elsewhere: a hook that writes it runs in the sandbox.
    assert scripts_of_command(line, None, Path.cwd()) == (log,)


@pytest.mark.parametrize(
    "line",
    [
        "echo a >> log; . ./log",
        "cat log",
        "sort log > other",
        "sh -c 'x > y' log",
        "echo '>> log'",
        *("sh < log", "sh <> log", "sh 0<>log"),
        "echo a > >(sh log)",
        "echo a > $(./log)",
        'echo a > "$(./log)"',
        *("my-tee log", "sh tee log"),
    ],
)
def test_file_that_a_hook_may_run_or_read_is_part_of_what_is_trusted(line: str) -> None:
    """Also if it writes it as well, or if the mark of a redirect is quoted."""
    log = Path.cwd() / "log"
    log.write_text("")

    assert trusted_files(line) == (log,)


def test_digit_before_a_redirect_may_end_the_name_of_a_script() -> None:
    """`sh run2>log` runs run2: only a word of digits alone is a descriptor."""
    script = Path.cwd() / "run2"
    script.write_text("")

    assert trusted_files("sh run2>log") == (script,)
