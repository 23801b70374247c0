"""Offer the answers to a question in words to the user's hooks, and take the one that arrives.

Such a question is open in one program, and nowhere on the disk: when the program ends, no token
fits any more.
"""

import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, Protocol, TypeVar

from agent_cli.contracts.cancel import first_answer
from agent_cli.contracts.dialogs import QUESTION_ID, Picked
from agent_cli.contracts.events import Notice
from agent_cli.contracts.timeline import Json
from agent_cli.contracts.wording import one_line

_KIND: Final = "elicitation_dialog"
_MESSAGE_CHARS: Final = 200

T = TypeVar("T")


class Telling(Protocol):
    """Port to the user's Notification hooks."""

    def gets_answers(self, event: str, matched: str) -> bool:
        """Return whether a hook of *event* passes signed answers on."""
        ...

    def tell_answerable(
        self, event: str, matched: str, answerable: Mapping[str, Json], /, **more: Json
    ) -> None:
        """Run the hooks of *event*; *answerable* are the fields for those that get answers."""
        ...

    @property
    def publish(self) -> Callable[[Notice], None]:
        """Shows a notice to the person."""
        ...


class Signing(Protocol):
    """Port to the signed answers of a session."""

    is_awaited: bool

    def signed_options(
        self, question_id: str, asked: Json, labels: Sequence[str]
    ) -> Mapping[str, Json]:
        """Return the field with a token for each of *labels*; none if nothing can be signed."""
        ...

    def take_option(self, question_id: str, asked: Json) -> str | None:
        """Return the label that was answered, if any."""
        ...

    def close_question(self, question_id: str) -> None:
        """Take no further answer."""
        ...


class RemoteQuestions:
    """Races the dialog at the terminal against an answer from elsewhere."""

    def __init__(self, signing: Signing, hooks: Telling) -> None:
        """Ask nothing yet."""
        self._signing = signing
        self._hooks = hooks

    async def first(
        self, dialog: Callable[[], Awaitable[T]], who: str, text: str, labels: Sequence[str]
    ) -> "T | Picked":
        """Return what *dialog* does, or what was picked of *labels* from elsewhere before that.

        Args:
            dialog: Asks at the terminal; it is cancelled by an answer from elsewhere.
            who: Asks *text*.
            labels: The answers that may be given; none that stores a rule.
        """
        asked: Json = [who, text, [*labels]]
        question_id = f"{QUESTION_ID}{os.urandom(12).hex()}"
        if not self._tell(question_id, asked, who, text, labels):
            return await dialog()

        def take() -> Picked | None:
            label = self._signing.take_option(question_id, asked)
            return None if label is None else Picked(label)

        try:
            answer = await first_answer(dialog, take)
        finally:
            self._signing.close_question(question_id)
        if isinstance(answer, Picked):
            self._hooks.publish(Notice("info", f"answered from elsewhere: {answer}"))
        return answer

    def _tell(
        self, question_id: str, asked: Json, who: str, text: str, labels: Sequence[str]
    ) -> bool:
        if not self._signing.is_awaited or not self._hooks.gets_answers("Notification", _KIND):
            return False
        answers = self._signing.signed_options(question_id, asked, labels)
        fields: dict[str, Json] = {
            "message": one_line(f"{who} asks: {text}", _MESSAGE_CHARS),
            "notification_type": _KIND,
        }
        about: Mapping[str, Json] = {"question": text, **answers} if answers else {}
        self._hooks.tell_answerable("Notification", _KIND, about, **fields)
        return bool(answers)
