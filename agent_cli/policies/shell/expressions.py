"""Programs whose arguments are a small language: find, sed, test, printf and their like.

Each function raises `Objection` unless the arguments it gets can only read.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import takewhile
from types import MappingProxyType
from typing import TypeAlias

from agent_cli.policies.shell.options import known_options
from agent_cli.policies.shell.place import Objection, Place
from agent_cli.policies.shell.words import Word

Check: TypeAlias = Callable[[Sequence[Word], Place, str], None]
"""Gets the arguments, the place and the folder the command runs in."""

_FIND_ALONE = frozenset(
    {
        *("-empty", "-print", "-print0", "-ls", "-prune", "-quit", "-true", "-false", "-daystart"),
        *("-xdev", "-mount", "-depth", "-readable", "-writable", "-executable", "-noleaf"),
        *("!", "(", ")", ",", "-not", "-a", "-and", "-o", "-or"),
    }
)
_FIND_WITH_VALUE = frozenset(
    {
        *("-name", "-iname", "-path", "-ipath", "-wholename", "-iwholename", "-regex", "-iregex"),
        *("-regextype", "-type", "-xtype", "-maxdepth", "-mindepth", "-size", "-links", "-perm"),
        *("-mtime", "-ctime", "-atime", "-mmin", "-cmin", "-amin"),
    }
)
_SED_OPTIONS = known_options("-nErsuz --quiet --silent --regexp-extended --posix")
_SED_ADDRESS = r"(?:\d+|\$|/[^/\\\n]*/)"
_SED_COMMAND = rf"\s*(?:{_SED_ADDRESS}(?:,(?:{_SED_ADDRESS}|\+\d+))?)?\s*[pdq=]\s*"
_SED_SCRIPT = re.compile(rf"{_SED_COMMAND}(?:;{_SED_COMMAND})*")
_DATE_OPTIONS = known_options("-uRI -d= --utc --universal --date= --iso-8601[=] --rfc-3339=")
_PRINTF_FORMAT = re.compile(r"(?!-)(?:[^%]|%%|%[-+ 0#]*\d*(?:\.\d+)?[sbcdiouxXeEfgG])*", re.DOTALL)
_TEST_UNARY = frozenset({"-e", "-f", "-d", "-r", "-w", "-x", "-s", "-L", "-h", "-z", "-n"})
_TEST_BINARY = frozenset({"=", "==", "!=", "-eq", "-ne", "-lt", "-le", "-gt", "-ge"})


def _check_find(arguments: Sequence[Word], place: Place, folder: str) -> None:
    rest = arguments[1:] if arguments and arguments[0].text == "-P" else arguments
    starts = list(takewhile(lambda word: not _begins_expression(word.text), rest))
    for start in starts:
        for path in place.expand(start, folder):
            place.check_path(path, folder)
    expression = iter(rest[len(starts) :])
    for word in expression:
        value = next(expression, None) if word.text in _FIND_WITH_VALUE else word
        if value is None or value.glob or word.text not in _FIND_ALONE | _FIND_WITH_VALUE:
            raise Objection(f"find {word.text} is not among the tests known to only read")


def _begins_expression(text: str) -> bool:
    return text.startswith("-") or text in ("!", "(", ")", ",")


def _check_sed(arguments: Sequence[Word], place: Place, folder: str) -> None:
    line = _SED_OPTIONS.sort("sed", arguments)
    if not line.operands or line.operands[0].glob:
        raise Objection("sed without a script")
    script, *paths = line.operands
    if not _SED_SCRIPT.fullmatch(script.text):
        raise Objection(f"sed {script.text!r} does more than choose lines by number or pattern")
    for word in paths:
        for path in place.expand(word, folder):
            place.check_path(path, folder)


def _check_date(arguments: Sequence[Word], _place: Place, _folder: str) -> None:
    for word in _DATE_OPTIONS.sort("date", arguments).operands:
        if word.glob or not word.text.startswith("+"):
            raise Objection("date would set the clock")


def _check_printf(arguments: Sequence[Word], _place: Place, _folder: str) -> None:
    # -v sets a variable, and so does %n.
    if not arguments or arguments[0].glob or not _PRINTF_FORMAT.fullmatch(arguments[0].text):
        raise Objection("printf with an option, or a format that does more than print")


def _check_test(arguments: Sequence[Word], _place: Place, _folder: str) -> None:
    # -v evaluates the subscript of an array, and a subscript may hold a command.
    texts = [word.text for word in arguments]
    texts = texts[1:] if texts[:1] == ["!"] else texts
    known = (len(texts) == 2 and texts[0] in _TEST_UNARY) or (
        len(texts) == 3 and texts[1] in _TEST_BINARY
    )
    if not known or any(word.glob for word in arguments):
        raise Objection("test with more than one comparison, or one unknown here")


def _check_command(arguments: Sequence[Word], _place: Place, _folder: str) -> None:
    if not arguments or arguments[0].text not in ("-v", "-V"):
        raise Objection("command would run what follows")


def _check_nothing(_arguments: Sequence[Word], _place: Place, _folder: str) -> None:
    """Accept: the shell itself prints these words, or nothing at all."""


def _only_options(written: str, *, operands: bool) -> Check:
    known = known_options(written)

    def check(arguments: Sequence[Word], _place: Place, _folder: str) -> None:
        found = known.sort("this command", arguments).operands
        if any(word.glob for word in found) or (found and not operands):
            raise Objection("operands where none are known, or a pattern among them")

    return check


# Run by the shell itself; no program of this name is looked for.
BUILTINS: Mapping[str, Check] = MappingProxyType(
    {
        "echo": _check_nothing,
        ":": _check_nothing,
        "true": _check_nothing,
        "false": _check_nothing,
        "printf": _check_printf,
        "test": _check_test,
        "command": _check_command,
        "pwd": _only_options("-LP", operands=False),
        "type": _only_options("-aftpP", operands=True),
    }
)
EXPRESSIONS: Mapping[str, Check] = MappingProxyType(
    {
        "find": _check_find,
        "sed": _check_sed,
        "date": _check_date,
        "sleep": _only_options("", operands=True),
    }
)
