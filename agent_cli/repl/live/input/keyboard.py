"""Read keys, and recognise pastes from terminals without bracketed paste.

Imported before the first prompt: standard library and prompt_toolkit only.
"""

import select
from collections.abc import Sequence
from typing import Final, TextIO

from prompt_toolkit.input.posix_utils import PosixStdinReader
from prompt_toolkit.input.vt100 import Vt100Input
from prompt_toolkit.key_binding.key_processor import KeyPress
from prompt_toolkit.keys import Keys

from agent_cli.repl.live.input.ground import GroundAnswer

# No one types this many lines between two reads.
_LINES_MIN: Final = 3
_QUIET_S: Final = 0.1
_CHARS_MAX: Final = 10_000_000
_TYPED: Final = frozenset({Keys.ControlM, Keys.ControlJ, Keys.ControlI})


class Keyboard(Vt100Input):
    """Passes keys on, but several lines read at once as one paste.

    The first read passes lines on one by one: they were typed before the prompt. The terminal's
    answer about its background is no key.
    """

    _has_read = False

    def __init__(self, stdin: TextIO, answer: GroundAnswer) -> None:
        """Read *stdin*, a terminal, from which *answer* is taken out."""
        super().__init__(stdin)
        self._answer = answer
        self.stdin_reader = _Reader(stdin, answer)

    def flush_keys(self) -> list[KeyPress]:
        """Return keys that were held back, as nothing followed them: Esc."""
        if held := self._answer.released():
            self.vt100_parser.feed(held)
        return super().flush_keys()

    def read_keys(self) -> list[KeyPress]:
        """Return the keys since the last call."""
        keys = super().read_keys()
        is_burst, self._has_read = self._has_read, True
        if not is_burst or not _are_lines(keys):
            return keys
        chars = len(keys)
        while chars < _CHARS_MAX and select.select([self.fileno()], [], [], _QUIET_S)[0]:
            more = super().read_keys()
            if not more or not _is_text(more):
                return [_paste(keys), *more]
            keys += more
            chars += len(more)
        return [_paste(keys)]


class _Reader(PosixStdinReader):
    """Reads all but the terminal's answer."""

    def __init__(self, stdin: TextIO, answer: GroundAnswer) -> None:
        super().__init__(stdin.fileno(), encoding=stdin.encoding)
        self._answer = answer

    def read(self, count: int = 1024) -> str:
        return self._answer.keys_in(super().read(count))


def _are_lines(keys: Sequence[KeyPress]) -> bool:
    ends = sum(key.key == Keys.ControlM for key in keys)
    # The last line may be incomplete.
    lines = ends + bool(keys and keys[-1].key != Keys.ControlM)
    return lines >= _LINES_MIN and _is_text(keys)


def _is_text(keys: Sequence[KeyPress]) -> bool:
    return all(not isinstance(key.key, Keys) or key.key in _TYPED for key in keys)


def _paste(keys: Sequence[KeyPress]) -> KeyPress:
    return KeyPress(Keys.BracketedPaste, "".join(key.data for key in keys))
