"""Random programs over the public API: agents, streams, listeners that call back in, imports of
histories, in several event loops, threads and tasks at once, with the real provider over HTTP.

`python -m tests.e2e.public_api SEED COUNT` does COUNT operations and prints what came of them.
"""

import asyncio
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from agent_cli import (
    Agent,
    AgentCliError,
    AgentContext,
    Allow,
    AnthropicMessages,
    Approval,
    AssistantMessage,
    Connection,
    CustomMessage,
    Deny,
    Event,
    LoopConfig,
    Message,
    ProviderRegistry,
    RetryPolicy,
    Tool,
    ToolError,
    ToolResultMessage,
    UserMessage,
    agent_loop,
    agent_loop_continue,
    get_model,
    text_block,
)
from tests.messages_api import Answer, FakeMessagesApi, broken, error, reply, tool_use
from tests.messages_api.received import ReceivedRequest
from tests.messages_api.threaded import serve_in_thread

LIMIT_S: Final = 120
"""An operation that takes longer hangs."""
MODEL = get_model("claude-sonnet-5-5")
_FREQUENT = ("prompt", "continue", "stream", "listen", *("approve", "reject") * 4)
_FAULTS = ("drop", "reset", "eof", "error", "bad_json")


@dataclass
class Findings:
    """What came of the operations. `violations` are sentences; there should be none."""

    operations: Counter[str] = field(default_factory=Counter[str])
    violations: list[str] = field(default_factory=list[str])
    requests: int = 0
    runs: int = 0
    refused: int = 0


class Server:
    """Answers by dice: text, calls, errors of the server, replies that break off."""

    def __init__(self, seed: int) -> None:
        self._dice = random.Random(seed)
        self._lock = threading.Lock()

    def answer(self, request: ReceivedRequest) -> Answer:
        with self._lock:
            dice = self._dice
            chance, count, fault = dice.random(), dice.randint(1, 3), dice.choice(_FAULTS)
            names = [dice.choice(("look", "danger", "fail", "slow", "gone")) for _ in range(count)]
        if chance < 0.05:
            return error(529, "overloaded_error", "Overloaded")
        if chance < 0.1:
            return broken(reply("half an answer"), fault, after=2)
        if chance < 0.4 and request.body.get("tools"):
            return reply("I call.", *(tool_use(name, {"n": 1}) for name in names))
        return reply("an answer", chunk_chars=4)


async def _execute(_id: str, params: object, _cancel: object, context: Any) -> str:
    match context.tool_name:
        case "fail":
            raise ToolError("it failed")
        case "slow":
            context("half")
            await asyncio.sleep(0.002)
        case _:
            context.state["n"] = context.state.get("n", 0) + 1
    return "done"


def _tool(name: str, *, asks: bool = False) -> Tool:
    return Tool(
        name=name,
        label=name,
        description=f"Does {name}.",
        parameters={"type": "object"},
        execute=_execute,
        require_approval=Approval(required=asks),
    )


TOOLS = (_tool("look"), _tool("danger", asks=True), _tool("fail"), _tool("slow"))


@dataclass
class Watched:
    """An agent and whether its events keep the brackets of a run."""

    agent: Agent
    findings: Findings
    is_open: bool = False

    def __post_init__(self) -> None:
        self.agent.subscribe(self.check)

    def check(self, event: Event) -> None:
        if event.type == "agent_start":
            self.findings.runs += 1
            if self.is_open:
                self.findings.violations.append("agent_start within a run")
            self.is_open = True
        elif event.type == "agent_end":
            if not self.is_open:
                self.findings.violations.append("agent_end outside of a run")
            self.is_open = False
        elif not event.type.startswith("app.") and not self.is_open:
            self.findings.violations.append(f"{event.type} outside of a run")


