"""Questions to the user at the terminal, one at a time or several in a row."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

if TYPE_CHECKING:
    from agent_cli.repl.approval.input_edit import Editor
    from agent_cli.repl.approval.preview import Row
    from agent_cli.terminal.writer import Pages

ENTER: Final = "\r"
"""Among the keys of a question: an empty line is an answer too."""
ASIDE: Final = "/btw "
"""A line that begins so asks the model beside a question, and never answers that."""
_WORDS: Final = {"yes": "y", "no": "n"}
_NUMBERS_MAX: Final = 3


class Choice(NamedTuple):
    """One answer of a list; a choice without a label can be typed but is not shown.

    Attributes:
        label: The answer in words.
        lines: The typed lines that select it, in lowercase. None may be an English sentence.
        is_checkbox: Whether it only checks a row of a list that is then shown again.
        is_default: Whether Enter alone takes it, in place of the first of the list.
        key: The digit or letter before the label, which is one of `lines`; "" for none.
        beside: A hint behind the label.
        note: What must be read with the label, but is no part of the answer.
        shortcut: A key that takes it at once, as it is written in hints; it may only show more.
        news: Returns a hint that takes the place of `beside` while the list is shown, or "".
    """

    label: str
    lines: tuple[str, ...]
    is_checkbox: bool = False
    is_checked: bool = False
    is_default: bool = False
    key: str = ""
    beside: str = ""
    note: str = ""
    shortcut: str = ""
    news: Callable[[], str] = str

    @property
    def words(self) -> str:
        """The label with its note."""
        return f"{self.label} · {self.note}" if self.note else self.label

    def numbered(self, number: int) -> "Choice":
        """Return this answer with *number* before it, which selects it too."""
        return self._replace(key=str(number), lines=(*self.lines, str(number)))


def chosen(line: str, choices: Iterable[Choice]) -> Choice | None:
    """Return the choice that the whole *line* selects."""
    typed = " ".join(line.split()).casefold()
    return next((choice for choice in choices if typed in choice.lines), None)


def is_slip(line: str) -> bool:
    """Return whether *line* is no sentence: one character, a number, or a question aside."""
    typed = line.strip()
    return len(typed) == 1 or typed.isdecimal() or typed.startswith(ASIDE)


def not_an_answer(line: str) -> str:
    """Return the hint for such a line."""
    return f"{line.strip()} is not an answer here: choose one of the answers, or type a sentence"


def key_of(line: str, keys: Sequence[str]) -> str | None:
    """Return the key of *keys* that the whole *line* selects: `y`, or `yes` for it."""
    typed = line.strip().lower()
    key = _WORDS.get(typed, typed)
    return key if key in [*keys] else None


def key_hint(keys: Sequence[str]) -> str:
    """Return the hint for a line that is none of *keys*, such as "answer y, n or 1 to 7"."""
    numbers = [key for key in keys if key.isdecimal()]
    if len(numbers) > _NUMBERS_MAX:
        numbers = [f"{numbers[0]} to {numbers[-1]}"]
    *others, last = [*(key for key in keys if not key.isdecimal()), *numbers]
    return f"answer {', '.join(others)} or {last}" if others else f"answer {last}"


class Questions(Protocol):
    """Port to a user who can pick one of several answers, or type something else."""

    @property
    def can_ask(self) -> bool:
        """Whether a person is there to answer."""
        ...

    async def select(
        self,
        message: str,
        choices: Sequence[Choice],
        *,
        text: str,
        ctrl_c: str = "stops the run",
        anew: bool = False,
    ) -> Choice | str:
        """Return one of *choices*, or any other sentence.

        Args:
            message: The question.
            choices: The answers; Enter alone takes the default, where a list can be shown.
            text: The meaning of a typed sentence, e.g. "decline and tell the model why".
            ctrl_c: The effect of Ctrl-C, in words.
            anew: The list before was closed without an answer, and is now shown anew.
        """
        ...


class DialogParts(NamedTuple):
    """The prompt, the rows and the turn that the dialogs of one front end share.

    Attributes:
        questions: Asks the user.
        lines: Shows sentences, and rows where there is no screen.
        turn: Held during a dialog, from its first row on: no row of another stands in between.
        before_asking: Called after rows were written that the user must see at once.
        editor: Lets the user edit a text, if the terminal can be given to an editor.
        screen: Shows rows on a screen; None without one.
    """

    questions: Questions
    lines: "Pages"
    turn: asyncio.Lock
    before_asking: Callable[[], None] = lambda: None
    editor: "Editor | None" = None
    screen: "Callable[[Sequence[Row]], None] | None" = None

    def draw(self, rows: "Sequence[Row]") -> None:
        """Show *rows*."""
        if self.screen:
            self.screen(rows)
            return
        from agent_cli.repl.approval.preview import write_rows  # with the first dialog

        write_rows(rows, self.lines)


class Dialogue(Protocol):
    """Port to a user who can be asked. Only a whole line, sent with Enter, is an answer."""

    @property
    def can_ask(self) -> bool:
        """Whether a person is there to answer."""
        ...

    async def choose(self, message: str, keys: str) -> str:
        """Return a line typed after the question was shown.

        The line may be empty if *keys* has ENTER in it.
        """
        ...

    async def choose_next(self, message: str, keys: str) -> str:
        """Ask like `choose`, right after an answer: anything typed by now is for this question."""
        ...

    async def choose_key(self, message: str, keys: Sequence[str], *, at_once: bool = False) -> str:
        """Return one of *keys*, typed as a whole line; other text is not an answer.

        *at_once* asks like `choose_next`.
        """
        ...


class TurnTaking:
    """A dialogue that holds a *turn* while it asks: no other dialog shows rows meanwhile.

    *before_asking* is called with the turn, for which rows of the question may have waited.
    """

    def __init__(
        self,
        dialogue: Dialogue,
        turn: asyncio.Lock,
        before_asking: Callable[[], None] = lambda: None,
    ) -> None:
        self._dialogue = dialogue
        self._turn = turn
        self._before_asking = before_asking

    @property
    def can_ask(self) -> bool:
        """Whether a person is there to answer."""
        return self._dialogue.can_ask

    async def choose(self, message: str, keys: str) -> str:
        """Return a line; see `Dialogue.choose`."""
        async with self._turn:
            self._before_asking()
            return await self._dialogue.choose(message, keys)

    async def choose_next(self, message: str, keys: str) -> str:
        """Return a line; see `Dialogue.choose_next`."""
        async with self._turn:
            self._before_asking()
            return await self._dialogue.choose_next(message, keys)

    async def choose_key(self, message: str, keys: Sequence[str], *, at_once: bool = False) -> str:
        """Return a key; see `Dialogue.choose_key`."""
        async with self._turn:
            self._before_asking()
            return await self._dialogue.choose_key(message, keys, at_once=at_once)
