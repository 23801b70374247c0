"""An agent under watch: the grammar of its events, and listeners that call back in."""

import asyncio
import random
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Final

from agent_cli import Agent, AgentCliError, Event, UserMessage
from tests.e2e.public_api.findings import Findings
from tests.e2e.public_api.queues import Queues
from tests.e2e.public_api.shared_state import SharedState

KINDS: Final = (
    *("agent_start", "turn_start", "message_start", "message_update", "message_end"),
    *("tool_execution_start", "tool_execution_update", "tool_execution_end", "turn_end"),
    *("agent_end", "app.prompt_started", "app.prompt_output", "app.prompt_state"),
    *("app.prompt_completed", "app.state_changed", "app.tool_calls_announced"),
    *("app.approval_requested", "app.retry", "app.notice", "app.usage"),
)
"""The kinds of events that these programs see."""


class Ending(BaseException):
    """What a listener raises to end the program, as a test framework does."""


class Grammar:
    """Whether events keep the grammar of a run (contracts/events.py)."""

    def __init__(self, findings: Findings) -> None:
        self._findings = findings
        self.is_open = False
        self._has_turn = False
        self._message: str | None = None
        self._started: set[str] = set()
        self._ended: set[str] = set()

    def hear(self, event: Event) -> None:
        """Check *event*."""
        if event.type.startswith("app."):
            return
        if self.is_open == (event.type == "agent_start"):
            self._findings.violate(f"{event.type} {'within' if self.is_open else 'outside of'} run")
        if event.type == "agent_start":
            self.is_open = True
            self._has_turn = False
            self._findings.count(self._findings.facts, "runs")
            return
        self._check(event)

    def _check(self, event: Event) -> None:
        violate = self._findings.violate
        match event.type:
            case "agent_end":
                self.is_open = False
                if self._has_turn or self._message or self._started:
                    violate(f"a run ends within {self._message or self._started or 'a turn'}")
                self._message, self._started, self._ended = None, set(), set()
            case "turn_start" | "turn_end":
                if self._has_turn == (event.type == "turn_start"):
                    violate(f"{event.type} in the wrong place")
                self._has_turn = event.type == "turn_start"
            case "message_start":
                if self._message:
                    violate(f"a message within a message of kind {self._message}")
                self._message = event.message.role
            case "message_update" | "message_end":
                if not self._message:
                    violate(f"{event.type} without its start")
                if event.type == "message_end":
                    self._message = None
            case _:
                self._tool(event)

    def _tool(self, event: Any) -> None:
        id = event.tool_call_id
        if event.type == "tool_execution_start":
            if id in self._started | self._ended:
                self._findings.violate(f"call {id} starts twice")
            self._started.add(id)
        elif id not in self._started:
            self._findings.violate(f"{event.type} of a call that does not run: {id}")
        elif event.type == "tool_execution_end":
            self._started.discard(id)
            self._ended.add(id)


class Watched:
    """An agent, and what is known about it."""

    def __init__(self, agent: Agent, shared: SharedState, findings: Findings) -> None:
        self.agent = agent
        self.shared = shared
        self.findings = findings
        self.queues = Queues(agent, findings)
        self.grammar = Grammar(findings)
        self.seen = 0
        self._listeners: list[Callable[[], None]] = []
        agent.subscribe(self._hear)

    def _hear(self, event: Event) -> None:
        self.seen += 1
        self.grammar.hear(event)
        self.queues.hear(event)

    def listen(self, dice: random.Random) -> None:
        """Subscribe a listener that does something at an event of one kind, and then goes."""
        kind, countdown = dice.choice(KINDS), dice.randint(1, 3)
        name, action = dice.choice(list(_ACTIONS.items()))
        lock = threading.Lock()

        def listener(event: Event) -> Any:  # a coroutine too, which a listener must not return
            nonlocal countdown
            with lock:
                countdown -= event.type == kind
                if event.type != kind or countdown != 0:
                    return None
            self.agent.unsubscribe(listener)
            self.findings.react(kind, name)
            return action(self)

        self._listeners.append(self.agent.subscribe(listener))

    def forget_listeners(self) -> None:
        """End all subscriptions of listeners that do something."""
        for unsubscribe in self._listeners:
            unsubscribe()
        self._listeners.clear()


def _raise(problem: BaseException) -> None:
    raise problem


def _cancel() -> None:
    try:
        task = asyncio.current_task()
    except RuntimeError:
        return
    if task:
        task.cancel()


async def _later() -> None:
    raise AssertionError("a listener's coroutine ran")


NOT_FOR_LISTENERS: Final = _later.__qualname__
"""The coroutine function whose coroutine a listener returns; an agent closes it."""


def _coroutine() -> Coroutine[None, None, None]:
    return _later()


def _call_in(watched: Watched) -> None:
    """Start something that has to be awaited, which a run refuses."""
    waiting = watched.agent.prompt("from a listener")
    try:
        waiting.send(None)
    except AgentCliError:
        return
    finally:
        waiting.close()
    watched.findings.violate("a prompt began within a run")


_ACTIONS: dict[str, Callable[[Watched], object]] = {
    "abort": lambda watched: watched.agent.abort(),
    "steer": lambda watched: watched.queues.put("steer"),
    "follow up": lambda watched: watched.queues.put("follow up"),
    "reset": lambda watched: watched.queues.reset(),
    "clear": lambda watched: watched.queues.clear(watched.agent.clear_all_queues),
    "append": lambda watched: watched.agent.append_message(UserMessage.of("x")),
    "tools": lambda watched: watched.agent.set_tools(()),
    "level": lambda watched: watched.agent.set_thinking_level("high"),
    "state": lambda watched: watched.agent.state,
    "prompt": _call_in,
    "bug": lambda _watched: _raise(ValueError("a broken listener")),
    "stop": lambda _watched: _raise(StopIteration()),
    "cancelled": lambda _watched: _raise(asyncio.CancelledError()),
    "exit": lambda _watched: _raise(GeneratorExit()),
    "cancel": lambda _watched: _cancel(),
    "end": lambda _watched: _raise(Ending()),
    "coroutine": lambda _watched: _coroutine(),
}
