"""The use of the model's context window by a conversation, and its reduction on request."""

from collections.abc import Callable, Mapping, Sequence

from agent_cli.contracts.errors import AgentCliError
from agent_cli.contracts.events import EventSink
from agent_cli.contracts.provider import Model
from agent_cli.contracts.tooling import Tool
from agent_cli.core.agent import Agent
from agent_cli.policies.compaction import Compaction
from agent_cli.policies.estimate import estimate_parts, measured_tokens


class ContextWindow:
    """The size of an agent's next request, and the means to reduce it."""

    def __init__(
        self,
        agent: Agent,
        compaction: Compaction,
        *,
        model: Callable[[], Model],
        tools: Callable[[], Sequence[Tool]],
        publish: EventSink,
    ) -> None:
        """Store the sources; nothing is measured yet.

        Args:
            agent: The agent whose conversation fills the window.
            compaction: Summarises older messages.
            model: Returns the model of the next request.
            tools: Returns the tools of the next request.
            publish: Receives the events of a compaction.
        """
        self._agent = agent
        self._compaction = compaction
        self._model = model
        self._tools = tools
        self._publish = publish

    def parts(self) -> Mapping[str, int]:
        """Return the estimated tokens of the next request by kind of content."""
        return estimate_parts(
            [self._agent.state.system_prompt],
            [tool.spec for tool in self._tools()],
            self._agent.conversation.context(),
        )

    def tokens(self) -> int:
        """Return the tokens of the next request, counted by the API or else estimated."""
        return measured_tokens(self._agent.conversation) or sum(self.parts().values())

    async def compact(self, focus: str) -> None:
        """Summarise older messages now; events report the result.

        Raises:
            AgentCliError: There is nothing to compact, or compaction failed.
        """
        if not await self._compaction.compact_now(
            self._agent.conversation, self._model(), emit=self._publish, focus=focus
        ):
            raise AgentCliError("there is nothing to compact yet")

    def uncompact(self) -> None:
        """Restore the older messages that a summary or a message limit left out.

        Raises:
            AgentCliError: Nothing is left out.
        """
        if not self._agent.conversation.uncompact():
            raise AgentCliError("nothing is left out: the model is sent the whole conversation")
