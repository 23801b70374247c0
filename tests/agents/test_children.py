"""The slot of an agent while its own agents come and go."""

import asyncio
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager

from agent_cli.agents.children import Assignment, Children
from agent_cli.agents.definitions import AgentCatalogue
from agent_cli.contracts.provider import ModelRequest, StreamEvent
from agent_cli.contracts.tooling import ToolContext, ToolResult
from agent_cli.core.agent import Agent
from agent_cli.core.loop_config import LoopConfig
from agent_cli.core.waits import CapacityLimiter
from tests.agents.test_random_waits import Worker
from tests.fakes import LIMIT_S, MODEL, Gate, says, stream_of
from tests.waiting import until

OTHER = "another agent"


class Family:
    """An agent that holds the only slot, and its agents, which answer once their gate is open."""

    def __init__(self) -> None:
        self.slots = CapacityLimiter(1, "a slot")
        self.catalogue = AgentCatalogue(warn=lambda _text: None)
        definition = self.catalogue.get("general")
        assert definition is not None
        self.parent = Assignment(
            definition=definition,
            task="",
            title="parent",
            tool_call_id="t0",
            model="",
            depth=1,
            parent="",
        )
        self.gates = {"a": Gate(), "b": Gate()}
        agent = Agent(LoopConfig(model=MODEL))
        self.children = Children(
            self.catalogue,
            self._built,
            slots=self.slots,
            parent=lambda: agent,
            above=self.parent,
            listing=self._listed,
        )
        self.listed: dict[str, Assignment] = {}

    def start(self, task: str) -> asyncio.Task[ToolResult]:
        return asyncio.create_task(self.children.work("general", task, task, ToolContext(task)))

    def parents_slots(self) -> int:
        """Return how often the parent holds the slot, and take it away; no other agent has it."""
        taken = 0
        while self.slots.is_full:
            self.slots.give(self.parent)
            taken += 1
        return taken

    @contextmanager
    def _listed(self, assignment: Assignment) -> Generator[None]:
        self.listed[assignment.task] = assignment
        try:
            yield
        finally:
            del self.listed[assignment.task]

    @asynccontextmanager
    async def _built(self, assignment: Assignment) -> AsyncGenerator[Worker]:
        async def answer(_request: ModelRequest) -> AsyncGenerator[StreamEvent]:
            await self.gates[assignment.task].pass_through()
            for event in stream_of(says(assignment.task)):
                yield event

        yield Worker(Agent(LoopConfig(model=MODEL, stream_fn=answer)))


async def retaking() -> tuple[Family, asyncio.Task[ToolResult]]:
    """Return a family whose parent waits for its slot again after the end of its agent "a"."""
    family = Family()
    await family.slots.take(family.parent)
    first = family.start("a")
    await family.gates["a"].reached.wait()
    other = asyncio.create_task(family.slots.take(OTHER))
    await asyncio.sleep(0)
    family.gates["a"].open()
    await other
    await until(lambda: not family.listed)
    return family, first


async def test_call_that_begins_while_the_parent_retakes_its_slot_gets_that_slot() -> None:
    """The parent would keep the only slot, for which the agent that it waits for waits too."""
    family, first = await retaking()
    second = family.start("b")
    await asyncio.sleep(0)

    family.slots.give(OTHER)
    async with asyncio.timeout(LIMIT_S):
        await family.gates["b"].reached.wait()
        family.gates["b"].open()
        results = [await first, await second]

    assert [each.text for each in results] == ["a", "b"]
    assert family.parents_slots() == 1


async def test_call_that_is_stopped_while_the_parent_retakes_its_slot_takes_no_second_one() -> None:
    """One of two would never be given back."""
    family, first = await retaking()
    second = family.start("b")
    await until(lambda: "b" in family.listed)
    family.listed["b"].stop.cancel()
    await until(lambda: "b" not in family.listed)

    family.slots.give(OTHER)
    async with asyncio.timeout(LIMIT_S):
        await first
        await asyncio.gather(second, return_exceptions=True)

    assert family.parents_slots() == 1
