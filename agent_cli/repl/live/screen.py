"""The screen of a session: the input line and the rows around it.

The key bindings are in `keys`.

Imported before the first prompt: standard library and prompt_toolkit only.
"""

import asyncio
import math
import os
import signal
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from prompt_toolkit.application import run_in_terminal
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.enums import EditingMode
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.input import Input, create_input
from prompt_toolkit.keys import Keys

from agent_cli.contracts.wording import counted
from agent_cli.repl.live.agent_rows import AgentRows
from agent_cli.repl.live.asking import SILENCE_S, Asking, OpenQuestion
from agent_cli.repl.live.choices import AnswerRow
from agent_cli.repl.live.input import Draft
from agent_cli.repl.live.input.menu import Menu
from agent_cli.repl.live.layout import Panel, PanelRow, echoed, layout_of, style_of
from agent_cli.repl.live.paint import Paint, sentence_rows
from agent_cli.repl.live.painter import Painter
from agent_cli.repl.live.picker import Picker
from agent_cli.repl.live.queue_edit import Listener, QueueEdit
from agent_cli.repl.live.shared_terminal import FrameOutput, LiveApplication, copy_to_file
from agent_cli.terminal.writer import Style

_LOW_ROWS: Final = 20
_QUESTION_ROWS: Final = 30
_ANSWER_ROWS: Final = 5  # at each end of a long one
# Rows that the answers to a question leave: four of the call, the question, and the status.
_ASKED_ROWS: Final = 6
_INDENT: Final = "  "
_LEAVE_WITHIN_S: Final = 1.5
_TWICE_WITHIN_S: Final = 0.8
# prompt_toolkit waits 1.5 s for keys that may follow Esc. A connection may bring the rest of an
# arrow key late, and an Esc taken from it would stop a run; Vim waits as long (`ttimeoutlen`).
_ESCAPE_S: Final = 0.1
_SEQUENCE_S: Final = 0.02
# `dd`, `gg` and Ctrl-X Ctrl-E are two keys, possibly with a pause in between.
_TYPED_S: Final = 1.0


