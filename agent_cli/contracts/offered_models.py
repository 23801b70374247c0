"""A server's own description of the models it offers, and who asks for another one."""

from collections.abc import Awaitable, Callable
from datetime import date, timedelta
from typing import Final, Literal, TypeAlias

from agent_cli.system.records import dataclass

SwitchSource: TypeAlias = Literal["command", "picker", "sdk"]
"""Who asks for another model: a typed name, a choice from a list, or another program."""
ConfirmSwitch: TypeAlias = Callable[[str], Awaitable[bool]]
"""Asks the person whether to change the model, with the reason of the hook that wants that."""

_SOON: Final = timedelta(days=60)


@dataclass(frozen=True, slots=True)
class OfferedModel:
    """A model in a server's list; facts missing there are "" or None.

    `lifecycle` is "active", "deprecated" or "retired", `retires_on` a day as YYYY-MM-DD.
    """

    id: str
    name: str
    lifecycle: str = ""
    retires_on: str = ""
    context_window: int | None = None
    max_output_tokens: int | None = None

    @property
    def state(self) -> str:
        """Return its retirement or lifecycle in a few words; "" if it is just active."""
        if self.retires_on:
            return f"{'retired' if self.lifecycle == 'retired' else 'retires'} {self.retires_on}"
        return "" if self.lifecycle == "active" else self.lifecycle

    def ends_soon(self, today: date) -> bool:
        """Return whether the model is retired, or will be within sixty days of *today*."""
        try:
            gone = date.fromisoformat(self.retires_on)
        except ValueError:
            return self.lifecycle == "retired"
        return self.lifecycle == "retired" or gone - today <= _SOON
