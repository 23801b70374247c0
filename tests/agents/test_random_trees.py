"""Random trees of agents, checked against a separate ledger in the server.

The agents, their ledger, the provider and its retries are the real ones; replies, usage, faults and
interruptions are random. The server counts all it generated, whether or not the client received it.
"""

import asyncio
import json
import random
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import pytest

from agent_cli.agents.children import Assignment, Children
from agent_cli.agents.definitions import AgentCatalogue
from agent_cli.agents.tool import agent_tool
from agent_cli.contracts.cancel import CancelToken
from agent_cli.contracts.dialogs import Approved, Decision, Rejected
from agent_cli.contracts.errors import ModelError, ToolError
from agent_cli.contracts.events import ToolCall
from agent_cli.contracts.messages import UserMessage
from agent_cli.contracts.provider import ModelRequest
from agent_cli.contracts.timeline import Prompt, Usage
from agent_cli.contracts.tooling import Allow, Ask, Execute, Tool, ToolContext, Verdict
from agent_cli.core.agent import Agent
from agent_cli.core.api_messages import to_api
from agent_cli.core.call_decisions import apply_decisions
from agent_cli.core.conversation import Conversation
from agent_cli.core.loop_config import LoopConfig
from agent_cli.core.run import RunResult
from agent_cli.core.waits import CapacityLimiter
from agent_cli.policies.accounts import Account, metered, spending
from agent_cli.policies.ledger import Ledger
from agent_cli.policies.reservations import COUNT_MARGIN, generated_at_most
from agent_cli.providers.anthropic.connection import Connection
from agent_cli.providers.anthropic.messages import AnthropicMessages
from agent_cli.providers.anthropic.models import cost_microdollars, model_by_id
from agent_cli.providers.retries import RetryPolicy
from tests.fakes import NOT_THE_USERS, problems, returns, tool
from tests.messages_api import (
    FakeMessagesApi,
    ReceivedRequest,
    Reply,
    broken,
    error,
    reply,
    tool_use,
)
from tests.messages_api.script import Answer, Payload
from tests.policies.histories import llm

MODEL = "claude-opus-5-5"
DEPTH_MAX = 2
QUICK_TREES = 10
SOAK_TREES = 10_000
FAULTS = ("drop", "reset", "eof", "error", "bad_json")


@dataclass
class Bill:
    """The tokens the server generated: whole replies, and those it broke off."""

    whole: int = 0
    broken: int = 0
    requests: int = 0
    faults: int = 0

    @property
    def total(self) -> int:
        return self.whole + self.broken


@dataclass
class Server:
    """Answers at random; its model has dense text and long replies.

    Attributes:
        generates_at_once: The tokens it can generate before anything is noticed.
        count_share: Share of a prompt's tokens that it counts; 0: it has no route for that.
    """

    dice: random.Random
    bill: Bill = field(default_factory=Bill)
    density: float = 0.5
    generates_at_once: int = 4_000
    count_share: float = 1.0

    def __call__(self, request: ReceivedRequest) -> Answer:
        self.bill.requests += 1
        fate = self.dice.random()
        if fate < 0.08:
            self.bill.faults += 1
            return error(529, "overloaded_error", "busy")
        body = request.body
        usage = self._usage(body)
        cost = cost_microdollars(MODEL, used(usage))
        assert cost is not None
        answer = self._reply(body, usage)
        if fate < 0.16:
            self.bill.broken += cost
            self.bill.faults += 1
            return broken(answer, self.dice.choice(FAULTS), after=self.dice.randint(1, 4))
        self.bill.whole += cost
        return answer

    def count(self, request: ReceivedRequest) -> int | None:
        """Return the estimate of a prompt's tokens."""
        return int(self._prompt(request.body) * self.count_share) if self.count_share else None

    def _prompt(self, body: Payload) -> int:
        """Return the tokens of a prompt: the same text always has the same count."""
        system = [block["text"] for block in body.get("system", [])]
        tools = [
            [each["name"], each["description"], each["input_schema"]]
            for each in body.get("tools", [])
        ]
        fixed = sum(len(json.dumps(part, ensure_ascii=False)) for part in (*system, *tools))
        content = [block for message in body["messages"] for block in message["content"]]
        sent = sum(
            len(json.dumps({k: v for k, v in block.items() if k != "cache_control"}))
            for block in content
        )
        return 300 + int((fixed + sent) * self.density)

    def _usage(self, body: Payload) -> Payload:
        """Return figures that the API could give; the first event has only one token of output."""
        prompt = self._prompt(body)
        written = self.dice.randint(0, prompt)
        read = self.dice.randint(0, prompt - written)
        return {
            "input_tokens": prompt - written - read,
            "cache_creation_input_tokens": written,
            "cache_read_input_tokens": read,
            "output_tokens": 1,
            "_output_tokens": self.dice.randint(1, min(body["max_tokens"], self.generates_at_once)),
        }

    def _reply(self, body: Payload, usage: Payload) -> Reply:
        names = {each["name"] for each in body.get("tools", [])}
        blocks: list[Payload] = []
        if self.dice.random() < 0.6:
            for _ in range(self.dice.randint(1, 3)):
                name = self.dice.choice(sorted(names)) if names else ""
                given = {"description": "d", "prompt": "work"} if name == "agent" else {}
                blocks += [tool_use(name, given)] if name else []
        return reply("so " * self.dice.randint(1, 20), *blocks, usage=usage)


