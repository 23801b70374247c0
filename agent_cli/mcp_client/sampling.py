"""Sampling: a model's reply for a server, at the user's expense and with their approval."""

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from agent_cli.contracts.errors import ModelError, ToolError
from agent_cli.contracts.messages import AssistantMessage, LlmMessage, UserMessage
from agent_cli.contracts.provider import Model, ModelRequest, Reply, ReplyEnd, StreamFn
from agent_cli.contracts.servers import SamplingRequest
from agent_cli.contracts.timeline import text_of
from agent_cli.mcp_client.host import Sample, Sampled

Allow: TypeAlias = Callable[[SamplingRequest], Awaitable[bool]]
MAX_TOKENS = 4096
_REASONS = {"end_turn": "endTurn", "max_tokens": "maxTokens", "stop_sequence": "stopSequence"}


def sampling(
    stream: StreamFn,
    *,
    model: Callable[[], Model],
    allow: Allow,
    check_budget: Callable[[], None],
) -> Sample:
    """Return a function that answers sampling requests.

    Args:
        stream: Asks the model, and counts what that costs.
        model: The model to ask; the server's preference is ignored.
        allow: Shows the request to the user; False refuses it.
        check_budget: Raises `LimitReached` when the budget is used up.
    """

    async def sample(request: SamplingRequest) -> Sampled:
        check_budget()
        if not await allow(request):
            raise ToolError("the user refused the request")
        # Other calls may have used up the budget while the user was reading.
        check_budget()
        reply = await _ask(stream, _request(request, model()))
        reason = _REASONS.get(reply.stop_reason, reply.stop_reason)
        return Sampled(text_of(reply.content), reply.model, reason)

    return sample


def _request(request: SamplingRequest, model: Model) -> ModelRequest:
    messages: list[LlmMessage] = [
        UserMessage(content) if role == "user" else AssistantMessage(content)
        for role, content in request.messages
    ]
    return ModelRequest(
        model=model,
        messages=tuple(messages),
        system=(request.system_prompt,) if request.system_prompt else (),
        max_tokens=min(request.max_tokens, MAX_TOKENS, model.max_output_tokens),
        # Current models think, and thinking models reject a temperature.
        thinking_level=None,
    )


async def _ask(stream: StreamFn, request: ModelRequest) -> Reply:
    async for event in stream(request):
        if isinstance(event, ReplyEnd):
            return event.reply
    raise ModelError("the reply for an MCP server ended too early")
