"""Lines from a terminal, with editing, history and multi-line input.

This module is imported on the way to the first prompt: standard library and prompt_toolkit only.
"""

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from prompt_toolkit.filters import Condition
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.key_binding.key_processor import KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.output import create_output
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.shortcuts.prompt import PromptSession

from agent_cli.repl.history import PrivateHistory
from agent_cli.repl.lines import UNREAD_S
from agent_cli.terminal.writer import READER_GONE

# Any colour will do: without one the space at the end is left out and the cursor moved instead, so
# that a program which waits for the prompt in our output would not find it.
_STYLE: Final = "fg:ansidefault"


class TerminalPrompt:
    """The prompt of a terminal. At most one `read` or `choose` at a time."""

    can_ask = True

    def __init__(
        self,
        history: Path,
        *,
        on_first_draw: Callable[[], None],
        warn: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Draw nothing yet.

        Args:
            history: The file prompts are kept in; made if it is missing.
            on_first_draw: Called once, when the first prompt is on the screen.
            warn: Prints a sentence, above the prompt if one is on the screen.
            clock: Seconds that only grow.
        """
        self._active: PromptSession[str] | None = None
        self._on_first_draw = on_first_draw
        self._clock = clock
        output = create_output()
        if isinstance(output, Vt100_Output):
            # Asking where the cursor is serves menus we do not have, and a late reply is typed
            # into the draft.
            output.enable_cpr = False
        self._lines: PromptSession[str] = PromptSession(
            history=PrivateHistory(history, warn=lambda text: self.above(partial(warn, text))),
            key_bindings=_line_keys(),
            multiline=True,
            prompt_continuation="     ",
            enable_suspend=True,
            output=output,
        )
        self._keys: PromptSession[str] = PromptSession(output=output)

    async def read(self, message: str) -> str:
        """Return what was typed after *message*, as it is.

        Raises:
            KeyboardInterrupt: Ctrl-C while nothing was typed; with a draft it clears the draft.
            EOFError: Ctrl-D while nothing was typed, `stop()`, or the terminal is gone.
        """
        return await self._run(self._lines, message, self._first_draw)

    async def choose(self, message: str, keys: str) -> str:
        """Return one of *keys*, pressed alone, or a line of other text.

        Keys that arrive within 300 ms of the question's appearance were meant for something
        else and are dropped, Ctrl-C excepted.

        Raises:
            KeyboardInterrupt: Ctrl-C.
            EOFError: Ctrl-D, or `stop()`.
        """
        question = _Question(self._clock)
        self._keys.key_bindings = _choice_keys(keys, too_early=question.is_new)
        return await self._run(self._keys, message, question.drawn)

    def above(self, write: Callable[[], None]) -> None:
        """Call *write*, which prints whole lines, so that a prompt on screen moves below them."""
        if self._active is None:
            write()
            return
        # Not run_in_terminal(): it switches to cooked mode, where keys typed just then echo and
        # Enter turns into Ctrl-J.
        app = self._active.app
        app.renderer.erase()
        write()
        app.invalidate()

    def stop(self, error: type[KeyboardInterrupt] | type[EOFError]) -> None:
        """End a pending `read` or `choose` with *error*; without one do nothing."""
        if self._active and self._active.app.is_running and not self._active.app.is_done:
            self._active.app.exit(exception=error)

    async def _run(
        self, session: PromptSession[str], message: str, on_draw: Callable[[], None]
    ) -> str:
        def drawn(_app: object) -> None:
            on_draw()

        session.app.after_render += drawn
        self._active = session
        try:
            # The caller owns SIGINT; in raw mode Ctrl-C is a key and not a signal.
            return await session.prompt_async([(_STYLE, message)], handle_sigint=False)
        except OSError as error:
            if error.errno not in READER_GONE:
                raise
            raise EOFError from error
        finally:
            self._active = None
            session.app.after_render -= drawn

    def _first_draw(self) -> None:
        call, self._on_first_draw = self._on_first_draw, _nothing
        call()


def _nothing() -> None:
    """Do what is left to do after the first time."""


class _Question:
    """Knows since when a question can be read."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._drawn_at_s: float | None = None

    def drawn(self) -> None:
        """Note that it is on the screen; only the first time counts."""
        if self._drawn_at_s is None:
            self._drawn_at_s = self._clock()

    def is_new(self) -> bool:
        """Return whether nobody can have read it yet."""
        return self._drawn_at_s is None or self._clock() - self._drawn_at_s < UNREAD_S


def _line_keys() -> KeyBindings:
    """Enter sends; Alt-Enter, Ctrl-J, or Enter behind a backslash begin a new line."""
    keys = KeyBindings()

    @keys.add("enter")
    def send(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.document.current_line_before_cursor.endswith("\\"):
            buffer.delete_before_cursor()
            buffer.insert_text("\n")
        else:
            buffer.validate_and_handle()

    @keys.add("escape", "enter")
    @keys.add("c-j")
    def new_line(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    @keys.add("c-c")
    def clear_or_interrupt(event: KeyPressEvent) -> None:
        if event.current_buffer.text:
            event.current_buffer.reset()
        else:
            event.app.exit(exception=KeyboardInterrupt)

    return keys


def _choice_keys(choices: str, *, too_early: Callable[[], bool]) -> KeyBindings:
    """Each of *choices* answers at once while the line is empty; before that everything waits."""
    keys = KeyBindings()

    @keys.add(Keys.Any, filter=Condition(too_early), eager=True)
    def ignore(_event: KeyPressEvent) -> None:
        """Drop a key that was on its way before the question could be read."""

    @keys.add("c-c", eager=True)
    def interrupt(event: KeyPressEvent) -> None:
        event.app.exit(exception=KeyboardInterrupt)

    def answer(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text(event.data)
        if event.current_buffer.text == event.data:
            event.current_buffer.validate_and_handle()

    for choice in choices:
        keys.add(choice)(answer)
    return keys
