"""Screen functions for commands, and the folded transcript of a resumed session."""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import get_args

from agent_cli.contracts.errors import UsageError
from agent_cli.contracts.options import ThemeChoice
from agent_cli.contracts.wording import one_line
from agent_cli.core.conversation import Conversation
from agent_cli.repl.live.display import Display
from agent_cli.repl.live.input.editing import terminal_lent
from agent_cli.repl.live.paint import Paint
from agent_cli.repl.live.results import DIFF_ROWS_MAX, Details, Results, SideOutput
from agent_cli.repl.live.screen import LiveScreen
from agent_cli.repl.live.sentences import sentence_rows
from agent_cli.repl.markdown import THEMES, rendered
from agent_cli.repl.recall import FOLDED_ROWS, Earlier, earlier_in, left_out_row, the_end_of


class ScreenControls:
    """Implements `spec.Controls`."""

    def __init__(
        self,
        screen: LiveScreen,
        display: Display,
        results: Results,
    ) -> None:
        self._screen = screen
        self._display = display
        self._results = results
        self._details = Details(results, screen.paint, lambda: screen.columns)

    @property
    def theme(self) -> str:
        """The theme's name; for "auto" also which that is."""
        return self._screen.paint.choice

    @property
    def is_paused(self) -> bool:
        """Whether the display is held."""
        return self._display.is_paused

    def pause(self, *, paused: bool) -> None:
        """Pause the display, or resume it."""
        self._display.pause(paused=paused)

    def show_output(self, number: int | None) -> None:
        """Print the folded output of that number; without a number the last one."""
        output = self._results.output(number)
        if output is None:
            which = "yet" if number is None else f"under {number}"
            raise UsageError(f"no folded output {which}")
        self._display.foreign(output)

    def show_earlier(self, conversation: Conversation) -> None:
        """Print the folded transcript of *conversation*; nothing if it is new."""
        if earlier := earlier_in(conversation):
            rows = earlier_rows(
                earlier,
                paint=self._screen.paint,
                columns=self._screen.columns,
                echo=self._screen.echo,
                side_output=self._details.side_output,
                folded=lambda rows, text: self._results.folded(rows, text, FOLDED_ROWS),
            )
            self._display.drawn(rows)

    def toggle_thinking(self) -> None:
        """Show thinking, beginning with the last folded one; or fold it from now on."""
        self._display.toggle_thinking()

    def show_diff(self, diff: str) -> None:
        """Print a unified diff with line numbers; `/output` shows a folded one in full."""
        rows = self._results.diff(diff)
        self._display.drawn(self._results.folded(rows, diff, DIFF_ROWS_MAX))

    async def pick(self, question: str, rows: Sequence[str]) -> int | None:
        """Let the user choose one of *rows*; return its index, None if they cancel."""
        # Holds the turn: a question asked meanwhile would be hidden, and filter keys would answer
        # it.
        async with self._screen.asking.turn:
            return await self._screen.picker.pick(self._screen.app, question, rows)

    def put_back(self, text: str) -> None:
        """Insert *text* at the start of the input."""
        self._screen.put_back(text)

    def lend_terminal(self) -> AbstractAsyncContextManager[None]:
        """Give the terminal to another program while the body runs."""
        return terminal_lent(self._screen.painter)

    def copy(self, text: str) -> None:
        """Copy *text* to the clipboard, if the terminal allows it."""
        self._screen.copy(text)

    def use_theme(self, name: str) -> None:
        """Show answers in another theme, beginning with the next one."""
        themes: dict[str, ThemeChoice] = {theme: theme for theme in get_args(ThemeChoice)}
        if name not in themes:
            raise UsageError(f"unknown theme {one_line(name)}; there are: {', '.join(themes)}")
        self._screen.paint.use_theme(themes[name])


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
        before += echo(exchange.prompt_text)
        before += [paint.text(f"  {exchange.called}", "dim")] if exchange.called else []
        before += folded(drawn(exchange.answer), exchange.answer)
    return [
        paint.text(earlier.about, "dim"),
        *(paint.text(row, "dim") for row in left_out_row(earlier)),
        *before,
        *echo(earlier.prompt_text),
        *(row for output in earlier.handed_over for row in side_output(output)),
        *the_end_of(drawn(earlier.answer)),
        *(row for text in earlier.cut for row in sentence_rows(text, columns, warning)),
    ]
