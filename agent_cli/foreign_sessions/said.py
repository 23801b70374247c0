"""What was said in a session of another agent, in order, before it is made valid."""

from typing import TypeAlias

from agent_cli.contracts.timeline import Block, Json
from agent_cli.system.records import dataclass, field


@dataclass(frozen=True, slots=True)
class UserSaid:
    """A message in the user's role; not typed if the program wrote it."""

    at_ms: int
    blocks: tuple[Block, ...]
    is_typed: bool = True


@dataclass(frozen=True, slots=True)
class CallMade:
    """A tool call; the id is the other program's."""

    id: str
    name: str
    input: Json


@dataclass(frozen=True, slots=True)
class ReplySaid:
    """A reply of the model: texts and calls, in order."""

    at_ms: int
    model: str
    parts: list[str | CallMade] = field(default_factory=list[str | CallMade])


@dataclass(frozen=True, slots=True)
class ResultSaid:
    """The result of a call."""

    id: str
    blocks: tuple[Block, ...]
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class Summarised:
    """From here on the model was shown *summary* in place of all before."""

    at_ms: int
    summary: str


Said: TypeAlias = UserSaid | ReplySaid | ResultSaid | Summarised
