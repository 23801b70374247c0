"""Colours of what the program itself says, and text as rows of a terminal."""

from agent_cli.terminal.sanitize import clean
from agent_cli.terminal.writer import SGR, Style

_OFF = "\x1b[0m"
_TAB = 4


class Paint:
    """Knows whether colours may be used."""

    def __init__(self, *, color: bool) -> None:
        self.color = color

    def style(self, style: Style) -> str:
        """Return the escape that begins *style*, or ""."""
        return SGR[style] if self.color else ""

    def sgr(self, parameters: str) -> str:
        """Return the escape that begins a style given by its numbers, or ""."""
        return f"\x1b[{parameters}m" if self.color and parameters else ""

    def text(self, text: str, parameters: str) -> str:
        """Return one row or less in a style given by its numbers."""
        return colored(text, self.sgr(parameters))


def colored(text: str, begin: str) -> str:
    """Return *text* between *begin* and the end of all colours; unchanged without a colour."""
    return f"{begin}{text}{_OFF}" if begin and text else text


def rows_of(text: str, begin: str) -> list[str]:
    """Return foreign text as rows: cleaned, tabs as blanks, each row coloured by itself."""
    return [colored(line, begin) for line in clean(text).expandtabs(_TAB).split("\n")]
