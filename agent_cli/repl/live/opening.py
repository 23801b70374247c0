"""The display, the dialogs and the controls of one screen; the transcript of a resumed session."""

import asyncio
import os
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import get_args

from agent_cli.contracts.errors import UsageError
from agent_cli.contracts.options import ThemeChoice
from agent_cli.contracts.wording import counted, one_line
from agent_cli.core.conversation import Conversation
from agent_cli.core.message_queue import unsent
from agent_cli.repl import Look
from agent_cli.repl.dialogue import DialogParts
from agent_cli.repl.hosting import lost_jobs
from agent_cli.repl.live.activity import ActivityLine, Bell, alert
from agent_cli.repl.live.backlog import Backlog, StreamingFilter, Thinking
from agent_cli.repl.live.display import Display
from agent_cli.repl.live.input.editing import terminal_lent
from agent_cli.repl.live.paint import Paint, sentence_rows
from agent_cli.repl.live.results import DIFF_ROWS_MAX, Details, Results, SideOutput
from agent_cli.repl.live.screen import LiveScreen
from agent_cli.repl.live.tool_rows import ToolRows
from agent_cli.repl.live.view import SessionView
from agent_cli.repl.mcp.dialogs import ServerQuestions
from agent_cli.repl.model_dialogs import ModelQuestions
from agent_cli.repl.ports import Application
from agent_cli.repl.recall import (
    EARLIER_ROWS_MAX,
    FOLDED_ROWS,
    Earlier,
    Exchange,
    earlier_in,
    left_out_row,
)
from agent_cli.repl.runs import Runs
from agent_cli.repl.todos import TodoPanel
from agent_cli.terminal.abilities import shows_links


def open_display(
    app: Application, screen: LiveScreen, look: Look, activity: ActivityLine
) -> tuple[Display, Results]:
    """Return the display of *screen* with *activity*, and the store of folded output."""
    paint, clock = screen.paint, time.monotonic
    paint.use_theme(look.theme)
    results = Results(paint, lambda: screen.columns)
    tools = ToolRows(
        lambda: app.tools,
        paint=paint,
        clock=clock,
        columns=lambda: screen.columns,
        details=Details(results, paint, lambda: screen.columns),
    )
    view = SessionView(
        tools,
        paint=paint,
        streaming=look.streaming,
        clock=clock,
        columns=lambda: screen.columns,
        activity=activity,
        asks=lambda: screen.asking.question is not None,
        is_low=lambda: screen.is_low,
        has_room=lambda: screen.has_room,
        links=shows_links(os.environ),
    )
    activity.can_move = lambda: app.jobs.can_move
    screen.lost = lambda: lost_jobs(app)
    screen.agents.agents = activity.agents = app.agents.all
    activity.has_agents = lambda: app.agents.is_any_working
    tools.listed = lambda: {agent.tool_call_id for agent in screen.agents.listed()}
    activity.hook = lambda: app.hooks.status
    screen.panels.insert(0, TodoPanel(app.agent, app.todos, lambda: activity.only_waits))
    display = Display(
        view,
        screen.painter,
        Backlog(chars_per_second=look.chars_per_second, clock=clock),
        Thinking(
            is_shown=look.show_thinking, paint=paint, clock=clock, columns=lambda: screen.columns
        ),
        StreamingFilter(look.streaming),
        paint=paint,
        columns=lambda: screen.columns,
        refresh=screen.refresh,
    )
    screen.asking.closed = display.wake
    app.jobs.on_change = screen.refresh
    return display, results


def open_bell(app: Application, screen: LiveScreen, look: Look) -> Bell:
    """Return the bell that alerts the user when a long run of *app* ends."""
    bell = Bell(lambda text: screen.send(alert(text, look.notify, os.environ)), time.monotonic)
    app.agent.subscribe(bell)
    return bell


def open_dialogs(
    app: Application,
    screen: LiveScreen,
    display: Display,
    bell: Bell,
    parts: DialogParts,
    runs: Runs,
) -> None:
    """Let MCP servers and the model ask questions at the prompt of *screen*, one at a time."""

    def begin() -> None:
        display.leave_space()
        bell.question()

    servers = ServerQuestions(
        screen.asking, parts, publish=app.agent.publish, begin=begin, on_change=screen.refresh
    )
    model = ModelQuestions(parts, begin=begin, asking=display.asking, approvals=runs.approvals)
    app.answer(servers, model, model)


