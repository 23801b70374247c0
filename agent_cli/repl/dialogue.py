"""Several questions in a row, as one conversation with whoever sits there."""

from typing import Final, Protocol

ENTER: Final = "\r"
"""Among the keys of a question: a line without text is an answer too."""


class Dialogue(Protocol):
    """Somebody who can be asked, and asked again as soon as they have answered."""

    @property
    def can_ask(self) -> bool:
        """Whether somebody is there to answer."""
        ...

    async def choose(self, message: str, keys: str) -> str:
        """Return one of *keys* or other text, none of it typed before the question was seen."""
        ...

    async def choose_next(self, message: str, keys: str) -> str:
        """Ask like `choose`, for a question that follows an answer: what is typed belongs to it."""
        ...

    async def choose_key(self, message: str, keys: str, *, at_once: bool = False) -> str:
        """Return one of *keys*; other text is no answer.

        *at_once* asks one who has just answered, as `choose_next` does.
        """
        ...
