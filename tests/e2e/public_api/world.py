"""Agents that share a provider, and everything that a program may do with them."""

import asyncio
import itertools
import random
from collections.abc import Callable, Coroutine
from typing import Any, Final

from agent_cli import (
    Agent,
    AgentCliError,
    AnthropicMessages,
    Approval,
    AssistantMessage,
    Connection,
    CustomMessage,
    LoopConfig,
    Message,
    ProviderRegistry,
    RetryPolicy,
    Tool,
    ToolContext,
    ToolError,
    ToolResultMessage,
    UserMessage,
    get_model,
    text_block,
)
from tests.e2e.public_api.ledger import ASKING, Ledger
from tests.e2e.public_api.server import Server
from tests.e2e.public_api.shared_state import SharedState
from tests.e2e.public_api.streams import Streams
from tests.e2e.public_api.watched import Ending, Watched
from tests.e2e.public_api.wrong import WRONG
from tests.messages_api import tool_use

LIMIT_S: Final = 120
"""An operation that takes longer hangs."""
MODEL: Final = get_model("claude-sonnet-5-5")
LEVELS: Final = (None, "off", "minimal", "low", "medium", "high", "xhigh")
_WRONG_SHARE: Final = 0.1
_ANY_SHARE: Final = 0.15
"""The share of the operations that are chosen whatever the agent is at."""
_LATE_MAX: Final = 40
"""Turns of the event loop that an operation may wait, so that it comes in the middle of a run."""
_numbers: Final = itertools.count(1)
_AT_WORK: Final = (
    *("steer", "follow up") * 3,
    *("listen", "idle", "abort", "clear queues", "level", "tools", "mode", "state", "close"),
)
_WAITING: Final = (*("approve",) * 6, *("reject",) * 3, "steer", "follow up", "listen", "replace")
_IDLE: Final = (
    *("prompt",) * 5,
    *(
        "trigger",
        "continue",
        "append",
        "stream",
        "decide",
        "listen",
        "listen",
        "steer",
        "follow up",
    ),
    *("copy", "level", "tools", "prompt custom", "model of a prompt"),
)


async def _execute(id: str, params: Any, _cancel: object, context: ToolContext) -> str:
    ledger, shared = context.services["ledger"], context.services["shared"]
    assert isinstance(ledger, Ledger)
    assert isinstance(shared, SharedState)
    ledger.run(id, dict(params), context)
    match context.tool_name:
        case "fail":
            raise ToolError("it failed")
        case "slow":
            context("half")
            await asyncio.sleep(0.002)
        case "state":
            await shared.use(context.state)
        case _:
            pass
    ledger.end(params)
    return "done"


def _tool(name: str, *, asks: bool = False) -> Tool:
    return Tool(
        name=name,
        label=name,
        description=f"Does {name}.",
        parameters={
            "type": "object",
            "properties": {"call": {"type": "integer"}},
            "required": ["call"],
        },
        execute=_execute,
        require_approval=Approval(required=asks),
    )


TOOLS: Final = (
    *(_tool("look"), _tool("state"), _tool("fail"), _tool("slow")),
    _tool(ASKING, asks=True),
)