class World:
    """Some agents that share a provider, and everything a program may do with them."""

    def __init__(self, seed: int, base_url: str, findings: Findings) -> None:
        self.dice = random.Random(seed)
        self.findings = findings
        self.provider = AnthropicMessages(
            Connection(base_url=base_url, api_key="k"),
            RetryPolicy(max=2, base_s=0, other_base_s=0),
        )
        registry = ProviderRegistry({MODEL.api: self.provider})
        self.options = LoopConfig(model=MODEL, registry=registry, tools=TOOLS, max_rounds=4)
        self.subscriptions: list[Callable[[], None]] = []
        self.watched = [Watched(Agent(self.options), findings) for _ in range(2)]

    def operations(self) -> dict[str, Callable[[Agent], Any]]:
        """Return the operations by name; those that return a coroutine are awaited."""
        dice = self.dice
        return {
            "prompt": lambda agent: agent.prompt(dice.choice(["go", "hi", " ", "", "more"])),
            "prompt custom": lambda agent: agent.prompt(CustomMessage("note", {"a": 1})),
            "trigger": lambda agent: agent.trigger(visible=dice.random() < 0.5),
            "continue": lambda agent: agent.continue_(),
            "approve": lambda agent: agent.approve(self.call_id(agent), edited=self.edit()),
            "reject": lambda agent: agent.reject(self.call_id(agent), "no"),
            "steer": lambda agent: agent.steer(dice.choice(["left", "", " "])),
            "follow up": lambda agent: agent.follow_up(UserMessage.of(dice.choice(["then", ""]))),
            "abort": lambda agent: agent.abort(),
            "idle": lambda agent: agent.wait_for_idle(),
            "append": lambda agent: agent.append_message(dice.choice(self.history())),
            "replace": lambda agent: agent.replace_messages(self.history()),
            "clear": lambda agent: agent.clear_messages(),
            "reset": lambda agent: agent.reset(),
            "queues": lambda agent: agent.clear_all_queues(),
            "level": lambda agent: agent.set_thinking_level(dice.choice([None, "low", "off"])),
            "prompt text": lambda agent: agent.set_system_prompt(dice.choice(["", "Be brief."])),
            "tools": lambda agent: agent.set_tools(dice.sample(TOOLS, dice.randint(0, 4))),
            "model": lambda agent: agent.set_model(MODEL),
            "mode": lambda agent: agent.set_steering_mode(dice.choice(["all", "one_at_a_time"])),
            "listen": self.listen,
            "state": lambda agent: agent.state,
            "stream": lambda _agent: self.stream(),
            "close": lambda _agent: self.provider.aclose(),
        }

    def call_id(self, agent: Agent) -> str:
        waiting = [call.tool_call_id for call in agent.conversation.questions()]
        return self.dice.choice([*waiting * 4, "unknown"])

    def edit(self) -> Any:
        return self.dice.choice([None, {"n": 2}, {"n": True}])

    def history(self) -> list[Message]:
        """Return messages as somebody may import them: in any order, calls left open."""
        ids = [f"toolu_{self.dice.randrange(6)}" for _ in range(2)]
        pool: list[Message] = [
            UserMessage.of("imported"),
            UserMessage.of(self.dice.choice(["", "x"])),
            AssistantMessage((text_block("an old answer"),)),
            AssistantMessage(tuple(tool_use("look", {}, id=id) for id in ids), "tool_use"),
            AssistantMessage((text_block("half"),), "aborted"),
            ToolResultMessage(ids[0], "look", (text_block("old"),)),
            CustomMessage("note", {"by": "a plugin"}),
        ]
        return self.dice.choices(pool, k=self.dice.randint(1, 5))

    def listen(self, agent: Agent) -> None:
        """Subscribe a listener that does something at the n-th event, and then goes."""
        countdown = self.dice.randint(1, 30)
        action = self.dice.choice([*_ACTIONS])

        def listener(_event: Event) -> None:
            nonlocal countdown
            countdown -= 1
            if countdown == 0:
                agent.unsubscribe(listener)
                _ACTIONS[action](agent)

        self.subscriptions.append(agent.subscribe(listener))

    async def stream(self) -> None:
        """Run a loop without an agent: to its end, left early, cancelled, read twice, decided."""
        prompts = [self.dice.choice(["go", " "])]
        stream = agent_loop(prompts, AgentContext(messages=self.history()), self.options)
        how = self.dice.choice(["read", "leave", "cancel", "twice"])
        if how == "cancel":
            stream.cancel.cancel()
        begun = 0
        async for event in stream:
            begun += (event.type == "agent_start") - (event.type == "agent_end")
            if how == "leave" and event.type == "turn_end":
                return
        if begun:
            self.findings.violations.append("a stream without its agent_end")
        if how == "twice":
            async for _ in stream:
                self.findings.violations.append("a stream was read twice")
        result = stream.result()
        if result.stop_reason == "waiting_for_approval":
            context = AgentContext(messages=result.messages)
            calls = [call["id"] for each in result.messages[-1:] for call in _calls(each)]
            verdicts: list[Allow | Deny] = [Allow(), Allow(input={"n": 3}), Deny("no")]
            decisions = {str(id): self.dice.choice(verdicts) for id in calls}
            async for _ in agent_loop_continue(context, self.options, decisions=decisions):
                pass

    async def operate(self, watched: Watched) -> None:
        """Do one operation on *watched*; only the errors that the API documents may come."""
        name = self.dice.choice([*self.operations(), *_FREQUENT])
        self.findings.operations[name] += 1
        try:
            async with asyncio.timeout(LIMIT_S):
                outcome = self.operations()[name](watched.agent)
                if isinstance(outcome, Coroutine):
                    await outcome
        except AgentCliError:
            self.findings.refused += 1
        except asyncio.CancelledError:  # by a listener of ours
            _uncancel()
        except TimeoutError:
            self.findings.violations.append(f"{name} hangs")
        except BaseException as bug:
            self.findings.violations.append(f"{name}: {bug!r}")

    async def work(self, count: int) -> None:
        """Do *count* operations, several at a time; nothing may fail behind their backs."""
        asyncio.get_running_loop().set_exception_handler(
            lambda _loop, found: self.findings.violations.append(f"unseen: {found!r}")
        )
        while count > 0:
            batch = min(count, self.dice.randint(1, 4))
            count -= batch
            async with asyncio.TaskGroup() as group:
                for _ in range(batch):
                    group.create_task(self.operate(self.dice.choice(self.watched)))

    async def settle(self) -> None:
        """Check that every agent is idle, or can be made so, and answers once more."""
        for unsubscribe in self.subscriptions:
            unsubscribe()
        for watched in self.watched:
            agent = watched.agent
            agent.set_tools(())
            async with asyncio.timeout(LIMIT_S):
                await agent.wait_for_idle()
                while questions := agent.conversation.questions():
                    await agent.reject(questions[0].tool_call_id)
                agent.clear_all_queues()
                for _ in range(30):  # the server has its moods
                    if (await agent.prompt("still there?")).stop_reason == "end_turn":
                        break
                else:
                    self.findings.violations.append("no answer any more")
            if watched.is_open or agent.state.is_streaming:
                self.findings.violations.append("a run without its agent_end")


