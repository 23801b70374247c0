"""Questions to the user from MCP servers, the model and the program, and the editor's documents."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, Protocol, TypeAlias, TypeVar

from agent_cli.contracts.cancel import CancelToken
from agent_cli.contracts.errors import Aborted
from agent_cli.contracts.events import ToolCall
from agent_cli.contracts.timeline import Json
from agent_cli.contracts.wording import dollars
from agent_cli.system.records import dataclass, field

if TYPE_CHECKING:
    from agent_cli.contracts.servers import FormField, SamplingRequest

Action: TypeAlias = Literal["accept", "decline", "cancel"]


@dataclass(frozen=True, slots=True)
class Form:
    """A server's question to the user.

    Attributes:
        message: The server's question; untrusted text.
        fields: The fields to fill in, in order.
        fault: Returns the problem with a value for the field of that name, "" when it is valid.
    """

    server: str
    message: str
    fields: Sequence["FormField"]
    fault: Callable[[str, Json], str]


@dataclass(frozen=True, slots=True)
class Filled:
    """The user's answer to a form; after "accept", `values` holds the given values by name.

    A field that is left out has its default; one that is None is sent empty.
    """

    action: Action
    values: Mapping[str, Json] = field(default_factory=dict[str, Json])


class ServerDialogs(Protocol):
    """Port by which a front end answers servers, one question at a time; the others wait.

    Every user action is an answer; only a cancellation raises.
    """

    async def fill_form(self, form: Form) -> Filled:
        """Let the user fill in *form*."""
        ...

    async def visit_page(self, *, server: str, message: str, url: str) -> Action:
        """Show the user a URL that a server wants them to visit, and open it if they agree."""
        ...

    async def allow_sampling(self, request: "SamplingRequest", *, model: str) -> bool:
        """Show a server's request to *model*; return whether the user allows it."""
        ...

    def servers_changed(self) -> None:
        """Show the current state of the servers; called in the event loop, must not raise."""
        ...


@dataclass(frozen=True, slots=True)
class Option:
    """An answer to pick, with an explanation or ""; it may be text of the model."""

    label: str
    description: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class UserQuestion:
    """A question with answers to pick; the person may also answer in their own words.

    `header` names its topic in a word or two, or is "". With `multi_select` several answers may be
    picked.
    """

    question: str
    options: Sequence[Option]
    header: str = ""
    multi_select: bool = False


@dataclass(frozen=True, slots=True)
class PlanApproved:
    """The plan, possibly edited by the user, is to be carried out in *mode*."""

    plan: str
    mode: Literal["ask", "auto-edit"]


@dataclass(frozen=True, slots=True)
class PlanRefused:
    """The plan is rejected; *wish* is the change the user asks for, or ""."""

    wish: str = ""


PlanDecision: TypeAlias = PlanApproved | PlanRefused


class ModelDialogs(Protocol):
    """Port by which a front end answers the model, one dialog at a time."""

    @property
    def can_ask(self) -> bool:
        """Whether a person is there to answer."""
        ...

    async def ask(
        self, questions: Sequence[UserQuestion], *, asker: str = "the model"
    ) -> Sequence[str] | None:
        """Return an answer to each question of *asker*.

        Where the user closed a question, the answers to those before it; None without any.
        """
        ...

    async def decide_plan(self, plan: str) -> PlanDecision:
        """Show *plan* and return the user's decision."""
        ...


@dataclass(frozen=True, slots=True)
class Approved:
    """The call may run with the input that was shown, or with `edited` instead."""

    edited: Json = None


@dataclass(frozen=True, slots=True)
class Rejected:
    """The call may not run, for *reason*; `stop` also ends the run and returns to the prompt."""

    reason: str
    stop: bool = False


Decision: TypeAlias = Approved | Rejected

QUESTION_ID: Final = "question "
"""The prefix of the id of a question in words; such a question is open in one program only."""


class Picked(str):
    """The label that a person picked elsewhere, of the answers to a question in words."""

    __slots__ = ()


class RemoteAnswersPort(Protocol):
    """Port to answers that a person gives elsewhere, with a token that a hook of theirs got."""

    is_awaited: bool

    def take(self, calls: Sequence[ToolCall]) -> tuple[str, Decision] | None:
        """Return the id of one of *calls* that was answered, and the decision; looks at files."""
        ...


class CallDialogs(Protocol):
    """Port by which a front end decides about calls of subagents."""

    @property
    def can_ask(self) -> bool:
        """Whether a person is there to answer."""
        ...

    async def decide_calls(self, calls: Sequence[ToolCall], asker: str) -> Sequence[Decision]:
        """Return the user's decision about each of *calls*; *asker* is the agent that asks."""
        ...


@dataclass(frozen=True, slots=True)
class Reread:
    """Tokens that the next request reads anew, with the cause and the price.

    `cost` is in microdollars, None without a known price. `needs_consent` says that it is above
    the limit of the settings, so that a person is asked first.
    """

    cause: str
    tokens: int
    cost: int | None
    needs_consent: bool = False

    def __str__(self) -> str:
        price = "" if self.cost is None else f" ({dollars(self.cost)})"
        return f"{self.cause}: about {self.tokens:,} tokens not read from the cache{price}"


class Documents(Protocol):
    """Port to an editor that reads and writes text files; called from threads, may block."""

    def read(self, path: Path) -> str | None:
        """Return the editor's text of *path*; None when it cannot tell."""
        ...

    def write(self, path: Path, text: str) -> bool:
        """Write *text* to *path*; return False when the editor cannot and changed nothing.

        Raises:
            ToolError: It is unknown whether the file was written.
        """
        ...


# A person who answers by telephone notices no half second; each look reads the disk.
_LOOK_S: Final = 0.5
_Typed = TypeVar("_Typed")
_Taken = TypeVar("_Taken")


async def first_answer(
    dialog: Callable[[], Awaitable[_Typed]], take: Callable[[], _Taken | None]
) -> _Typed | _Taken:
    """Return the answer of *dialog*, or that of *take* if it comes first and cancels the dialog.

    An answer that was taken counts, even if the dialog ends at the same moment.

    Args:
        dialog: Asks at the terminal.
        take: Returns the answer from elsewhere, once; None while there is none.
    """
    stop, loop = CancelToken(), asyncio.get_running_loop()
    found: list[_Taken] = []

    def look() -> None:
        if stop.cancelled:
            return
        if (answer := take()) is not None:
            found.append(answer)
            stop.cancel()
        else:
            loop.call_later(_LOOK_S, look)

    loop.call_later(_LOOK_S, look)
    try:
        async with stop.scope():
            typed = await dialog()
    except Aborted:
        if not found:  # the run was stopped, not the question answered
            raise
    else:
        if not found:
            return typed
    finally:
        stop.cancel()  # no further look
    return found[0]
