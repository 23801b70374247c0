"""The input line. No typed text gets lost, and marks in it are edited as units.

Imported before the first prompt: standard library and prompt_toolkit only.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Final

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.document import Document

from agent_cli.repl.history import PrivateHistory
from agent_cli.repl.live.input.marks import PromptMarks
from agent_cli.repl.live.toolkit_app import lines_left

# Arrow-up would need as many presses to get beyond a longer prompt in the history.
_RECALLED_LINES_MAX: Final = 100


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
        """Replace the text *before*, as `text` gave it, with *after*, an edited version of it.

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
        place = self.marks.outside(buffer.text, buffer.cursor_position, came_from=came_from)
        if place != buffer.cursor_position:
            buffer.cursor_position = place


def _no_mark(_text: str) -> None:
    """Treat every paste as text."""
