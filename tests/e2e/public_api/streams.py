"""Loops without an agent: read to the end, left early, cancelled, read twice, decided."""

import asyncio
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace

from agent_cli import (
    AgentContext,
    Allow,
    AssistantMessage,
    Block,
    ConversationError,
    Deny,
    EventStream,
    LoopConfig,
    Message,
    ToolResultMessage,
    UserMessage,
    agent_loop,
    agent_loop_continue,
)
from tests.e2e.public_api.findings import Findings
from tests.e2e.public_api.ledger import ASKING, Ledger
from tests.e2e.public_api.shared_state import SharedState
from tests.e2e.public_api.watched import Grammar
from tests.messages_api import tool_use

_DECIDED_MAX = 3


class Streams:
    """Runs of `agent_loop` and `agent_loop_continue`."""

    def __init__(
        self, dice: random.Random, ledger: Ledger, options: LoopConfig, findings: Findings
    ) -> None:
        self._dice = dice
        self._ledger = ledger
        self._options = options
        self._findings = findings

    async def run(self, history: Sequence[Message]) -> None:
        """Run a prompt after *history*, and decide about its calls."""
        options = self._own_options()
        stream = agent_loop(["go"], AgentContext(messages=history), options)
        if await self._read(stream, self._dice.choice(["read", "read", "leave", "cancel", "two"])):
            messages = [*history, UserMessage.of("go"), *stream.result().messages[1:]]
            await self._decide(messages, options)

    async def decide(self) -> None:
        """Decide about the calls of a reply that was made elsewhere."""
        names = [self._dice.choice(["look", ASKING, ASKING, "gone"]) for _ in range(3)]
        uses = [
            tool_use(name, self._ledger.write(name), id=f"made_{at}")
            for at, name in enumerate(names)
        ]
        reply = AssistantMessage(tuple(uses), "tool_use")
        await self._decide([UserMessage.of("go"), reply], self._own_options())

    def _own_options(self) -> LoopConfig:
        shared = SharedState(self._dice, self._findings)
        services = {**self._options.services, "shared": shared}
        return replace(self._options, state=shared.real, services=services)

    async def _read(self, stream: EventStream, how: str) -> bool:
        """Read *stream*; return whether to its end, and it waits for a decision."""
        if how == "cancel":
            stream.cancel.cancel()
        if how == "two":
            reads = [self._all(stream), self._all(stream)]
            outcomes = await asyncio.gather(*reads, return_exceptions=True)
            refused = [isinstance(each, ConversationError) for each in outcomes]
            if sorted(refused) != [False, True]:
                self._findings.violate(f"two readers of a stream: {outcomes}")
                return False
        elif not await self._all(stream, leaves=how == "leave"):
            return False
        self._findings.count(self._findings.facts, f"stream {how}")
        return stream.result().stop_reason == "waiting_for_approval"

    async def _all(self, stream: EventStream, *, leaves: bool = False) -> bool:
        grammar = Grammar(self._findings)
        async for event in stream:
            grammar.hear(event)
            if leaves and event.type == "turn_end":
                return False
        if grammar.is_open:
            self._findings.violate("a stream without its agent_end")
        return True

    async def _decide(self, messages: list[Message], options: LoopConfig) -> None:
        """Decide about open calls, until none is left or for a few times.

        Where all questions come first, nothing runs before each has its decision.
        """
        decisions: dict[str, Allow | Deny] = {}
        for _ in range(_DECIDED_MAX):
            open_calls = {str(call["id"]): call for call in _open_calls(messages)}
            if not (undecided := sorted(open_calls.keys() - decisions.keys())):
                return
            for id in self._dice.sample(undecided, self._dice.randint(1, len(undecided))):
                decisions[id] = self._verdict(open_calls[id])
            due = {id: verdict for id, verdict in decisions.items() if id in open_calls}
            context = AgentContext(messages=messages)
            stream = agent_loop_continue(context, options, decisions=due)
            if not await self._read(stream, "read"):
                self._check(open_calls, due)
                return
            messages = [*messages, *stream.result().messages]

    def _verdict(self, call: Block) -> Allow | Deny:
        verdict = self._dice.choice(["allow", "edit", "deny"])
        if verdict == "deny":
            self._ledger.deny(call["input"])
            return Deny("no")
        edited = self._ledger.edit(call["input"]) if verdict == "edit" else None
        self._ledger.approve(call["input"], edited)
        return Allow(input=edited)

    def _check(self, calls: Mapping[str, Block], decisions: Mapping[str, Allow | Deny]) -> None:
        """Check that what was allowed ran, and nothing that was denied."""
        for id, verdict in decisions.items():
            call, is_allowed = self._ledger.call(calls[id]["input"]), isinstance(verdict, Allow)
            if call and call.name != "gone" and call.runs != is_allowed:
                self._findings.violate(f"{call} ran {call.runs} times, decided: {verdict}")
            self._findings.count(self._findings.facts, "decided in a stream")


def _open_calls(messages: Sequence[Message]) -> list[Block]:
    replies = [each for each in messages if isinstance(each, AssistantMessage)]
    answered = {each.tool_call_id for each in messages if isinstance(each, ToolResultMessage)}
    return [call for call in replies[-1].tool_calls if call["id"] not in answered]
