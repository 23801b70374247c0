"""Slash commands that become prompts, as front ends offer them."""

from typing import Final, NamedTuple, Protocol

_SCOPES: Final = ("prompts:", "project:", "user:")


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


def without_scope(name: str) -> str:
    """Return the name here of the command that other agents call *name*.

    Codex says `/prompts:fix`, and Claude Code said `/project:fix` and `/user:fix`.
    """
    return next((name.removeprefix(each) for each in _SCOPES if name.startswith(each)), name)
