"""Recognise `sed` scripts that only select and rewrite lines for the output."""

import re
from collections.abc import Sequence

from agent_cli.policies.shell.options import known_options
from agent_cli.policies.shell.programs import check_readable
from agent_cli.policies.shell.reach import Objection, Reach
from agent_cli.policies.shell.words import Word
from agent_cli.system.late_patterns import late_pattern

_OPTIONS = known_options("-nErsuz -e= --quiet --silent --regexp-extended --posix --expression=")
_DELIMITERS = "/|,#:@!"


def _text(delimiter: str, *, brackets: bool) -> str:
    """Return a pattern for the text between two *delimiter*s.

    A bracket must be closed before the next delimiter: programs disagree on whether it may contain
    one.
    """
    end = re.escape(delimiter)
    if not brackets:
        return rf"(?:[^\\\n{end}]|\\[^\n])*"
    member = rf"(?:\[:\w+:\]|[^\]\[\\\n{end}])"
    # A ] at the beginning is a literal member.
    return rf"(?:[^\\\[\n{end}]|\\[^\n]|\[\^?(?:\]|(?!\^){member}){member}*\])*"


_ADDRESS = rf"(?:\d+(?:~\d+)?|\$|/{_text('/', brackets=True)}/I?)"
_WHERE = rf"(?:{_ADDRESS}(?:,(?:{_ADDRESS}|[+~]\d+))?)?\s*!?\s*"
_SUBSTITUTE = "|".join(
    rf"s{re.escape(each)}{_text(each, brackets=True)}{re.escape(each)}"
    rf"{_text(each, brackets=False)}{re.escape(each)}[gpiI0-9]*"
    for each in _DELIMITERS
)
_COMMAND = rf"\s*{_WHERE}(?:[pdqnNDPhHgGxl=]|q\d+|{_SUBSTITUTE})\s*"
_SCRIPT = late_pattern(rf"{_COMMAND}(?:[;\n]{_COMMAND})*;?\s*")
_SCRIPT_CHARS_MAX = 500


def check_sed(arguments: Sequence[Word], reach: Reach, folder: str) -> None:
    """Accept `sed` with a script that only prints, and files that may be read.

    Raises:
        Objection: It may do more.
    """
    line = _OPTIONS.sort("sed", arguments)
    scripts, paths = _scripts(arguments), line.operands
    if not scripts:
        if not paths or paths[0].glob:
            raise Objection("sed without a script")
        scripts, paths = [paths[0].text], paths[1:]
    for script in scripts:
        if len(script) > _SCRIPT_CHARS_MAX or not _SCRIPT.fullmatch(script):
            raise Objection("sed with a script that may write files or run programs")
    check_readable(paths, reach, folder)


def _scripts(arguments: Sequence[Word]) -> list[str]:
    """Return the values of -e, which must be separate words."""
    texts = [word.text for word in arguments]
    found: list[str] = []
    for at, text in enumerate(texts):
        if text == "-e" or text == "--expression":
            found.append(texts[at + 1])
        elif text.startswith(("-e", "--expression")) or re.fullmatch(r"-[nErsuz]+e.*", text):
            raise Objection("sed with a script joined to its option")
    return found