class ScreenControls:
    """Implements `commands.Controls`."""

    def __init__(
        self,
        screen: LiveScreen,
        display: Display,
        results: Results,
        turn: asyncio.Lock,
        is_command: Callable[[str], bool],
    ) -> None:
        self._turn = turn
        self._is_command = is_command
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
        drawn = self._results.drawn(number)
        if drawn is None:
            self._display.folded(output)
        else:
            self._display.drawn(drawn)

    def show_earlier(self, conversation: Conversation) -> None:
        """Print the folded transcript of *conversation*; put what was not sent into the input."""
        if earlier := earlier_in(conversation):
            rows = earlier_rows(
                earlier,
                paint=self._screen.paint,
                columns=self._screen.columns,
                echo=self._screen.echo,
                side_output=self._details.side_output,
                results=self._results,
            )
            self._display.drawn(rows)
            self._display.leave_space()
        if (texts := unsent(conversation)) and (messages := self.give_back(texts)):
            self._display.notice(_unsent_notice(messages), "warning")

    def toggle_thinking(self) -> None:
        """Show thinking, beginning with the last folded one; or fold it from now on."""
        self._display.toggle_thinking()

    def show_diff(self, diff: str) -> None:
        """Print a unified diff with line numbers; `/output` shows a folded one in full."""
        self._display.drawn(self._results.folded_diff(diff, DIFF_ROWS_MAX))

    @property
    def is_asking(self) -> bool:
        """Whether a question is open."""
        return self._turn.locked() or self._screen.asking.turn.locked()

    async def pick(self, question: str, rows: Sequence[str], selected: int = 0) -> int | None:
        """Let the user choose one of *rows*; return its index, None if they cancel."""
        # Holds the turn: a question asked meanwhile would be hidden, and filter keys would answer
        # it.
        async with self._turn, self._screen.asking.turn:
            self._display.show_now()
            return await self._screen.picker.pick(self._screen.app, question, rows, selected)

    def put_back(self, text: str) -> None:
        """Insert *text* at the start of the input."""
        self._screen.put_back(text)

    def give_back(self, texts: Sequence[str]) -> int:
        """Insert typed *texts*, which wait no more, at the start of the input; return how many.

        A command beside other text is named instead: within a text it would be none. So is any
        text before a command that is being typed.
        """
        draft = self._screen.draft
        is_alone = len(texts) == 1 and draft.is_empty
        before_command = not draft.is_empty and self._is_command(draft.text)
        kept = [
            text for text in texts if is_alone or not (before_command or self._is_command(text))
        ]
        if kept:
            self._screen.put_back("\n\n".join(kept))
        if left := [one_line(text) for text in texts if text not in kept]:
            them = "it" if len(left) == 1 else "them"
            what = "not sent" if before_command else "not run"
            self._display.notice(f"{what}: {', '.join(left)}; Arrow-up has {them}", "warning")
        return len(kept)

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


def _unsent_notice(count: int) -> str:
    were, are = ("was", "it is") if count == 1 else ("were", "they are")
    messages = counted(count, "queued message")
    return f"{messages} {were} not sent before the program ended: {are} in the input"


def earlier_rows(
    earlier: Earlier,
    *,
    paint: Paint,
    columns: int,
    echo: Callable[[str], list[str]],
    side_output: Callable[[SideOutput], list[str]],
    results: Results,
) -> list[str]:
    """Return rows for prompts, side outputs of tools, and answers.

    Args:
        earlier: The exchange.
        paint: Gives the colours.
        columns: The width of the terminal.
        echo: Makes the rows of a user's message.
        side_output: Makes the rows of a file or a widget.
        results: Keeps the text of a folded answer for `/output`.
    """

    def folded(text: str, rows_max: int, *, last: bool = False) -> list[str]:
        return results.folded(results.answer(text), text, rows_max, last=last, draw=results.answer)

    warning = paint.begin("warning")

    def begun(exchange: Exchange) -> list[str]:
        called = [paint.text(f"  {exchange.called}", "dim")] if exchange.called else []
        return [*echo(exchange.prompt_text), *called]

    before: list[str] = []
    for exchange in earlier.before:
        before += [*begun(exchange), *folded(exchange.answer, FOLDED_ROWS)]
    return [
        paint.text(earlier.about, "dim"),
        *(paint.text(row, "dim") for row in left_out_row(earlier)),
        *before,
        *begun(earlier.last),
        *(row for output in earlier.handed_over for row in side_output(output)),
        *folded(earlier.last.answer, EARLIER_ROWS_MAX, last=True),
        *(row for text in earlier.cut for row in sentence_rows(text, columns, warning)),
    ]
