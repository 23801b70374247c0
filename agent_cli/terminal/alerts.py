"""Alert a user who looked away: with a notification (OSC 9), or the bell."""

from collections.abc import Mapping
from typing import Final

from agent_cli.contracts.options import Notify

# Those that say in their documentation that they know it. To others it can mean something else
# (ConEmu), or nothing at all: there a bell is what reaches somebody.
_PROGRAMS: Final = frozenset(("iTerm.app", "WezTerm", "ghostty", "WarpTerminal"))
_TERMS: Final = ("xterm-kitty", "xterm-ghostty", "foot")
_BELL: Final = "\a"


def alert(text: str, notify: Notify, environment: Mapping[str, str]) -> str:
    """Return what to send to the terminal so that it says *text*, or rings; "" for nothing."""
    in_tmux = bool(environment.get("TMUX"))
    match notify:
        case "off":
            return ""
        case "osc9":
            return _through_tmux(_said(text)) if in_tmux else _said(text)
        case "auto" if not in_tmux and _knows_osc9(environment):
            return _said(text)
        case _:  # tmux hides which terminal is around it, and rings for a window nobody looks at
            return _BELL


def _knows_osc9(environment: Mapping[str, str]) -> bool:
    term = environment.get("TERM", "")
    if term.startswith(("screen", "tmux")):
        return False
    return (
        environment.get("TERM_PROGRAM", "") in _PROGRAMS
        or term.startswith(_TERMS)
        or bool(environment.get("KITTY_WINDOW_ID"))
    )


def _said(text: str) -> str:
    return f"\x1b]9;{text}\x1b\\"


def _through_tmux(sequence: str) -> str:
    """Wrap *sequence* for the terminal around tmux, which passes it on if `allow-passthrough`."""
    doubled = sequence.replace("\x1b", "\x1b\x1b")
    return f"\x1bPtmux;{doubled}\x1b\\"
