"""Check programs whose arguments are a small language: find, jq, printf and similar.

Each function raises `Objection` unless the arguments make the program only read.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import takewhile
from types import MappingProxyType
from typing import TypeAlias

from agent_cli.policies.shell.feeding import check_fed
from agent_cli.policies.shell.programs import check_readable, check_sed, known_options
from agent_cli.policies.shell.reach import Objection, Reach
from agent_cli.policies.shell.words import Word
from agent_cli.system.loading import late_pattern

# Recognise `awk` programs that only print and calculate: no other files, no commands.
#
# A program is read token by token. It is rejected where the text does not tell whether a slash
# divides or begins a pattern, or whether > compares or redirects.

_MEMBER = r"(?:\[:\w+:\]|[^\]\[\\\n/\"])"
# A ] at the beginning is a literal member.
_BRACKET = rf"\[\^?(?:\]|(?!\^){_MEMBER}){_MEMBER}*\]"
_REGEX = late_pattern(rf"/(?:[^/\\\n\[]|\\[^\n]|{_BRACKET})*/")
_TOKEN = late_pattern(
    r"(?P<blank>[ \t]+)"
    r'|(?P<string>"(?:[^"\\\n]|\\[^\n])*")'
    r"|(?P<number>\d+(?:\.\d+)?|\.\d+)"
    r"|(?P<name>[A-Za-z_]\w*)"
    r"|(?P<operator>\+\+|--|&&|\|\||[<>=!]=|!~|[-+*%^]=|[-+*%^!<>~?:,=(){}\[\]$;\n])",
    re.ASCII,
)
_KEYWORDS = frozenset(
    [
        "BEGIN",
        "END",
        "if",
        "else",
        "while",
        "for",
        "do",
        "in",
        "print",
        "printf",
        "next",
        "exit",
        "break",
        "continue",
        "delete",
    ]
)
_FUNCTIONS = frozenset(
    [
        "length",
        "substr",
        "index",
        "split",
        "sub",
        "gsub",
        "match",
        "sprintf",
        "tolower",
        "toupper",
        "int",
        "sqrt",
        "log",
        "exp",
        "sin",
        "cos",
        "atan2",
        "rand",
        "srand",
        "gensub",
        "strftime",
        "systime",
        "mktime",
        "asort",
        "asorti",
        "strtonum",
    ]
)
_VARIABLES = frozenset(
    [
        "NR",
        "NF",
        "FNR",
        "FS",
        "OFS",
        "RS",
        "ORS",
        "FILENAME",
        "RSTART",
        "RLENGTH",
        "SUBSEP",
        "CONVFMT",
        "OFMT",
        "IGNORECASE",
        "RT",
    ]
)
_BUILT_IN_NO = late_pattern(
    r"(?i:system|getline|close|fflush|func|function|return|switch|case|default)"
)
_OWN_VARIABLE = late_pattern(r"[a-z_][A-Za-z0-9_]*|[A-Z][a-z0-9_]*|[A-Z]", re.ASCII)
_ASSIGNED = late_pattern(r"(?P<name>[A-Za-z_]\w*)=.*", re.DOTALL | re.ASCII)
# A slash behind one of these always begins a pattern.
_BEFORE_PATTERN = frozenset({"", "(", ",", "~", "!~", "!", "&&", "||", "{", "}", ";", "\n"})
_PROGRAM_CHARS_MAX = 2_000


def check_awk(arguments: Sequence[Word], reach: Reach, folder: str) -> None:
    """Accept `awk` with a program that only prints, and files that may be read.

    Raises:
        Objection: It may do more.
    """
    words = list(arguments)
    while words and words[0].text.startswith("-") and words[0].text != "-":
        option = words.pop(0).text
        if option == "--":
            break
        value = option[2:] or (words.pop(0).text if words else "")
        assigned = _ASSIGNED.fullmatch(value)
        if not (
            option[:2] == "-F" or (option[:2] == "-v" and assigned and _is_own(assigned["name"]))
        ):
            raise Objection(f"awk {option} may do more than read")
    if not words or words[0].glob:
        raise Objection("awk without a program")
    program, *files = words
    if not _only_prints(program.text):
        raise Objection("awk with a program that may write files or run commands")
    for word in files:
        if word.text.startswith("-") and word.text != "-":
            raise Objection("awk with an option behind its program")  # Some find it there.
        assigned = _ASSIGNED.fullmatch(word.text)
        if assigned and not (_is_own(assigned["name"]) or assigned["name"] in _VARIABLES):
            raise Objection(f"awk {word.text} sets a variable of awk")
    check_readable(files, reach, folder)


def _is_own(name: str) -> bool:
    known = name in _KEYWORDS or name in _FUNCTIONS or _BUILT_IN_NO.fullmatch(name)
    return not known and bool(_OWN_VARIABLE.fullmatch(name))


def _only_prints(program: str) -> bool:
    """Return whether every token of *program* is known and unable to write or run."""
    if len(program) > _PROGRAM_CHARS_MAX:
        return False
    at, before, kind, parentheses, braces, prints = 0, "", "", 0, 0, False
    while at < len(program):
        if program[at] == "/":
            found = _slash(program, at, before, kind)
            if found is None:
                return False
            at, (before, kind) = found[0], found[1:]
            continue
        token = _TOKEN.match(program, at)
        if token is None:
            return False
        at = token.end()
        if token.lastgroup == "blank":
            continue
        text, last = token[0], token.lastgroup or ""
        if last == "name" and not _is_known_name(text, program[at:]):
            return False
        parentheses += (text == "(") - (text == ")")
        braces += (text == "{") - (text == "}")
        if text in (";", "\n", "{", "}"):
            prints = False
        prints = prints or text in ("print", "printf")
        # Elsewhere the > redirects to a file.
        if text == ">" and (prints or not (parentheses or not braces)):
            return False
        before, kind = text, last
    return parentheses == 0 and braces == 0


def _slash(program: str, at: int, before: str, kind: str) -> tuple[int, str, str] | None:
    """Return the end, text and kind of the token at a slash; None if its meaning is unclear."""
    if before in _BEFORE_PATTERN and kind != "string":
        found = _REGEX.match(program, at)
        return (found.end(), "regex", "string") if found else None
    is_variable = kind == "name" and (before in _VARIABLES or _is_own(before))
    if (kind == "number" or is_variable or before == "]") and kind != "string":
        return at + 1, "/", "operator"
    return None


def _is_known_name(name: str, rest: str) -> bool:
    if name in _KEYWORDS or name in _FUNCTIONS:
        return True
    # A name directly before a parenthesis is a function call.
    return (name in _VARIABLES or _is_own(name)) and not rest.lstrip(" \t").startswith("(")


Check: TypeAlias = Callable[[Sequence[Word], Reach, str], None]
"""Takes the arguments, the reach and the folder the command runs in."""

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
_PRINTF_FORMAT = late_pattern(
    r"(?!-)(?:[^%]|%%|%[-+ 0#]*\d*(?:\.\d+)?[sbcdiouxXeEfgG])*", re.DOTALL
)
_JQ_OPTIONS = known_options(
    "-rcnsSCMaje --raw-output --compact-output --null-input --slurp --sort-keys --join-output"
    " --color-output --monochrome-output --ascii-output --tab --indent= --exit-status --raw-input"
)
# Functions that read other files, or the environment.
_JQ_NO = late_pattern(
    r"\b(?:env|input_filename|import|include|modulemeta|get_search_list)\b|\$ENV|\$__"
    # Some versions accept blanks and comments before the name.
    r"|\$[\s#]"
)
_SET = frozenset(
    {"-e", "-u", "-eu", "-ue", "-euo", "-eo", "-uo", "-o", "pipefail", "errexit", "nounset"}
)


def _check_find(arguments: Sequence[Word], reach: Reach, folder: str) -> None:
    rest = arguments[1:] if arguments and arguments[0].text == "-P" else arguments
    starts = list(takewhile(lambda word: not _begins_expression(word.text), rest))
    tops = [path for start in starts or [Word(".")] for path in reach.expand(start, folder)]
    for path in tops:
        reach.check_path(path, folder)
    expression = iter(rest[len(starts) :])
    for word in expression:
        if word.text == "-exec":
            _check_exec(expression, tops, reach, folder)
            continue
        value = next(expression, None) if word.text in _FIND_WITH_VALUE else word
        if value is None or value.glob or word.text not in _FIND_ALONE | _FIND_WITH_VALUE:
            raise Objection(f"find {word.text} may do more than search")


def _check_exec(expression: Iterator[Word], tops: Sequence[str], reach: Reach, folder: str) -> None:
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
        reach.check_found(top, folder, "none")
    check_fed(words, tops[0], "{}", reach, folder)


def _begins_expression(text: str) -> bool:
    return text.startswith("-") or text in ("!", "(", ")", ",")


def _check_date(arguments: Sequence[Word], _reach: Reach, _folder: str) -> None:
    for word in _DATE_OPTIONS.sort("date", arguments).operands:
        if word.glob or not word.text.startswith("+"):
            raise Objection("date sets the clock")


def _check_printf(arguments: Sequence[Word], _reach: Reach, _folder: str) -> None:
    # -v and %n set a variable.
    if not arguments or arguments[0].glob or not _PRINTF_FORMAT.fullmatch(arguments[0].text):
        raise Objection("printf with an option or format that may set variables")


def _check_exit(arguments: Sequence[Word], _reach: Reach, _folder: str) -> None:
    if len(arguments) > 1 or any(word.glob for word in arguments):
        raise Objection("exit with more than a number")


def _check_set(arguments: Sequence[Word], _reach: Reach, _folder: str) -> None:
    texts = [word.text for word in arguments]
    if not texts or texts == ["-o"] or not _SET.issuperset(texts):
        raise Objection("set shows or changes the environment")


def _check_jq(arguments: Sequence[Word], reach: Reach, folder: str) -> None:
    words = list(arguments)
    remaining: list[Word] = []
    while words:
        word = words.pop(0)
        if word.text in ("--arg", "--argjson") and len(words) > 1:
            del words[:2]
        else:
            remaining.append(word)
    line = _JQ_OPTIONS.sort("jq", remaining)
    if not line.operands or line.operands[0].glob:
        raise Objection("jq without a filter")
    program, *files = line.operands
    if _JQ_NO.search(program.text):
        raise Objection("jq with a filter that reads other files or the environment")
    check_readable(files, reach, folder)


def _check_command(arguments: Sequence[Word], _reach: Reach, _folder: str) -> None:
    if not arguments or arguments[0].text not in ("-v", "-V"):
        raise Objection("command runs another command")


def _check_nothing(_arguments: Sequence[Word], _reach: Reach, _folder: str) -> None:
    """Accept any arguments: the shell builtin only prints them, or does nothing."""


def _only_options(written: str, *, operands: bool) -> Check:
    known = known_options(written)

    def check(arguments: Sequence[Word], _reach: Reach, _folder: str) -> None:
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
