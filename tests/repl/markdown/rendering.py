"""A whole answer at once, for tests that look at its rows."""

from agent_cli.contracts.options import ThemeName
from agent_cli.repl.markdown import THEMES, MarkdownStream


def rendered(text: str, width: int = 40, theme: ThemeName = "none") -> list[str]:
    """Return the rows of *text*."""
    stream = MarkdownStream(width, THEMES[theme])
    return stream.feed(text) + stream.finish()
