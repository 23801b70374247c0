"""Run the hooks around a compaction."""

from collections.abc import Callable, Mapping

from agent_cli.contracts.errors import ModelError
from agent_cli.contracts.timeline import Json
from agent_cli.hooks.event_hooks import EventHooks


class CompactionHooks:
    """Fills `policies.compaction.AroundCompaction` for one agent."""

    def __init__(self, asking: EventHooks, about: Callable[[], Mapping[str, Json]] = dict) -> None:
        """Use *asking*; *about* returns the fields that name a subagent."""
        self._asking = asking
        self._about = about

    async def before(self, focus: str, *, trigger: str) -> str:
        """Return *focus* with the additions of PreCompact hooks.

        Raises:
            ModelError: One of them blocks the compaction.
        """
        answer = await self._asking.ask("PreCompact", trigger, **self._fields(focus, trigger))
        if answer.decision == "deny" or answer.stops:
            raise ModelError(f"a hook blocked it: {answer.reason or answer.stops}")
        return "\n".join(filter(None, (focus, *answer.contexts)))

    def after(self, focus: str, *, trigger: str) -> None:
        """Run PostCompact hooks without waiting for them."""
        self._asking.tell("PostCompact", trigger, **self._fields(focus, trigger))

    def _fields(self, focus: str, trigger: str) -> Mapping[str, Json]:
        return {**self._about(), "trigger": trigger, "custom_instructions": focus}
