"""Questions at the prompt: one at a time, in the place of the input line."""

import asyncio
from collections.abc import Callable

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.document import Document

from agent_cli.repl.live.question import Question


class Asking:
    """Swaps the draft for a question once that is ripe, and back when it was answered."""

    def __init__(
        self, buffer: Buffer, clock: Callable[[], float], refresh: Callable[[], None]
    ) -> None:
        self.question: Question | None = None
        self._buffer = buffer
        self._clock = clock
        self._refresh = refresh
        self._answer: asyncio.Future[str] | None = None

    @property
    def is_open(self) -> bool:
        """Whether keys answer."""
        return self.question is not None and self.question.open

    @property
    def message(self) -> str:
        """What stands in the prompt's place, or ""."""
        return self.question.message if self.question and self.question.open else ""

    @property
    def keys(self) -> str:
        """The keys that answer at once."""
        return self.question.keys if self.question else ""

    async def ask(self, message: str, keys: str) -> str:
        """Return the answer; see `LiveScreen.choose`."""
        self.question = Question(message, keys, self._clock)
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

    def _open_when_ripe(self) -> None:
        question = self.question
        if question is None or question.open:
            return
        if question.is_ripe:
            question.open, question.draft = True, self._buffer.text
            self._buffer.reset()
            self._refresh()
        elif not question.waiting:
            question.waiting = True
            loop = asyncio.get_running_loop()
            loop.call_later(question.ripe_in_s, self._look_again, question)

    def _look_again(self, question: Question) -> None:
        question.waiting = False
        if question is self.question:
            self._open_when_ripe()

    def _close(self) -> None:
        question, self.question, self._answer = self.question, None, None
        if question and question.open:
            texts = [text for text in (self._buffer.text, question.draft) if text]
            whole = "\n".join(texts)
            self._buffer.document = Document(whole, len(whole))
        self._refresh()
