"""The last exchange of a session that goes on, drawn as it was when it was new."""

from collections.abc import Callable

from agent_cli.repl.live.paint import Paint
from agent_cli.repl.live.widgets import SideOutput
from agent_cli.repl.markdown import THEMES, MarkdownStream
from agent_cli.repl.recall import Earlier, the_end_of


def earlier_rows(
    earlier: Earlier,
    *,
    paint: Paint,
    columns: int,
    echo: Callable[[str], list[str]],
    side_output: Callable[[SideOutput], list[str]],
) -> list[str]:
    """Return rows for what was said, what tools handed over, and the end of the answer.

    Args:
        earlier: The exchange.
        paint: For its colours.
        columns: The width of the terminal.
        echo: Makes the rows of what somebody said.
        side_output: Makes the rows of a file or a widget.
    """
    answer = MarkdownStream(columns, THEMES[paint.theme])
    drawn = [*answer.feed(earlier.answer), *answer.finish()]
    return [
        paint.text(earlier.about, "dim"),
        *echo(earlier.said),
        *(row for output in earlier.handed_over for row in side_output(output)),
        *the_end_of(drawn),
    ]
