"""The input line and its history. No typed text gets lost; marks are edited as units.

Imported before the first prompt: standard library and prompt_toolkit only.
"""

import os
from collections.abc import Callable, Iterable
from datetime import datetime
from pathlib import Path
from typing import Final

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.document import Document
from prompt_toolkit.history import FileHistory

from agent_cli.repl.live.input.marks import ClusterBuffer, PromptMarks, outside_cluster, trimmed
from agent_cli.repl.live.shared_terminal import lines_left

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
        self.buffer = ClusterBuffer(
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
        return bare if "\n" not in bare or bare[0] in "/!" else trimmed(self.text)

    def pasted(self, text: str) -> str:
        """Return pasted text to insert; a long text, or the path of a picture, as a mark."""
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        return self.attach(text) or self.marks.shortened(text)

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
        cursor = outside_cluster(buffer.text, buffer.cursor_position, came_from=came_from)
        position = self.marks.outside(buffer.text, cursor, came_from=came_from)
        if position != buffer.cursor_position:
            buffer.cursor_position = position


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
        """Append *string* in one write: another session may append at the same time."""
        lines = "".join(f"+{line}\n" for line in string.split("\n"))
        entry = f"\n# {datetime.now()}\n{lines}".encode(errors="replace")
        try:
            with self._path.open("ab", buffering=0) as file:
                file.write(entry)
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
