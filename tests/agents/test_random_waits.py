"""Random replies in trees of agents: no call waits for ever, whatever stands beside it.

The agents, their executors, files, slots, the agents of hooks and the questions about hosts are the
real ones; the model is a function, and the person answers one question after the other.
"""

import asyncio
import random
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, nullcontext
from dataclasses import replace
from typing import Any, Final

import pytest

from agent_cli.agents.children import Assignment, Children
from agent_cli.agents.definitions import AgentCatalogue
from agent_cli.agents.tool import agent_tool
from agent_cli.app.hooks.services import SessionHookServices
from agent_cli.app.models.model_calls import ModelCalls
from agent_cli.app.person import ModelsPerson
from agent_cli.app.workspace.host_access import CommandHosts, HostAccess
from agent_cli.contracts.cancel import CancelToken
from agent_cli.contracts.dialogs import Option, UserQuestion
from agent_cli.contracts.events import ToolCall
from agent_cli.contracts.provider import Model, ModelRequest, StreamEvent
from agent_cli.contracts.timeline import Block, Json
from agent_cli.contracts.tooling import Allow, Execute, Tool, ToolContext, ToolResult, Verdict
from agent_cli.core.agent import Agent
from agent_cli.core.loop_config import LoopConfig
from agent_cli.core.run import RunResult
from agent_cli.core.waits import CapacityLimiter, InOrder
from agent_cli.hooks.definition import Hook
from agent_cli.policies.permissions import Permissions
from tests.fakes import LIMIT_S, MODEL, calls, says, stream_of, tool, tool_use

NESTING_MAX: Final = 2
AGENTS_MAX: Final = 10
QUICK_REPLIES: Final = 100
SOAK_REPLIES: Final = 20_000
HOOKS_SHARE: Final = 0.1
PATHS: Final = ("/a", "/a/below", "/b", "/c")


class Worker:
    """An agent as `Children` needs it; no call of it needs approval."""

    def __init__(self, agent: Agent) -> None:
        self.agent = agent

    async def decide(self) -> RunResult:
        raise AssertionError

    async def end(self) -> str:
        return ""

    async def send_back(self, text: str) -> str:
        return ""


class OnePerson(ModelsPerson):
    """Answers at random, one question at a time, as every front end does."""

    def __init__(self, dice: random.Random) -> None:
        super().__init__(_no_permissions)
        self._dice = dice
        self._turn = asyncio.Lock()
        self.questions = 0

    @property
    def can_ask(self) -> bool:
        return True

    async def choose(
        self,
        question: UserQuestion,
        asker: str,
        *,
        steers: bool = False,
        lasting: Sequence[str] = (),
    ) -> str | None:
        async with self._turn:
            self.questions += 1
            for _ in range(self._dice.randint(0, 3)):
                await asyncio.sleep(0)
            return self._dice.choice(["Once", "No", None])


def _no_permissions() -> Permissions:
    raise AssertionError("nothing is to be remembered")


class NoRules(Permissions):
    """No host is allowed or denied."""

    def __init__(self) -> None: ...

    async def __call__(self, *_: object, **_more: object) -> Verdict:
        return Allow()

    def about_host(self, host: str, port: int) -> None:
        return None


class HookModels(ModelCalls):
    """The model that the agent of a hook asks: it reads files once, and is content."""

    def __init__(self, dice: random.Random) -> None:
        self._dice = dice
        self.record = lambda _reply: None

    def named(self, name: str | None = None) -> Model:
        return MODEL

    async def _answer(self, request: ModelRequest) -> AsyncGenerator[StreamEvent]:
        paths: list[Json] = [*self._dice.sample(PATHS, 2)]
        is_first = len(request.messages) == 1
        reads = calls(tool_use("read", {"paths": paths}), tool_use("read", {"paths": paths}, "t2"))
        for event in stream_of(reads if is_first else says("fine")):
            yield event

    stream = _answer


