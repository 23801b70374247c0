"""Agents whose `prepare` is a set of plugins, for the tests of this folder."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from agent_cli.contracts.events import MessageEnd
from agent_cli.contracts.messages import ToolResultMessage, UserMessage
from agent_cli.contracts.provider import Price
from agent_cli.contracts.timeline import Block, Usage
from agent_cli.contracts.tooling import Tool
from agent_cli.core.agent import Agent
from agent_cli.core.conversation import Conversation
from agent_cli.core.loop_config import LoopConfig
from agent_cli.core.turn import Turn
from agent_cli.plugins.api import Plugin
from agent_cli.plugins.contributor import DiscoveredPlugins, Plugins
from agent_cli.policies.prefix_watch import PrefixWatch
from tests.fakes import LIMIT_S, MODEL, ScriptedModel, Step, listening, notices

PATIENCE_S = 2 * LIMIT_S
"""How long a test waits for threads and timers, which a busy machine may starve.

Shorter than `tests.row_mutants` waits, so that it counts a reminder that never comes as a failure.
"""


def two_dollars_a_million(_model_id: str, usage: Usage) -> int:
    """Price a reply at that; cache writes cost 1.25 times it or, for an hour, 2 times."""
    written = usage.cache_write_5m_tokens * 1.25 + usage.cache_write_1h_tokens * 2
    return round((usage.input_tokens + written) * 2)


class Contributing:
    """An agent with plugins, its model's requests, its events and its warnings."""

    def __init__(
        self,
        plugins: Sequence[Plugin],
        *script: Step,
        tools: Sequence[Tool] = (),
        environment: Mapping[str, str] | None = None,
        conversation: Conversation | None = None,
        find: Callable[[], DiscoveredPlugins] = DiscoveredPlugins,
        load_limit_s: float = PATIENCE_S,
        price: Price = two_dollars_a_million,
        options: LoopConfig | None = None,
        before: Sequence[Callable[[Turn], None]] = (),
    ) -> None:
        self.warnings: list[str] = []
        self.model = ScriptedModel(*script)
        self.plugins = Plugins(
            plugins,
            find=find,
            environment=environment,
            warn=self.warnings.append,
            load_limit_s=load_limit_s,
        )
        config = replace(
            options or LoopConfig(),
            model=MODEL,
            stream_fn=self.model,
            system_prompt="You are an agent.",
            tools=tools,
            prepare=(*before, self.plugins, PrefixWatch(price)),
        )
        self.agent, self.events = listening(Agent(config, conversation=conversation))

    async def prompt(self, text: str = "go", images: Sequence[Block] = ()) -> None:
        """Say *text* and let the run end without an error."""
        result = await self.agent.prompt(text, images)
        assert result.error is None

    def offered(self) -> list[list[str]]:
        """Return the names of the tools of each request."""
        return [[tool.name for tool in request.tools] for request in self.model.requests]

    def contexts(self) -> list[list[str]]:
        """Return each request's system prompt after its stable part."""
        assert all(request.system[0] == "You are an agent." for request in self.model.requests)
        return [list(request.system[1:]) for request in self.model.requests]

    def told(self) -> list[list[str]]:
        """Return the notices that each request holds, without those of the request before."""
        seen = [
            [
                each.text
                for each in request.messages
                if isinstance(each, UserMessage) and each.is_notice
            ]
            for request in self.model.requests
        ]
        return [now[len(before) :] for before, now in zip([[], *seen[:-1]], seen, strict=True)]

    def notices(self) -> list[str]:
        """Return the notices of all runs."""
        return notices(self.events)


def tool_results(run: Contributing) -> list[str]:
    """Return the texts of all tool results, in order."""
    ends = [event.message for event in run.events if isinstance(event, MessageEnd)]
    return [end.text for end in ends if isinstance(end, ToolResultMessage)]
