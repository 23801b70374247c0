"""What `/help` shows: on one screen what there is, and everything about one command."""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from textwrap import wrap
from typing import Final

from agent_cli.repl.command import Command
from agent_cli.terminal.narration import one_line

_COLUMNS_MAX: Final = 80
_FAULTS_MAX: Final = 5
_CHOICES_MAX: Final = 50
_KEYS: Final = (
    "/help NAME says more about a command, /help all a line about each.",
    "Enter sends. Alt-Enter, Ctrl-J, or a backslash before Enter begin a new line. During a run:"
    " Enter sends with the next request, Alt-Enter (Ctrl-F with --vi) when the run would end;"
    " Arrow-up takes the last one back. Ctrl-C stops the run, and so does Esc except with --vi,"
    " where it ends vi's insert mode. Ctrl-S holds the display, Ctrl-Q lets it go on. Ctrl-O shows"
    " what was folded, Ctrl-T what the model thinks. Tab completes /commands and @files. @pic.png,"
    " a dropped file or Ctrl-V sends a picture. !command runs a command and offers its output to"
    " the model, !!command does not. Ctrl-G opens your editor, Ctrl-R searches what you sent."
    " Ctrl-C clears the line; twice, when it is empty, leaves.",
)


def overview(groups: Mapping[str, Sequence[Command]], faults: Sequence[str]) -> str:
    """Return the names of all commands by group, the keys, and what cannot be used."""
    width = max(map(len, groups))
    rows = [row for name, group in groups.items() for row in _row(name, group, width)]
    rows += ["", *(row for text in _KEYS for row in wrap(text, _columns()))]
    if faults:
        rows += ["", *faults[:_FAULTS_MAX]]
    if len(faults) > _FAULTS_MAX:
        rows.append(f"and {len(faults) - _FAULTS_MAX} more that cannot be used")
    return "\n".join(rows)


def _columns() -> int:
    return min(_COLUMNS_MAX, shutil.get_terminal_size().columns)


def _row(name: str, group: Sequence[Command], width: int) -> Iterator[str]:
    names = " ".join(f"/{command.name}" for command in group)
    yield from wrap(
        names,
        _columns(),
        initial_indent=f"{name:<{width}}  ",
        subsequent_indent=" " * (width + 2),
        break_on_hyphens=False,
    )


def every_line(commands: Sequence[Command]) -> str:
    """Return a line about each command."""
    width = max(len(command.usage) for command in commands)
    return "\n".join(f"{each.usage:<{width}}  {one_line(each.help)}" for each in commands)


def about(command: Command, choices: Sequence[str]) -> str:
    """Return everything there is to say about one command; *choices* may stand behind its name."""
    rows = [command.usage, f"  {command.help}"]
    rows += [f"  {row}" for row in command.more.splitlines()]
    if 0 < len(choices) <= _CHOICES_MAX:
        rows += wrap(f"one of: {', '.join(choices)}", _columns() - 2, initial_indent="  ")
    if command.source:
        rows.append(f"  from: {command.source}")
    if not command.during_a_run:
        rows.append("  waits for the end of a run")
    return "\n".join(rows)
