"""Show a view of a command: drawn on a screen, whole lines anywhere else."""

import shutil
from typing import TYPE_CHECKING

from agent_cli.repl.commands.spec import Context

if TYPE_CHECKING:
    from agent_cli.terminal.views.console import View


def show(context: Context, view: "View") -> None:
    """Write *view* to the command's output.

    Pipes and screen readers have no `controls`: they get one record per line, undrawn.
    """
    from agent_cli.terminal.views.console import drawn_text  # noqa: PLC0415 - rich, when it is used

    drawn = context.controls is not None
    width = shutil.get_terminal_size().columns if drawn else None
    context.writer.aside(drawn_text(view, width=width))
