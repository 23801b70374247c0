"""Events about a run's cost limit; a part of the union in events.py."""

from dataclasses import dataclass
from typing import ClassVar, Literal


@dataclass(frozen=True, slots=True)
class UsageHeld:
    """The reserved cost of a prompt changed: a call of unknown usage began, ended or broke off."""

    type: ClassVar[Literal["app.usage_held"]] = "app.usage_held"
    prompt_id: str
    held_microdollars: int
