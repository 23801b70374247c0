"""Questions at the prompt: one at a time, in place of the input line."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.document import Document

from agent_cli.repl.dialogue import ENTER, Choice, is_slip, key_hint, key_of
from agent_cli.repl.live.choices import Choices
from agent_cli.system.records import dataclass

# The state of a question at the prompt: when Enter begins to answer it.

# How long the question must be shown, and the keyboard silent, before Enter answers.
SILENCE_S: Final = 0.35


@dataclass(slots=True)
class OpenQuestion:
    """A question that accepts an answer only once the user can have seen it.

    `draft` is the input's text until then, `waiting` says that a timer will check again,
    `too_early` that a key was pressed while it was shown but did not accept answers yet,
    `has_kept` that a line was no answer, and `has_slipped` that it was no sentence either. One that
    `is_known` was on the screen a moment ago and accepts answers at once.

    Only whole lines are answers. With `only_keys` only one of `keys` is; with `choices` there is a
    list, where a digit needs no Enter, and the typed text stays in the input, because it may be the
    answer; text begun before the list is a message for the agent.
    """

    message: str
    keys: Sequence[str]
    clock: Callable[[], float]
    only_keys: bool = False
    choices: Choices | None = None
    open: bool = False
    draft: str = ""
    waiting: bool = False
    too_early: bool = False
    has_kept: bool = False
    has_slipped: bool = False
    is_known: bool = False
    silent_since_s: float | None = None

    @property
    def is_unmarked(self) -> bool:
        """Whether there is a list that has no mark yet, so that Enter does not answer."""
        return self.choices is not None and not self.choices.is_marked

    @property
    def owns_text(self) -> bool:
        """Whether text in the input is an answer to it, perhaps a password, and no prompt."""
        return self.open and not self.only_keys and self.choices is None

    def shown(self) -> None:
        """Note that it is on the screen; only the first call counts."""
        if self.silent_since_s is None:
            self.silent_since_s = self.clock()

    def key_pressed(self) -> None:
        """Note a key press; before answers are accepted, the key was meant for something else."""
        if self.silent_since_s is not None and not self.is_ripe:
            self.silent_since_s = self.clock()
            self.too_early = True

    def begin_anew(self) -> None:
        """Mark no answer before the keyboard was silent again: the text before it was deleted."""
        assert self.choices
        self.choices.is_marked = self.is_known = False
        self.silent_since_s = self.clock()

    @property
    def is_ripe(self) -> bool:
        """Whether it accepts answers now."""
        return self.ripe_in_s == 0

    @property
    def ripe_in_s(self) -> float:
        """Seconds of silence still needed."""
        if self.is_known:
            return 0.0
        if self.silent_since_s is None:
            return SILENCE_S
        return max(0.0, SILENCE_S - (self.clock() - self.silent_since_s))


_MARGIN_S: Final = 0.001
_TOO_EARLY: Final = "too early: try again"
_KEPT: Final = "kept for your next message"


class Asking:
    """Swaps the draft for a question once that accepts answers, and back afterwards.

    A question asked while another one is open waits for its answer: the open question holds `turn`.
    `has_unsent` returns whether a message that the user sent is not delivered yet, `is_command`
    whether a text is a command, which is no answer in a list; `closed` is called when a question
    is no longer open.
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
        self.question: OpenQuestion | None = None
        self._buffer = buffer
        self._clock = clock
        self._refresh = refresh
        self._take_draft = take_draft
        self._answer: asyncio.Future[Choice | str] | None = None
        self._checked: Choice | None = None
        self._has_closed = self._had_message = self._has_dropped = False
        self.has_unsent: Callable[[], bool] = bool
        self.is_command: Callable[[str], bool] = lambda _text: False
        self.closed: Callable[[], None] = lambda: None
        self.turn = asyncio.Lock()

    @property
    def is_open(self) -> bool:
        """Whether a question replaces the prompt."""
        return self.question is not None and self.question.open

    @property
    def message(self) -> str:
        """The text in place of the prompt, or ""."""
        return self.question.message if self.question and self.question.open else ""

    @property
    def hint(self) -> str:
        """The hint behind the question until the next key, or ""."""
        if not self.question or not self.is_open:
            return ""
        if self.question.has_slipped:
            return key_hint(self.question.keys)
        return _TOO_EARLY if self.question.too_early else _KEPT if self.question.has_kept else ""

    @property
    def choices(self) -> Choices | None:
        """The list below the question, if any."""
        question = self.question
        choices = question.choices if question else None
        if question and choices:
            had_message = choices.has_message
            choices.typed(self._buffer.text)
            if had_message and not choices.has_message and not choices.was_sent:
                question.begin_anew()  # the user has only just seen that Enter answers
            choices.has_unsent = self.has_unsent()
            choices.has_command = self.is_command(self._buffer.text)
        return choices

    def answer_of(self, text: str) -> Choice | str | None:
        """Return the answer that Enter gives with *text* in the input; None if it is not one."""
        question, answer = self.question, self._answer
        # One that was just ended has no answer: a list's text is then the prompt's.
        if question is None or answer is None or answer.done():
            return None
        if choices := self.choices:
            taken = choices.taken()
            if isinstance(taken, str):  # a sentence approves nothing, so it is never too early
                return text if taken and not is_slip(taken) else None
            return taken if question.is_ripe else None
        if not question.is_ripe:
            return None
        if question.only_keys:
            return key_of(text, question.keys)
        return text if text.strip() or ENTER in question.keys else None

    def refuse(self, *, too_early: bool = False) -> None:
        """Show why Enter did not answer, if it was *too_early* or a list was not read yet."""
        question = self.question
        if question and (question.choices or too_early):
            question.too_early = too_early or not question.is_ripe

    def put_aside(self) -> None:
        """Put a sentence typed for the prompt aside if only keys are an answer; drop a slip."""
        if self.question and self.question.only_keys:
            text = self._buffer.text
            self.question.has_slipped = is_slip(text)
            self.question.has_kept = bool(text.strip()) and not is_slip(text)
            if self.question.has_kept:
                self.question.draft = _joined(self.question.draft, text)
            self._buffer.reset()

    async def select(
        self,
        message: str,
        choices: Sequence[Choice],
        *,
        text: str,
        ctrl_c: str = "stops the run",
        anew: bool = False,
    ) -> Choice | str:
        """Return one of *choices*, picked from a list or typed, or a sentence.

        The list appears at once, and the typed text stays in the input: text begun before is a
        message, which Enter sends, unless a choice was picked; begun in the list before, which was
        closed and is shown *anew*, it is a sentence for this one. A sentence typed since answers at
        any time; Enter alone, or a typed choice, once the keyboard was silent for a third of a
        second with the list on the screen. While a message typed before is not delivered yet, or
        where a short answer is gone with the list before, no row is marked: Enter must not answer.

        Raises:
            KeyboardInterrupt: Ctrl-C or Esc.
            EOFError: The session ends.
        """
        has_default = not (self.has_unsent() or (anew and self._has_dropped))
        listed = Choices(choices, text, ctrl_c, has_default=has_default)
        question = OpenQuestion(message, "", self._clock, choices=listed, open=True)
        checked, self._checked = self._checked, None
        if checked and listed.mark(checked):
            question.is_known = listed.is_marked = True  # the same list again: it has been read
        listed.has_message = not anew or self._had_message
        return await self._ask(question)

    def check(self) -> None:
        """Answer with the marked checkbox; when the list is shown again, the mark is there."""
        if self.checkbox and self._answer and not self._answer.done():
            self._checked = self.checkbox
            self.answer(self.checkbox)

    @property
    def checkbox(self) -> Choice | None:
        """The marked checkbox of a list that accepts answers, if any."""
        choices = self.choices
        if not choices or not choices.is_marked or self._buffer.text:
            return None
        taken = choices.taken()
        return taken if isinstance(taken, Choice) and taken.is_checkbox else None

    def shortcut(self, key: str) -> Choice | None:
        """Return the answer of the open list that *key* takes at once, if any."""
        choices = self.choices
        listed = choices.all if choices else ()
        return next((choice for choice in listed if choice.shortcut == key), None)

    async def choose(self, message: str, keys: str) -> str:
        """Return a line of text, which may be empty if *keys* has ENTER in it.

        The question replaces the prompt once it was shown and the keyboard was silent for a third
        of a second; text typed until then is put aside and returned afterwards.

        Raises:
            KeyboardInterrupt: Ctrl-C or Esc.
            EOFError: The session ends.
        """
        return str(await self._ask(OpenQuestion(message, keys, self._clock)))

    async def choose_next(self, message: str, keys: str) -> str:
        """Ask like `choose` right after an answer: typed text goes to the question.

        It too must have been shown for a third of a second before it can be answered.
        """
        return str(await self._ask(OpenQuestion(message, keys, self._clock), at_once=True))

    async def choose_key(self, message: str, keys: Sequence[str], *, at_once: bool = False) -> str:
        """Return one of *keys*, typed as a line; other text is kept for the prompt."""
        question = OpenQuestion(message, keys, self._clock, only_keys=True)
        return str(await self._ask(question, at_once=at_once))

    async def _ask(self, question: OpenQuestion, *, at_once: bool = False) -> Choice | str:
        """Return the answer to *question*, after any other open question."""
        async with self.turn:
            if self._has_closed:
                raise EOFError
            self.question = question
            if question.choices:
                question.choices.has_message &= bool(self._buffer.text.strip())
            if at_once:
                self._open(question)
            self._answer = asyncio.get_running_loop().create_future()
            self._refresh()
            try:
                return await self._answer
            finally:
                self._close()

    def answer(self, answer: Choice | str) -> None:
        """Answer the question."""
        if self._answer and not self._answer.done():
            self._answer.set_result(answer)

    def end(self, error: BaseException) -> None:
        """End the question without an answer."""
        if self._answer and not self._answer.done():
            self._answer.set_exception(error)

    def message_sent(self) -> None:
        """Note that the text in the input was sent as a message, and is no answer."""
        if self.question and self.question.choices:
            self.question.choices.was_sent = True

    def message_written(self, before: OpenQuestion | None) -> None:
        """Note that the input gets a text that was begun elsewhere while *before* was open.

        It was written in the editor, searched for, or pasted slowly: a list that opened meanwhile
        takes it for a message.
        """
        question = self.question
        if question and question is not before and question.choices:
            question.choices.has_message = True

    def keep(self, text: str, before: OpenQuestion | None) -> bool:
        """Put a *text* begun while *before* was open aside if the input now holds an answer."""
        question = self.question
        if question is None or question is before or question.choices or not question.open:
            return False
        question.draft, question.has_kept = _joined(question.draft, text), True
        return True

    def drop_answer(self) -> None:
        """Discard a half-typed answer: neither the model nor the history may get it."""
        question, typed = self.question, self._buffer.text
        choices = question.choices if question else None
        self._has_dropped = choices is not None and choices.is_attempt(typed)
        if question and (question.owns_text or self._has_dropped):
            self._buffer.reset()  # also what undo and the arrow keys would bring back

    def unsent(self, typed: str) -> str:
        """Return the text to keep when the session ends with *typed* in the input: no answer."""
        question = self.question
        if question is None or not question.open:
            return typed
        is_key = question.only_keys and (key_of(typed, question.keys) or is_slip(typed))
        is_attempt = question.choices and question.choices.is_attempt(typed)
        return _joined(question.draft, "" if is_key or is_attempt else typed)

    def close(self) -> None:
        """End this question and all further ones: the session ends."""
        self._has_closed = True
        self.end(EOFError())

    def drawn(self) -> None:
        """Note that the screen shows the question."""
        if self.question:
            self.question.shown()
            self._open_when_ripe()

    def key_pressed(self) -> None:
        """Note a key press."""
        question = self.question
        if question and (self.choices or not question.open):
            question.key_pressed()
            self._open_when_ripe()
        if question and question.open:
            question.too_early = question.has_kept = question.has_slipped = False

    def _open_when_ripe(self) -> None:
        question = self.question
        if question is None or (question.open and not question.is_unmarked):
            return
        if question.is_ripe:
            self._open(question)
            self._refresh()
        elif not question.waiting:
            question.waiting = True
            loop = asyncio.get_running_loop()
            # A little later, so that a rounding error does not cause a busy loop.
            loop.call_later(question.ripe_in_s + _MARGIN_S, self._look_again, question)

    def _open(self, question: OpenQuestion) -> None:
        if question.choices:
            question.choices.is_marked = True
        else:
            question.open, question.draft = True, self._take_draft()

    @property
    def _is_answered(self) -> bool:
        answer = self._answer
        return bool(answer and answer.done() and not (answer.cancelled() or answer.exception()))

    def _look_again(self, question: OpenQuestion) -> None:
        question.waiting = False
        if question is self.question:
            self._open_when_ripe()

    def _close(self) -> None:
        if not self._is_answered:
            self.drop_answer()
        question, self.question, self._answer = self.question, None, None
        if question and question.choices:
            self._had_message = question.choices.has_message
        if question and question.open:
            whole = _joined(question.draft, self._buffer.text)
            self._buffer.document = Document(whole, len(whole))
        self.closed()
        self._refresh()


def _joined(first: str, second: str) -> str:
    return "\n".join(text for text in (first, second) if text)
