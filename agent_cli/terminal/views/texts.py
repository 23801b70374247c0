"""Texts that a terminal shows in colour and a pipe gets as written: Markdown, source in a language.

Streaming answers have their own renderer.
"""

from collections.abc import Sequence

from rich.markdown import Markdown
from rich.syntax import Syntax

from agent_cli.system.records import dataclass
from agent_cli.system.sanitize import clean


@dataclass(frozen=True, slots=True)
class MarkdownPage:
    """A finished Markdown text, such as a transcript; a pipe gets its source, or `plain`."""

    source: str
    plain: str | None = None

    def drawn(self) -> Markdown:
        """Return the rendered text; links show their URL, images their alternative text."""
        return Markdown(clean(self.source), hyperlinks=False)

    def lines(self) -> Sequence[str]:
        """Return the Markdown source, or `plain`."""
        return _lines(self.source if self.plain is None else self.plain)


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
        return _lines(self.text)


def _lines(text: str) -> Sequence[str]:
    return text.rstrip("\n").split("\n")
