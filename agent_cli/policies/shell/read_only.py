"""Find the commands of a script that do more than read files of the workspace."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

from agent_cli.policies.shell.effects import effect_of, runs_unknown
from agent_cli.policies.shell.expressions import BUILTINS, EXPRESSIONS
from agent_cli.policies.shell.feeding import check_xargs
from agent_cli.policies.shell.git import check_git
from agent_cli.policies.shell.plain import Compound, Loop, Part, SimpleCommand, only_compares
from agent_cli.policies.shell.programs import PROGRAMS, check_names, check_operands
from agent_cli.policies.shell.reach import Objection, OutOfReach, Reach
from agent_cli.policies.shell.words import NotLiteral, Word
from agent_cli.system.loading import late_pattern
from agent_cli.system.records import dataclass

JUDGED_MAX = 2_000
UNCERTAIN_FOLDER = "works in a folder that is known only when it runs"
_DURATION = late_pattern(r"\d+(?:\.\d+)?[smhd]?")
_INCREMENT = late_pattern(r"-?\d+")
_PATTERN = late_pattern(r"[*?\[\]]")
_CONDITIONS = frozenset({"test", "[", "[["})
# Programs for which a value known only to the shell is harmless.
_TAKES_ANY_TEXT = frozenset({"echo", "printf", "exit"}) | _CONDITIONS
_LOOP = SimpleCommand((Word("for"),))


@dataclass(slots=True)
class _Shell:
    """A shell's current folder (None if uncertain), and whether `cd` may be followed in it."""

    folder: str | None
    may_move: bool = True


def objections(parts: Sequence[Part], reach: Reach) -> list[tuple[SimpleCommand, str | None]]:
    """Return each command with the reason why it may do more than read, or None.

    Commands of a loop are returned once for each value. A `cd` is followed only while nothing but
    `cd` ran before it in its shell; then the folder is certain, because no command could have
    changed the folders since they were checked.
    """
    shell = _Shell(str(reach.root))
    found = list(islice(_judged(parts, reach, shell), JUDGED_MAX))
    if len(found) == JUDGED_MAX:
        found.append((_LOOP, "a loop with too many values to check"))
    return found


def _judged(
    parts: Sequence[Part], reach: Reach, shell: _Shell
) -> Iterator[tuple[SimpleCommand, str | None]]:
    for at, part in enumerate(parts):
        match part:
            case SimpleCommand() if part.words[0].text == "cd":
                yield part, _moved(parts, at, reach, shell)
            case SimpleCommand():
                yield part, _objection(part, parts[:at], reach, shell.folder)
            case Compound():
                inner = _Shell(shell.folder, may_move=part.own_shell)
                yield from _judged(part.parts, reach, inner)
                if not part.own_shell and inner.folder is None:
                    shell.folder = None
            case Loop():
                yield from _looped(part, reach, shell)


def _looped(loop: Loop, reach: Reach, shell: _Shell) -> Iterator[tuple[SimpleCommand, str | None]]:
    inner = _Shell(shell.folder, may_move=False)
    try:
        if inner.folder is None:
            raise Objection(UNCERTAIN_FOLDER)
        check_names(loop.values, reach, inner.folder)
        values = [text for word in loop.values for text in reach.expand(word, inner.folder)]
        patterns = {word.text for word in loop.values if word.glob}
        for value in dict.fromkeys(values):
            # A pattern that matches nothing stands for itself.
            value = _PATTERN.sub("_", value) if value in patterns else value
            yield from _judged(loop.body(value), reach, inner)
    except (Objection, NotLiteral, OSError) as objection:
        yield _LOOP, str(objection)
    if inner.folder is None:
        shell.folder = None


def _moved(parts: Sequence[Part], at: int, reach: Reach, shell: _Shell) -> str | None:
    """Follow a `cd`; return the objection to it, if any."""
    try:
        shell.folder = _entered(parts, at, reach, shell)
    except OutOfReach as objection:
        shell.folder = None
        return str(objection).replace("reads ", "works in ", 1)
    except (Objection, OSError) as objection:
        # On an OSError no program could open the path either: a name too long, a link loop.
        shell.folder = None
        return str(objection)
    return None


