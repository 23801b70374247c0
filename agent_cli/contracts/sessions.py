"""Values that describe stored sessions."""

from pathlib import Path

from agent_cli.contracts.timeline import NO_USAGE, Usage
from agent_cli.system.records import dataclass


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """A session, as lists show it.

    `title` is the first prompt, on one line. `waiting` is True if a call waits for a decision.
    `agent` is the name of a subagent, started by the call `parent_call`. `problem` says why the
    session cannot be resumed; other fields may then be incomplete. Nothing was said in one that
    `is_unused`; it is not listed. `program` is the agent that wrote it, "" for this one: such a
    session is only read, its prompts are not counted, and going on with it makes a copy.
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
    is_unused: bool = False
    program: str = ""


@dataclass(frozen=True, slots=True)
class SessionMatch:
    """A session in which words were found; nothing in it holds a secret but `session`.

    `entry_id` is the last entry that has all of them, `who` said it ("you", "agent", the name of a
    tool or the kind of the entry), `excerpt` is a line of it, and `count` entries have them.
    """

    session: SessionInfo
    entry_id: str
    who: str
    excerpt: str
    count: int
