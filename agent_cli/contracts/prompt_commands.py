"""Slash commands that become prompts, as front ends offer them."""

from typing import NamedTuple, Protocol


class WrittenPrompt(NamedTuple):
    """The text of a command, and the model it names: an alias or an id, "" is the usual one."""

    text: str
    model: str = ""


class PromptCommand(Protocol):
    """A command that becomes a prompt: a file of the user's, or a prompt of an MCP server."""

    @property
    def name(self) -> str:
        """The word typed after the slash; "" for a file that has a problem instead of a name."""
        ...

    @property
    def help(self) -> str:
        """Its purpose, in a few words."""
        ...

    @property
    def argument(self) -> str:
        """Its argument, as `/help` shows it; "" shows nothing."""
        ...

    @property
    def source(self) -> str:
        """Its origin, in a word or two: "yours", "project", "MCP docs"."""
        ...

    @property
    def problem(self) -> str:
        """The reason it cannot be used, in one sentence, or ""."""
        ...

    async def prompt(self, argument: str) -> WrittenPrompt:
        """Return the prompt for the model, given the text typed after the name.

        Raises:
            AgentCliError: It cannot be made.
        """
        ...