def _entered(parts: Sequence[Part], at: int, reach: Reach, shell: _Shell) -> str:
    """Return the shell's folder after a `cd`."""
    command = parts[at]
    assert isinstance(command, SimpleCommand)
    words = command.words
    first = all(
        isinstance(each, SimpleCommand) and each.words[0].text == "cd" for each in parts[:at]
    )
    joins = {part.after for part in parts[1 : at + 2]}
    if shell.folder is None or not (shell.may_move and first and joins <= {"&&", ";", "\n"}):
        raise Objection(UNCERTAIN_FOLDER)
    if len(words) != 2 or words[1].glob or words[1].unknown or words[1].text[:1] in ("-", ""):
        raise Objection("cd without exactly one folder")
    # Bash resolves .. in the text before it follows links.
    logical = os.path.normpath(Path(shell.folder) / words[1].text)
    reach.check_path(logical, shell.folder)
    if not (Path(logical).is_dir() and os.access(logical, os.X_OK)):
        raise Objection(f"cd {words[1].text}: no such folder")
    return logical


def _objection(
    command: SimpleCommand, before: Sequence[Part], reach: Reach, folder: str | None
) -> str | None:
    try:
        if folder is None:
            raise Objection(UNCERTAIN_FOLDER)
        for word in command.reads:
            if word.glob or word.unknown:
                raise Objection("a redirect from a file whose name is not certain")
            reach.check_path(word.text, folder)
        _check(command, _pipeline(command, before), reach, folder)
    except OutOfReach as objection:
        return str(objection)
    except (Objection, OSError) as objection:
        return effect_of([word.text for word in command.words], reach) or str(objection)
    return None


def _pipeline(command: SimpleCommand, before: Sequence[Part]) -> tuple[SimpleCommand, ...] | None:
    """Return the commands whose output *command* reads; None if they are not simple."""
    if command.is_fed:
        return None
    found: list[SimpleCommand] = []
    joined = command.after
    for part in reversed(before):
        if joined not in ("|", "|&"):
            break
        if (
            joined == "|&"
            or not isinstance(part, SimpleCommand)
            or part.tells_errors
            or part.is_fed
        ):
            return None
        found.insert(0, part)
        joined = part.after
    return tuple(found)


def _check(
    command: SimpleCommand,
    upstream: tuple[SimpleCommand, ...] | None,
    reach: Reach,
    folder: str,
) -> None:
    words = command.words
    name, arguments = words[0].text, words[1:]
    if name not in _TAKES_ANY_TEXT and any(word.unknown for word in words):
        raise Objection(f"{name} with a variable whose value is not known")
    inner = _wrapped(words)
    if inner and name != "command":
        reach.check_program(name)
    if not inner and name in _CONDITIONS:
        if not only_compares(name, arguments):
            raise Objection(f"{name} with a condition that is not checked")
    elif not inner and name in BUILTINS:
        BUILTINS[name](arguments, reach, folder)
        check_names(arguments, reach, folder)
    elif not inner and name == "xargs":
        reach.check_program(name)
        check_xargs(arguments, upstream, reach, folder)
    else:
        _check_program(inner or words, reach, folder)


def _wrapped(words: Sequence[Word]) -> Sequence[Word]:
    """Return the command started by a wrapper program; () for other programs."""
    match [word.text for word in words]:
        case ["timeout", duration, _, *_] if _DURATION.fullmatch(duration):
            return words[2:]
        case ["time" | "nice" | "command", program, *_] if not program.startswith("-"):
            return words[1:]
        case ["nice", "-n", increment, _, *_] if _INCREMENT.fullmatch(increment):
            return words[3:]
        case _:
            return ()


def started_by(wrapper: SimpleCommand, reach: Reach) -> SimpleCommand | None:
    """Return the command that `timeout 60`, `time`, `nice` or `command` starts; None for others."""
    inner = _wrapped(wrapper.words)
    own = wrapper.words[: len(wrapper.words) - len(inner)]
    if not inner or any(word.unknown or word.glob for word in own):
        return None
    try:
        if own[0].text != "command":
            reach.check_program(own[0].text)
    except Objection:
        return None
    return replace(wrapper, words=tuple(inner))


