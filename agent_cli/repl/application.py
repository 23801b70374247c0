"""What the REPL needs of the program behind it; the composition root provides it."""

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Protocol

from agent_cli.agent import Agent
from agent_cli.repl.approve import Permissions
from agent_cli.tooling import Tool


class Application(Protocol):
    """A program that is ready to be asked.

    Entered once, in the event loop, before the first prompt is sent, and left at the end by the
    same task. Entering must not wait for the world: servers connect in the background and report
    by events. Leaving ends every child process.
    """

    @property
    def agent(self) -> Agent:
        """Who is asked."""
        ...

    @property
    def permissions(self) -> Permissions:
        """Who remembers "always this session"."""
        ...

    @property
    def tools(self) -> Sequence[Tool]:
        """All tools the model has at the moment, those of MCP servers included."""
        ...

    @property
    def models(self) -> Mapping[str, str]:
        """Aliases and the model ids they stand for."""
        ...

    def use_model(self, name: str) -> None:
        """Ask the model *name*, an alias or an id, from the next call on.

        Raises:
            UsageError: The name cannot be a model; the sentence says what can.
        """
        ...

    def overview(self) -> Sequence[str]:
        """Return lines for the start: tools, MCP servers, log sinks."""
        ...

    def mcp_overview(self) -> Sequence[str]:
        """Return one line for each MCP server: its state, its tools, or why it failed."""
        ...

    def badges(self) -> Sequence[str]:
        """Return words for the status line: the permission mode, what MCP servers are up."""
        ...

    async def compact(self, focus: str) -> None:
        """Summarise older messages now; *focus* is what the summary should keep, or "".

        Events tell what came of it.

        Raises:
            AgentCliError: There is nothing to compact, or it did not work.
        """
        ...

    def clear(self) -> None:
        """Begin a new conversation, and a new session with it."""
        ...

    async def __aenter__(self) -> "Application": ...

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...
