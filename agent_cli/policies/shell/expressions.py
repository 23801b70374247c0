"""Check programs whose arguments are a small language: find, jq, printf and similar.

Each function raises `Objection` unless the arguments make the program only read.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import takewhile
from types import MappingProxyType
from typing import TypeAlias

from agent_cli.policies.shell.awk import check_awk
from agent_cli.policies.shell.feeding import check_fed
from agent_cli.policies.shell.operands import check_readable
from agent_cli.policies.shell.options import known_options
from agent_cli.policies.shell.place import Objection, Place
from agent_cli.policies.shell.sed import check_sed
from agent_cli.policies.shell.words import Word

Check: TypeAlias = Callable[[Sequence[Word], Place, str], None]
"""Takes the arguments, the place and the folder the command runs in."""

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
_DATE_OPTIONS = known_options("-uRI -d= --utc --universal --date= --iso-8601[=] --rfc-3339=")
_PRINTF_FORMAT = re.compile(r"(?!-)(?:[^%]|%%|%[-+ 0#]*\d*(?:\.\d+)?[sbcdiouxXeEfgG])*", re.DOTALL)
_JQ_OPTIONS = known_options(
    "-rcnsSCMaje --raw-output --compact-output --null-input --slurp --sort-keys --join-output"
    " --color-output --monochrome-output --ascii-output --tab --indent= --exit-status --raw-input"
)
# Functions that read other files, or the environment.
_JQ_NO = re.compile(
    r"\b(?:env|input_filename|import|include|modulemeta|get_search_list)\b|\$ENV|\$__"
    # Some versions accept blanks and comments before the name.
    r"|\$[\s#]"
)
_SET = frozenset(
    {"-e", "-u", "-eu", "-ue", "-euo", "-eo", "-uo", "-o", "pipefail", "errexit", "nounset"}
)


def _check_find(arguments: Sequence[Word], place: Place, folder: str) -> None:
    rest = arguments[1:] if arguments and arguments[0].text == "-P" else arguments
    starts = list(takewhile(lambda word: not _begins_expression(word.text), rest))
    tops = [path for start in starts or [Word(".")] for path in place.expand(start, folder)]
    for path in tops:
        place.check_path(path, folder)
    expression = iter(rest[len(starts) :])
    for word in expression:
        if word.text == "-exec":
            _check_exec(expression, tops, place, folder)
            continue
        value = next(expression, None) if word.text in _FIND_WITH_VALUE else word
        if value is None or value.glob or word.text not in _FIND_ALONE | _FIND_WITH_VALUE:
            raise Objection(f"find {word.text} may do more than search")


def _check_exec(expression: Iterator[Word], tops: Sequence[str], place: Place, folder: str) -> None:
    """Accept the command of -exec if it only reads the files that find names."""
    words: list[Word] = []
    for word in expression:
        if word.text == ";" or (word.text == "+" and words and words[-1].text == "{}"):
            break
        words.append(word)
    else:
        raise Objection("find -exec without an end")
    if "{}" not in [word.text for word in words] or any(word.glob for word in words):
        raise Objection("find -exec with a command that is not certain")
    for top in tops:
        place.check_found(top, folder, "none")
    check_fed(words, tops[0], "{}", place, folder)


def _begins_expression(text: str) -> bool:
    return text.startswith("-") or text in ("!", "(", ")", ",")


def _check_date(arguments: Sequence[Word], _place: Place, _folder: str) -> None:
    for word in _DATE_OPTIONS.sort("date", arguments).operands:
        if word.glob or not word.text.startswith("+"):
            raise Objection("date sets the clock")


def _check_printf(arguments: Sequence[Word], _place: Place, _folder: str) -> None:
    # -v and %n set a variable.
    if not arguments or arguments[0].glob or not _PRINTF_FORMAT.fullmatch(arguments[0].text):
        raise Objection("printf with an option or format that may set variables")


def _check_exit(arguments: Sequence[Word], _place: Place, _folder: str) -> None:
    if len(arguments) > 1 or any(word.glob for word in arguments):
        raise Objection("exit with more than a number")


def _check_set(arguments: Sequence[Word], _place: Place, _folder: str) -> None:
    texts = [word.text for word in arguments]
    if not texts or texts == ["-o"] or not _SET.issuperset(texts):
        raise Objection("set shows or changes the environment")


def _check_jq(arguments: Sequence[Word], place: Place, folder: str) -> None:
    words = list(arguments)
    given: list[Word] = []
    while words:
        word = words.pop(0)
        if word.text in ("--arg", "--argjson") and len(words) > 1:
            del words[:2]
        else:
            given.append(word)
    line = _JQ_OPTIONS.sort("jq", given)
    if not line.operands or line.operands[0].glob:
        raise Objection("jq without a filter")
    program, *files = line.operands
    if _JQ_NO.search(program.text):
        raise Objection("jq with a filter that reads other files or the environment")
    check_readable(files, place, folder)


def _check_command(arguments: Sequence[Word], _place: Place, _folder: str) -> None:
    if not arguments or arguments[0].text not in ("-v", "-V"):
        raise Objection("command runs another command")


def _check_nothing(_arguments: Sequence[Word], _place: Place, _folder: str) -> None:
    """Accept any arguments: the shell builtin only prints them, or does nothing."""


def _only_options(written: str, *, operands: bool) -> Check:
    known = known_options(written)

    def check(arguments: Sequence[Word], _place: Place, _folder: str) -> None:
        found = known.sort("this command", arguments).operands
        if any(word.glob for word in found) or (found and not operands):
            raise Objection("arguments that are not checked")

    return check


# Shell builtins; no program of this name is looked up.
BUILTINS: Mapping[str, Check] = MappingProxyType(
    {
        "echo": _check_nothing,
        ":": _check_nothing,
        "true": _check_nothing,
        "false": _check_nothing,
        "printf": _check_printf,
        "exit": _check_exit,
        "set": _check_set,
        "command": _check_command,
        "pwd": _only_options("-LP", operands=False),
        "type": _only_options("-aftpP", operands=True),
    }
)
EXPRESSIONS: Mapping[str, Check] = MappingProxyType(
    {
        "find": _check_find,
        "sed": check_sed,
        **dict.fromkeys(("awk", "gawk", "mawk"), check_awk),
        "jq": _check_jq,
        "date": _check_date,
        "sleep": _only_options("", operands=True),
    }
)
