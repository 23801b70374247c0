"""Values about agents that work for the session's agent."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AgentInfo:
    """An agent in a list.

    `title` names it and its task in one line; `state` says in a few words what it does, or for how
    long it worked. `tool_call_id` is the call that started it.
    """

    number: int
    title: str
    state: str
    is_running: bool
    tool_call_id: str = ""
    is_stopping: bool = False
