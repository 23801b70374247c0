"""The contract of a panel: rows that stay above the input while there is something to show.

`LiveScreen.panels` lists them from top to bottom; `opening.py` adds those of the program. A panel
follows the agent by its events, and asks for a new frame with `LiveScreen.refresh` if the change
it shows is no event.
"""

from collections.abc import Sequence
from typing import Protocol, TypeAlias

PanelRow: TypeAlias = tuple[bool, str]
"""Whether the row is marked, and its text; the layout cuts it at the width of the screen."""


class Panel(Protocol):
    """Rows of one thing: the todo list, the queued messages, the agents at work."""

    def __call__(self) -> Sequence[PanelRow]:
        """Return the rows now; none takes no space. Called with each frame, so it reads no file."""
        ...
