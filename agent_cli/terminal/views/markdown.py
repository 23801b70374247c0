"""A finished Markdown text, such as a transcript; streaming answers have their own renderer."""

from collections.abc import Sequence

from rich.markdown import Markdown

from agent_cli.system.records import dataclass
from agent_cli.terminal.sanitize import clean


@dataclass(frozen=True, slots=True)
class MarkdownPage:
    """Markdown for a terminal, and its source, or `plain`, for a pipe."""

    source: str
    plain: str | None = None

    def drawn(self) -> Markdown:
        """Return the rendered text; links show their URL, images their alternative text."""
        return Markdown(clean(self.source), hyperlinks=False)

    def lines(self) -> Sequence[str]:
        """Return the Markdown source, or `plain`."""
        return (self.source if self.plain is None else self.plain).rstrip("\n").split("\n")
