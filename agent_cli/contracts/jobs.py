"""Values that describe background commands."""

from collections.abc import Sequence
from pathlib import Path

from agent_cli.system.records import dataclass


@dataclass(frozen=True, slots=True)
class JobInfo:
    """A background command, as lists show it.

    `command` is one line, shortened; `state` says in a few words how long it has run or how it
    ended. `is_own` is True if the current conversation started it. `notes` are sentences about what
    it changed, once it has ended.
    """

    id: int
    command: str
    state: str
    is_running: bool
    log: Path
    is_own: bool = True
    notes: Sequence[str] = ()
