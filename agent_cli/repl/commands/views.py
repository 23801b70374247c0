"""Show a view beside the conversation: drawn on a screen, whole lines anywhere else."""

import shutil
from typing import TYPE_CHECKING

from agent_cli.repl.commands.spec import Context

if TYPE_CHECKING:
    from agent_cli.terminal.views.console import View


def show(context: Context, view: "View") -> None:
    """Write *view* where a command's output goes.

    Pipes and screen readers have no `controls`: they get a record a line, without drawing.
    """
    from agent_cli.terminal.views.console import text_of  # noqa: PLC0415 - rich, when it is used

    drawn = context.controls is not None
    width = shutil.get_terminal_size().columns if drawn else None
    context.writer.aside(text_of(view, width=width))
