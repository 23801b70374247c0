"""Values about background commands."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class JobInfo:
    """A background command in a list.

    `command` is one line, cut; `state` says in a few words how long it runs or how it ended.
    `is_own` says that the conversation that goes on started it.
    """

    id: int
    command: str
    state: str
    is_running: bool
    log: Path
    is_own: bool = True
