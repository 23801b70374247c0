"""Agents that work for an agent: started by a call of its tool, run to their end, stopped with it.

Knows how many may run and what became of each; how one is built and who answers its questions is
given.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

from agent_cli.agents.activity import AgentActivity
from agent_cli.agents.catalogue import AgentCatalogue
from agent_cli.agents.definition import AgentDefinition
from agent_cli.contracts.agent_events import AgentEvent
from agent_cli.contracts.errors import ToolError
from agent_cli.contracts.events import Event, EventSink
from agent_cli.contracts.timeline import Json
from agent_cli.contracts.tooling import ToolContext, ToolResult
from agent_cli.core.agent import Agent
from agent_cli.core.conversation import Conversation
from agent_cli.core.run_result import RunResult

STATUS: Final = "status"
"""The key of a line in an update's details; it stands beside the call, not below it."""
NO_JOBS: Final = (
    "An agent's own agents cannot go on in the background. Call it without run_in_background."
)
STOPPED: Final = "The user stopped this agent. Do not start it again unless they ask for it."


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """A task for an agent.

    Attributes:
        definition: What the agent is.
        task: What it is to do.
        title: That in a few words.
        tool_call_id: The call that starts it.
        model: An alias or an id in place of the definition's; "" keeps that.
        depth: 1 for the first agent's, 2 for those that these start.
        is_isolated: It gets a git worktree of its own.
        parent: The id of the conversation that the call is of.
    """

    definition: AgentDefinition
    task: str
    title: str
    tool_call_id: str
    model: str
    depth: int
    parent: str
    is_isolated: bool = False

    @property
    def who(self) -> str:
        """Which agent asks, for the person who answers."""
        return f"agent {self.definition.name} ({self.title})"


Tell: TypeAlias = Callable[[str], None]
"""Gets a line that says what an agent does now."""


class Begin(Protocol):
    """Lets an agent go on behind its call."""

    def __call__(
        self, assignment: Assignment, work: Callable[[Tell], Awaitable[ToolResult]]
    ) -> ToolResult:
        """Begin *work* and return what the model reads of it now; raises `ToolError`."""
        ...


class Worker(Protocol):
    """An agent that is ready to be given its task."""

    @property
    def agent(self) -> Agent:
        """Who works."""
        ...

    async def decide(self) -> RunResult:
        """Put what waits to the person, and go on."""
        ...

    async def end(self) -> str:
        """Return what else the model has to be told behind the last reply, or ""."""
        ...

    async def send_back(self, text: str) -> str:
        """Return why the agent may not end yet with *text*, or "" if it may."""
        ...


