"""The transcript of a resumed session: folded, with the last exchange drawn in full."""

from collections.abc import Callable

from agent_cli.repl.live.paint import Paint
from agent_cli.repl.live.sentences import sentence_rows
from agent_cli.repl.live.widgets import SideOutput
from agent_cli.repl.markdown import THEMES, rendered
from agent_cli.repl.recall import Earlier, left_out_row, the_end_of


def earlier_rows(
    earlier: Earlier,
    *,
    paint: Paint,
    columns: int,
    echo: Callable[[str], list[str]],
    side_output: Callable[[SideOutput], list[str]],
    folded: Callable[[list[str], str], list[str]],
) -> list[str]:
    """Return rows for prompts, side outputs of tools, and answers.

    Args:
        earlier: The exchange.
        paint: Gives the colours.
        columns: The width of the terminal.
        echo: Makes the rows of a user's message.
        side_output: Makes the rows of a file or a widget.
        folded: Returns the first rows of an answer, and keeps its text for `/output`.
    """

    def drawn(text: str) -> list[str]:
        return rendered(text, columns, THEMES[paint.theme])

    warning = paint.begin("warning")
    before: list[str] = []
    for exchange in earlier.before:
        before += echo(exchange.said)
        before += [paint.text(f"  {exchange.called}", "dim")] if exchange.called else []
        before += folded(drawn(exchange.answer), exchange.answer)
    return [
        paint.text(earlier.about, "dim"),
        *(paint.text(row, "dim") for row in left_out_row(earlier)),
        *before,
        *echo(earlier.said),
        *(row for output in earlier.handed_over for row in side_output(output)),
        *the_end_of(drawn(earlier.answer)),
        *(row for text in earlier.cut for row in sentence_rows(text, columns, warning)),
    ]
