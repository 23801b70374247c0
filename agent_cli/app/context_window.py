"""What fills the model's window in one conversation, and what makes room in it on request."""

from collections.abc import Callable, Mapping, Sequence

from agent_cli.contracts.errors import AgentCliError
from agent_cli.contracts.events import EventSink
from agent_cli.contracts.provider import Model
from agent_cli.contracts.tooling import Tool
from agent_cli.core.agent import Agent
from agent_cli.policies.compaction import Compaction
from agent_cli.policies.estimate import estimate_parts, measured_tokens


class ContextWindow:
    """The next request of an agent: its size, and how to make it smaller."""

    def __init__(
        self,
        agent: Agent,
        compaction: Compaction,
        *,
        model: Callable[[], Model],
        tools: Callable[[], Sequence[Tool]],
        publish: EventSink,
    ) -> None:
        """Look at nothing yet.

        Args:
            agent: Whose conversation fills the window.
            compaction: Makes room.
            model: Returns the model that would be asked.
            tools: Returns the tools it would be offered.
            publish: Gets what came of a compaction.
        """
        self._agent = agent
        self._compaction = compaction
        self._model = model
        self._tools = tools
        self._publish = publish

    def parts(self) -> Mapping[str, int]:
        """Return the estimated tokens of the next request by what they are."""
        return estimate_parts(
            [self._agent.state.system_prompt],
            [tool.spec for tool in self._tools()],
            self._agent.conversation.context(),
        )

    def tokens(self) -> int:
        """Return the tokens of the next request, as the API counted them or estimated."""
        return measured_tokens(self._agent.conversation) or sum(self.parts().values())

    async def compact(self, focus: str) -> None:
        """Summarise older messages now; events tell what came of it.

        Raises:
            AgentCliError: There is nothing to compact, or it did not work.
        """
        if not await self._compaction.compact_now(
            self._agent.conversation, self._model(), emit=self._publish, focus=focus
        ):
            raise AgentCliError("there is nothing to compact yet")

    def uncompact(self) -> None:
        """Send the older messages again that a summary, or a limit of messages, left out.

        Raises:
            AgentCliError: Nothing is left out.
        """
        if not self._agent.conversation.uncompact():
            raise AgentCliError("nothing is left out: the model is sent the whole conversation")
