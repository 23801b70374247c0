"""Values that front ends list: stored sessions, background commands, and models on offer."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import date, timedelta
from pathlib import Path
from typing import Final, Literal, TypeAlias

from agent_cli.contracts.timeline import NO_USAGE, Usage
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


SwitchSource: TypeAlias = Literal["command", "picker", "sdk"]
"""The origin of a switch of models: a typed name, a choice from a list, or another program."""
ConfirmSwitch: TypeAlias = Callable[[str], Awaitable[bool]]
"""Asks the person whether to change the model, with the reason of the hook that wants that."""

_SOON: Final = timedelta(days=60)


@dataclass(frozen=True, slots=True)
class OfferedModel:
    """A model in a server's list; facts missing there are "" or None.

    `lifecycle` is "active", "deprecated" or "retired", `retires_on` a day as YYYY-MM-DD.
    """

    id: str
    name: str
    lifecycle: str = ""
    retires_on: str = ""
    context_window: int | None = None
    max_output_tokens: int | None = None

    @property
    def state(self) -> str:
        """Return its retirement or lifecycle in a few words; "" if it is just active."""
        if self.retires_on:
            return f"{'retired' if self.lifecycle == 'retired' else 'retires'} {self.retires_on}"
        return "" if self.lifecycle == "active" else self.lifecycle

    def ends_soon(self, today: date) -> bool:
        """Return whether the model is retired, or will be within sixty days of *today*."""
        try:
            gone = date.fromisoformat(self.retires_on)
        except ValueError:
            return self.lifecycle == "retired"
        return self.lifecycle == "retired" or gone - today <= _SOON


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """A session, as lists show it.

    Attributes:
        title: The name that the user gave it, or its first prompt, on one line.
        name: The name that the user gave it, or "".
        waiting: Whether a call waits for a decision.
        problem: Why the session cannot be resumed, or ""; other fields may then be incomplete.
        remedy: How to go on with what is before the damage, if the session is damaged.
        agent: The name of a subagent, or "".
        parent_call: The call that started the subagent, or "".
        is_unused: Whether nothing was said in it; it is not listed.
        program: The agent that wrote it, "" for this one. A session of another program is only
            read, its prompts are not counted, and going on with it makes a copy.
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
    remedy: str = ""
    agent: str = ""
    parent_call: str = ""
    is_unused: bool = False
    program: str = ""
    name: str = ""

    @property
    def state(self) -> str:
        """The state in words, as a list shows it, or ""."""
        if self.problem:
            return "damaged" if self.remedy else "unreadable"
        return "waits for a decision" if self.waiting else ""


@dataclass(frozen=True, slots=True)
class SessionMatch:
    """A session in which words were found; only `session` may hold a secret.

    Attributes:
        entry_id: The last entry that has all the words.
        who: The author of that entry: "you", "agent", the name of a tool, or the entry's kind.
        excerpt: A line of that entry.
        count: The number of entries that have all the words.
    """

    session: SessionInfo
    entry_id: str
    who: str
    excerpt: str
    count: int
