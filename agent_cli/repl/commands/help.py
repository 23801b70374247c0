"""What `/help` shows: on one screen what there is, and everything about one command."""

import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from textwrap import wrap
from typing import Final

from agent_cli.repl.commands.spec import Command
from agent_cli.terminal.narration import one_line

_COLUMNS_MAX: Final = 80
_KEYS_WIDTH: Final = 14
_FAULTS_MAX: Final = 5
_CHOICES_MAX: Final = 50
_KEYS: Final = (
    ("Enter", "send; during a run: with its next request (Arrow-up: take back)"),
    ("Alt-Enter", "new line; during a run: send when it would end (--vi: Ctrl-F)"),
    ("Ctrl-J, \\Enter", "new line"),
    ("Ctrl-C, Esc", "stop the run (--vi: only Ctrl-C); Ctrl-C clears, twice leaves"),
    ("Ctrl-O, Ctrl-T", "show what was folded; show what the model thinks"),
    ("Ctrl-S, Ctrl-Q", "hold the display; let it go on"),
    ("Ctrl-R, Ctrl-G", "search what you sent; write in your editor"),
    ("Tab, @", "complete a /command; attach a file, or a picture: @pic.png"),
    ("Ctrl-V", "send the picture on the clipboard; a dropped file is sent too"),
    ("!cmd, !!cmd", "run a command: the model gets its output; or not"),
    ("/help NAME", "more about a command; /help all: a line about each"),
)


def overview(groups: Mapping[str, Sequence[Command]], faults: Sequence[str]) -> str:
    """Return the names of all commands by group, the keys, and what cannot be used."""
    width = max(map(len, groups))
    rows = [row for name, group in groups.items() for row in _row(name, group, width)]
    rows += ["", *(f"{keys:<{_KEYS_WIDTH}}  {what}" for keys, what in _KEYS)]
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


def about(command: Command, choices: Collection[str]) -> str:
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
