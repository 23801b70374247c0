"""The subagents of one agent: started by calls of its tool, run to the end, stopped with it.

It limits how many run at once; callers supply the ways to build one and to answer its questions.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    AsyncExitStack,
    asynccontextmanager,
    nullcontext,
)
from dataclasses import replace
from typing import Final, Protocol, TypeAlias

from agent_cli.agents.definitions import AgentCatalogue, AgentDefinition
from agent_cli.contracts import events
from agent_cli.contracts.authors import HOOK
from agent_cli.contracts.cancel import CancelToken
from agent_cli.contracts.errors import Aborted, ToolError
from agent_cli.contracts.events import AgentEvent, AgentStart, Event
from agent_cli.contracts.messages import UserMessage
from agent_cli.contracts.provider import StreamEvent, TextDelta, ThinkingDelta, ToolCallStart
from agent_cli.contracts.side_events import ModelCallDelayed, ToolAttemptStart
from agent_cli.contracts.timeline import NO_USAGE, Json, ToolOutput, Usage
from agent_cli.contracts.tooling import Tool, ToolContext, ToolResult
from agent_cli.contracts.wording import WAITS_FOR_LIMIT, dollars, one_line, short_count
from agent_cli.core.agent import Agent
from agent_cli.core.call_decisions import AGENT_STOPPED
from agent_cli.core.run import RunResult
from agent_cli.core.waits import CapacityLimiter
from agent_cli.system.records import dataclass, field
from agent_cli.terminal.narration import describe_call

TOOL: Final = "agent"
"""The tool whose calls start agents."""
STATUS: Final = "status"
"""The key of a status line in an update's details; it is shown beside the call, not below it."""
WAITS: Final = "waiting for its turn"
NO_JOBS: Final = (
    "An agent's own agents cannot go on in the background. Call it without run_in_background."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """A task for an agent.

    Attributes:
        definition: The agent's definition.
        task: Its task.
        title: The task in a few words.
        tool_call_id: The call that starts it.
        model: An alias or an id instead of the definition's; "" keeps that.
        depth: 1 for subagents of the main agent, 2 for their subagents.
        parent: The id of the conversation with the call.
        is_isolated: Whether it gets its own git worktree.
        stop: Set once the user stops this agent.
    """

    definition: AgentDefinition
    task: str
    title: str
    tool_call_id: str
    model: str
    depth: int
    parent: str
    is_isolated: bool = False
    stop: CancelToken = field(default_factory=CancelToken, compare=False)

    def __str__(self) -> str:
        return self.who

    @property
    def who(self) -> str:
        """The name of the asking agent, for the user who answers."""
        return f"agent {self.definition.name} ({self.title})"


class AgentStopped(ToolError):
    """The user stopped the agent."""

    def __init__(self, more: str = "") -> None:
        """Tell the model, and *more* about the agent's work."""
        super().__init__(" ".join(filter(None, (AGENT_STOPPED, more))))


Tell: TypeAlias = Callable[[str], None]
"""Receives a line about an agent's current activity."""


Begin: TypeAlias = Callable[[Assignment, Callable[[Tell], Awaitable[ToolResult]]], ToolResult]
"""Starts the work and returns the result for the model at once; raises `ToolError`."""


class Worker(Protocol):
    """An agent ready for its task."""

    @property
    def agent(self) -> Agent:
        """The agent itself."""
        ...

    async def decide(self) -> RunResult:
        """Ask the user about waiting calls, and resume."""
        ...

    async def end(self) -> str:
        """Return more text for the model, after the last reply, or ""."""
        ...

    async def send_back(self, text: str) -> str:
        """Return a reason to continue after the reply *text*, or "" if the agent may end."""
        ...


class Children:
    """The subagents of one agent."""

    def __init__(
        self,
        catalogue: AgentCatalogue,
        build: Callable[[Assignment], AbstractAsyncContextManager[Worker]],
        *,
        slots: CapacityLimiter,
        parent: Callable[[], Agent],
        above: Assignment | None = None,
        begin: Begin | None = None,
        listing: Callable[[Assignment], AbstractContextManager[object]] = nullcontext,
    ) -> None:
        """Start nothing yet.

        Args:
            catalogue: The available agents.
            build: Builds an agent; the context manager cleans up after it.
            slots: The limit of the whole tree.
            parent: Returns the parent agent, which publishes the agents' events as `AgentEvent`.
            above: The assignment of the parent agent, which holds a slot for it; the main agent has
                none, and needs no slot.
            begin: Starts an agent in the background; None if that is not allowed.
            listing: Entered while an agent waits for a slot or works.
        """
        self.catalogue = catalogue
        self._build = build
        self._slots = slots
        self._parent = parent
        self._above = above
        self._begin = begin
        self._listing = listing
        self._waiting = 0
        self._has_slot = above is not None
        self._taking = asyncio.Lock()

    def started_at_once(self) -> int:
        """Return the number of agents that the last reply starts."""
        return sum(call.name == TOOL for call in self._parent().conversation.open_calls())

    def started_before(self, call_id: str) -> int:
        """Return how many calls before *call_id* in its reply start agents too."""
        prompts = self._parent().conversation.prompts
        calls = [out for out in prompts[-1].output if isinstance(out, ToolOutput)]
        reply_id = next(call.reply_id for call in calls if call.tool_call_id == call_id)
        of_reply = [c.tool_call_id for c in calls if (c.reply_id, c.name) == (reply_id, TOOL)]
        return of_reply.index(call_id)

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
        """Run *task* in an agent and return its last reply; *in_background*, return at once.

        Raises:
            ToolError: There is no such agent, it failed, or it cannot run in the background.
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
            depth=self._above.depth + 1 if self._above else 1,
            parent=self._parent().conversation.id,
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
        try:
            with self._listing(assignment):
                async with AsyncExitStack() as stack:
                    async with assignment.stop.scope():
                        if self._slots.is_full:
                            tell(WAITS)
                        await self._slots.take(assignment)
                        stack.callback(self._slots.give, assignment)
                        worker = await stack.enter_async_context(self._build(assignment))
                    return await self._done(assignment, worker, tell)
        except Aborted:
            raise AgentStopped from None

    @asynccontextmanager
    async def _parent_waits(self) -> AsyncGenerator[None]:
        """Release the parent agent's slot while it waits for its own agents."""
        self._waiting += 1
        if self._has_slot:
            self._has_slot = False
            self._slots.give(self._above)
        try:
            yield
        finally:
            self._waiting -= 1
            task = asyncio.current_task()
            is_ending = task is not None and task.cancelling()
            if self._above and not self._waiting and not is_ending:
                await self._take_again(self._above)

    async def _take_again(self, parent: Assignment) -> None:
        """Take the slot of *parent*, unless it waits for an agent, which may begin meanwhile."""
        async with self._taking:  # or two calls that end would take two slots
            if self._waiting or self._has_slot:
                return
            await self._slots.take(parent)
            self._has_slot = not self._waiting
            if not self._has_slot:
                self._slots.give(parent)

    async def _done(self, assignment: Assignment, worker: Worker, tell: Tell) -> ToolResult:
        agent = worker.agent
        agent_id = agent.conversation.id
        activity = AgentActivity(tell, lambda: agent.state.tools)

        def hear(event: Event) -> None:
            if isinstance(event, AgentStart) and assignment.stop.cancelled:
                agent.abort()  # stopped between two runs, for example during a hook
            activity(event)
            name, call_id = assignment.definition.name, assignment.tool_call_id
            self._parent().publish(AgentEvent(agent_id, name, call_id, event))

        unsubscribe = agent.subscribe(hear)
        try:
            result = await self._to_the_end(assignment, worker)
        finally:
            unsubscribe()
        return await _reported(assignment, worker, result)

    async def _to_the_end(self, assignment: Assignment, worker: Worker) -> RunResult:
        """Return the last result, with the model calls of all runs: a question ends a run."""
        calls = 0

        def counted(result: RunResult) -> RunResult:
            nonlocal calls
            calls += result.iterations
            return replace(result, iterations=calls)

        result = counted(await worker.agent.prompt(assignment.task))
        while True:
            while result.stop_reason == "waiting_for_approval":
                result = counted(await worker.decide())
            if result.stop_reason != "end_turn":
                return result
            try:
                async with assignment.stop.scope():
                    why = await worker.send_back(_text(result))
            except Aborted:
                return replace(result, stop_reason="aborted")
            if not why:
                return result
            result = counted(await worker.agent.prompt(UserMessage.of(why, author=HOOK)))


def _text(result: RunResult) -> str:
    final = result.final_message
    return final.text.strip() if final and final.error is None else ""


async def _reported(assignment: Assignment, worker: Worker, result: RunResult) -> ToolResult:
    """Return the run's result for the model, with details for the screen and the record."""
    name, text = assignment.definition.name, _text(result)
    more = await worker.end()
    if result.stop_reason == "aborted":
        raise AgentStopped(more)
    if result.stop_reason == "error":
        last = f"Its last words: {text}" if text else ""
        failed = f"The agent {name} failed: {result.error}."
        raise ToolError(" ".join(filter(None, (failed, last, more))))
    is_complete = result.stop_reason == "end_turn"
    stopped = "" if is_complete else f"[stopped: {result.ending}]"
    parts = (text or "(The agent ended without an answer.)", stopped, more)
    conversation = worker.agent.conversation
    cost = conversation.usage.cost_microdollars
    details: Json = {
        "agent": name,
        "agent_id": conversation.id,
        "rounds": result.iterations,
        "cost_microdollars": cost,
    }
    return ToolResult.of("\n\n".join(filter(None, parts)), details)


# An agent's current activity, in one line: a tool, tokens, cost.

_CALL_CHARS_MAX: Final = 60


class AgentActivity:
    """Turns an agent's events into its status line; an event sink."""

    def __init__(self, tell: Callable[[str], None], tools: Callable[[], Sequence[Tool]]) -> None:
        """Report nothing yet.

        Args:
            tell: Receives the line whenever it changes.
            tools: Returns the agent's tools, for their labels.
        """
        self._show = tell
        self._tools = tools
        self._usage = NO_USAGE
        self._doing = "starting"
        self._calls: dict[str, str] = {}

    def __call__(self, event: events.Event) -> None:
        """Update the line for *event*."""
        match event:
            case events.AgentStart():
                self._doing = "thinking"
            case events.MessageUpdate(event=piece):
                doing = _writing(piece) or self._doing
                if doing == self._doing:
                    return  # each piece of a reply is an event
                self._doing = doing
            case events.ToolExecutionStart():
                described = describe_call(self._tools(), event.tool_name, event.args)
                self._calls[event.tool_call_id] = one_line(described, _CALL_CHARS_MAX)
            case ToolAttemptStart():
                self._doing = "trying a command read-only"
            case ModelCallDelayed():
                self._doing = WAITS_FOR_LIMIT
            case events.UsageHeld() if self._doing == WAITS_FOR_LIMIT:
                self._doing = "thinking"
            case events.ToolExecutionEnd():
                self._calls.pop(event.tool_call_id, None)
                self._doing = "thinking"
            case events.ApprovalRequested():
                self._doing = "waits for your decision"
            case events.Retry():
                self._doing = f"retry {event.attempt} of {event.max_attempts}"
            case (
                events.UsageChanged(reply=used) | AgentEvent(event=events.UsageChanged(reply=used))
            ):
                self._usage += used
                self._doing = "thinking"
            case _:
                return
        self._tell()

    def _tell(self) -> None:
        doing = next(reversed(self._calls.values()), self._doing)
        self._show(f"{doing} · {used(self._usage)}" if self._usage.prompt_tokens else doing)


def _writing(piece: StreamEvent) -> str:
    """Return what the model is doing when it sends *piece*; "" if *piece* does not show it."""
    match piece:
        case TextDelta():
            return "writing"
        case ThinkingDelta():
            return "thinking"
        case ToolCallStart(name=name):
            return f"writing a call of {one_line(name)}"
        case _:
            return ""


def used(usage: Usage) -> str:
    """Return tokens and cost in the shortest form."""
    shown = f"{short_count(usage.prompt_tokens + usage.output_tokens)} tokens"
    cost = usage.cost_microdollars
    return shown if cost is None else f"{shown} · {dollars(cost, decimals=4)}"
