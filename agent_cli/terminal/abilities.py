"""Capabilities of the terminal, as far as the environment tells; a question before the REPL."""

import sys
from collections.abc import Mapping
from typing import Final

_MEANINGS: Final = {"y": True, "yes": True, "n": False, "no": False}
_DUMB: Final = ("dumb", "unknown", "")


def is_dumb(environment: Mapping[str, str]) -> bool:
    """Return whether the terminal can only print: no cursor movement, no colours."""
    return environment.get("TERM", "dumb") in _DUMB


def may_color(environment: Mapping[str, str]) -> bool:
    """Return whether text may have colours: NO_COLOR is unset, and the terminal has colours."""
    return not environment.get("NO_COLOR") and not is_dumb(environment)


# From the list at github.com/Alhadis/OSC8-Adoption. Unknown terminals get no links: a few old ones
# print the sequence as text.
_PROGRAMS: Final = frozenset(
    ("iTerm.app", "WezTerm", "vscode", "ghostty", "Hyper", "mintty", "Tabby", "rio", "WarpTerminal")
)
_TERMS: Final = ("xterm-kitty", "alacritty", "foot", "xterm-ghostty", "contour")
_VARIABLES: Final = ("WT_SESSION", "KITTY_WINDOW_ID", "DOMTERM")
_VTE_MIN: Final = 5_000
_KONSOLE_MIN: Final = 201_200
_TMUX_MIN: Final = (3, 4)


def shows_links(environment: Mapping[str, str]) -> bool:
    """Return whether links can be written; FORCE_HYPERLINK=0 or 1 decides if it is set."""
    forced = environment.get("FORCE_HYPERLINK")
    if forced:
        return forced != "0"
    program, term = environment.get("TERM_PROGRAM", ""), environment.get("TERM", "")
    if program == "tmux":  # it hides the outer terminal's type, and passes links on
        return _version(environment.get("TERM_PROGRAM_VERSION", "")) >= _TMUX_MIN
    if term.startswith(("screen", "tmux", "linux", "dumb")):
        return False
    return (
        program in _PROGRAMS
        or term.startswith(_TERMS)
        or any(environment.get(name) for name in _VARIABLES)
        or _number(environment.get("VTE_VERSION", "")) >= _VTE_MIN
        or _number(environment.get("KONSOLE_VERSION", "")) >= _KONSOLE_MIN
    )


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() else 0


def _version(text: str) -> tuple[int, ...]:
    """Return the numbers of a version: (3, 4) for `3.4a`."""
    return tuple(_number(part.rstrip("abcdefgh")) for part in text.split("."))


def confirmed(question: str, *, by_default: bool = False) -> bool:
    """Ask on stderr, and return the answer from stdin; Enter alone means *by_default*.

    Raises:
        KeyboardInterrupt: Ctrl-C; the question's line is ended first.
    """
    answer = meaning(line := line_in_answer(question, by_default=by_default))
    # The end of the input is no Enter.
    return answer is True or (by_default and line != "" and not line.strip())


def line_in_answer(question: str, *, by_default: bool = False) -> str:
    """Ask on stderr, and return the line from stdin, or "" at its end.

    Raises:
        KeyboardInterrupt: Ctrl-C; the question's line is ended first.
    """
    choices = "[Y/n]" if by_default else "[y/N]"
    print(f"{question} {choices} ", end="", file=sys.stderr, flush=True)
    try:
        return sys.stdin.readline()
    except KeyboardInterrupt:
        print(file=sys.stderr)
        raise


def meaning(line: str) -> bool | None:
    """Return whether *line* is a yes or a no; None if it is neither."""
    return _MEANINGS.get(line.strip().lower())