class ParallelLimit:
    """So many agents run at once in the whole tree; who waits for its own agents takes no place."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._held: set[object] = set()
        self._changed = asyncio.Event()

    async def take(self, holder: object) -> None:
        """Return when *holder* has a place."""
        while len(self._held) >= self._most:
            self._changed.clear()
            await self._changed.wait()
        self._held.add(holder)

    def give(self, holder: object) -> None:
        """Give the place of *holder* to another; nothing happens if it has none."""
        self._held.discard(holder)
        self._changed.set()


class Children:
    """The agents of one agent."""

    def __init__(
        self,
        catalogue: AgentCatalogue,
        build: Callable[[Assignment], AbstractAsyncContextManager[Worker]],
        *,
        places: ParallelLimit,
        publish: EventSink,
        conversation: Callable[[], Conversation],
        depth: int = 1,
        place: object = None,
        begin: Begin | None = None,
    ) -> None:
        """Start nothing yet.

        Args:
            catalogue: The agents there are.
            build: Makes one, and ends what it needs behind it.
            places: Those of the whole tree.
            publish: Gets what the agents tell, as `AgentEvent`.
            conversation: Returns that of the agent they work for.
            depth: How deep in the tree they stand.
            place: Who holds the place of the agent they work for; the first agent needs none.
            begin: Lets one go on in the background; None where none may.
        """
        self.catalogue = catalogue
        self._build = build
        self._places = places
        self._publish = publish
        self._conversation = conversation
        self._depth = depth
        self._place = place
        self._begin = begin
        self._waiting = 0

    def started_beside(self, tool_name: str) -> int:
        """Return how many agents the last reply wants to start."""
        return sum(call.name == tool_name for call in self._conversation().open_calls())

    async def work(
        self,
        agent: str,
        task: str,
        title: str,
        context: ToolContext,
        *,
        model: str = "",
        in_background: bool = False,
        is_isolated: bool = False,
    ) -> ToolResult:
        """Let an agent do *task* and return its last reply; *in_background*, that it has begun.

        Raises:
            ToolError: There is no such agent, it failed, or it cannot go on in the background.
        """
        definition = self.catalogue.get(agent)
        if definition is None:
            known = ", ".join(each.name for each in self.catalogue.all())
            raise ToolError(f"There is no agent {agent!r}; there are: {known}.")
        assignment = Assignment(
            definition=definition,
            task=task,
            title=title,
            tool_call_id=context.tool_call_id,
            model=model or definition.model,
            depth=self._depth,
            parent=self._conversation().id,
            is_isolated=is_isolated or definition.is_isolated,
        )
        if self._begin and (in_background or definition.in_background):
            return self._begin(assignment, lambda tell: self._worked(assignment, tell))
        if in_background:
            raise ToolError(NO_JOBS)
        async with self._parent_waits():
            return await self._worked(
                assignment, lambda line: context.update(ToolResult.of("", {STATUS: line}))
            )

    async def _worked(self, assignment: Assignment, tell: Tell) -> ToolResult:
        await self._places.take(assignment)
        try:
            async with self._build(assignment) as worker:
                return await self._done(assignment, worker, tell)
        finally:
            self._places.give(assignment)

    @asynccontextmanager
    async def _parent_waits(self) -> AsyncGenerator[None]:
        """Let others have the place of the agent that these work for, while one of them does."""
        self._waiting += 1
        if self._place:
            self._places.give(self._place)
        try:
            yield
        finally:
            self._waiting -= 1
            task = asyncio.current_task()
            is_ending = task is not None and task.cancelling()
            if self._place and not self._waiting and not is_ending:
                await self._places.take(self._place)

    async def _done(self, assignment: Assignment, worker: Worker, tell: Tell) -> ToolResult:
        agent = worker.agent
        agent_id = agent.conversation.id
        activity = AgentActivity(tell)

        def hear(event: Event) -> None:
            activity(event)
            name, call_id = assignment.definition.name, assignment.tool_call_id
            self._publish(AgentEvent(agent_id, name, call_id, event))

        unsubscribe = agent.subscribe(hear)
        try:
            result = await self._to_the_end(assignment, worker)
        finally:
            unsubscribe()
        return await _reported(assignment, worker, result)

    async def _to_the_end(self, assignment: Assignment, worker: Worker) -> RunResult:
        result = await worker.agent.prompt(assignment.task)
        while True:
            while result.stop_reason == "waiting_for_approval":
                result = await worker.decide()
            text = _text(result)
            if result.stop_reason != "end_turn" or not (why := await worker.send_back(text)):
                return result
            result = await worker.agent.prompt(why)


def _text(result: RunResult) -> str:
    final = result.final_message
    return final.text.strip() if final and final.error is None else ""


async def _reported(assignment: Assignment, worker: Worker, result: RunResult) -> ToolResult:
    """Return what the model reads of a run, and what the screen and the record are told."""
    name, text = assignment.definition.name, _text(result)
    more = await worker.end()
    if result.stop_reason == "aborted":
        raise ToolError(f"{STOPPED}{more and ' ' + more}")
    if result.stop_reason == "error":
        last = f" Its last words: {text}" if text else ""
        raise ToolError(f"The agent {name} failed: {result.error}.{last}{more and ' ' + more}")
    stopped = f"[stopped: {result.error or result.stop_reason}]"
    parts = [
        text or "(The agent ended without an answer.)",
        *([stopped] if result.stop_reason != "end_turn" else []),
        *([more] if more else []),
    ]
    conversation = worker.agent.conversation
    cost = conversation.usage.cost_microdollars
    details: Json = {
        "agent": name,
        "agent_id": conversation.id,
        "rounds": result.iterations,
        "cost_microdollars": cost,
    }
    return ToolResult.of("\n\n".join(parts), details)