def _check_program(words: Sequence[Word], reach: Reach, folder: str) -> None:
    name, arguments = words[0].text, words[1:]
    reach.check_program(name)
    if tells_about_itself(name, arguments, reach):
        return
    if name == "git":
        check_git(arguments, reach, folder)
    elif name in EXPRESSIONS:
        EXPRESSIONS[name](arguments, reach, folder)
    elif name in PROGRAMS:
        check_operands(name, PROGRAMS[name], arguments, reach, folder)
    else:
        raise Objection(runs_unknown(name))


# Left out: programs that, even for --version, first run another program if a file of the repository
# says so: yarn, pnpm, cargo, rustc, go, dotnet, pytest, terraform.
_VERSION = {
    **dict.fromkeys(
        (
            *("python", "python3", "pip", "pip3", "node", "npm", "ruby", "perl", "php", "make"),
            *("gcc", "g++", "clang", "cmake", "git", "bash", "grep", "sed", "awk", "find", "tar"),
            *("gzip", "curl", "wget", "jq", "rg", "docker", "gh", "uv", "ruff", "black", "mypy"),
            *("sqlite3", "psql", "ls", "cat", "sort", "diff", "patch", "rsync", "tmux", "vim"),
        ),
        ("--version",),
    ),
}
_MORE_VERSIONS = {
    "node": ("-v",),
    "npm": ("-v",),
    "python": ("-V",),
    "python3": ("-V",),
    "ruby": ("-v",),
    "perl": ("-v",),
    "php": ("-v",),
    "java": ("-version", "--version"),
    "javac": ("-version", "--version"),
    "ssh": ("-V",),
    "openssl": ("version",),
    "tmux": ("-V",),
}
_HELP = frozenset(
    {
        *(
            "python3",
            "node",
            "pip",
            "pip3",
            "make",
            "gcc",
            "tar",
            "curl",
            "jq",
            "rg",
            "grep",
            "sed",
        ),
        *("find", "ls", "cat", "head", "tail", "sort", "uniq", "wc", "cut", "tr", "diff", "xargs"),
        *(
            "cp",
            "mv",
            "rm",
            "mkdir",
            "touch",
            "chmod",
            "ruff",
            "mypy",
            "black",
            "uv",
            "gh",
            "rsync",
        ),
        *("docker", "stat", "du", "df", "tree", "date", "ps", "gzip", "cmake"),
    }
)
_PS_OPTIONS = late_pattern(r"-[AaeflFjTHwy]+|--forest|--no-headers|-p|-u|-C|--sort=-?[%\w]+")
_PS_BSD = late_pattern(r"[afjlruwx]+")
_PS_FIELDS = late_pattern(
    r"(?:pid|ppid|pgid|sid|user|uid|comm|args|cmd|command|pcpu|%cpu|pmem|%mem|rss|vsz|etime|etimes"
    r"|stat|state|start|lstart|time|tty|tt|nlwp|ni|pri)=?"
)
_PLAIN_VALUE = late_pattern(r"[\w.,-]+")


def tells_about_itself(name: str, arguments: Sequence[Word], reach: Reach) -> bool:
    """Return whether a program only prints its version, its help or the processes.

    Raises:
        Objection: It is `ps`, and would show more than that.
    """
    texts = [word.text for word in arguments]
    if len(texts) == 1:
        [text] = texts
        if text in _VERSION.get(name, ()) or text in _MORE_VERSIONS.get(name, ()):
            return True
        if text == "--help" and name in _HELP:
            return True
    if name == "ps":
        _check_ps(texts, reach)
        return True
    return False


def _check_ps(texts: list[str], reach: Reach) -> None:
    # Arguments of other programs may be secrets; the sandbox shows no other programs.
    if not reach.secrets_are_masked:
        raise Objection("ps shows the arguments of other programs")
    waiting = iter(texts)
    for text in waiting:
        if text in ("-o", "-eo", "-Ao", "o", "axo"):
            known = all(map(_PS_FIELDS.fullmatch, next(waiting, "").split(",")))
        elif text in ("-p", "-u", "-C"):
            known = bool(_PLAIN_VALUE.fullmatch(next(waiting, "")))
        else:
            known = bool(_PS_OPTIONS.fullmatch(text) or _PS_BSD.fullmatch(text))
        if not known:
            raise Objection(f"ps {text} may do more than read")