def _uncancel() -> None:
    task = asyncio.current_task()
    while task and task.uncancel():
        pass


def _calls(message: Message) -> Sequence[Any]:
    return message.tool_calls if isinstance(message, AssistantMessage) else ()


def _raise(problem: BaseException) -> None:
    raise problem


def _cancel(_agent: Agent) -> None:
    try:
        task = asyncio.current_task()
    except RuntimeError:
        return
    if task:
        task.cancel()


_ACTIONS: dict[str, Callable[[Agent], object]] = {
    "abort": lambda agent: agent.abort(),
    "steer": lambda agent: agent.steer("from a listener"),
    "follow up": lambda agent: agent.follow_up("from a listener"),
    "reset": lambda agent: agent.reset(),
    "append": lambda agent: agent.append_message(UserMessage.of("x")),
    "tools": lambda agent: agent.set_tools(()),
    "bug": lambda _agent: _raise(ValueError("a broken listener")),
    "stop": lambda _agent: _raise(StopIteration()),
    "cancelled": lambda _agent: _raise(asyncio.CancelledError()),
    "cancel": _cancel,
}


def _round(world: World, count: int) -> None:
    """Do *count* operations: in one event loop after the other, and in threads at once."""
    if world.dice.random() < 0.5:
        asyncio.run(world.work(count))
        return
    threads = [
        threading.Thread(target=lambda: asyncio.run(world.work(count // 2)), daemon=True)
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT_S * 2)
        if thread.is_alive():
            world.findings.violations.append("a thread hangs")


def live(seed: int, count: int, *, a_world: int = 100, a_round: int = 20) -> Findings:
    """Do about *count* operations in worlds of *a_world* operations; return what came of them."""
    findings = Findings()
    server = Server(seed)
    with serve_in_thread(answer=server.answer) as api:
        number = 0
        while findings.operations.total() < count and not findings.violations:
            number += 1
            world = World(seed * 1_000_003 + number, api.base_url, findings)
            for _ in range(a_world // a_round):
                _round(world, a_round)
            asyncio.run(world.settle())
            _account(findings, api)
    return findings


def _account(findings: Findings, api: FakeMessagesApi) -> None:
    findings.requests += len(api.requests)
    findings.violations += [f"invalid request: {refusal}" for refusal in api.refusals]
    api.requests.clear()
    api.refusals.clear()


def main() -> None:
    """Run from the command line."""
    seed, count = int(sys.argv[1]), int(sys.argv[2])
    begun_s = time.monotonic()
    found = live(seed, count)
    print(f"{found.operations.total()} operations, {found.runs} runs, {found.requests} requests,")
    print(f"{found.refused} refused with a sentence, {time.monotonic() - begun_s:.0f} s")
    print(f"violations: {found.violations[:5]}")


if __name__ == "__main__":
    main()
