"""Check the options and operands of a known read-only program against its table."""

from collections.abc import Sequence
from pathlib import Path

from agent_cli.policies.shell.options import ProgramArguments
from agent_cli.policies.shell.programs import Program
from agent_cli.policies.shell.reach import Objection, Reach
from agent_cli.policies.shell.words import Word


def check_operands(
    name: str, program: Program, arguments: Sequence[Word], reach: Reach, folder: str
) -> None:
    """Accept *arguments* with which *program* only reads files of the workspace.

    Raises:
        Objection: They may do more.
    """
    line = program.options.sort(name, arguments)
    if program.can_write and any(word.glob for word in arguments):
        raise Objection(f"{name} can write files, and a pattern may give it an option")
    if program.operands == "none" and line.operands:
        is_python = name.startswith("python")
        raise Objection("runs a Python script" if is_python else f"{name} may change files")
    if program.operands_max is not None and len(line.operands) > program.operands_max:
        raise Objection(f"{name} writes to its last argument")
    if program.operands in ("paths", "pattern"):
        _check_paths(name, program, line, reach, folder)
    else:
        check_names(arguments, reach, folder)


def check_names(words: Sequence[Word], reach: Reach, folder: str) -> None:
    """Accept words that are plain text; a pattern among them reveals the names in a folder."""
    for word in words:
        if word.glob:
            for name in reach.expand(word, folder):
                reach.check_path(name, folder)


def check_readable(words: Sequence[Word], reach: Reach, folder: str) -> None:
    """Accept words that name files to read."""
    for word in words:
        for path in reach.expand(word, folder):
            if path != "-":
                reach.check_path(path, folder)


def _check_paths(
    name: str, program: Program, line: ProgramArguments, reach: Reach, folder: str
) -> None:
    searches = "" in program.searches or not program.searches.isdisjoint(line.options)
    words = line.operands
    if program.operands == "pattern" and program.instead_of_pattern.isdisjoint(line.options):
        if words and words[0].glob:
            raise Objection(f"{name}: the search text is a pattern of file names; quote it")
        words = words[1:]
    if searches and not words:
        words = (Word("."),)
    for word in words:
        for path in reach.expand(word, folder):
            if path == "-":
                continue
            real = reach.check_path(path, folder)
            if searches:
                reach.check_tree(path, folder)
            if program.no_folders and Path(real).is_dir():
                raise Objection(f"{name} on a folder reads files that it chooses itself: {path}")
