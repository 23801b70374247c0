"""The registry of slash commands, built-in and from prompt files, and the views of `/help`."""

import difflib
import inspect
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Final

from agent_cli.contracts.errors import UsageError
from agent_cli.contracts.prompt_commands import PromptCommand, without_scope
from agent_cli.contracts.wording import SESSIONS_OFF, one_line
from agent_cli.repl.commands import Command, Context, OutgoingPrompt, show
from agent_cli.repl.commands.background import GOAL_COMMAND
from agent_cli.repl.commands.files import FILE_COMMANDS, REVIEW_COMMAND
from agent_cli.repl.commands.information import INFORMATION_COMMANDS
from agent_cli.repl.commands.sessions import SESSION_COMMANDS
from agent_cli.repl.commands.settings import SETTING_COMMANDS, model_of_prompt
from agent_cli.repl.mcp.offers import server_commands
from agent_cli.repl.ports import Application

if TYPE_CHECKING:
    from agent_cli.terminal.views import View

_WITH: Final = "with"
_NAMED_MAX: Final = 3


def commands_of(app: Application) -> Sequence[Command]:
    """Return all current commands; the first of each name wins.

    Built-in commands come first, so that none can be replaced; `/review` alone comes last.
    """
    found = {command.name: command for command in COMMANDS}
    for prompt in app.prompt_commands():
        if prompt.name:
            found.setdefault(prompt.name, _sending(prompt))
    for command in server_commands(app):
        found.setdefault(command.name, command)
    found.setdefault(REVIEW_COMMAND.name, REVIEW_COMMAND)
    return list(found.values())


def is_command(line: str, app: Application) -> bool:
    """Return whether *line* is a command, and not a prompt that begins with a path."""
    if not line.startswith("/"):
        return False
    name = re.split(r"\s", line[1:], maxsplit=1)[0]
    if "/" in name:
        return False
    try:
        is_path = bool(name) and Path("/", name).exists()
    except (OSError, ValueError):  # too long for a name, or a NUL in it
        is_path = False
    return not is_path or any(command.name.startswith(name) for command in commands_of(app))


def find_command(line: str, app: Application) -> tuple[Command, str]:
    """Return the command that *line* names, and its argument, trimmed.

    A unique prefix of a name is enough. `/NAME --help` of a built-in command is `/help NAME`.

    Raises:
        UsageError: There is no such command, or it takes no argument.
    """
    name, *behind = re.split(r"\s", line[1:], maxsplit=1)
    argument = "".join(behind).strip()
    commands = commands_of(app)
    named = {command.name: command for command in commands}
    command = named.get(name) or named.get(without_scope(name))
    if command is None:
        from agent_cli.contracts.foreign_names import command_here  # seldom

        if ours := command_here(f"/{name}"):
            ours, *value = ours.split()
            if value and argument:
                raise UsageError(f"/{name} takes no argument")
            command, argument = named[ours], argument or "".join(value)
    if command is None:
        begun = [each for each in commands if name and each.name.startswith(name)]
        command = begun[0] if len(begun) == 1 else None
    if command is None:
        raise UsageError(f"unknown command /{one_line(name)}{_suggestion(name, commands)}")
    if argument in ("--help", "-h") and not command.source:
        return named["help"], command.name
    if argument and not command.argument:
        raise UsageError(f"/{command.name} takes no argument")
    return command, argument


def leaves_the_session(line: str, app: Application) -> bool:
    """Return whether *line* is a command behind which another session may be open."""
    try:
        return line.startswith("/") and find_command(line, app)[0].leaves_the_session
    except UsageError:
        return False


async def run_command(line: str, context: Context) -> None:
    """Run *line*, which begins with a slash.

    Raises:
        UsageError: There is no such command, it takes no argument, or it needs a session.
    """
    command, argument = find_command(line, context.app)
    if command.needs_session and context.app.sessions.id is None:
        raise UsageError(SESSIONS_OFF)
    pending = command.run(context, argument)
    if inspect.isawaitable(pending):
        await pending


def _sending(prompt: PromptCommand) -> Command:
    async def run(context: Context, argument: str) -> None:
        if prompt.problem:
            raise UsageError(prompt.problem)
        text, model = await prompt.prompt(argument)
        named = model if context.model is None else ""
        context.send(OutgoingPrompt(text, model_of_prompt(context, named) if named else None))

    return Command(
        prompt.name,
        prompt.problem or prompt.help,
        run,
        prompt.argument or "[text]",
        during_a_run=False,
        asks_the_model=True,
        source=prompt.source,
    )


async def _with(context: Context, argument: str) -> None:
    """Send a prompt, or the prompt of a command, to another model than the session's."""
    words = argument.split(maxsplit=1)
    if len(words) < 2:
        raise UsageError("/with needs a model and a prompt, such as /with high Find the race")
    name, line = words
    if line.startswith("!") and context.questions.can_ask:
        raise UsageError("/with takes a prompt; run the ! command first, without /with")
    is_prompt = not is_command(line, context.app)
    if not is_prompt:
        command, _ = find_command(line, context.app)
        if not command.asks_the_model or command.name == _WITH:
            what = "a prompt or a command that sends one, such as a skill"
            raise UsageError(f"/with takes {what}; /{command.name} is neither")
    model = model_of_prompt(context, name)
    if is_prompt:
        context.send(OutgoingPrompt(line, model))
        return

    def send(prompt: OutgoingPrompt) -> None:
        context.send(replace(prompt, model=model))

    await run_command(line, replace(context, send=send, model=model))


