"""The records of another agent's session, in order, before `timeline` makes them valid."""

from collections.abc import Mapping
from datetime import datetime
from typing import TypeAlias

from agent_cli.contracts.timeline import Block, Json
from agent_cli.system.records import dataclass, field


@dataclass(frozen=True, slots=True)
class UserRecord:
    """A message in the user's role; not typed if the program wrote it."""

    at_ms: int
    blocks: tuple[Block, ...]
    is_typed: bool = True


@dataclass(frozen=True, slots=True)
class CallRecord:
    """A tool call with the id that the other program gave it."""

    id: str
    name: str
    input: Json


@dataclass(frozen=True, slots=True)
class ReplyRecord:
    """A reply of the model: texts and calls, in order."""

    at_ms: int
    model: str
    parts: list[str | CallRecord] = field(default_factory=list[str | CallRecord])


@dataclass(frozen=True, slots=True)
class ResultRecord:
    """The result of a call."""

    id: str
    blocks: tuple[Block, ...]
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class SummaryRecord:
    """From here on the model was shown *summary* in place of all before."""

    at_ms: int
    summary: str


ForeignRecord: TypeAlias = UserRecord | ReplyRecord | ResultRecord | SummaryRecord


def at_ms(line: Mapping[str, Json]) -> int:
    """Return the time of a line in Unix ms; 0 if it has none."""
    try:
        return int(datetime.fromisoformat(str(line.get("timestamp"))).timestamp() * 1000)
    except (ValueError, OverflowError):
        return 0
