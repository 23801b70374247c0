"""Streaming Markdown for the terminal: text in, finished rows and a tail out.

Work is linear in the text: every line is parsed once, and the part that may still change is
bounded. It does not know cursors and screens; the painter decides how many rows of the tail to
show.
"""

from agent_cli.repl.markdown.scanner import MarkdownStream, rendered
from agent_cli.repl.markdown.styles import SPOKEN, THEMES, Theme

__all__ = ["SPOKEN", "THEMES", "MarkdownStream", "Theme", "rendered"]
