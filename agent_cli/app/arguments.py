"""The command line as one frozen value.

Options that are settings are passed on as text with the option's name, and validated with all other
settings. The parser is our own: importing argparse takes half as long as starting Python, and its
messages do not follow our style.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from agent_cli.app.option_table import (
    BATCH,
    CHOOSE_SESSION,
    COMMANDS,
    EXCLUSIVE,
    ONE_PROMPT,
    ONE_RUN,
    OPTIONS,
    SHORT_OPTIONS,
    SWITCHES,
    OptionEntry,
    Takes,
)
from agent_cli.contracts.errors import UsageError
from agent_cli.settings import Override

if TYPE_CHECKING:
    from pathlib import Path  # takes as long to import as this whole module
else:
    Path = object  # a NamedTuple compiles each annotation in quotes: a twelfth of the start

# Two words with less of their letters in common are not taken for one mistyped.
_CLOSE: Final = 0.6


class Arguments(NamedTuple):
    """The parsed command line.

    Attributes:
        command: "repl", "print", "version", "help", or the words of a command ("config show").
        operands: The words after the command.
        prompt: The first prompt of a session, or None.
        prompts_from: The file from which a session reads its prompts, one per line; "-" is stdin.
        print_prompt, prompt_file: Text of `-p`, or its file; "-" reads it from stdin.
        time_limit_s, tokens_max, output_dir, json_schema: Options of one run of `-p`; in a batch
            they hold for each run, and the output directory for all of them.
        require_check, park: Options of one run of `-p`: the command that must exit with 0, and
            whether its questions wait for an answer.
        jobs, budget_usd: Options of a batch: parallel runs, and the limit of cost of all tasks.
        retries, outage_wait_s, retry_failed: Options of a batch: how often and which tasks are run
            again, and how long an outage is waited for.
        engine, ray_address: Options of a batch: one of `ENGINES`, and the address of the cluster.
        batch_api: Option of a batch: answer the prompts through the Message Batches API.
        ray_cpus, ray_wait_s, ray_copy: Options of a batch: processors of the cluster for one task,
            how long Ray may take to start, and whether repositories are sent to the nodes.
        resume: Id of a session, `CHOOSE_SESSION`, or None.
        name: What the session is called from now on, or None.
        worktree: Name of the worktree to work in, `NEW_WORKTREE`, or None.
        overrides: Options that are settings, in the order they were given.
        origin, revoke, show, json, entries, yes, all, dry_run, undo: Switches of single commands.
    """

    command: str = "repl"
    operands: tuple[str, ...] = ()
    prompt: str | None = None
    prompts_from: str | None = None
    print_prompt: str | None = None
    prompt_file: Path | None = None
    output_format: str = "text"
    time_limit_s: float | None = None
    tokens_max: int | None = None
    output_dir: Path | None = None
    json_schema: Path | str | None = None
    require_check: str | None = None
    park: bool | None = None
    jobs: int | None = None
    budget_usd: float | None = None
    retries: int | None = None
    outage_wait_s: float | None = None
    retry_failed: bool | None = None
    engine: str | None = None
    batch_api: bool | None = None
    ray_address: str | None = None
    ray_cpus: float | None = None
    ray_wait_s: float | None = None
    ray_copy: bool | None = None
    settings_file: Path | None = None
    continue_session: bool = False
    resume: str | None = None
    fork: str | None = None
    name: str | None = None
    system_prompt: str | None = None
    append_system_prompt: str | None = None
    add_dirs: tuple[Path, ...] = ()
    record: Path | None = None
    replay: Path | None = None
    worktree: str | None = None
    trust: bool = False
    verbose: bool = False
    origin: bool = False
    revoke: bool = False
    show: bool = False
    json: bool = False
    entries: bool = False
    yes: bool = False
    all: bool = False
    dry_run: bool = False
    undo: bool = False
    overrides: tuple[Override, ...] = ()


class SessionFolder(NamedTuple):
    """The arguments of a session, and the directory whose worktree it works in, or None."""

    arguments: Arguments
    copy_of: Path | None = None


def parse_arguments(argv: Sequence[str]) -> Arguments:
    """Parse the words after the program's name.

    Raises:
        UsageError: The command line is invalid; the message is one sentence.
    """
    # Any: fields are set by name; the tables above give their types.
    found: dict[str, Any] = {}
    overrides: list[Override] = []
    operands: list[str] = []
    words = list(argv)
    while words:
        word = words.pop(0)
        if word == "--":
            if not operands and words:  # a prompt, even if it has the name of a command
                is_run = found.get("print_prompt") == "-"
                found["print_prompt" if is_run else "prompt"] = _one_prompt(words)
            else:
                operands += words
            break
        if word == "-" or not word.startswith("-"):
            operands.append(word)
            if operands == ["mcp"] or (operands == ["hooks"] and not {"-h", "--help"} & {*words}):
                # This command parses the options of its subcommands itself.
                operands += words
                break
            continue
        if (ours := _our_words(word, words)) is not None:
            words[:0] = ours
            continue
        name, option = _option(word)
        value = _value(name, word, option, words)
        if option.takes is Takes.SETTING:
            overrides.append(_setting(str(value)))
        elif option.setting:
            overrides.append(_override(option, value, name))
        elif option.field in found and any(option.field == field for _, field in EXCLUSIVE[-1]):
            raise UsageError(f"give {name} only once: the second would replace the first")
        elif option.takes is Takes.SEVERAL:
            found[option.field] = (*found.get(option.field, ()), _converted(name, option, value))
        elif found.get("command") not in ("version", "help") or option.field != "command":
            found[option.field] = _converted(name, option, value)
    return _checked(Arguments(**found, overrides=tuple(overrides)), operands)


def help_text(command: str = "") -> str:
    """Return the output of `--help`; of a *command*, what is about that alone.

    Raises:
        UsageError: *command* is one word, and no command.
    """
    from pathlib import Path

    from agent_cli.contracts.foreign_names import command_here

    text = (Path(__file__).parent / "help.txt").read_text(encoding="utf-8")
    usage = (f"  agent-cli {command} ", f"  agent-cli [options] {command} ")
    about: list[str] = []
    is_about = False
    for line in text.splitlines(keepends=True):
        if not line.startswith("   "):
            is_about = line.startswith(usage) or f" {command}: " in line or f"({command}: " in line
        about += [line] if is_about else []
    known = {key.partition(" ")[0] for key in COMMANDS}
    if about:
        return "".join([*about, "\nagent-cli --help lists all that there is\n"])
    if command in known or len(command.split()) != 1:
        return text
    if ours := command_here(command):
        return text if ours.startswith("--") else help_text(ours)
    hint = _nearest(command, known)
    raise UsageError(f"there is no command {command!r}{hint}; agent-cli --help lists all")


def _our_words(word: str, words: list[str]) -> Sequence[str] | None:
    """Return our words for another agent's option; None if *word* is no such option."""
    name, is_glued, value = word.partition("=")
    if word[:2] == "-c" and _is_setting(word[2:] or "".join(words[:1])):
        # Codex's meaning of the letter; as ours, the setting would be sent as a prompt.
        setting = word[2:].removeprefix("=") or words.pop(0)
        return ("--config", setting)
    if (name if name.startswith("--") else name[:2]) in {*OPTIONS, *SHORT_OPTIONS}:
        return None
    from agent_cli.contracts.foreign_names import foreign_words  # seldom needed

    return foreign_words(name, value if is_glued else None, words)


