"""The program around an agent, in the parts that several front ends use.

Each front end adds what it alone needs in its own `ports.py`; the composition root provides it.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

from agent_cli.contracts.dialogs import CallDialogs, ModelDialogs, Reread, ServerDialogs
from agent_cli.contracts.options import ThinkingLevel
from agent_cli.contracts.permissions import CallJudgement, HostContact, PermissionsPort
from agent_cli.contracts.prompt_commands import PromptCommand
from agent_cli.contracts.provider import Model
from agent_cli.contracts.timeline import Json
from agent_cli.contracts.tooling import Tool
from agent_cli.core.agent import Agent

if TYPE_CHECKING:
    from agent_cli.contracts.listings import ConfirmSwitch, SwitchSource


class Todo(Protocol):
    """One step of the list; its texts are the model's."""

    @property
    def content(self) -> str:
        """The step."""
        ...

    @property
    def active_form(self) -> str:
        """The step while it is being done, or ""."""
        ...

    @property
    def status(self) -> Literal["pending", "in_progress", "completed"]:
        """The progress of the step."""
        ...

    @property
    def priority(self) -> Literal["high", "medium", "low"]:
        """The importance of the step."""
        ...


class StatusCommand(NamedTuple):
    """Runs the command of the status line; `refresh_s` 0 means after each turn only."""

    run: Callable[[Mapping[str, Json]], Awaitable[str]]
    refresh_s: float


class AgentApplication(AbstractAsyncContextManager["AgentApplication"], Protocol):
    """A program ready for prompts.

    Entered once, in the event loop, before the first prompt is sent, and left at the end by the
    same task. Entering must not wait for servers: they connect in the background and report by
    events. Leaving ends every child process.
    """

    @property
    def agent(self) -> Agent:
        """The agent to prompt."""
        ...

    @property
    def workspace(self) -> Path:
        """The directory the tools work in."""
        ...


class AttachingApplication(AgentApplication, Protocol):
    """A program whose prompts may name files to attach."""

    @property
    def why_kept_back(self) -> Callable[[Path], str]:
        """Returns the reason the model may not read a file, or ""."""
        ...

    @property
    def why_outside(self) -> Callable[[Path], str]:
        """Returns why a name in a text alone does not attach a file: it is outside; or ""."""
        ...

    @property
    def attaches_names(self) -> bool:
        """Whether names with an @ in a text attach files."""
        ...

    @property
    def takes_documents(self) -> bool:
        """Whether the model's API takes PDF files; otherwise their text is attached."""
        ...

    @property
    def note_attached(self) -> Callable[[Path, bytes], None]:
        """Receives a file the model gets whole with a prompt: it may edit it without reading."""
        ...


class ApprovingApplication(AgentApplication, Protocol):
    """A program whose tool calls need a person's decision."""

    @property
    def contacts(self) -> Sequence[HostContact]:
        """The hosts that were asked for."""
        ...

    @property
    def judged(self) -> Sequence[CallJudgement]:
        """The calls that the judge of the mode auto judged."""
        ...

    @property
    def permissions(self) -> PermissionsPort:
        """The permission policy."""
        ...

    @property
    def tools(self) -> Sequence[Tool]:
        """All current tools of the model, including those of MCP servers."""
        ...


class InteractiveApplication(AttachingApplication, ApprovingApplication, Protocol):
    """A program used interactively for a whole session."""

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

    async def switch_model(
        self, name: str, *, source: "SwitchSource", confirm: "ConfirmSwitch"
    ) -> None:
        """Use the model *name* from the next request on; *confirm* asks if a hook wants that.

        Raises:
            UsageError: The name cannot be a model, or a hook or the person is against it.
        """
        ...

    def price_of_model(self, name: str) -> Reread | None:
        """Return the tokens that the next request to the model *name* reads anew; None if none."""
        ...

    def price_of_effort(self, level: ThinkingLevel | None) -> Reread | None:
        """Return the tokens that the next request with *level* reads anew; None if none."""
        ...

    def prompt_commands(self) -> Sequence[PromptCommand]:
        """Return the current commands that are not built in; called often, so quick.

        The first command of a name counts.
        """
        ...

    def todos(self) -> Sequence[Todo]:
        """Return the steps the model noted for its task, in order."""
        ...

    def answer(
        self, servers: ServerDialogs, model: ModelDialogs, calls: CallDialogs | None = None
    ) -> None:
        """Let these dialogs answer questions of MCP servers, the model and its subagents.

        Questions before this call are declined.
        """
        ...

    def context_tokens(self) -> int:
        """Return the tokens of the next request, counted by the API or estimated."""
        ...

    def context_parts(self) -> Mapping[str, int]:
        """Return the estimated tokens of the next request, by kind of content."""
        ...

    def cache_lines(self) -> Sequence[str]:
        """Return the hits and losses of the prompt cache, with causes and money."""
        ...

    def context_notes(self) -> Sequence[str]:
        """Return sentences about summaries, pinned texts and the cache."""
        ...

    async def compact(self, focus: str) -> None:
        """Summarise older messages now; *focus* is what the summary should keep, or "".

        Events report the result.

        Raises:
            AgentCliError: There is nothing to compact, or compaction failed.
        """
        ...
