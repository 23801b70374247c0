"""A tree of 1,000 agents in one prompt: the server's bill, the reported cost and the limit."""

import threading
from dataclasses import dataclass, field
from typing import Final

import pytest

from agent_cli import AgentDefinition, RunFailed, SessionOptions, query
from agent_cli.contracts.wording import in_usd
from agent_cli.providers.anthropic.models import cost_microdollars
from tests.agents.test_random_trees import used
from tests.app.agents.test_agents import task_of
from tests.messages_api import ReceivedRequest, reply, serve_in_thread, tool_use
from tests.messages_api.script import Answer, Payload

MODEL: Final = "claude-haiku-4-5"
BRANCHES: Final = 31
ROUNDS: Final = 4
WIDE: Final = 8
AGENTS: Final = BRANCHES * (1 + ROUNDS * WIDE)
LEAF = AgentDefinition(name="leaf", description="Works.", prompt="Work.", tools=())
BRANCH = AgentDefinition(
    name="branch", description="Divides work.", prompt="Divide.", tools=("agent",)
)


@dataclass
class Server:
    """Starts branches for the root and leaves for each branch; counts what it charges.

    Attributes:
        bill: Micro-dollars of all replies.
        began: The agents that asked at least once.
    """

    bill: int = 0
    began: set[str] = field(default_factory=set[str])
    _rounds: dict[str, int] = field(default_factory=dict[str, int])
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, request: ReceivedRequest) -> Answer:
        task = task_of(request)
        with self._lock:
            self.began.add(task)
            number = self._rounds[task] = self._rounds.get(task, 0) + 1
            # No two replies cost the same, so that no error can hide another.
            usage: Payload = {
                "input_tokens": 300 + 7 * len(self.began),
                "cache_creation_input_tokens": number,
                "cache_read_input_tokens": 13 * number,
                "output_tokens": 1,
                "_output_tokens": 20 + number,
            }
            cost = cost_microdollars(MODEL, used(usage))
            assert cost is not None
            self.bill += cost
        kind, _, name = task.partition(" ")
        if kind == "root" and number == 1:
            return reply(*(started("branch", f"branch {n}") for n in range(BRANCHES)), usage=usage)
        if kind == "branch" and number <= ROUNDS:
            names = (f"leaf {name}.{number}.{n}" for n in range(WIDE))
            return reply(*(started("leaf", each) for each in names), usage=usage)
        return reply("Done.", usage=usage)


def started(agent: str, task: str) -> Payload:
    return tool_use("agent", {"description": "d", "prompt": task, "subagent_type": agent})


async def grown(server: Server, limit_usd: float) -> tuple[str, int | None]:
    """Run the tree under a limit; return the stop reason and the reported micro-dollars."""
    with serve_in_thread(answer=server) as api:
        options = SessionOptions(
            environment={"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": api.base_url},
            model=MODEL,
            max_tokens=1_000,
            max_cost_usd=limit_usd,
            agents=[LEAF, BRANCH],
            settings={
                "agents.max_parallel": WIDE,
                "agents.max_depth": 2,
                "agents.ask_beyond": BRANCHES + 1,
            },
        )
        try:
            result = await query("root", options)
        except RunFailed as failed:
            result = failed.result
    return result.stop_reason, result.usage.cost_microdollars


@pytest.mark.slow
async def test_thousand_agents_are_charged_to_the_microdollar_and_never_beyond_the_limit() -> None:
    """Eight at a time; first with enough money, then with half of it."""
    whole = Server()
    stop_reason, reported = await grown(whole, 100)

    assert len(whole.began) == 1 + AGENTS > 1_000
    assert (stop_reason, reported) == ("end_turn", whole.bill)

    half = Server()
    _, reported = await grown(half, in_usd(whole.bill // 2))

    assert reported == half.bill <= whole.bill // 2
    assert 1 < len(half.began) < AGENTS