def _suggestion(name: str, commands: Sequence[Command]) -> str:
    names = [command.name for command in commands]
    begun = [each for each in names if name and each.startswith(name)]
    swapped = [each for each in names if sorted(each) == sorted(name.lower())]
    near = begun or swapped or difflib.get_close_matches(name.lower(), names, n=1)
    *others, last = ["", *(f"/{each}" for each in near[:_NAMED_MAX])]
    named = " or ".join(filter(None, (", ".join(others[1:]), last)))
    return f"; did you mean {named}?" if named else "; /help lists them"


def _help(context: Context, name: str) -> None:
    commands = commands_of(context.app)
    if not name:
        broken = {prompt.name for prompt in context.app.prompt_commands() if prompt.problem}
        usable = [command for command in commands if command.name not in broken]
        view = overview(grouped(usable), [*_faults(context.app)])
    elif name == "all":
        view = every_line(commands)
    else:
        command, _ = find_command(f"/{name.removeprefix('/')}", context.app)
        view = about(command, command.choices(context.app))
    show(context, view)


def grouped(commands: Sequence[Command]) -> dict[str, list[Command]]:
    """Return the commands grouped by subject; commands that are not built in, by source."""
    groups = {name: [*group] for name, group in _GROUPS.items()}
    for command in commands:
        if command.source:
            groups.setdefault(command.source, []).append(command)
    return groups


def _faults(app: Application) -> Iterator[str]:
    """Yield why user-defined commands cannot be used: they are faulty, or their name is taken."""
    taken = {command.name: "built in" for command in COMMANDS}
    for prompt in app.prompt_commands():
        if prompt.problem:
            yield prompt.problem
        elif prompt.name in taken:
            first = taken[prompt.name]
            yield f"/{prompt.name} ({prompt.source}) is not used: another one ({first}) comes first"
        taken.setdefault(prompt.name, prompt.source)


def _all_commands(app: Application) -> Mapping[str, str]:
    return {command.name: command.help for command in commands_of(app)}


async def _doctor(context: Context, _argument: str) -> None:
    context.writer.aside("checking …", "dim")
    show(context, await context.app.examine())


def _exit(context: Context, _argument: str) -> None:
    context.leave()


_GROUPS: Final[Mapping[str, Sequence[Command]]] = {
    "conversation": (*SESSION_COMMANDS, GOAL_COMMAND),
    "files": FILE_COMMANDS,
    "settings": (
        *SETTING_COMMANDS,
        Command(
            _WITH,
            "ask another model this one prompt",
            _with,
            "model prompt",
            during_a_run=False,
            asks_the_model=True,
            choices=lambda app: app.models,
            more=(
                "All calls of this prompt ask that model, and the next prompt the usual one.\n"
                "The prompt may be a command that sends one: /with high /NAME text."
            ),
        ),
    ),
    "this program": (
        Command("help", "list commands and keys", _help, "[name]", choices=_all_commands),
        Command(
            "doctor",
            "check the key, the endpoint, MCP servers, the sandbox and more",
            _doctor,
            during_a_run=False,
        ),
        Command("exit", "leave (also: exit, quit, Ctrl-D)", _exit),
    ),
    "what is there": INFORMATION_COMMANDS,
}
COMMANDS: Final = tuple(chain.from_iterable(_GROUPS.values()))

_FAULTS_MAX: Final = 5
_CHOICES_MAX: Final = 10
_KEYS: Final = (
    ("Enter", "send; during a run: with its next request (Arrow-up: edit it)"),
    ("Alt-Enter", "new line; during a run: send when it would end (--vi: Ctrl-F)"),
    ("Ctrl-J, \\Enter", "new line"),
    ("Ctrl-C, Esc", "stop the run (--vi: only Ctrl-C); Ctrl-C clears, twice leaves"),
    ("Shift-Tab", "change the mode: ask, auto-edit, plan (/mode: also auto, yolo)"),
    ("Esc Esc", "rewind the conversation, the files or both (at an empty prompt)"),
    ("Arrow-down", "select an agent at work: Enter shows it, Esc stops it alone"),
    ("Ctrl-O, Ctrl-T", "show what was folded; show what the model thinks"),
    ("Ctrl-B", "let the command that runs go on in the background (tmux: twice)"),
    ("Ctrl-S, Ctrl-Q", "hold the display; let it go on"),
    ("Ctrl-R, Ctrl-G", "search what you sent; write in your editor"),
    ("Tab, @, Ctrl-V", "complete; attach @a/file.py or @pic.png; paste a picture"),
    ("!cmd, !!cmd", "run a command: the model gets its output; or not"),
    ("/help NAME", "more about a command; /help all: a line about each"),
)


def overview(groups: Mapping[str, Sequence[Command]], faults: Sequence[str]) -> "View":
    """Return a view of all commands by group, the keys, and the commands with faults."""
    from agent_cli.terminal.views.table import (  # rich
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
    from agent_cli.terminal.views.table import Column, Table  # rich

    columns = [Column("command"), Column("purpose")]
    return Table(columns, [(each.usage, one_line(each.help)) for each in commands])


def about(command: Command, choices: Collection[str]) -> "View":
    """Return the full help of one command; *choices* are its possible arguments."""
    from agent_cli.terminal.views.table import Tree  # rich

    details = [command.help, *command.more.splitlines()]
    if 0 < len(choices) <= _CHOICES_MAX:
        details.append(f"Tab completes: {', '.join(choices)}")
    if command.source:
        details.append(f"from: {command.source}")
    if not command.during_a_run:
        details.append("waits for the end of a run")
    return Tree(command.usage, [*map(Tree, details)])
