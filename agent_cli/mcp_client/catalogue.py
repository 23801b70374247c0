"""What a server offers beside tools: prompts and resources, as plain values."""

from dataclasses import dataclass

from agent_cli.contracts.servers import ServerPrompt, ServerResource


@dataclass(frozen=True, slots=True)
class Catalogue:
    """What one server offers beside tools, as last listed."""

    prompts: tuple[ServerPrompt, ...] = ()
    resources: tuple[ServerResource, ...] = ()
