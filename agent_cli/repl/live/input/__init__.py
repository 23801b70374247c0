"""The input line and its completion menu. No typed text gets lost; marks are edited as units.

Imported before the first prompt: standard library and prompt_toolkit only.
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from prompt_toolkit.application import Application
from prompt_toolkit.application.current import set_app
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.history import FileHistory

from agent_cli.repl.live.shared_terminal import lines_left

# Arrow-up would need as many presses to get beyond a longer prompt in the history.
_RECALLED_LINES_MAX: Final = 100
_BLANK_LINES: Final = re.compile(r"\A(?:\s*\n)?")


class Draft:
    """A buffer whose text, when cleared, goes into the history.

    `attach` turns a paste that is not text into a mark, or returns None; `Pictures` sets it.
    """

    def __init__(self, history: Path, *, warn: Callable[[str], None]) -> None:
        """*history* is the file that stores prompts; *warn* gets one sentence if that fails."""
        self.marks = PromptMarks()
        self.attach: Callable[[str], str | None] = _no_mark
        self.buffer = Buffer(
            history=PrivateHistory(history, warn=warn),
            multiline=True,
            complete_while_typing=True,
            on_text_changed=self._changed,
            on_cursor_position_changed=self._moved,
        )
        self._text, self._line, self._cursor = "", 0, 0

    @property
    def is_empty(self) -> bool:
        """Whether the input is empty."""
        return not self.buffer.text

    @property
    def text(self) -> str:
        """The whole typed and pasted text; undecodable bytes are replaced."""
        return self.marks.expanded(self.buffer.text).encode(errors="replace").decode()

    @property
    def message(self) -> str:
        """The text to send: without blank lines before it and white space behind it.

        The first of several lines keeps its indentation, unless it begins like a command.
        """
        bare = self.text.strip()
        return bare if "\n" not in bare or bare[0] in "/!" else _trimmed(self.text)

    def paste(self, text: str) -> None:
        """Insert pasted text; a long text, or the path of a picture, as a mark."""
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        self.insert(self.attach(text) or self.marks.shortened(text))

    def insert(self, text: str) -> None:
        """Insert *text* at the cursor."""
        self.buffer.insert_text(text)

    def put_back(self, text: str) -> None:
        """Insert *text*, which was sent or queued, at the start; its pastes become marks again."""
        whole = "\n".join(part for part in (self.marks.marked(text), self.buffer.text) if part)
        self.buffer.document = Document(whole, len(whole))

    def load(self, text: str) -> None:
        """Replace the input with *text*, which was queued; its pastes become marks again."""
        marked = self.marks.marked(text)
        self.buffer.document = Document(marked, len(marked))

    def replace(self, before: str, after: str) -> None:
        """Replace the text *before*, as returned by `text`, with its edited version *after*.

        Text that was put back or inserted meanwhile stays.
        """
        text = self.text
        rest = text.removesuffix(before) if text.endswith(before) else text.removeprefix(before)
        whole = "\n".join(part for part in (rest.strip("\n"), after) if part)
        self.buffer.document = Document(whole, len(whole))

    def clear(self) -> None:
        """Clear the input; its text goes into the history."""
        self.keep(self.take())

    def take(self) -> str:
        """Clear the input and return its text; abandoned history lines go into the history."""
        text, left = self.buffer.text, lines_left(self.buffer)
        self.buffer.reset()
        stored = set(self.buffer.history.get_strings())
        for line in left:
            if self.marks.recalled(line) not in stored:
                self.keep(line)
        return text

    def keep(self, text: str) -> None:
        """Add *text* to the history as the latest prompt."""
        recalled = self.marks.recalled(text).encode(errors="replace").decode()
        if recalled.strip() and self.buffer.history.get_strings()[-1:] != [recalled]:
            self.buffer.history.append_string(recalled)

    def key_pressed(self) -> None:
        """Note the state before a key changes it."""
        self._text, self._line = self.buffer.text, self.buffer.working_index

    def _changed(self, buffer: Buffer) -> None:
        before, self._text = self._text, buffer.text
        if buffer.working_index == self._line:
            if healed := self.marks.healed(before, buffer.text):
                buffer.document = Document(*healed)
        elif buffer.text.count("\n") > _RECALLED_LINES_MAX:  # a prompt of the history
            mark = self.marks.shortened(buffer.text)
            buffer.document = Document(mark, len(mark))

    def _moved(self, buffer: Buffer) -> None:
        came_from, self._cursor = self._cursor, buffer.cursor_position
        position = self.marks.outside(buffer.text, buffer.cursor_position, came_from=came_from)
        if position != buffer.cursor_position:
            buffer.cursor_position = position


def _trimmed(text: str) -> str:
    """Return *text* without the blank lines before it and the white space behind it."""
    return _BLANK_LINES.sub("", text).rstrip()


def _no_mark(_text: str) -> None:
    """Treat every paste as text."""


# The first prompt waits for this: a megabyte takes 30 ms, and pasted texts are included.
_READ_BYTES_MAX: Final = 1_000_000


class PrivateHistory(FileHistory):
    """The prompts of all sessions in one private file; only its last part is offered.

    A prompt that cannot be stored is still sent, and stays in this session's history; *warn* gets
    one sentence the first time.
    """

    def __init__(self, path: Path, *, warn: Callable[[str], None]) -> None:
        self._path = path
        self._warn: Callable[[str], None] | None = warn
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch(mode=0o600)
            path.chmod(0o600)
        except OSError as error:
            self._warn_once(error)
        super().__init__(path)

    def load_history_strings(self) -> Iterable[str]:
        """Return the stored prompts, newest first."""
        try:
            return _prompts_at_the_end_of(self._path)
        except OSError as error:
            self._warn_once(error)
            return ()

    def store_string(self, string: str) -> None:
        """Append *string* to the file."""
        try:
            super().store_string(string)
        except OSError as error:
            self._warn_once(error)

    def _warn_once(self, error: OSError) -> None:
        warn, self._warn = self._warn, None
        if warn:
            warn(f"{self._path}: prompts are not kept for later sessions: {error.strerror}")


def _prompts_at_the_end_of(path: Path) -> list[str]:
    """Return the last prompts, newest first, in `FileHistory` format: + before lines, a date."""
    with path.open("rb") as file:
        file.seek(max(file.seek(0, os.SEEK_END) - _READ_BYTES_MAX, 0))
        text = file.read().decode(errors="replace")
    # Before the first date there is nothing, or the rest of a prompt.
    _, *stored = text.split("\n# ")
    return [
        "\n".join(line[1:] for line in each.split("\n") if line.startswith("+"))
        for each in reversed(stored)
    ]


# Marks in the input represent long pastes and pictures; they are expanded when it is sent.
#
# `[paste #1: 5,000 lines]` is text, `[image 1: pic.png 800×600]` stays a mark in what is sent.

_LINES_MAX: Final = 10
_CHARS_MAX: Final = 1000
_MARK: Final = re.compile(r"\[(?:paste #|image )\d+: [^\[\]\n]*\]")


class _Meaning(NamedTuple):
    sent: str
    recalled: str


class PromptMarks:
    """The marks of this session with their contents. Text that only looks like a mark is text."""

    def __init__(self) -> None:
        self._meanings: dict[str, _Meaning] = {}
        self._pastes = 0

    def shortened(self, text: str) -> str:
        """Return *text*, or a new mark for it if it is long."""
        lines = text.removesuffix("\n").count("\n") + 1
        if lines <= _LINES_MAX and len(text) <= _CHARS_MAX:
            return text
        known = (mark for mark, meaning in self._meanings.items() if meaning.sent == text)
        if mark := next(known, ""):
            return mark
        self._pastes += 1
        size = f"{lines:,} lines" if lines > 1 else f"{len(text):,} characters"
        mark = f"[paste #{self._pastes}: {size}]"
        self.add(mark, sent=text, recalled=text)
        return mark

    def add(self, mark: str, *, sent: str, recalled: str) -> None:
        """Define *mark* as *sent*; the prompt history stores *recalled* for it."""
        self._meanings[mark] = _Meaning(sent, recalled)

    def expanded(self, text: str) -> str:
        """Return *text* with marks replaced by their contents."""
        return _MARK.sub(lambda found: self._meaning(found[0]).sent, text)

    def marked(self, text: str) -> str:
        """Return *text*, which `expanded` made and whose ends may be stripped, with its marks."""
        for mark, meaning in self._meanings.items():
            if (bare := meaning.sent.strip()) and bare != mark:
                for paste in (meaning.sent, meaning.sent.rstrip(), _trimmed(meaning.sent), bare):
                    text = text.replace(paste, mark)
        return text

    def recalled(self, text: str) -> str:
        """Return *text* as the prompt history stores it."""
        return _MARK.sub(lambda found: self._meaning(found[0]).recalled, text)

    def healed(self, before: str, after: str) -> tuple[str, int] | None:
        """Return the text and cursor after a change, with damaged marks removed as a whole.

        Returns:
            None if the change damaged no mark.
        """
        if not any(self._mark_spans(before)):
            return None
        start = _common(before, after)
        rest = min(len(before), len(after)) - start
        kept = _common(before[::-1][:rest], after[::-1][:rest])
        added = after[start : len(after) - kept]
        first, last = start, len(before) - kept
        for begin, end in self._mark_spans(before):
            # One mark may have become another, e.g. by an undo.
            whole = after.startswith(before[begin:end], begin) or _MARK.match(after, begin)
            if first < last and begin < last and first < end and not whole:
                first, last = min(first, begin), max(last, end)
        if (first, last) == (start, len(before) - kept):
            return None
        return before[:first] + added + before[last:], first + len(added)

    def outside(self, text: str, cursor: int, *, came_from: int) -> int:
        """Return the position outside a mark for *cursor*, in the direction of its movement."""
        for begin, end in self._mark_spans(text):
            if begin < cursor < end:
                return end if cursor > came_from else begin
        return cursor

    def _meaning(self, mark: str) -> _Meaning:
        return self._meanings.get(mark, _Meaning(mark, mark))

    def _mark_spans(self, text: str) -> Iterator[tuple[int, int]]:
        return (m.span() for m in _MARK.finditer(text) if m[0] in self._meanings)


def _common(one: str, other: str) -> int:
    """Return the length of the common prefix."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))


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
    def marked(self) -> int | None:
        """The index of the completion that Enter takes, if it takes one.

        It is the chosen one, else the one that is typed in full, else the only one, else the first
        if it begins as typed; of the arguments of a command only one that is the only one.
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
        if (only := self._only(before)) is not None:
            return texts.index(_completed(before, only)) if len(texts) == 1 else 0
        first = state.completions[0]
        is_argument = before.startswith("/") and " " in before
        has_begun = bool(first.start_position) or before == "/"
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