def _is_setting(text: str) -> bool:
    """Return whether *text* is KEY=VALUE, as Codex takes it; a sentence with a "=" is not."""
    key, equals, value = text.removeprefix("=").partition("=")
    is_key = key.replace(".", "_").replace("-", "_").isidentifier()
    return bool(equals) and is_key and not value[:1].isspace()


def _option(word: str) -> tuple[str, OptionEntry]:
    name = word.partition("=")[0] if word.startswith("--") else word[:2]
    name = SHORT_OPTIONS.get(name, name)
    if name in OPTIONS:
        return name, OPTIONS[name]
    raise UsageError(f"unknown option {name}{_nearest(name, OPTIONS)}; see agent-cli --help")


def _value(name: str, word: str, option: OptionEntry, words: list[str]) -> object:
    """Return the option's value: after "=", glued to a short option, or the next word."""
    if word.startswith("--"):
        _, glued, value = word.partition("=")
    else:
        glued, value = word[2:], word[2:].removeprefix("=")
    if glued:
        if option.takes is Takes.NOTHING:
            raise UsageError(f"{name} takes no value")
        return value
    if option.takes is Takes.NOTHING:
        return option.constant
    if option.takes is Takes.PERHAPS:
        return words.pop(0) if words and not words[0].startswith("-") else option.constant
    # The next word is the value even if it starts with "-": prompts and rules may. Only the
    # name of another option means that there is no value.
    is_missing = not words or words[0] == "--" or _is_option(words[0].partition("=")[0])
    if is_missing and name == "--print":
        return "-"
    if is_missing:
        raise UsageError(f"{name} needs a value; see agent-cli --help")
    return words.pop(0)


