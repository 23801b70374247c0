"""Recognise scripts that change files and yet read no secret: only what they name, if that.

For a sandbox that cannot hide a secret in a folder that may be written. A link counts by where it
leads before the script; so once a copy or a move may have brought another one, nothing is read.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from agent_cli.policies.shell.plain import SimpleCommand, Unknown, parse
from agent_cli.policies.shell.reach import Objection, Reach
from agent_cli.policies.shell.read_only import objections
from agent_cli.policies.shell.words import NotLiteral, Word
from agent_cli.system.late_patterns import late_pattern

# The options, all without a value, with which a program reads and follows nothing else.
_OPTIONS: Mapping[str, re.Pattern[str]] = MappingProxyType(
    {
        "mkdir": late_pattern(r"-[pv]+"),
        "rmdir": late_pattern(r"-[pv]+"),
        "touch": late_pattern(r"-[acm]+"),
        "rm": late_pattern(r"-[firRv]+"),
        "chmod": late_pattern(r"-[Rcfv]+"),
        "mv": late_pattern(r"-[finv]+"),
        "cp": late_pattern(r"-[afinprRv]+"),
    }
)
_BRINGS_LINKS = frozenset({"mv", "cp"})
_MODE = late_pattern(r"[0-7]{3,4}|[ugoa]*[+=-][rwxX]+")


def reads_no_secret(script: str, reach: Reach) -> bool:
    """Return whether *script* surely reads no secret, although it may change what it names."""
    commands = parse(script, reach.variables)
    if isinstance(commands, Unknown):
        return False
    if not all(isinstance(each, SimpleCommand) and each.words[0].text != "cd" for each in commands):
        return False
    may_be_other_links = has_changed = False
    for command, objection in objections(commands, reach):
        reads = objection is None
        name = command.words[0].text
        if (reads or name in _BRINGS_LINKS) and may_be_other_links:
            return False
        if reads:
            continue
        if not _changes_only_what_it_names(command, reach, may_expand=not has_changed):
            return False
        has_changed = True
        may_be_other_links = may_be_other_links or name in _BRINGS_LINKS
    return True


def _changes_only_what_it_names(command: SimpleCommand, reach: Reach, *, may_expand: bool) -> bool:
    words = command.words
    name, arguments = words[0].text, words[1:]
    options = _OPTIONS.get(name)
    if options is None or command.after in ("|", "|&") or command.reads:
        return False
    operands = [each for each in arguments if each.glob or not each.text.startswith("-")]
    given = [each for each in arguments if each not in operands]
    if name == "chmod" and not (operands and _MODE.fullmatch(operands.pop(0).text)):
        return False
    if any(each.untold or (each.glob and not may_expand) for each in operands):
        return False
    if not all(options.fullmatch(each.text) for each in given):
        return False
    try:
        reach.check_program(name)
        return bool(operands) and _hold_no_secret(operands, reach)
    except (Objection, NotLiteral, OSError):
        return False


def _hold_no_secret(operands: Sequence[Word], reach: Reach) -> bool:
    """Return True.

    Raises:
        Objection: One of them is a secret, holds one, or lies outside the workspace.
    """
    folder = str(reach.root)
    for word in operands:
        for path in reach.expand(word, folder):
            if Path(reach.check_path(path, folder)).is_dir():
                reach.check_tree(path, folder)
    return True
