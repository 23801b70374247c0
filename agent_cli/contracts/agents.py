"""Values about agents that work for the session's agent."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AgentInfo:
    """An agent in a list.

    `title` names it and its task in one line; `state` says in a few words what it does, or for how
    long it worked.
    """

    number: int
    title: str
    state: str
    is_running: bool
