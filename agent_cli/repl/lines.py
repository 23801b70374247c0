"""Lines from a pipe, a file or a terminal that cannot move its cursor."""

import asyncio
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TextIO, TypeAlias

# For so long after a question appeared nobody can have read it; what arrives answers nothing.
UNREAD_S: Final = 0.3
_Stop: TypeAlias = type[KeyboardInterrupt] | type[EOFError]


@dataclass(frozen=True, slots=True)
class _Line:
    text: str
    at_s: float


class PlainPrompt:
    """Reads line by line and writes nothing but the prompt, and that only for a person.

    `can_ask` says whether somebody can answer questions.
    """

    def __init__(self, source: TextIO, prompt_to: TextIO) -> None:
        self.can_ask = source.isatty()
        self._source = source
        self._prompt_to = prompt_to
        self._loop = asyncio.get_running_loop()
        self._arrived: asyncio.Queue[_Line | _Stop] = asyncio.Queue()
        # A thread blocked in a read cannot be ended, so it must not be waited for at exit either.
        threading.Thread(target=self._receive, name="stdin", daemon=True).start()

    async def read(self, message: str) -> str:
        """Return the next line; one that ends with a backslash goes on in the line after it.

        Raises:
            KeyboardInterrupt: `stop(KeyboardInterrupt)`.
            EOFError: The input ended, or `stop(EOFError)`.
        """
        self._show(message)
        text = (await self._next()).text
        while text.endswith("\\"):
            text = f"{text[:-1]}\n{(await self._next()).text}"
        return text

    async def choose(self, message: str, keys: str) -> str:
        """Return the next line that was not on its way when the question appeared.

        *keys* need Enter here, because such a terminal hands over whole lines.
        """
        del keys
        self._show(message)
        asked_at_s = time.monotonic()
        while (line := await self._next()).at_s - asked_at_s < UNREAD_S:
            self._show(message)
        return line.text

    def above(self, write: Callable[[], None]) -> None:
        """Call *write*; there is no prompt to move."""
        write()

    def stop(self, error: _Stop) -> None:
        """End a pending `read` or `choose` with *error*."""
        self._arrived.put_nowait(error)

    async def _next(self) -> _Line:
        arrived = await self._arrived.get()
        if isinstance(arrived, _Line):
            return arrived
        if arrived is EOFError:
            self._arrived.put_nowait(EOFError)  # an end stays an end, whoever asks next
        raise arrived

    def _show(self, message: str) -> None:
        if self.can_ask:
            self._prompt_to.write(message)
            self._prompt_to.flush()

    def _receive(self) -> None:
        try:
            while line := self._source.readline():
                self._hand_over(_Line(line.rstrip("\r\n"), time.monotonic()))
        except OSError:
            pass  # the terminal went away, which is the end of its input too
        self._hand_over(EOFError)

    def _hand_over(self, arrived: _Line | _Stop) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._arrived.put_nowait, arrived)


def plain_prompt() -> PlainPrompt:
    """Return the prompt over this process's stdin, on stdout only if that is a terminal."""
    return PlainPrompt(sys.stdin, sys.stdout if sys.stdout.isatty() else sys.stderr)
