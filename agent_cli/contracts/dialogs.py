"""Questions that MCP servers and the model put to the person, and the front end that answers."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias

from agent_cli.contracts.events import ToolCall
from agent_cli.contracts.servers import FormField, SamplingRequest
from agent_cli.contracts.timeline import Json

Action: TypeAlias = Literal["accept", "decline", "cancel"]


@dataclass(frozen=True, slots=True)
class Form:
    """A server's question to the person.

    Attributes:
        message: What the server wants to know; a stranger's words.
        fields: What to fill in, in order.
        fault: Returns what is wrong with a value of the field of that name, "" when it fits.
    """

    server: str
    message: str
    fields: Sequence[FormField]
    fault: Callable[[str, Json], str]


@dataclass(frozen=True, slots=True)
class Filled:
    """What the person did with a form; after "accept", `values` by name of what they gave.

    What is left out has its default.
    """

    action: Action
    values: Mapping[str, Json] = field(default_factory=dict[str, Json])


class ServerDialogs(Protocol):
    """How a front end answers servers. One question at a time: the others wait for their turn.

    Whatever a person does is an answer; nothing raises but a cancellation.
    """

    async def fill_form(self, form: Form) -> Filled:
        """Let the person fill in *form*."""
        ...

    async def visit_page(self, *, server: str, message: str, url: str) -> Action:
        """Show the person an address a server wants them to visit, and open it if they agree."""
        ...

    async def allow_sampling(self, request: SamplingRequest, *, model: str) -> bool:
        """Show what a server wants *model* to be asked; return whether the person allows it."""
        ...

    def servers_changed(self) -> None:
        """Show the servers as they are now; called in the event loop, must not raise."""
        ...


class OptionPort(Protocol):
    """An answer to pick; its texts are the model's."""

    @property
    def label(self) -> str:
        """The answer."""
        ...

    @property
    def description(self) -> str:
        """What it means, or ""."""
        ...


class UserQuestion(Protocol):
    """A question with answers to pick."""

    @property
    def question(self) -> str:
        """The question; the model's words."""
        ...

    @property
    def header(self) -> str:
        """What it is about, in a word or two, or ""."""
        ...

    @property
    def multi_select(self) -> bool:
        """Whether several answers may be picked."""
        ...

    @property
    def options(self) -> Sequence[OptionPort]:
        """The answers."""
        ...


@dataclass(frozen=True, slots=True)
class PlanApproved:
    """The plan, as the person may have edited it, is to be carried out in *mode*."""

    plan: str
    mode: Literal["ask", "auto-edit"]


@dataclass(frozen=True, slots=True)
class PlanRefused:
    """The plan is not to be carried out; *wish* says what to change, "" when nothing was said."""

    wish: str = ""


PlanDecision: TypeAlias = PlanApproved | PlanRefused


class ModelDialogs(Protocol):
    """How a front end answers the model, one dialog at a time."""

    @property
    def can_ask(self) -> bool:
        """Whether a person is there to answer."""
        ...

    async def ask(self, questions: Sequence[UserQuestion]) -> Sequence[str] | None:
        """Return an answer to each question; None when the person closed one of them."""
        ...

    async def decide_plan(self, plan: str) -> PlanDecision:
        """Show *plan* and return what the person decides about it."""
        ...


@dataclass(frozen=True, slots=True)
class Approved:
    """The call may run: with the input that was shown, or with `edited` in place of it."""

    edited: Json = None


@dataclass(frozen=True, slots=True)
class Rejected:
    """The call may not run, for *reason*; `stop` when the person wants the prompt back."""

    reason: str
    stop: bool = False


Decision: TypeAlias = Approved | Rejected


class CallDialogs(Protocol):
    """How a front end decides about calls of agents that work for the one it shows."""

    @property
    def can_ask(self) -> bool:
        """Whether a person is there to answer."""
        ...

    async def decide_calls(self, calls: Sequence[ToolCall], who: str) -> Sequence[Decision]:
        """Return what the person decides about each of *calls*; *who* is the agent that asks."""
        ...