class World:
    """Some agents with a provider, a server's answers and a ledger in common."""

    def __init__(self, seed: int, base_url: str, server: Server, ledger: Ledger) -> None:
        self.dice = random.Random(seed)
        self._server = server
        self._ledger = ledger
        self.findings = ledger.findings
        connection = Connection(base_url=base_url, api_key="k")
        self._provider = AnthropicMessages(connection, RetryPolicy(max=2, base_s=0, other_base_s=0))
        self.watched = [self._agent() for _ in range(2)]
        self._streams = Streams(self.dice, ledger, self._options(), self.findings)

    def _options(self, shared: SharedState | None = None) -> LoopConfig:
        dice = self.dice
        return LoopConfig(
            model=MODEL,
            registry=ProviderRegistry({MODEL.api: self._provider}),
            tools=TOOLS,
            max_rounds=dice.choice([1, 2, 4]),
            approval=dice.choice(["batch", "defer"]),
            steering=dice.choice(["skip_unstarted", "cancel_running", "after_batch"]),
            tool_execution=dice.choice(["parallel", "parallel", "sequential"]),
            state=shared.real if shared else {},
            services={"ledger": self._ledger, "shared": shared},
        )

    def _agent(self) -> Watched:
        shared = SharedState(self.dice, self.findings)
        return Watched(Agent(self._options(shared)), shared, self.findings)

    def operations(self) -> dict[str, Callable[[Watched], Any]]:
        """Return the operations by name; those that return a coroutine are awaited."""
        dice = self.dice
        on_agent: dict[str, Callable[[Agent], Any]] = {
            "prompt": lambda agent: agent.prompt(dice.choice(["go", "hi", "more"])),
            "prompt custom": lambda agent: agent.prompt(CustomMessage("note", {"a": 1})),
            "model of a prompt": lambda agent: agent.prompt("go", model=MODEL),
            "trigger": lambda agent: agent.trigger(visible=dice.random() < 0.5),
            "continue": lambda agent: agent.continue_(),
            "approve": self._approve,
            "reject": self._reject,
            "abort": lambda agent: agent.abort(),
            "idle": lambda agent: agent.wait_for_idle(),
            "append": lambda agent: agent.append_message(dice.choice(self._history())),
            "level": lambda agent: agent.set_thinking_level(dice.choice(LEVELS)),
            "system": lambda agent: agent.set_system_prompt(dice.choice(["", "Be brief."])),
            "tools": lambda agent: agent.set_tools(dice.sample(TOOLS, dice.randint(0, 5))),
            "all tools": lambda agent: agent.set_tools(TOOLS),
            "model": lambda agent: agent.set_model(MODEL),
            "mode": lambda agent: agent.set_steering_mode(dice.choice(["all", "one_at_a_time"])),
            "state": lambda agent: agent.state,
            "stream": lambda _agent: self._streams.run(self._history()),
            "decide": lambda _agent: self._streams.decide(),
            "close": lambda _agent: self._provider.aclose(),
        }
        return {
            **{name: self._on_agent(act) for name, act in on_agent.items()},
            "steer": lambda watched: watched.queues.put("steer"),
            "follow up": lambda watched: watched.queues.put("follow up"),
            "clear queues": self._clear,
            "replace": lambda watched: watched.queues.replace(self._history()),
            "clear": lambda watched: watched.queues.replace(()),
            "copy": lambda watched: watched.queues.replace(
                dice.choice(self.watched).agent.state.messages
            ),
            "reset": lambda watched: watched.queues.reset(),
            "listen": lambda watched: watched.listen(dice),
            "wrong": self._wrong,
        }

    def _on_agent(self, act: Callable[[Agent], Any]) -> Callable[[Watched], Any]:
        return lambda watched: act(watched.agent)

    async def _approve(self, agent: Agent) -> None:
        if not (waiting := agent.conversation.questions()):
            await agent.approve("unknown")
            return
        call = self.dice.choice(waiting)
        edited = self._ledger.edit(call.block["input"]) if self.dice.random() < 0.4 else None
        self._ledger.approve(call.block["input"], edited)
        try:
            await agent.approve(call.tool_call_id, edited=edited)
        except AgentCliError:
            self._ledger.take_back(call.block["input"], edited)
            raise

    async def _reject(self, agent: Agent) -> None:
        if not (waiting := agent.conversation.questions()):
            await agent.reject("unknown")
            return
        call = self.dice.choice(waiting)
        conversation = agent.conversation
        await agent.reject(call.tool_call_id, "no")
        if agent.conversation is conversation and (
            conversation.call(call.tool_call_id).decision == "rejected"
        ):
            self._ledger.deny(call.block["input"])

    def _clear(self, watched: Watched) -> None:
        agent = watched.agent
        ways = (agent.clear_steering_queue, agent.clear_follow_up_queue, agent.clear_all_queues)
        watched.queues.clear(self.dice.choice(ways))

    async def _wrong(self, watched: Watched) -> None:
        """Call something with an argument of a wrong type; it must be refused."""
        name, call = self.dice.choice(list(WRONG.items()))
        try:
            outcome = call(watched.agent, watched.agent.options)
            if isinstance(outcome, Coroutine):
                await outcome
        except AgentCliError:
            self.findings.count(self.findings.facts, f"wrong {name}")
        else:
            self.findings.violate(f"{name} was accepted")

    def _history(self) -> list[Message]:
        """Return messages as somebody may import them: in any order, calls left open."""
        ids = [f"imported_{self.dice.randrange(6)}" for _ in range(2)]
        names = [self.dice.choice(["look", "state", ASKING]) for _ in ids]
        calls = [
            tool_use(name, self._ledger.write(name, imported=True), id=id)
            for name, id in zip(names, ids, strict=True)
        ]
        pool: list[Message] = [
            UserMessage.of("imported"),
            UserMessage.of("x"),
            AssistantMessage((text_block("an old answer"),)),
            AssistantMessage(tuple(calls), "tool_use"),
            AssistantMessage((text_block("half"),), "aborted"),
            CustomMessage("note", {"by": "a plugin"}),
        ]
        found: list[Message] = []
        for message in self.dice.choices(pool, k=self.dice.randint(1, 5)):
            if message in found and message is pool[3]:
                continue  # the calls of a reply are its own
            found.append(message)
            if message is pool[3] and self.dice.random() < 0.6:
                result = ToolResultMessage(ids[0], names[0], (text_block("old"),))
                found += [result] * (1 if self.dice.random() < 0.9 else 2)
        return found

    def _choose(self, watched: Watched) -> str:
        chance = self.dice.random()
        if chance < _WRONG_SHARE:
            return "wrong"
        if chance < _WRONG_SHARE + _ANY_SHARE:
            return self.dice.choice([*self.operations()])
        if watched.grammar.is_open:
            return self.dice.choice(_AT_WORK)
        if watched.agent.conversation.questions():
            return self.dice.choice(_WAITING)
        return self.dice.choice(_IDLE)

    async def operate(self, watched: Watched) -> None:
        """Do one operation on *watched*; only the errors that the API documents may come."""
        for _ in range(self.dice.randint(0, _LATE_MAX)):
            await asyncio.sleep(0)
        name = self._choose(watched)
        self.findings.count(self.findings.operations, name)
        try:
            async with asyncio.timeout(LIMIT_S):
                outcome = self.operations()[name](watched)
                if isinstance(outcome, Coroutine):
                    await outcome
        except AgentCliError as refusal:
            self.findings.count(self.findings.refused, f"{name}: {type(refusal).__name__}")
        except (asyncio.CancelledError, Ending):  # by a listener of ours
            _uncancel()
        except TimeoutError:
            self.findings.violate(f"{name} hangs")
        except GeneratorExit:  # the event loop was closed
            raise
        except BaseException as bug:
            self.findings.violate(f"{name}: {bug!r}")

    async def work(self, count: int) -> None:
        """Do *count* operations, several at a time."""
        while count > 0:
            batch = min(count, self.dice.randint(1, 6))
            count -= batch
            async with asyncio.TaskGroup() as group:
                for _ in range(batch):
                    group.create_task(self.operate(self.dice.choice(self.watched)))

    async def settle(self) -> None:
        """Check that every agent is idle, or can be made so, and answers once more."""
        for watched in self.watched:
            watched.forget_listeners()
            async with asyncio.timeout(LIMIT_S):
                await self._settle(watched)
            if watched.grammar.is_open or watched.agent.state.is_streaming:
                self.findings.violate("a run without its agent_end")
        await self._provider.aclose()

    async def _settle(self, watched: Watched) -> None:
        agent = watched.agent
        agent.set_tools(())
        await agent.wait_for_idle()
        watched.queues.settle()
        while questions := agent.conversation.questions():
            await agent.reject(questions[0].tool_call_id)
        question = f"still there, {next(_numbers)}?"  # nobody else's
        for _ in range(30):  # the server has its moods
            if (await agent.prompt(question)).stop_reason == "end_turn":
                break
        else:
            self.findings.violate("no answer any more")
        watched.queues.check_request(self._server.newest_body(question))


def _uncancel() -> None:
    task = asyncio.current_task()
    while task and task.uncancel():
        pass
