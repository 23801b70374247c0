"""Name the effects of one command in verbs from the effect table, reading included."""

import re
from collections.abc import Sequence
from typing import Final

from agent_cli.policies.shell.effect_table import Effect, effect_table
from agent_cli.policies.shell.readings import SHELLS, Reading, base_name
from agent_cli.system.late_patterns import late_pattern

_NAMED_MAX: Final = 3
_VERSION: Final = late_pattern(r"[\d.]+$")
# The names of files say more than the effect alone.
_WITH_NAMES: Final = frozenset(
    {
        *("rm", "rmdir", "unlink", "shred", "mkdir", "touch", "mv", "cp", "ln", "cat"),
        *("cd", "pushd", "tee", "source", ".", "ls", "chmod", "chown", "truncate", "patch"),
    }
)


def what_it_does(words: Reading) -> str:
    """Return what a simple command of *words* does, as a clause that begins with a verb.

    Returns:
        "" for a program that is not known. A word that is not known is left out.
    """
    head = words[0] if words else None
    if head is None:
        return ""
    name = base_name(head)
    known = [word for word in words[1:] if word is not None]
    if name in SHELLS:
        is_named = any(not word.startswith("-") for word in known) or len(known) < len(words) - 1
        return "runs a shell script" if is_named else "runs its input as a shell script"
    found = known_effect(name, known)
    does = found.says if found else ""
    names = [word for word in known if not word.startswith("-")] if name in _WITH_NAMES else []
    return f"{does}: {_few(names)}" if does and names else does


def known_effect(name: str, arguments: Sequence[str]) -> Effect | None:
    """Return what the table says about a program with *arguments*, if anything."""
    table = effect_table()
    entries = table.get(name) or table.get(_VERSION.sub("", name)) or []
    if name == "tar" and arguments:  # `tar xf` is `tar -xf`
        arguments = [f"-{arguments[0].removeprefix('-')}", *arguments[1:]]
    operands = [word for word in arguments if not word.startswith("-")]
    fitting = [
        (begin, each)
        for each in entries
        if (begin := _begin(operands, each.subcommand)) is not None
        and all(_has_option(arguments, option) for option in each.options)
    ]
    # The first word that is a subcommand counts: `git commit -m push` pushes nothing.
    named = [found for found in fitting if found[1].subcommand or found[1].options]
    first = min((begin for begin, _ in named), default=0)
    best = max((each for begin, each in named if begin == first), key=_length, default=None)
    return best or next((each for _, each in fitting), None)


def listed_effect(name: str, arguments: Sequence[str]) -> str:
    """Return what a program with *arguments* does besides reading, "" if nothing or unknown."""
    found = known_effect(name, arguments)
    return found.says if found and found.is_said else ""


def _few(names: Sequence[str]) -> str:
    more = len(names) - _NAMED_MAX
    return ", ".join(names[:_NAMED_MAX]) + (f" and {more} more" if more > 0 else "")


def _length(effect: Effect) -> int:
    return len(effect.subcommand) + len(effect.options)


def _begin(operands: Sequence[str], subcommand: Sequence[str]) -> int | None:
    """Return where *subcommand* begins among *operands*: 0 if it is empty, None if nowhere."""
    if not subcommand:
        return 0
    if subcommand[0] not in operands:
        return None
    begin = operands.index(subcommand[0])
    behind = iter(operands[begin:])
    return begin if all(word in behind for word in subcommand) else None


def _has_option(arguments: Sequence[str], option: str) -> bool:
    if option.startswith("--") or len(option) > 2:
        return any(word.partition("=")[0] == option for word in arguments)
    joined = re.compile(rf"-\w*{option[1]}.*", re.DOTALL)
    return any(joined.fullmatch(word) for word in arguments)
