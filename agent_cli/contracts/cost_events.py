"""What a run tells about its limit of cost; a part of the union in events.py."""

from dataclasses import dataclass
from typing import ClassVar, Literal


@dataclass(frozen=True, slots=True)
class UsageHeld:
    """What calls of unknown usage may cost changed for a prompt: one begins, ended or broke off."""

    type: ClassVar[Literal["app.usage_held"]] = "app.usage_held"
    prompt_id: str
    held_microdollars: int
