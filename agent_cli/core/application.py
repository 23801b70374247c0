"""The program around an agent, in the parts that several front ends use.

Each front end adds what it alone needs in its own `ports.py`; the composition root provides it.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Protocol

from agent_cli.contracts.dialogs import CallDialogs, ModelDialogs, ServerDialogs
from agent_cli.contracts.permissions_port import PermissionsPort
from agent_cli.contracts.prompt_commands import PromptCommand
from agent_cli.contracts.provider import Model
from agent_cli.contracts.todos import Todo
from agent_cli.contracts.tooling import Tool
from agent_cli.core.agent import Agent


class AgentApplication(AbstractAsyncContextManager["AgentApplication"], Protocol):
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
    def workspace(self) -> Path:
        """The directory the tools work in."""
        ...


class AttachingApplication(AgentApplication, Protocol):
    """A program whose prompts may name files to attach."""

    @property
    def why_kept_back(self) -> Callable[[Path], str]:
        """Says why the model may not read a file, or ""."""
        ...

    @property
    def note_attached(self) -> Callable[[Path, bytes], None]:
        """Gets a file the model reads whole with a prompt: it may be edited without a look."""
        ...


class ApprovingApplication(AgentApplication, Protocol):
    """A program whose tool calls are put to a person."""

    @property
    def permissions(self) -> PermissionsPort:
        """Who decides about tool calls."""
        ...

    @property
    def tools(self) -> Sequence[Tool]:
        """All tools the model has at the moment, those of MCP servers included."""
        ...


class InteractiveApplication(AttachingApplication, ApprovingApplication, Protocol):
    """A program with a person in front of it for a whole session."""

    @property
    def models(self) -> Mapping[str, str]:
        """Aliases and the model ids they stand for."""
        ...

    def find_model(self, name: str) -> Model:
        """Return the model *name*, an alias or an id; warn of an unknown id.

        Raises:
            UsageError: The name cannot be a model; the sentence says what can.
        """
        ...

    def prompt_commands(self) -> Sequence[PromptCommand]:
        """Return the commands that are not built in, as they are now; asked often, so quick.

        Of two with one name the first counts.
        """
        ...

    def todos(self) -> Sequence[Todo]:
        """Return the steps the model noted for its task, in order."""
        ...

    def answer(
        self, servers: ServerDialogs, model: ModelDialogs, calls: CallDialogs | None = None
    ) -> None:
        """Put questions of MCP servers, the model and its agents to these.

        Before, they are declined.
        """
        ...

    def context_tokens(self) -> int:
        """Return the tokens of the next request, as the API counted them or estimated."""
        ...

    def context_parts(self) -> Mapping[str, int]:
        """Return the estimated tokens of the next request, by kind of content."""
        ...

    async def compact(self, focus: str) -> None:
        """Summarise older messages now; *focus* is what the summary should keep, or "".

        Events tell the result.

        Raises:
            AgentCliError: There is nothing to compact, or it did not work.
        """
        ...
