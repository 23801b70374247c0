"""The command line as one frozen value.

Reads words, not settings: options that are settings are handed on as text with the option's name,
and checked where all settings are. Written by hand instead of with argparse: importing that takes
half as long as starting Python, and its sentences are not ours.
"""

from collections.abc import Callable, Sequence
from enum import Enum, auto
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from agent_cli.contracts.errors import UsageError
from agent_cli.settings.sources import Override

OUTPUT_FORMATS = ("text", "json", "stream-json")
CHOOSE_SESSION = ""
"""The value of `Arguments.resume` when no id was given: the user chooses."""


class Arguments(NamedTuple):
    """What the user asked for.

    Attributes:
        command: "repl", "print", "version", "help", or the words of a command ("config show").
        operands: What follows the command's words.
        prompt: The first prompt of a session, or None.
        prompts_from: The file a session reads its prompts from, a line each; "-" is stdin.
        print_prompt: Text of `-p`; "-" means that all of it is on stdin.
        resume: Id of a session, `CHOOSE_SESSION`, or None.
        overrides: Options that are settings, in the order they were given.
        origin, revoke, json, entries: Switches of single commands.
    """

    command: str = "repl"
    operands: tuple[str, ...] = ()
    prompt: str | None = None
    prompts_from: str | None = None
    print_prompt: str | None = None
    output_format: str = "text"
    settings_file: Path | None = None
    continue_session: bool = False
    resume: str | None = None
    fork: str | None = None
    system_prompt: str | None = None
    append_system_prompt: str | None = None
    add_dirs: tuple[Path, ...] = ()
    record: Path | None = None
    replay: Path | None = None
    trust: bool = False
    verbose: bool = False
    origin: bool = False
    revoke: bool = False
    json: bool = False
    entries: bool = False
    overrides: tuple[Override, ...] = ()


class _Takes(Enum):
    """What an option is followed by."""

    NOTHING = auto()
    VALUE = auto()
    SEVERAL = auto()
    PERHAPS = auto()


class _Option(NamedTuple):
    """One option: where its value goes, a field of `Arguments` or (dotted or not) a setting."""

    takes: _Takes
    field: str = ""
    setting: str = ""
    convert: Callable[[str], object] = str
    constant: object = True


_OPTIONS = {
    "--print": _Option(_Takes.VALUE, "print_prompt"),
    "--prompts-from": _Option(_Takes.VALUE, "prompts_from"),
    "--output-format": _Option(_Takes.VALUE, "output_format"),
    "--settings": _Option(_Takes.VALUE, "settings_file", convert=Path),
    "--continue": _Option(_Takes.NOTHING, "continue_session"),
    "--resume": _Option(_Takes.PERHAPS, "resume", constant=CHOOSE_SESSION),
    "--fork": _Option(_Takes.VALUE, "fork"),
    "--system-prompt": _Option(_Takes.VALUE, "system_prompt"),
    "--append-system-prompt": _Option(_Takes.VALUE, "append_system_prompt"),
    "--add-dir": _Option(_Takes.SEVERAL, "add_dirs", convert=Path),
    "--record": _Option(_Takes.VALUE, "record", convert=Path),
    "--replay": _Option(_Takes.VALUE, "replay", convert=Path),
    "--trust": _Option(_Takes.NOTHING, "trust"),
    "--verbose": _Option(_Takes.NOTHING, "verbose"),
    "--version": _Option(_Takes.NOTHING, "command", constant="version"),
    "--help": _Option(_Takes.NOTHING, "command", constant="help"),
    "--origin": _Option(_Takes.NOTHING, "origin"),
    "--revoke": _Option(_Takes.NOTHING, "revoke"),
    "--json": _Option(_Takes.NOTHING, "json"),
    "--entries": _Option(_Takes.NOTHING, "entries"),
    "--model": _Option(_Takes.VALUE, setting="model"),
    "--effort": _Option(_Takes.VALUE, setting="effort"),
    "--max-tokens": _Option(_Takes.VALUE, setting="max_tokens"),
    "--permission-mode": _Option(_Takes.VALUE, setting="permissions.mode"),
    "--allow": _Option(_Takes.SEVERAL, setting="permissions.allow"),
    "--deny": _Option(_Takes.SEVERAL, setting="permissions.deny"),
    "--max-rounds": _Option(_Takes.VALUE, setting="max_rounds"),
    "--max-cost": _Option(_Takes.VALUE, setting="max_cost_usd"),
    "--mcp-config": _Option(_Takes.SEVERAL, setting="mcp.config"),
    "--no-mcp": _Option(_Takes.NOTHING, setting="mcp.enabled", constant=False),
    "--no-plugins": _Option(_Takes.NOTHING, setting="plugins.enabled", constant=False),
    "--vi": _Option(_Takes.NOTHING, setting="ui.vi"),
    "--screen-reader": _Option(_Takes.NOTHING, setting="ui.screen_reader"),
    "--no-session": _Option(_Takes.NOTHING, setting="session.enabled", constant=False),
}
_SHORT = {"-p": "--print", "-c": "--continue", "-r": "--resume", "-h": "--help"}
# Of each group one option at most, and the field it fills.
_EXCLUSIVE = (
    (("--continue", "continue_session"), ("--resume", "resume"), ("--fork", "fork")),
    (("--record", "record"), ("--replay", "replay")),
    (("-p", "print_prompt"), ("--prompts-from", "prompts_from"), ("a prompt", "prompt")),
)


