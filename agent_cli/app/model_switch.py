"""Change the session's model, if the PreModelSwitch hooks agree."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from agent_cli.app.hooks.lifecycle import SessionHooks
from agent_cli.contracts.errors import UsageError
from agent_cli.contracts.provider import Model, Price
from agent_cli.contracts.timeline import Json, Usage
from agent_cli.contracts.wording import in_usd
from agent_cli.core.agent import Agent
from agent_cli.policies.cache_watch import CACHE_LIFE_S

if TYPE_CHECKING:
    from agent_cli.contracts.listings import ConfirmSwitch, SwitchSource


class ModelSwitch:
    """Changes the model of one session; see `__call__`."""

    def __init__(
        self, agent: Agent, hooks: SessionHooks, *, price: Price, tokens: Callable[[], int]
    ) -> None:
        """Change nothing yet; *tokens* returns the tokens of the next request."""
        self._agent = agent
        self._hooks = hooks
        self._price = price
        self._tokens = tokens

    async def __call__(
        self, model: Model, *, requested: str, source: "SwitchSource", confirm: "ConfirmSwitch"
    ) -> None:
        """Use *model* from the next request on.

        Args:
            model: The model.
            requested: The name it was asked for by.
            source: Who asks.
            confirm: Asks the person, with the reason of a hook that wants that.

        Raises:
            UsageError: A hook or the person is against it.
        """
        before = self._agent.options.model
        if before is None or before.id == model.id or not self._hooks.watch_models:
            self._agent.set_model(model)
            return
        about = self._about(before, model, requested, source)
        answer = await self._hooks.model_switches(model.id, about)
        why = answer.reason or answer.stops
        if answer.decision == "deny" or answer.stops:
            raise UsageError(f"a hook keeps the model {before.id}: {why}")
        if answer.decision == "ask" and not await confirm(why):
            raise UsageError(f"the model stays {before.id}: {why}")
        self._agent.set_model(model)
        self._hooks.model_switched(model.id, about)

    def _about(
        self, before: Model, model: Model, requested: str, source: "SwitchSource"
    ) -> dict[str, Json]:
        conversation, tokens = self._agent.conversation, self._tokens()
        output = [*conversation.prompts[-1].output] if conversation.prompts else []
        cost = self._price(model.id, Usage(cache_write_5m_tokens=tokens))
        return {
            "from_model": before.id,
            "requested_model": requested,
            "source": source,
            "context_tokens": tokens,
            "prompt_cache_warm": bool(output)
            and conversation.now() - output[-1].at_ms < CACHE_LIFE_S * 1000,
            "cache_ttl": "5m",
            **({} if cost is None else {"estimated_cache_write_usd": in_usd(cost)}),
            "pricing": "catalog",
        }