class LiveScreen:
    """One prompt_toolkit application from the first prompt to the last.

    Typed text stays in the input until `listener` accepts it, or, if it is refused, until a line
    that was typed ahead begins. Nothing else clears it.
    """

    requested_modes = 0
    _refused = ""
    _refused_at_s = math.inf

    def __init__(
        self,
        history: Path,
        listener: Listener,
        *,
        output: FrameOutput,
        color: bool = True,
        vi: bool = False,
        keyboard: Input | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Draw nothing yet, with editing keys only; see `keys.bind_keys`.

        Args:
            history: The file that stores prompts; created if missing.
            listener: Receives typed lines; may be replaced at any time.
            output: The terminal.
            color: Whether colours may be used.
            vi: Whether the prompt has vi key bindings instead of emacs'.
            keyboard: The source of keys; the process's terminal by default.
            clock: A monotonic clock, in seconds.
        """
        self.listener = listener
        self.on_first_draw = self.on_return = self.on_picture_requested = _nothing
        self.on_mode_requested: Callable[[], None] = self._note_requested_mode
        self.paint = Paint(color=color, weight=True)
        self.status: Callable[[], str] = str
        self.own_row: Callable[[], StyleAndTextTuples] = list
        self.lost: Callable[[], str] = str
        self._output, self._clock, self._leave_hint = output, clock, ""
        self._hinted_at_s, self._escaped_at_s = -_LEAVE_WITHIN_S, -_TWICE_WITHIN_S
        early: list[str] = []
        self.warn: Callable[[str], None] = early.append
        self.draft = Draft(history, warn=lambda text: self.warn(text))
        self.buffer = self.draft.buffer
        self.menu = Menu(self.buffer, lambda: self.app)
        self.asking = Asking(self.buffer, clock, self._asked, take_draft=self.draft.take)
        self.queue = self._queue_edit()
        self.picker = Picker(lambda: self.rows_max, lambda: self.columns, self.put_back, clock)
        self.agents = AgentRows(
            self.is_free, lambda: self.rows_max, lambda: self.columns, refresh=self.refresh
        )
        self.panels: list[Panel] = [self._queue_rows, self.agents.rows]
        self.app = LiveApplication(
            layout=layout_of(self, self.buffer, Buffer(), self.picker),
            editing_mode=EditingMode.VI if vi else EditingMode.EMACS,
            erase_when_done=True,
            input=keyboard or create_input(),
            output=output,
            max_render_postpone_time=0,
            style=style_of(lambda: bool(self.paint.begin("dim"))),
        )
        self.app.ttimeoutlen, self.app.timeoutlen = _ESCAPE_S, _TYPED_S if vi else _SEQUENCE_S
        self.app.key_processor.before_key_press += self._key_pressed
        self.app.after_render += self._drawn
        self.painter = Painter(self.app, output)
        output.on_gone = self.leave
        self.warn = partial(self.notice, style="warning")
        for text in early:
            self.warn(text)

    async def run(self) -> None:
        """Process keys until the user leaves or the terminal is gone."""
        try:  # the caller handles SIGINT; in raw mode Ctrl-C is a key, not a signal
            await self.app.run_async(handle_sigint=False)
        except EOFError:
            pass  # the terminal was closed, which ends the session like Ctrl-D does
        finally:
            self.asking.drop_answer()
            self.draft.keep(self.queue.left())
            self.draft.keep(self.asking.unsent(self.draft.take()))
            self.picker.close()
            self.asking.close()
            self._output.leave_as_found()
            self.painter.end()

    def print(self, rows: Sequence[str]) -> None:
        """Print finished rows above the prompt."""
        self.painter.print(rows)

    def _queue_edit(self) -> QueueEdit:
        def is_asked() -> bool:
            return self.asking.is_open and self.asking.choices is None

        return QueueEdit(
            self.draft,
            lambda: self.listener,
            self.refresh,
            is_asked=is_asked,
            can_begin=lambda: self.asking.question is None,
            clock=self._clock,
        )

    def _asked(self) -> None:
        self.insert_answer()
        self.refresh()

    def _note_requested_mode(self) -> None:
        """Count a press before the session exists, which takes it over."""
        self.requested_modes += 1

    def insert_answer(self, _keys: object = None) -> None:
        """Leave vi's normal mode at a question: there `5` is a count, and Enter would say yes."""
        if self.asking.question and self.draft.is_empty:
            self.app.insert()

    def notice(self, text: str, style: Style = "plain") -> None:
        """Print a sentence above the prompt."""
        self.print(sentence_rows(text, self.columns, self.paint.begin(style)))
        if style in ("warning", "error"):
            copy_to_file(text)

    def show_answer(self, text: str) -> None:
        """Print the open question with its answer, folded if long; further rows are indented."""
        first, *rest = sentence_rows(f"{self.question}{text}", self.columns - len(_INDENT))
        if (more := len(rest) - 2 * _ANSWER_ROWS) > 0:
            rest[_ANSWER_ROWS:-_ANSWER_ROWS] = [f"… {counted(more, 'more row')}"]
        self.print([first, *(f"{_INDENT}{row}" for row in rest)])

    def echo(self, text: str) -> list[str]:
        """Return the rows that echo a message; a long one as its first and last lines."""
        return echoed(text, columns=self.columns, paint=self.paint)

    def send(self, sequence: str) -> None:
        """Send the terminal a sequence that shows no text."""
        self._output.send(sequence)

    def copy(self, text: str) -> None:
        """Copy *text* to the clipboard, if the terminal allows it."""
        self._output.copy(text)

    def refresh(self) -> None:
        """Redraw the prompt soon, because something around it changed."""
        self.app.invalidate()

    def _queue_rows(self) -> Sequence[PanelRow]:
        return self.queue.rows(self.columns, self.rows_max)

    @property
    def status_row(self) -> str:
        """The line below the input."""
        return self._leave_hint if self._leaves_next else self.status()

    @property
    def _leaves_next(self) -> bool:
        return self._clock() - self._hinted_at_s < _LEAVE_WITHIN_S

    @property
    def question(self) -> str:
        """The question in place of the prompt, or ""."""
        return self.asking.message

    @property
    def hint(self) -> str:
        """The faint hint behind the question, or ""."""
        return self.asking.hint

    @property
    def choice_rows(self) -> Sequence[AnswerRow]:
        """The answers below the question."""
        choices = self.asking.choices
        return choices.rows(self.columns - 1, self._choices_max) if choices else ()

    @property
    def _choices_max(self) -> int:
        """Maximum number of rows of the answers: the end of what is asked about stays visible."""
        others = _ASKED_ROWS + bool(self.own_row()) + sum(len(panel()) for panel in self.panels)
        return max(self.rows_max, self._output.get_size().rows - others)

    @property
    def marked_choice(self) -> int | None:
        """The index of the completion that Enter takes, if any."""
        return self.menu.marked

    @property
    def rows_max(self) -> int:
        """Maximum number of rows of the input: the region stays smaller than the screen."""
        return max(1, self._output.get_size().rows // 2 - 2)

    @property
    def columns(self) -> int:
        """The width of the terminal."""
        return self._output.get_size().columns

    @property
    def is_low(self) -> bool:
        """Whether the terminal has few rows, so that text needs rows that are blank elsewhere."""
        return self._output.get_size().rows < _LOW_ROWS

    @property
    def has_room(self) -> bool:
        """Whether a call, its question and some live rows fit on the screen together."""
        return self._output.get_size().rows >= _QUESTION_ROWS

    def asks(self) -> bool:
        """Return whether a question or a list is open."""
        return self.picker.is_open() or self.asking.question is not None

    def is_free(self) -> bool:
        """Return whether the input is empty, and neither a question nor a list is open."""
        return self.draft.is_empty and not self.asks()

    def interrupt(self) -> None:
        """Stop the run or command; else clear the draft; else, the second time, leave."""
        if self.app.is_lent:
            return  # Ctrl-C was meant for the program that has the terminal, and reached it as well
        if self.asking.question:
            self.asking.end(KeyboardInterrupt())
        elif self.listener.is_busy:
            self.listener.interrupt()
        elif aside := self.listener.aside:
            aside.cancel()
        elif not self.draft.is_empty:
            self.draft.clear()  # the text is in the history, one key away
        elif self._leaves_next:
            self.leave()
        else:
            self._hint_at_leaving("Ctrl-C")

    def escape(self) -> None:
        """Offer a rewind when Esc is pressed twice with nothing to stop or to clear."""
        now_s = self._clock()
        if now_s - self._escaped_at_s < _TWICE_WITHIN_S:
            self._escaped_at_s = -_TWICE_WITHIN_S
            self.listener.submit("/rewind", follow_up=False)
        else:
            self._escaped_at_s = now_s

    def end_of_input(self) -> None:
        """Leave; only the second time at a question, during a run, or if a job would end.

        At a question and during a run the key is often meant to end that alone, as in a shell.
        """
        ends_work = self.asking.question or self.listener.is_busy or self.lost()
        if self._leaves_next or not ends_work:
            self.leave()
        else:
            self._hint_at_leaving("Ctrl-D")

    def _hint_at_leaving(self, key: str) -> None:
        self._leave_hint = "; ".join(filter(None, (f"press {key} again to leave", self.lost())))
        self._hinted_at_s = self._clock()
        self.refresh()
        asyncio.get_running_loop().call_later(_LEAVE_WITHIN_S, self.refresh)

    def forget_hint(self, _buffer: object) -> None:
        """Forget the press that began to leave: the user has gone on."""
        self._hinted_at_s = -_LEAVE_WITHIN_S

    def leave(self) -> None:
        """End the session."""
        self.painter.drop_tail()
        self.when_answered(self.app.exit)

    def suspend(self) -> None:
        """Stop the program as Ctrl-Z does in a shell, and return with its `fg`."""
        self.painter.drop_tail()
        self.when_answered(lambda: run_in_terminal(self._stop))

    def _stop(self) -> None:
        os.kill(0, signal.SIGTSTP)  # the whole group, as the terminal does
        self.on_return()

    def when_answered(self, act: Callable[[], object]) -> None:
        """Give the terminal away with *act*, once no answer of the terminal can come any more."""
        if wait_s := self.app.answers_in_s():
            asyncio.get_running_loop().call_later(wait_s, self.when_answered, act)
        elif self.app.is_running and not self.app.is_done:
            act()

    def put_back(self, text: str) -> None:
        """Insert *text* at the start of the input."""
        if self.queue.is_active:
            self.queue.put_aside(text)
        else:
            self.draft.put_back(text)
        self.refresh()

    def insert_message(self, text: str, asked: OpenQuestion | None) -> None:
        """Insert *text*, requested while *asked* was open, at the cursor; it answers no other."""
        if not self.asking.keep(text, asked):
            self.asking.message_written(asked)
            self.draft.insert(text)

    def note_refusal(self) -> None:
        """Note that the line in the input was refused, which the user has not seen yet."""
        self._refused, self._refused_at_s = self.buffer.text, math.inf

    def _key_pressed(self, _keys: object) -> None:
        if self._refused:
            # A key of a line typed ahead, which would become one line with the refused one.
            is_blind = self._clock() - self._refused_at_s < SILENCE_S
            if is_blind and self.buffer.text == self._refused:
                self.draft.clear()
            self._refused = ""
        self.draft.key_pressed()
        self.asking.key_pressed()
        self.agents.key_pressed()

    def await_second_key(self, _keys: object) -> None:
        """Wait longer for the second key of two that are typed than for one behind Esc."""
        begun = self.app.key_processor.key_buffer
        is_vi = self.app.editing_mode is EditingMode.VI
        is_typed = is_vi or any(key.key is Keys.ControlX for key in begun)
        self.app.timeoutlen = _TYPED_S if is_typed else _SEQUENCE_S

    def _drawn(self, _app: object) -> None:
        call, self.on_first_draw = self.on_first_draw, _nothing
        call()
        self._refused_at_s = min(self._refused_at_s, self._clock())
        asyncio.get_running_loop().call_soon(self.painter.retry)
        self.asking.drawn()


def _nothing() -> None:
    """Do nothing: the hook was already called."""