def used(figures: Payload) -> Usage:
    return Usage(
        figures["input_tokens"],
        figures["_output_tokens"],
        figures["cache_read_input_tokens"],
        figures["cache_creation_input_tokens"],
    )


async def decided(agent: Agent, dice: random.Random) -> RunResult:
    """Decide about the waiting calls of *agent* at random, and continue its run."""
    calls = [ToolCall.of(call) for call in agent.conversation.questions()]
    answers: Sequence[Decision] = (Approved(), Rejected("no"))
    return await apply_decisions(agent, calls, [dice.choice(answers) for _ in calls])


class Worker:
    """An agent as `Children` needs it."""

    def __init__(self, agent: Agent, dice: random.Random) -> None:
        self.agent = agent
        self._dice = dice

    async def decide(self) -> RunResult:
        return await decided(self.agent, self._dice)

    async def end(self) -> str:
        return ""

    async def send_back(self, text: str) -> str:
        return ""


class Tree:
    """A tree of agents on one ledger; all their conversations are kept."""

    def __init__(
        self,
        provider: AnthropicMessages,
        dice: random.Random,
        limit: int,
        *,
        conversation: Conversation | None = None,
        of_agents: Callable[[Prompt], int] = lambda _prompt: 0,
        keep: Callable[[Agent, Assignment | None], None] | None = None,
        is_paced: bool = False,
    ) -> None:
        """Start nothing yet; with *keep*, which stores them, some calls ask.

        *is_paced*: it is known how fast the model generates.
        """
        self._model = model_by_id(MODEL)
        if not is_paced:
            self._model = replace(self._model, output_tokens_per_s=0)
        self._conversation = conversation
        self._keep = keep
        self.conversations: list[Conversation] = []
        self.agents: list[Agent] = []
        self.dice = dice
        self._catalogue = AgentCatalogue(warn=lambda _text: None)
        self._slots = CapacityLimiter(3, "a slot")
        self.ledger = Ledger(
            provider.stream,
            lambda: self.root.conversation,
            price=cost_microdollars,
            account=Account(limit),
            of_agents=of_agents,
            count=provider.count_tokens,
        )
        self.root = self._agent(self.ledger, 1, None)

    async def run(self, prompt: str) -> RunResult:
        """Send *prompt* and decide about calls until the run ends."""
        return await self.to_the_end(await self.root.prompt(prompt))

    async def to_the_end(self, result: RunResult) -> RunResult:
        while result.stop_reason == "waiting_for_approval":
            result = await decided(self.root, self.dice)
        return result

    def _agent(self, ledger: Ledger, depth: int, slot: Assignment | None) -> Agent:
        children = Children(
            self._catalogue,
            lambda assignment: self._built(assignment, ledger),
            slots=self._slots,
            parent=lambda: agent,
            above=slot,
        )
        tools: list[Tool] = [tool("sample", self._sampling(ledger, lambda: agent))]
        if depth <= DEPTH_MAX:
            tools.append(agent_tool(children, ask_beyond=9))
        if self._keep:
            tools.append(tool("risky", returns("done")))
        agent = Agent(
            LoopConfig(
                model=self._model,
                system_prompt="Work.",
                tools=tools,
                stream_fn=ledger.stream,
                prepare=[ledger],
                max_tokens=4_000,
                max_rounds=6,
                authorize_tool=_asks_about_risky,
            ),
            conversation=None if slot else self._conversation,
        )
        if self._keep:
            self._keep(agent, slot)
        agent.subscribe(ledger.listen)
        self.conversations.append(agent.conversation)
        self.agents.append(agent)
        return agent

    @asynccontextmanager
    async def _built(self, assignment: Assignment, parent: Ledger) -> AsyncGenerator[Worker]:
        share = self.dice.choice([0, 0, 0.05, 0.5])
        ledger = parent.child(lambda: agent.conversation, limit_usd=share)
        agent = self._agent(ledger, assignment.depth + 1, assignment)
        yield Worker(agent, self.dice)

    def _sampling(self, ledger: Ledger, agent: Callable[[], Agent]) -> Execute:
        """Return a tool that calls the model itself, as sampling by an MCP server does."""

        async def sample(_id: str, _params: object, _cancel: CancelToken, _on: ToolContext) -> str:
            request = ModelRequest(
                model=self._model, messages=(UserMessage.of("2 + 2?"),), max_tokens=3_000
            )
            try:
                asker = agent()
                spent = spending(asker.conversation, asker.publish)
                async for _ in metered(ledger.stream, spent)(request):
                    pass
            except ModelError as failed:
                raise ToolError(str(failed)) from failed
            return "4"

        return sample

    def recorded(self) -> int:
        """Return the recorded totals: the certain cost, and the possible one."""
        usages = [conversation.usage for conversation in self.conversations]
        return sum((each.cost_microdollars or 0) + each.held_microdollars for each in usages)


