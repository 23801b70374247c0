"""Values about stored sessions."""

from dataclasses import dataclass
from pathlib import Path

from agent_cli.contracts.timeline import NO_USAGE, Usage


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """A session in a list.

    `title` is the first prompt, on one line. `waiting` says that a call waits for a decision.
    `agent` is the name of an agent that worked for another, started by the call `parent_call`.
    `problem` says why the session cannot be resumed; then the rest may be incomplete.
    """

    id: str
    path: Path
    updated_at_ms: int
    title: str = ""
    workspace: str = ""
    created_at_ms: int = 0
    prompts: int = 0
    usage: Usage = NO_USAGE
    waiting: bool = False
    problem: str = ""
    agent: str = ""
    parent_call: str = ""
