"""Which simple commands only read, and only what the workspace shows."""

import os
import re
from collections.abc import Sequence
from pathlib import Path

from agent_cli.policies.shell.expressions import BUILTINS, EXPRESSIONS
from agent_cli.policies.shell.git import check_git
from agent_cli.policies.shell.options import CommandLine
from agent_cli.policies.shell.place import Objection, Place
from agent_cli.policies.shell.plain import SimpleCommand
from agent_cli.policies.shell.programs import PROGRAMS, Program
from agent_cli.policies.shell.words import Word

_DURATION = re.compile(r"\d+(?:\.\d+)?[smhd]?")


def objections(commands: Sequence[SimpleCommand], place: Place) -> list[str | None]:
    """Return for each command why it may do more than read; None where it only reads.

    A `cd` is followed while nothing but `cd` ran before it; with it the folder of the rest is
    known for certain, because the folders were there when this was asked.
    """
    found: list[str | None] = []
    folder: str | None = str(place.root)
    for at, command in enumerate(commands):
        try:
            if command.words[0].text == "cd":
                folder = _entered(commands, at, place, folder)
            else:
                _check(command.words, place, folder, moved=folder != str(place.root))
            found.append(None)
        except (Objection, OSError) as objection:
            # An OSError is a path that no program could open either: a name too long, a loop.
            found.append(str(objection))
            if command.words[0].text == "cd":
                folder = None
    return found


def _entered(commands: Sequence[SimpleCommand], at: int, place: Place, folder: str | None) -> str:
    """Return the folder in which a `cd` leaves the shell."""
    words = commands[at].words
    first = all(command.words[0].text == "cd" for command in commands[:at])
    joins = {command.after for command in commands[1 : at + 2]}
    if folder is None or not first or not joins <= {"&&", ";", "\n"}:
        raise Objection("cd where its effect is not certain")
    if len(words) != 2 or words[1].glob or words[1].text[:1] in ("-", ""):
        raise Objection("cd without exactly one folder")
    # Bash takes .. away from the text before it looks for links.
    logical = os.path.normpath(Path(folder) / words[1].text)
    place.check_path(logical, folder)
    if not (Path(logical).is_dir() and os.access(logical, os.X_OK)):
        raise Objection(f"cd {words[1].text}: there is no such folder")
    return logical


def _check(words: Sequence[Word], place: Place, folder: str | None, *, moved: bool) -> None:
    if folder is None:
        raise Objection("it runs in a folder that is not known")
    name, arguments = words[0].text, words[1:]
    inner = _wrapped(words)
    if inner and name != "command":
        place.check_program(name)
    if not inner and name in BUILTINS:
        BUILTINS[name](arguments, place, folder)
        _check_names(arguments, place, folder)
    else:
        _check_program(inner or words, place, folder, moved=moved)


def _wrapped(words: Sequence[Word]) -> Sequence[Word]:
    """Return the command that a program which only starts another one starts; () for others."""
    match [word.text for word in words]:
        case ["timeout", duration, _, *_] if _DURATION.fullmatch(duration):
            return words[2:]
        case ["time" | "nice" | "command", program, *_] if not program.startswith("-"):
            return words[1:]
    return ()


def _check_program(words: Sequence[Word], place: Place, folder: str, *, moved: bool) -> None:
    name, arguments = words[0].text, words[1:]
    place.check_program(name)
    if name == "git":
        if moved:
            raise Objection("git behind a cd, which may enter another repository")
        check_git(arguments, place, folder)
    elif name in EXPRESSIONS:
        EXPRESSIONS[name](arguments, place, folder)
    elif name in PROGRAMS:
        _check_operands(name, PROGRAMS[name], arguments, place, folder)
    else:
        raise Objection(f"{name} is not known to only read")


def _check_operands(
    name: str, program: Program, arguments: Sequence[Word], place: Place, folder: str
) -> None:
    line = program.options.sort(name, arguments)
    if program.can_write and any(word.glob for word in arguments):
        raise Objection(f"{name} can write, and a pattern may give it an option")
    if program.operands == "none" and line.operands:
        raise Objection(f"{name} with operands")
    if program.operands_max is not None and len(line.operands) > program.operands_max:
        raise Objection(f"{name} with more than {program.operands_max} operand writes")
    if program.operands in ("paths", "pattern"):
        _check_paths(name, program, line, place, folder)
    else:
        _check_names(arguments, place, folder)


def _check_names(words: Sequence[Word], place: Place, folder: str) -> None:
    """Accept words that are mere text; a pattern among them shows names, and of what folder."""
    for word in words:
        if word.glob:
            for name in place.expand(word, folder):
                place.check_path(name, folder)


def _check_paths(name: str, program: Program, line: CommandLine, place: Place, folder: str) -> None:
    searches = "" in program.searches or not program.searches.isdisjoint(line.options)
    words = line.operands
    if program.operands == "pattern" and program.instead_of_pattern.isdisjoint(line.options):
        if words and words[0].glob:
            raise Objection(f"{name}: what to look for is a pattern of file names")
        words = words[1:]
    if searches and not words:
        words = (Word("."),)
    for word in words:
        for path in place.expand(word, folder):
            if path == "-":
                continue
            real = place.check_path(path, folder)
            if searches:
                place.check_tree(path, folder)
            if program.no_folders and Path(real).is_dir():
                raise Objection(f"{name} would choose files in {path} itself")