class _Command(NamedTuple):
    """A command's operands, how few and how many, and the switches only it has."""

    operands: str
    fewest: int = 0
    most: int = 0
    switches: tuple[str, ...] = ()


_COMMANDS = {
    "help": _Command(""),
    "version": _Command(""),
    "demo": _Command(""),
    "doctor": _Command(""),
    "config example": _Command(""),
    "config show": _Command("[--origin] [--json]", switches=("origin", "json")),
    "trust": _Command("[DIR] [--revoke]", most=1, switches=("revoke",)),
    "sessions list": _Command("[--json]", switches=("json",)),
    "sessions show": _Command("ID [--entries]", 1, 1, switches=("entries",)),
    "sessions export": _Command("ID [md|html|json]", 1, 2),
    "sessions verify": _Command("[ID] [--json]", most=1, switches=("json",)),
    "sessions approve": _Command("ID [CALL]", 1, 2),
    "sessions reject": _Command("ID [CALL] [REASON]", 1, 3),
    "permissions explain": _Command("TOOL INPUT [--json]", 2, 2, switches=("json",)),
    "acp": _Command(""),
    "hooks": _Command("list|test EVENT [--input FILE]|import", 1, 10_000),
    "mcp": _Command(
        "serve|add|list|remove|test|import|exercise|approve|login|logout ...", 1, 10_000
    ),
    "replay": _Command("FILE", 1, 1),
}


def parse_arguments(argv: Sequence[str]) -> Arguments:
    """Read the words after the program's name.

    Raises:
        UsageError: They cannot be understood; one sentence.
    """
    # Any: fields are filled by name; the tables above say which type goes where.
    found: dict[str, Any] = {}
    overrides: list[Override] = []
    operands: list[str] = []
    words = list(argv)
    while words:
        word = words.pop(0)
        if word == "--":
            if not operands and words:  # a prompt, though it may be called like a command
                found["prompt"] = _one_prompt(words)
            else:
                operands += words
            break
        if word == "-" or not word.startswith("-"):
            operands.append(word)
            if operands in (["mcp"], ["hooks"]):
                # Its commands have options of their own, which it reads itself.
                operands += words
                break
            continue
        name, option = _option(word)
        value = _value(name, word, option, words)
        if option.setting:
            overrides.append(_override(option, value, name))
        elif option.takes is _Takes.SEVERAL:
            found[option.field] = (*found.get(option.field, ()), option.convert(str(value)))
        elif found.get("command") not in ("version", "help") or option.field != "command":
            found[option.field] = option.convert(value) if isinstance(value, str) else value
    return _checked(Arguments(**found, overrides=tuple(overrides)), operands)


def asks_for_json(argv: Sequence[str]) -> bool:
    """Return whether *argv*, understood or not, wants JSON on stdout."""
    words = {*argv, *("=".join(pair) for pair in pairwise(argv))}
    return not words.isdisjoint({"--output-format=json", "--output-format=stream-json"})


def help_text() -> str:
    """Return what `--help` prints."""
    return (Path(__file__).parent / "help.txt").read_text(encoding="utf-8")


