"""The model's todo list as front ends read it."""

from typing import Literal, Protocol


class Todo(Protocol):
    """One step of the list; its texts are the model's."""

    @property
    def content(self) -> str:
        """The step."""
        ...

    @property
    def active_form(self) -> str:
        """The step while it is being done, or ""."""
        ...

    @property
    def status(self) -> Literal["pending", "in_progress", "completed"]:
        """The progress of the step."""
        ...

    @property
    def priority(self) -> Literal["high", "medium", "low"]:
        """The importance of the step."""
        ...
