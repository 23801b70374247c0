"""Views of `/help`: every command and key on one screen, or everything about one command."""

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from agent_cli.contracts.wording import one_line
from agent_cli.repl.commands.spec import Command

if TYPE_CHECKING:
    from agent_cli.terminal.views.console import View

_FAULTS_MAX: Final = 5
_CHOICES_MAX: Final = 50
_KEYS: Final = (
    ("Enter", "send; during a run: with its next request (Arrow-up: edit it)"),
    ("Alt-Enter", "new line; during a run: send when it would end (--vi: Ctrl-F)"),
    ("Ctrl-J, \\Enter", "new line"),
    ("Ctrl-C, Esc", "stop the run (--vi: only Ctrl-C); Ctrl-C clears, twice leaves"),
    ("Arrow-down", "select an agent at work: Enter shows its work, Esc stops it alone"),
    ("Ctrl-O, Ctrl-T", "show what was folded; show what the model thinks"),
    ("Ctrl-B", "let the command that runs go on in the background (tmux: twice)"),
    ("Ctrl-S, Ctrl-Q", "hold the display; let it go on"),
    ("Ctrl-R, Ctrl-G", "search what you sent; write in your editor"),
    ("Tab, @", "complete a /command; attach a file, or a picture: @pic.png"),
    ("Ctrl-V", "send the picture on the clipboard; a dropped file is sent too"),
    ("!cmd, !!cmd", "run a command: the model gets its output; or not"),
    ("/help NAME", "more about a command; /help all: a line about each"),
)


def overview(groups: Mapping[str, Sequence[Command]], faults: Sequence[str]) -> "View":
    """Return a view of all commands by group, the keys, and the commands with faults."""
    from agent_cli.terminal.views.simple import (  # noqa: PLC0415 - rich
        Fact,
        Facts,
        Stack,
    )

    commands = [
        Fact(name, " ".join(f"/{command.name}" for command in group))
        for name, group in groups.items()
    ]
    keys = [Fact(key, effect) for key, effect in _KEYS]
    unusable = [Fact("not usable", fault) for fault in faults[:_FAULTS_MAX]]
    if len(faults) > _FAULTS_MAX:
        unusable.append(Fact("not usable", f"and {len(faults) - _FAULTS_MAX} more"))
    return Stack([Facts(facts) for facts in (commands, keys, unusable) if facts], apart=True)


def every_line(commands: Sequence[Command]) -> "View":
    """Return a row for each command."""
    from agent_cli.terminal.views.table import Column, Table  # noqa: PLC0415 - rich

    columns = [Column("command"), Column("purpose")]
    return Table(columns, [(each.usage, one_line(each.help)) for each in commands])


def about(command: Command, choices: Collection[str]) -> "View":
    """Return the full help of one command; *choices* are its possible arguments."""
    from agent_cli.terminal.views.simple import Tree  # noqa: PLC0415 - rich

    details = [command.help, *command.more.splitlines()]
    if 0 < len(choices) <= _CHOICES_MAX:
        details.append(f"one of: {', '.join(choices)}")
    if command.source:
        details.append(f"from: {command.source}")
    if not command.during_a_run:
        details.append("waits for the end of a run")
    return Tree(command.usage, [*map(Tree, details)])