def _option(word: str) -> tuple[str, _Option]:
    name = word.partition("=")[0] if word.startswith("--") else word[:2]
    name = _SHORT.get(name, name)
    if name in _OPTIONS:
        return name, _OPTIONS[name]
    raise UsageError(f"unknown option {name}{_nearest(name, _OPTIONS)}; see agent-cli --help")


def _value(name: str, word: str, option: _Option, words: list[str]) -> object:
    """Return the option's value: after "=", glued to a short option, or the next word."""
    if word.startswith("--"):
        _, glued, value = word.partition("=")
    else:
        glued, value = word[2:], word[2:].removeprefix("=")
    if glued:
        if option.takes is _Takes.NOTHING:
            raise UsageError(f"{name} takes no value")
        return value
    if option.takes is _Takes.NOTHING:
        return option.constant
    if option.takes is _Takes.PERHAPS:
        return words.pop(0) if words and not words[0].startswith("-") else option.constant
    if not words and name == "--print":
        return "-"
    # The next word is the value even if it starts with "-": prompts and rules may. Only the
    # name of another option means that the value was forgotten.
    if not words or words[0].partition("=")[0] in _OPTIONS:
        raise UsageError(f"{name} needs a value; see agent-cli --help")
    return words.pop(0)


def _override(option: _Option, value: object, name: str) -> Override:
    if isinstance(value, bool):
        return Override(option.setting, value, name)
    text = str(value)
    return Override(option.setting, (text,) if option.takes is _Takes.SEVERAL else text, name)


def _checked(arguments: Arguments, operands: list[str]) -> Arguments:
    """Find the command and refuse what does not go together."""
    if arguments.command in ("version", "help"):
        return arguments
    if arguments.output_format not in OUTPUT_FORMATS:
        raise UsageError(
            f"--output-format must be one of {', '.join(OUTPUT_FORMATS)},"
            f" not {arguments.output_format!r}"
        )
    if operands:
        arguments = _with_command(arguments, operands)
    for group in _EXCLUSIVE:
        chosen = [o for o, name in group if getattr(arguments, name) not in (None, False)]
        if len(chosen) > 1:
            raise UsageError(f"{' and '.join(chosen)} cannot be combined; use one of them")
    if arguments.command == "repl" and arguments.print_prompt is not None:
        arguments = arguments._replace(command="print")
    for switch in ("origin", "revoke", "json", "entries"):
        command = _COMMANDS.get(arguments.command)
        if getattr(arguments, switch) and (command is None or switch not in command.switches):
            raise UsageError(f"--{switch} does not belong here; see agent-cli --help")
    if arguments.output_format != "text" and arguments.command != "print":
        raise UsageError("--output-format needs -p PROMPT")
    return arguments


def _with_command(arguments: Arguments, operands: list[str]) -> Arguments:
    words = " ".join(operands[:2])
    name = words if words in _COMMANDS else operands[0]
    if name not in _COMMANDS:
        second_words = [key.partition(" ")[2] for key in _COMMANDS if key.startswith(f"{name} ")]
        if second_words:
            raise UsageError(f"agent-cli {name} needs one of: {', '.join(second_words)}")
        hint = _nearest(name, [key.partition(" ")[0] for key in _COMMANDS])
        if hint and len(operands) == 1:
            raise UsageError(f"unknown command {name!r}{hint}; a prompt goes after --")
        return arguments._replace(prompt=_one_prompt(operands))
    if arguments.print_prompt is not None or arguments.prompts_from is not None:
        option = "-p" if arguments.prompts_from is None else "--prompts-from"
        raise UsageError(f"{option} and the command {name} cannot be combined")
    rest = tuple(operands[len(name.split()) :])
    command = _COMMANDS[name]
    if not command.fewest <= len(rest) <= command.most:
        raise UsageError(f"usage: agent-cli {name} {command.operands}".rstrip())
    return arguments._replace(command=name, operands=rest)


def _one_prompt(words: Sequence[str]) -> str:
    if len(words) > 1:
        raise UsageError(f"put quotes around the prompt: {' '.join(words[:2])!r} ...")
    return words[0]


def _nearest(wrong: str, known: Sequence[str] | dict[str, _Option]) -> str:
    import difflib  # noqa: PLC0415 - needed only when the user mistyped

    close = difflib.get_close_matches(wrong, known, n=1)
    return f" (did you mean {close[0]}?)" if close else ""