def _is_option(name: str) -> bool:
    """Return whether *name* is an option of ours, or one of another agent."""
    if name in OPTIONS or name in SHORT_OPTIONS or not name.startswith("-"):
        return name in OPTIONS or name in SHORT_OPTIONS
    from agent_cli.contracts.foreign_names import FOREIGN_OPTIONS

    return name in FOREIGN_OPTIONS


def _converted(name: str, option: OptionEntry, value: object) -> object:
    try:
        return option.convert(value) if isinstance(value, str) else value
    except ValueError as error:
        raise UsageError(f"{name} must be {error}, not {value!r}") from error


def _override(option: OptionEntry, value: object, name: str) -> Override:
    if isinstance(value, bool):
        return Override(option.setting, value, name)
    text = str(_converted(name, option, value))
    return Override(option.setting, (text,) if option.takes is Takes.SEVERAL else text, name)


def _setting(text: str) -> Override:
    """Return the setting KEY=VALUE: text as in a variable, or in quotes as Codex takes it."""
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise UsageError(f"--config takes KEY=VALUE, such as max_rounds=20, not {text!r}")
    is_quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "\"'"
    # The key is part of the option, so that option and value, joined by "=", are one word again.
    return Override(key, value[1:-1] if is_quoted else value, f"--config={key}")


def _checked(arguments: Arguments, operands: list[str]) -> Arguments:
    """Find the command and reject invalid combinations."""
    if arguments.command in ("version", "help"):
        return arguments._replace(operands=tuple(operands))
    if operands:
        arguments = _with_command(arguments, operands)
    for group in EXCLUSIVE:
        chosen = [o for o, name in group if getattr(arguments, name) not in (None, False)]
        if len(chosen) > 1:
            raise UsageError(f"{' and '.join(chosen)} cannot be combined; use one of them")
    gives_prompt = arguments.print_prompt is not None or arguments.prompt_file is not None
    if arguments.command == "repl" and gives_prompt:
        arguments = arguments._replace(command="print")
    for switch in SWITCHES:
        command = COMMANDS.get(arguments.command)
        if getattr(arguments, switch) and (command is None or switch not in command.switches):
            option = switch.replace("_", "-")
            raise UsageError(f"--{option} does not belong here; see agent-cli --help")
    runs_once = arguments.command in ("print", "sessions approve", "sessions reject")
    if arguments.output_format != "text" and not runs_once:
        raise UsageError("--output-format needs -p PROMPT, sessions approve or sessions reject")
    for option, value in (("--worktree", arguments.worktree), ("--name", arguments.name)):
        if value is not None and arguments.command not in ("repl", "print"):
            raise UsageError(f"{option} is for a session: use it with the REPL or -p")
    for options, commands, need in (
        (ONE_RUN, ("print", "batch"), "-p PROMPT or --prompt-file FILE"),
        (ONE_PROMPT, ("print",), "-p PROMPT or --prompt-file FILE"),
        (BATCH, ("batch",), "the command batch TASKS.jsonl"),
    ):
        for option, name in options:
            if getattr(arguments, name) is not None and arguments.command not in commands:
                raise UsageError(f"{option} needs {need}")
    return arguments


