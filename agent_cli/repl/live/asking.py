"""Questions at the prompt: one at a time, in the place of the input line."""

import asyncio
from collections.abc import Callable
from typing import Final

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.document import Document

from agent_cli.repl.dialogue import ENTER
from agent_cli.repl.live.question import Question

_MARGIN_S: Final = 0.001
_TOO_EARLY: Final = "too early: press again"


class Asking:
    """Swaps the draft for a question once that is ripe, and back when it was answered.

    One who asks while another question is open waits for that one's answer: `turn` belongs to
    whoever has the prompt's place.
    """

    can_ask = True

    def __init__(
        self,
        buffer: Buffer,
        clock: Callable[[], float],
        refresh: Callable[[], None],
        *,
        take_draft: Callable[[], str],
    ) -> None:
        self.question: Question | None = None
        self._buffer = buffer
        self._clock = clock
        self._refresh = refresh
        self._take_draft = take_draft
        self._answer: asyncio.Future[str] | None = None
        self.turn = asyncio.Lock()

    @property
    def is_open(self) -> bool:
        """Whether keys answer."""
        return self.question is not None and self.question.open

    @property
    def message(self) -> str:
        """What stands in the prompt's place, or ""."""
        return self.question.message if self.question and self.question.open else ""

    @property
    def hint(self) -> str:
        """What stands behind the question until the next key, or ""."""
        return _TOO_EARLY if self.question and self.is_open and self.question.too_early else ""

    @property
    def keys(self) -> str:
        """The keys that answer at once."""
        return self.question.keys if self.question and self.question.is_ripe else ""

    def accepts(self, text: str) -> bool:
        """Whether *text* with Enter behind it answers now."""
        question = self.question
        if question is None or not question.is_ripe:
            return False
        if question.only_keys:
            return len(text.strip()) == 1 and text.strip() in question.keys
        return bool(text.strip()) or ENTER in question.keys

    def put_aside(self) -> None:
        """Keep what was typed for the prompt where only keys are an answer."""
        if self.question and self.question.only_keys:
            self.question.draft = _joined(self._buffer.text, self.question.draft)
            self._buffer.reset()

    async def choose(self, message: str, keys: str) -> str:
        """Return one of *keys*, pressed alone, or a line of other text.

        The question takes the prompt's place once it stands there and the keyboard was silent for
        a third of a second; what was typed until then is put aside and comes back afterwards.

        Raises:
            KeyboardInterrupt: Ctrl-C or Esc.
            EOFError: The session ends.
        """
        return await self._ask(Question(message, keys, self._clock))

    async def choose_next(self, message: str, keys: str) -> str:
        """Ask like `choose` for one who has just answered: what is typed goes to the question.

        It is not answered before it stood there for a third of a second either.
        """
        return await self._ask(Question(message, keys, self._clock), at_once=True)

    async def choose_key(self, message: str, keys: str, *, at_once: bool = False) -> str:
        """Return one of *keys*; other text is no answer, and kept for the prompt."""
        return await self._ask(
            Question(message, keys, self._clock, only_keys=True), at_once=at_once
        )

    async def _ask(self, question: Question, *, at_once: bool = False) -> str:
        """Return the answer to *question* once nothing else is asked."""
        async with self.turn:
            self.question = question
            if at_once:
                self._open(question)
            self._answer = asyncio.get_running_loop().create_future()
            self._refresh()
            try:
                return await self._answer
            finally:
                self._close()

    def answer(self, text: str) -> None:
        """Answer the question."""
        if self._answer and not self._answer.done():
            self._answer.set_result(text)

    def end(self, error: BaseException) -> None:
        """End the question without an answer."""
        if self._answer and not self._answer.done():
            self._answer.set_exception(error)

    def drawn(self) -> None:
        """Note that the screen shows the question."""
        if self.question:
            self.question.shown()
            self._open_when_ripe()

    def key_pressed(self) -> None:
        """Note that somebody types."""
        if self.question and not self.question.open:
            self.question.key_pressed()
            self._open_when_ripe()
        if self.question and self.question.open:
            self.question.too_early = False

    def _open_when_ripe(self) -> None:
        question = self.question
        if question is None or question.open:
            return
        if question.is_ripe:
            self._open(question)
            self._refresh()
        elif not question.waiting:
            question.waiting = True
            loop = asyncio.get_running_loop()
            # A little later, or a rounding error would have us look without a pause.
            loop.call_later(question.ripe_in_s + _MARGIN_S, self._look_again, question)

    def _open(self, question: Question) -> None:
        question.open, question.draft = True, self._take_draft()

    def _look_again(self, question: Question) -> None:
        question.waiting = False
        if question is self.question:
            self._open_when_ripe()

    def _close(self) -> None:
        question, self.question, self._answer = self.question, None, None
        if question and question.open:
            whole = _joined(self._buffer.text, question.draft)
            self._buffer.document = Document(whole, len(whole))
        self._refresh()


def _joined(first: str, second: str) -> str:
    return "\n".join(text for text in (first, second) if text)