class Tree:
    """Agents that answer at random; `replies`, `agents` and `hooks` count them."""

    def __init__(self, seed: int) -> None:
        self._dice = dice = random.Random(seed)
        self._most = dice.randint(1, 4)
        self._slots = CapacityLimiter(self._most, "a slot")
        self._order = InOrder()
        self._concurrency = dice.randint(1, 8)
        self._person = OnePerson(dice)
        self._hosts = HostAccess(self._person, NoRules)
        self._models = HookModels(dice)
        self._running: list[tuple[object, bool, Sequence[str]]] = []
        self._faults: list[str] = []
        self.replies = self.agents = self.hooks = 0

    async def run(self) -> None:
        """Run the main agent to its end; every call that it and its agents made has its result."""
        result = await asyncio.wait_for(self._agent(0, None).prompt("go"), LIMIT_S)

        assert result.stop_reason == "end_turn"
        assert not self._running
        assert not self._faults

    def _agent(self, depth: int, slot: Assignment | None) -> Agent:
        children = Children(
            AgentCatalogue(warn=lambda _text: None),
            self._built,
            slots=self._slots,
            parent=lambda: agent,
            above=slot,
        )
        slots = object()
        reader = replace(tool("read", self._used(slots, writes=False)), reads=_paths)
        tools = [reader, tool("write", self._used(slots, writes=True), writes=_paths)]
        tools.append(tool("alone", self._used(slots, writes=False), parallel_safe=False))
        tools.append(replace(tool("ask", self._asked), takes_slot=False))
        if depth < NESTING_MAX:
            tools.append(agent_tool(children, ask_beyond=99))
        no_servers: Any = None  # the hooks are about files
        hooks = SessionHookServices(
            self._models,
            no_servers,
            NoRules(),
            agent=lambda: plain,
            tools=lambda: [replace(reader, execute=_looked)],
        )
        plain = Agent(self._options(depth, tools))
        agent = Agent(self._with_hooks(plain.options, hooks))
        return agent

    def _with_hooks(self, options: LoopConfig, hooks: SessionHookServices) -> LoopConfig:
        """Return *options* with hooks before and after some calls, as `around_calls` adds them."""

        async def ask() -> None:
            if self._dice.random() < HOOKS_SHARE:
                self.hooks += 1
                await hooks.ask_agent(Hook(event="PostToolUse"), "Is it good?")

        async def authorize(*_: object) -> Verdict:
            await ask()
            return Allow()

        async def finish(_call: ToolCall, result: ToolResult) -> ToolResult:
            await ask()
            return result

        return replace(options, authorize_tool=authorize, finish_result=finish)

    def _options(self, depth: int, tools: Sequence[Tool]) -> LoopConfig:
        turns = self._dice.randint(1, 2)

        async def answer(_request: ModelRequest) -> AsyncGenerator[StreamEvent]:
            nonlocal turns
            turns, self.replies = turns - 1, self.replies + 1
            for event in stream_of(calls(*self._uses(depth)) if turns >= 0 else says("done")):
                yield event

        return LoopConfig(
            model=MODEL,
            tools=tools,
            stream_fn=answer,
            concurrency=self._concurrency,
            tool_execution="sequential" if self._dice.random() < 0.1 else "parallel",
            path_order=self._order,
        )

    @asynccontextmanager
    async def _built(self, assignment: Assignment) -> AsyncGenerator[Worker]:
        yield Worker(self._agent(assignment.depth, assignment))

    def _uses(self, depth: int) -> list[Block]:
        return [self._use(depth, f"t{n}") for n in range(self._dice.randint(1, 10))]

    def _use(self, depth: int, id: str) -> Block:
        if depth < NESTING_MAX and self.agents < AGENTS_MAX and self._dice.random() < 0.4:
            self.agents += 1
            return tool_use("agent", {"description": "d", "prompt": "work"}, id)
        paths: list[Json] = [*self._dice.sample(PATHS, self._dice.randint(1, 2))]
        name = self._dice.choice(["read", "read", "write", "write", "alone", "ask"])
        return tool_use(name, {} if name in ("alone", "ask") else {"paths": paths}, id)

    def _used(self, slots: object, *, writes: bool) -> Execute:
        """Return a body that uses its files for a few turns of the event loop."""

        async def use(
            _id: str, params: dict[str, list[str]], _cancel: CancelToken, _on: ToolContext
        ) -> str:
            mine = (slots, writes, params.get("paths", []))
            self._faults += [
                f"{paths} is used beside {mine[2]}"
                for _, written, paths in self._running
                if (writes or written) and _clash(mine[2], paths)
            ]
            self._running.append(mine)
            if sum(each[0] is slots for each in self._running) > self._concurrency:
                self._faults.append("more calls run than there are slots")
            for _ in range(self._dice.randint(0, 3)):
                await asyncio.sleep(0)
            if self._dice.random() < 0.2:
                await self._reached_a_host()
            if writes and self._dice.random() < 0.2:  # what it deletes is much
                await self._asked()
            self._running.remove(mine)
            return "ok"

        return use

    async def _asked(self, *_: object) -> str:
        await self._person.choose(_QUESTION, "the model")
        return "ok"

    async def _reached_a_host(self) -> None:
        """Have a command ask for two hosts at once, of which others may have asked for one."""
        hosts = CommandHosts(self._hosts, "curl", nullcontext)
        names = [f"{self._dice.randint(1, 9)}.example" for _ in range(2)]
        await asyncio.gather(*(hosts.decide(name, 443) for name in names))


_QUESTION: Final = UserQuestion(
    question="Go on?",
    header="files",
    options=[Option(label="Yes", description="y"), Option(label="No", description="n")],
)


async def _looked(*_: object) -> str:
    await asyncio.sleep(0)
    return "ok"


def _paths(params: dict[str, list[str]]) -> Sequence[str]:
    return params["paths"]


def _clash(some: Sequence[str], others: Sequence[str]) -> bool:
    return any(
        f"{one}/".startswith(f"{other}/") or f"{other}/".startswith(f"{one}/")
        for one in some
        for other in others
    )


async def run_trees(first: int, replies: int) -> None:
    seed, hooks = first, 0
    while replies > 0:
        tree = Tree(seed)
        try:
            await tree.run()
        except (AssertionError, TimeoutError) as failed:
            raise AssertionError(f"tree {seed}: {failed!r}") from failed
        replies, hooks = replies - tree.replies, hooks + tree.hooks
        seed += 1
    assert hooks


async def test_random_replies_of_agents_and_file_calls_all_end() -> None:
    """Concurrency 1 to 8, agents two levels deep, and calls for the same files among them."""
    await run_trees(0, QUICK_REPLIES)


@pytest.mark.slow
async def test_many_random_replies_of_agents_and_file_calls_all_end() -> None:
    await run_trees(1_000_000, SOAK_REPLIES)
