"""Source text with colours: settings as TOML."""

from collections.abc import Sequence

from rich.syntax import Syntax

from agent_cli.system.records import dataclass
from agent_cli.terminal.sanitize import clean


@dataclass(frozen=True, slots=True)
class SourceText:
    """Text in a language that Pygments knows; a pipe gets it unchanged, for further use."""

    text: str
    language: str

    def drawn(self) -> Syntax:
        """Return the coloured text, long lines wrapped."""
        return Syntax(
            clean(self.text).rstrip("\n"),
            self.language,
            theme="ansi_dark",
            background_color="default",
            word_wrap=True,
        )

    def lines(self) -> Sequence[str]:
        """Return the text."""
        return self.text.rstrip("\n").split("\n")
