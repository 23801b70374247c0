"""Recognise `awk` programs that only print and calculate: no other files, no commands.

A program is read token by token. It is rejected where the text does not tell whether a slash
divides or begins a pattern, or whether > compares or redirects.
"""

import re
from collections.abc import Sequence

from agent_cli.policies.shell.operands import check_readable
from agent_cli.policies.shell.place import Objection, Place
from agent_cli.policies.shell.words import Word

_MEMBER = r"(?:\[:\w+:\]|[^\]\[\\\n/\"])"
# A ] at the beginning is a literal member.
_BRACKET = rf"\[\^?(?:\]|(?!\^){_MEMBER}){_MEMBER}*\]"
_REGEX = re.compile(rf"/(?:[^/\\\n\[]|\\[^\n]|{_BRACKET})*/")
_TOKEN = re.compile(
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
_BUILT_IN_NO = re.compile(
    r"(?i:system|getline|close|fflush|func|function|return|switch|case|default)"
)
_OWN_VARIABLE = re.compile(r"[a-z_][A-Za-z0-9_]*|[A-Z][a-z0-9_]*|[A-Z]", re.ASCII)
_ASSIGNED = re.compile(r"(?P<name>[A-Za-z_]\w*)=.*", re.DOTALL | re.ASCII)
# A slash behind one of these always begins a pattern.
_BEFORE_PATTERN = frozenset({"", "(", ",", "~", "!~", "!", "&&", "||", "{", "}", ";", "\n"})
_PROGRAM_CHARS_MAX = 2_000


def check_awk(arguments: Sequence[Word], place: Place, folder: str) -> None:
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
    check_readable(files, place, folder)


def _is_own(name: str) -> bool:
    known = name in _KEYWORDS or name in _FUNCTIONS or _BUILT_IN_NO.fullmatch(name)
    return not known and bool(_OWN_VARIABLE.fullmatch(name))


def _only_prints(program: str) -> bool:
    """Return whether every token of *program* is known, and none of them can write or run."""
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