def _asks_about_risky(call: ToolCall, _tool: Tool, _params: object) -> Verdict:
    return Ask("it is risky") if call.name == "risky" else Allow()


async def grow(api: FakeMessagesApi, server: Server, seed: int) -> tuple[Tree, bool]:
    """Run one tree; return it and whether it was interrupted."""
    dice = random.Random(seed)
    server.dice, server.bill = random.Random(seed + 1), Bill()
    server.density = dice.choice([0.1, 0.3, 0.8])
    server.count_share = dice.choice([0, 1 / (1 + COUNT_MARGIN), 1])
    is_paced = dice.random() < 0.5
    server.generates_at_once = generated_at_most(model_by_id(MODEL), 0) if is_paced else 4_000
    limit = dice.choice([60_000, 300_000, 1_000_000])
    provider = AnthropicMessages(
        Connection(base_url=api.base_url, api_key="k"), RetryPolicy(max=2, base_s=0, other_base_s=0)
    )
    tree = Tree(provider, dice, limit, is_paced=is_paced)
    interrupted = dice.random() < 0.3
    running = asyncio.create_task(tree.root.prompt("go"))
    if interrupted:
        await asyncio.wait([running], timeout=dice.random() * 0.05)
        victim = dice.choice(tree.agents)
        if dice.random() < 0.5:
            victim.abort()
        else:
            running.cancel()  # as the program is stopped: without any clean-up on the way
    await asyncio.wait([running])
    await provider.aclose()
    return tree, interrupted


def check(tree: Tree, bill: Bill, *, interrupted: bool) -> None:
    """Compare the ledger, the records and the server's bill."""
    account = tree.ledger.account
    assert account.held == 0
    assert bill.total <= account.spent + account.lost <= account.limit
    assert bill.total <= tree.recorded()
    if not interrupted:
        # Of a reply that broke off the prompt may be known; the rest may have been billed.
        assert bill.whole <= account.spent <= bill.total
        assert tree.recorded() == account.spent + account.lost
    if not interrupted and not bill.broken:
        assert (account.spent, account.lost) == (bill.total, 0)
    for conversation in tree.conversations:
        assert conversation.open_calls() == []
        faults = problems(to_api(llm(conversation.context())))
        assert {*faults} <= {NOT_THE_USERS, "there are no messages"}
    again = Ledger(
        tree.ledger.stream, lambda: tree.root.conversation, price=cost_microdollars,
        account=Account(account.limit),
    )  # fmt: skip
    again._open_prompt()
    own = tree.conversations[0].usage
    assert again.account.spent + again.account.lost == (
        (own.cost_microdollars or 0) + own.held_microdollars
    )


async def run_trees(first: int, count: int) -> None:
    server = Server(random.Random(0))
    async with FakeMessagesApi(answer=server, count=server.count) as api:
        for seed in range(first, first + count):
            tree, interrupted = await grow(api, server, seed)
            try:
                check(tree, replace(server.bill), interrupted=interrupted)
            except AssertionError as failed:
                raise AssertionError(f"tree {seed}: {failed}") from failed
            assert api.refusals == []
            api.requests.clear()
            api.counted.clear()


async def test_random_agent_tree_never_exceeds_its_cost_limit() -> None:
    """The tree never counts less than the server's bill, whatever broke off or was stopped."""
    await run_trees(0, QUICK_TREES)


@pytest.mark.slow
async def test_many_random_agent_trees_never_exceed_their_cost_limits() -> None:
    await run_trees(1_000_000, SOAK_TREES)