def _with_command(arguments: Arguments, operands: list[str]) -> Arguments:
    words = " ".join(operands[:2])
    name = words if words in COMMANDS else operands[0]
    if name not in COMMANDS:
        second_words = [key.partition(" ")[2] for key in COMMANDS if key.startswith(f"{name} ")]
        if second_words:
            raise UsageError(_second_word_needed(name, operands[1:], second_words))
        if arguments.print_prompt is None and (translated := _with_foreign(arguments, operands)):
            return translated
        hint = _nearest(name, [key.partition(" ")[0] for key in COMMANDS])
        if hint and len(operands) == 1:
            raise UsageError(f"unknown command {name!r}{hint}; a prompt goes after --")
        if near := _mistyped(name, operands[1:]):
            raise UsageError(f"unknown command {name!r} (did you mean {near}?)")
        prompt = _one_prompt(operands)
        if arguments.print_prompt == "-":  # `-p --model x PROMPT`, as other agents take it
            return arguments._replace(print_prompt=prompt)
        if arguments.print_prompt is not None:
            _one_prompt([arguments.print_prompt, prompt])
        return arguments._replace(prompt=prompt)
    if excluded := [o for o, field in EXCLUSIVE[-1] if getattr(arguments, field) is not None]:
        raise UsageError(f"{excluded[0]} and the command {name} cannot be combined")
    rest = tuple(operands[len(name.split()) :])
    command = COMMANDS[name]
    if not command.fewest <= len(rest) <= command.most:
        raise UsageError(f"usage: agent-cli {name} {command.operands}".rstrip())
    return arguments._replace(command=name, operands=rest)


def _second_word_needed(name: str, others: Sequence[str], known: Sequence[str]) -> str:
    wrong = f" has no {others[0]!r}{_nearest(others[0], known)}; it" if others else ""
    change = "; settings stand in files: docs/settings.md" if name == "config" and others else ""
    return f"{name}{wrong} needs one of: {', '.join(known)}{change}"


def _with_foreign(arguments: Arguments, operands: list[str]) -> Arguments | None:
    """Return the arguments that a command of another agent stands for; None if it is none."""
    from agent_cli.contracts.foreign_names import command_here

    name, *rest = operands
    ours = command_here(name)
    if ours not in ("-p", "--resume"):
        return _with_command(arguments, [ours, *rest]) if ours else None
    if ours == "--resume" or rest[:1] == ["resume"]:  # `exec resume ID`, `exec resume --last`
        rest = rest[1:] if ours == "-p" else rest
        if not arguments.continue_session:
            arguments = arguments._replace(resume=rest.pop(0) if rest else CHOOSE_SESSION)
    if ours == "--resume":
        return arguments._replace(prompt=_one_prompt(rest)) if rest else arguments
    arguments = arguments._replace(print_prompt=_one_prompt(rest) if rest else "-")
    # What is a switch of single commands here chooses the format of events there.
    if arguments.json:
        return arguments._replace(json=False, output_format="stream-json")
    return arguments


def _one_prompt(words: Sequence[str]) -> str:
    if len(words) > 1:
        raise UsageError(f"put quotes around the prompt: {' '.join(words[:2])!r} ...")
    return words[0]


def _mistyped(name: str, others: Sequence[str]) -> str:
    """Return the command of two words that *name* and *others* nearly are, or ""."""
    fitting = [key for key in COMMANDS if others and key.partition(" ")[2] == others[0]]
    first_words = {key.partition(" ")[0]: key for key in fitting}
    return first_words.get(_closest(name, first_words), "")


def _nearest(wrong: str, known: Iterable[str]) -> str:
    close = _closest(wrong, known)
    return f" (did you mean {close}?)" if close else ""


def _closest(wrong: str, known: Iterable[str]) -> str:
    """Return the word of *known* that *wrong* nearly is, or ""."""
    # A prompt of one word has few letters of any command, and needs no import to tell that.
    likely = [
        each
        for each in known
        if 2 * sum(map(each.__contains__, wrong)) >= _CLOSE * (len(wrong) + len(each))
    ]
    if not likely:
        return ""
    from difflib import get_close_matches  # rare

    return next(iter(get_close_matches(wrong, likely, n=1, cutoff=_CLOSE)), "")
