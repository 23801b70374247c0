"""What each key does; the words for it stand in /help."""

from functools import partial
from string import ascii_lowercase, digits
from typing import Protocol

from prompt_toolkit.filters import Condition, is_searching, vi_mode
from prompt_toolkit.input.ansi_escape_sequences import ANSI_SEQUENCES
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.key_binding.key_processor import KeyPressEvent
from prompt_toolkit.keys import Keys


class Actions(Protocol):
    """What keys can ask for; see `LiveScreen`."""

    @property
    def is_busy(self) -> bool:
        """Whether something runs that typing can steer and Esc can stop."""
        ...

    @property
    def is_asking(self) -> bool:
        """Whether a question is open."""
        ...

    @property
    def answers(self) -> str:
        """The keys that answer at once right now."""
        ...

    @property
    def has_text(self) -> bool:
        """Whether something stands in the input."""
        ...

    @property
    def has_queued(self) -> bool:
        """Whether something waits that can be taken back."""
        ...

    def enter(self, *, follow_up: bool = False) -> None:
        """Send what was typed, or answer with it."""
        ...

    def answer(self, key: str) -> None:
        """Answer the question with one key."""
        ...

    def interrupt(self) -> None:
        """Ctrl-C: stop what runs, else clear the draft, else leave the second time."""
        ...

    def leave(self) -> None:
        """End the session."""
        ...

    def take_back(self) -> None:
        """Put the last queued message into the input."""
        ...

    def pause(self, *, paused: bool) -> None:
        """Hold the display, or let it go on."""
        ...

    def repaint(self) -> None:
        """Draw everything again."""
        ...

    def show_output(self) -> None:
        """Show in full what was folded last."""
        ...

    def paste(self, text: str) -> None:
        """Insert pasted text."""
        ...

    def paste_picture(self) -> None:
        """Insert the picture on the clipboard."""
        ...

    def edit(self) -> None:
        """Open the draft in the person's editor."""
        ...

    def suspend(self) -> None:
        """Stop the process until the shell continues it."""
        ...


def bindings(actions: Actions) -> KeyBindings:
    """Return the keys of the prompt; everything else edits as emacs or vi does."""
    keys = KeyBindings()
    _bind_sending(keys, actions)
    _bind_stopping(keys, actions)
    _bind_queue(keys, actions)
    _bind_answers(keys, actions)
    _bind_editing(keys, actions)
    return keys


def know_shift_enter() -> None:
    """Read the two ways terminals say Shift-Enter as Ctrl-J; prompt_toolkit drops them."""
    ANSI_SEQUENCES.setdefault("\x1b[13;2u", Keys.ControlJ)
    ANSI_SEQUENCES["\x1b[27;2;13~"] = Keys.ControlJ


def _bind_sending(keys: KeyBindings, actions: Actions) -> None:
    busy = Condition(lambda: actions.is_busy and not actions.is_asking)

    @keys.add("enter", filter=~is_searching)
    def enter(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.document.current_line_before_cursor.endswith("\\"):
            buffer.delete_before_cursor()
            buffer.insert_text("\n")
        else:
            actions.enter()

    # In vi mode Escape and Enter are two keys, and Escape must not wait for the other one.
    @keys.add("escape", "enter", filter=busy & ~vi_mode)
    def follow_up(_event: KeyPressEvent) -> None:
        actions.enter(follow_up=True)

    @keys.add("escape", "enter", filter=~busy & ~vi_mode)
    @keys.add("c-j")
    def new_line(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")


def _bind_stopping(keys: KeyBindings, actions: Actions) -> None:
    empty = Condition(lambda: not actions.has_text)
    stoppable = Condition(lambda: actions.is_busy or actions.is_asking)

    @keys.add("c-c", filter=~is_searching)
    def interrupt(_event: KeyPressEvent) -> None:
        actions.interrupt()

    @keys.add("escape", filter=stoppable & ~is_searching & ~vi_mode)
    def stop(_event: KeyPressEvent) -> None:
        actions.interrupt()

    @keys.add("c-d", filter=empty)
    def leave(_event: KeyPressEvent) -> None:
        actions.leave()

    @keys.add("c-z")
    def suspend(_event: KeyPressEvent) -> None:
        actions.suspend()


def _bind_queue(keys: KeyBindings, actions: Actions) -> None:
    queued = Condition(lambda: actions.has_queued)
    empty = Condition(lambda: not actions.has_text)

    @keys.add("up", filter=queued & empty)
    @keys.add("escape", "up", filter=queued & ~vi_mode)
    def take_back(_event: KeyPressEvent) -> None:
        actions.take_back()

    @keys.add("c-s")
    def pause(_event: KeyPressEvent) -> None:
        actions.pause(paused=True)

    @keys.add("c-q")
    def resume(_event: KeyPressEvent) -> None:
        actions.pause(paused=False)

    @keys.add("c-l")
    def repaint(_event: KeyPressEvent) -> None:
        actions.repaint()

    @keys.add("c-o")
    def show_output(_event: KeyPressEvent) -> None:
        actions.show_output()


def _bind_answers(keys: KeyBindings, actions: Actions) -> None:
    alone = Condition(lambda: actions.is_asking and not actions.has_text)

    def answer(event: KeyPressEvent) -> None:
        actions.answer(event.data)

    for key in ascii_lowercase + digits:
        keys.add(key, filter=alone & Condition(partial(_answers, actions, key)))(answer)


def _answers(actions: Actions, key: str) -> bool:
    return key in actions.answers


def _bind_editing(keys: KeyBindings, actions: Actions) -> None:
    @keys.add(Keys.BracketedPaste)
    def paste(event: KeyPressEvent) -> None:
        actions.paste(event.data)

    @keys.add("c-v")
    def paste_picture(_event: KeyPressEvent) -> None:
        actions.paste_picture()

    @keys.add("c-g", filter=~is_searching)
    def edit(_event: KeyPressEvent) -> None:
        actions.edit()
