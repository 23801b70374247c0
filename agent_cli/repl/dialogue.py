"""Questions to the person in front of the terminal, one at a time or several in a row."""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple, Protocol

ENTER: Final = "\r"
"""Among the keys of a question: a line without text is an answer too."""
_WORDS: Final = {"yes": "y", "no": "n"}


class Choice(NamedTuple):
    """One answer of a list; a choice without a label can be typed, but is not shown.

    Attributes:
        label: The answer in words.
        lines: The whole lines that stand for it, in lowercase. No English sentence may be one.
    """

    label: str
    lines: tuple[str, ...]


def chosen(line: str, choices: Iterable[Choice]) -> Choice | None:
    """Return the choice that *line* stands for as a whole."""
    typed = " ".join(line.split()).casefold()
    return next((choice for choice in choices if typed in choice.lines), None)


def is_slip(line: str) -> bool:
    """Return whether *line* is too short to be a sentence: one character, or a number."""
    typed = line.strip()
    return len(typed) == 1 or typed.isdecimal()


def not_an_answer(line: str) -> str:
    """Return what a person should know about a slip."""
    return f"{line.strip()} is not an answer here: choose one of the answers, or type a sentence"


def key_of(line: str, keys: str) -> str | None:
    """Return the one of *keys* that *line* stands for as a whole: `y`, and `yes` for it."""
    typed = line.strip().lower()
    key = _WORDS.get(typed, typed)
    return key if len(key) == 1 and key in keys else None


class Questions(Protocol):
    """A person who can be asked to pick one of several answers, or to say something else."""

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
    ) -> Choice | str:
        """Return one of *choices*, or a sentence that is none of them.

        Args:
            message: The question.
            choices: The first one is what Enter alone takes, where a list can be shown.
            text: What a sentence comes to, for example "decline and tell the model why".
            ctrl_c: What Ctrl-C does.
        """
        ...


class Dialogue(Protocol):
    """A person who can be asked. Nothing but a whole line, sent with Enter, is an answer."""

    @property
    def can_ask(self) -> bool:
        """Whether a person is there to answer."""
        ...

    async def choose(self, message: str, keys: str) -> str:
        """Return a line that was not typed before the question was seen.

        The line may be empty if *keys* has ENTER in it.
        """
        ...

    async def choose_next(self, message: str, keys: str) -> str:
        """Ask like `choose`, for a question that follows an answer: what is typed belongs to it."""
        ...

    async def choose_key(self, message: str, keys: str, *, at_once: bool = False) -> str:
        """Return one of *keys*, typed as a whole line; other text is no answer.

        *at_once* asks a person who has just answered, as `choose_next` does.
        """
        ...
