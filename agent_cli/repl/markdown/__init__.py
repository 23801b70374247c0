"""Markdown for the terminal while it streams: text in, finished rows and a tail out.

Work is linear in the text: every line is looked at once, and what may still change is bounded.
Knows nothing of cursors and screens; whoever paints decides how many rows of the tail are shown.
"""

from agent_cli.repl.markdown.stream import MarkdownStream
from agent_cli.repl.markdown.theme import SPOKEN, THEMES, Theme

__all__ = ["SPOKEN", "THEMES", "MarkdownStream", "Theme"]
