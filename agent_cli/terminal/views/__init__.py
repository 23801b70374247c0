"""Finished text for people, drawn by rich: tables, bars, trees, Markdown, TOML, progress.

Not the live screen. On a terminal a view fits the width and has colours; on a pipe it is plain,
one record a line. Import a view where it is shown: rich takes 40 ms.
"""

import os
from collections.abc import Sequence
from io import StringIO
from typing import Protocol, TextIO, TypeAlias

from rich.console import Console, RenderableType
from rich.text import Text

from agent_cli.system.sanitize import clean

_WIDTH_MAX = 120
_WIDTH_DEFAULT = 80


Drawn: TypeAlias = RenderableType


class View(Protocol):
    """Finished content to show."""

    def drawn(self) -> Drawn:
        """Return it for a terminal."""
        ...

    def lines(self) -> Sequence[str]:
        """Return it for a pipe, one record a line."""
        ...


def show(view: View, stream: TextIO) -> None:
    """Write *view* to *stream*: drawn on a terminal, plain otherwise.

    rich decides about colours and NO_COLOR.
    """
    if not stream.isatty():
        stream.writelines(f"{line}\n" for line in view.lines())
        return
    console = Console(
        file=stream,
        width=_width_of(stream),
        highlight=False,
        markup=False,
        emoji=False,
    )
    console.print(view.drawn())


def drawn_text(view: View, *, width: int | None) -> str:
    """Return *view* as text without colours, drawn *width* cells wide, or its lines for None."""
    if width is None:
        return "\n".join(view.lines())
    written = StringIO()
    console = Console(
        file=written,
        width=min(width, _WIDTH_MAX),
        color_system=None,
        highlight=False,
        markup=False,
        emoji=False,
    )
    console.print(view.drawn())
    return "\n".join(line.rstrip() for line in written.getvalue().rstrip("\n").split("\n"))


def cell(text: str, style: str = "") -> Text:
    """Return *text* for a table or tree, without control characters and not parsed as markup."""
    return Text(clean(text), style=style)


def _width_of(stream: TextIO) -> int:
    try:
        return min(os.get_terminal_size(stream.fileno()).columns or _WIDTH_DEFAULT, _WIDTH_MAX)
    except (OSError, ValueError):
        return _WIDTH_DEFAULT
