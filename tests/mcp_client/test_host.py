"""A server's request for a model's reply: confirmed, accounted for, limited."""

from collections.abc import AsyncIterator

import pytest

from agent_cli.contracts.errors import LimitReached, ModelError, ToolError
from agent_cli.contracts.provider import Model, ModelRequest, Reply, ReplyEnd, StreamEvent
from agent_cli.contracts.servers import SamplingRequest
from agent_cli.contracts.timeline import Usage, text_block
from agent_cli.mcp_client.host import MAX_TOKENS, Sampled, sampling

REQUEST = SamplingRequest(
    server="srv",
    messages=(("user", (text_block("2 + 2?"),)), ("assistant", (text_block("Hm."),))),
    system_prompt="Count.",
    max_tokens=1_000_000,
)
USAGE = Usage(input_tokens=10, output_tokens=2)


class World:
    """A model, a user and a cost limit."""

    def __init__(self, *, allows: bool = True, replies: bool = True) -> None:
        self.asked: list[ModelRequest] = []
        self.empty = False
        self.allows = allows
        self.replies = replies
        self.sample = sampling(
            self.stream,
            model=lambda: Model("small"),
            allow=self.allow,
            check_budget=self.check,
        )

    async def stream(self, request: ModelRequest) -> AsyncIterator[StreamEvent]:
        self.asked.append(request)
        if self.replies:
            yield ReplyEnd(Reply("r", "small", (text_block("4"),), "end_turn", USAGE))

    async def allow(self, _request: SamplingRequest) -> bool:
        return self.allows

    def check(self) -> None:
        if self.empty:
            raise LimitReached("nothing is left", limit="max_cost")


async def test_allowed_sampling_is_answered() -> None:
    world = World()

    assert await world.sample(REQUEST) == Sampled("4", "small", "endTurn")

    [asked] = world.asked
    assert [message.role for message in asked.messages] == ["user", "assistant"]
    assert (asked.system, asked.max_tokens) == (("Count.",), MAX_TOKENS)


async def test_refused_sampling_costs_nothing() -> None:
    world = World(allows=False)

    with pytest.raises(ToolError, match="the user did not let the server ask"):
        await world.sample(REQUEST)
    assert world.asked == []


async def test_cost_limit_applies_to_sampling() -> None:
    """The limit may be reached while the user reads the question."""
    world = World()

    async def allow(_request: SamplingRequest) -> bool:
        world.empty = True
        return True

    sample = sampling(
        world.stream,
        model=lambda: Model("small"),
        allow=allow,
        check_budget=world.check,
    )
    with pytest.raises(LimitReached):
        await sample(REQUEST)
    assert world.asked == []


async def test_sampling_reply_that_ends_too_early_is_an_error() -> None:
    with pytest.raises(ModelError, match="ended too early"):
        await World(replies=False).sample(REQUEST)
