"""Keep the session's prompt cache over pauses, if the user wants that."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from agent_cli.app import parts
from agent_cli.app.startup import StartupContext
from agent_cli.contracts.provider import ModelRequest
from agent_cli.policies.accounts import metered
from agent_cli.providers.anthropic.models import thinking_parameters

if TYPE_CHECKING:
    from agent_cli.app.workbench import Workbench


@asynccontextmanager
async def kept_warm(
    bench: "Workbench", startup: StartupContext, *, one_shot: bool
) -> AsyncGenerator[None]:
    """Keep the cache of *bench* warm in the block; not after the only prompt of *one_shot*."""
    settings = startup.loaded.settings
    when = settings.keep_cache_warm
    if when == "off" or one_shot or not settings.provider.is_whole:
        yield
        return
    from agent_cli.policies.cache_warming import CacheWarming  # off by default

    def session_id() -> str:
        return bench.agent.options.session_id or bench.agent.conversation.id

    def note_renewal(at_s: float) -> None:
        bench.cache.note_renewal(at_s)
        bench.prefix.note_renewal(at_s)

    warming = CacheWarming(
        when,
        metered(bench.answer_format.stream, bench.calls.record),
        price=parts.price(startup),
        session_id=session_id,
        can_repeat=_thinks_without_budget,
        on_renewed=note_renewal,
    )
    bench.cache.warming = warming
    unsubscribe = bench.agent.subscribe(warming.listen)
    try:
        async with warming:
            yield
    finally:
        unsubscribe()


def _thinks_without_budget(request: ModelRequest) -> bool:
    """Return whether the limit of the reply is no part of what the cache knows the request by."""
    thinking = thinking_parameters(request, compat=False).get("thinking")
    return not (isinstance(thinking, dict) and thinking["type"] == "enabled")
