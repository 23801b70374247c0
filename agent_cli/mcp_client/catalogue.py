"""The prompts and resources of a server, as plain values."""

from dataclasses import dataclass

from agent_cli.contracts.servers import ServerPrompt, ServerResource


@dataclass(frozen=True, slots=True)
class Catalogue:
    """The prompts and resources of one server, as last listed."""

    prompts: tuple[ServerPrompt, ...] = ()
    resources: tuple[ServerResource, ...] = ()
