"""The menu of completions below the input line.

Imported before the first prompt: standard library and prompt_toolkit only.
"""

from collections.abc import Callable
from typing import Any

from prompt_toolkit.application import Application
from prompt_toolkit.application.current import set_app
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import Completer, Completion


class Menu:
    """Shows the completions of a buffer's text as soon as they are known."""

    def __init__(self, buffer: Buffer, app: Callable[[], Application[Any]]) -> None:
        """Show nothing before `use`; *app* returns the application that draws the buffer."""
        self._buffer = buffer
        self._app = app
        self._only: Callable[[str], Completion | None] = lambda _before: None
        self._closed_at: str | None = None

    def use(self, completer: Completer, only: Callable[[str], Completion | None]) -> None:
        """Offer the completions of *completer*, for text already typed as well.

        Args:
            completer: Finds completions.
            only: Returns the only completion of a text before the cursor, or None.
        """
        self._buffer.completer = completer
        self._only = only
        self.show_again()

    @property
    def is_open(self) -> bool:
        """Whether completions are shown."""
        state = self._buffer.complete_state
        return state is not None and bool(state.completions)

    @property
    def is_looking(self) -> bool:
        """Whether completions are looked for, and none is found yet."""
        state = self._buffer.complete_state
        return state is not None and not state.completions

    @property
    def marked(self) -> int | None:
        """The index of the completion that Enter takes, if it takes one.

        It is the chosen one, else the one that is typed in full, else the only one, else the first
        if it begins as typed; of the arguments of a command only one that is begun and the only
        one: `/goal` with a blank behind it shows the goal, and does not take `off`.
        """
        state = self._buffer.complete_state
        if state is None or not state.completions:
            return None
        if state.complete_index is not None:
            return state.complete_index
        before = state.original_document.text_before_cursor
        texts = [_completed(before, completion) for completion in state.completions]
        if before in texts:
            return texts.index(before)
        first = state.completions[0]
        is_argument = before.startswith("/") and " " in before
        has_begun = bool(first.start_position) or before == "/"
        if (has_begun or not is_argument) and (only := self._only(before)) is not None:
            return texts.index(_completed(before, only)) if len(texts) == 1 else 0
        return 0 if isinstance(first, Certain) and has_begun and not is_argument else None

    @property
    def marks_unchosen(self) -> bool:
        """Whether a completion is marked that was not chosen by a key."""
        state = self._buffer.complete_state
        return state is not None and state.complete_index is None and self.marked is not None

    def choose_next(self) -> None:
        """Choose the completion below the marked one, or the first behind the last."""
        state, marked = self._buffer.complete_state, self.marked
        if state is not None and marked is not None:
            self._buffer.go_to_completion((marked + 1) % len(state.completions))

    def show_again(self) -> None:
        """Complete again, unless a completion is chosen or the menu was closed for this text."""
        state = self._buffer.complete_state
        chosen = state is not None and state.complete_index is not None
        if chosen or not self._buffer.text or self._buffer.text == self._closed_at:
            return
        with set_app(self._app()):
            self._buffer.start_completion()

    def close(self) -> None:
        """Restore the typed text, and show nothing until it changes."""
        self._buffer.cancel_completion()
        self._closed_at = self._buffer.text

    def take(self) -> bool:
        """Take the marked completion.

        Returns:
            Whether the user goes on typing: True behind an @, False for a command, now complete,
            and for a text that the completion does not change.
        """
        state, marked = self._buffer.complete_state, self.marked
        if state is None or marked is None:
            return False
        before = state.original_document.text_before_cursor
        if state.current_completion is None:
            completion = state.completions[marked]
            if _completed(before, completion) == before:
                self._buffer.complete_state = None
                return False
            self._buffer.apply_completion(completion)
        else:
            self._buffer.complete_state = None  # the text already contains it
            if len(state.completions) == 1:  # completed by Tab
                return False
        return not before.startswith("/")


def _completed(before: str, completion: Completion) -> str:
    """Return the text *before* the cursor with *completion*."""
    return before[: len(before) + completion.start_position] + completion.text


class Certain(Completion):
    """A completion that begins as typed; fuzzy path matches are plain `Completion`s."""
