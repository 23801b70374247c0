"""Messages of the Agent API: a view of the timeline, never a second record."""

import secrets
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Generic, Literal, TypeAlias, TypeVar

from agent_cli.contracts.authors import USER, Authored
from agent_cli.contracts.frozen import Frozen
from agent_cli.contracts.options import require
from agent_cli.contracts.timeline import (
    NO_USAGE,
    Block,
    Json,
    ModelUsage,
    Usage,
    text_block,
    text_of,
)
from agent_cli.system.records import dataclass, field

if TYPE_CHECKING:
    from pydantic import BaseModel

WITHDRAWN = "withdrawn"
"""Kind of the note that removes the user's message {"entry": id} from the context; never sent."""

EFFORT = "effort"
"""Kind of the note {"level": ...}: the thinking level of the replies to the user's message before
it. `context` gives it as the `effort` of that message."""

LEFT_OUT = "left out"
"""Kind of the note that replaces old results by a line that says where they are: the ids of their
entries, with the numbers by which `recall` reads them."""

GOAL = "goal"
"""Kind of the note that says how far a goal is."""

LIMIT = "limit"
"""Kind of the note that says why a limit ended a run; the model never reads it."""

INCOMPLETE = frozenset({"aborted", "error", "refusal", "context_window"})
"""Stop reasons of replies that are shown and recorded but are not part of the history."""

DataT = TypeVar("DataT", bound="BaseModel")

_CUT_OFF = frozenset({"max_tokens", "model_context_window_exceeded"})
_REPEATED = frozenset({"error", "context_window"})


def typed_in(content: tuple[Block, ...]) -> str:
    """Return the text typed by the user: the last text block, behind its attachments."""
    return text_of(tuple(block for block in content if block["type"] == "text")[-1:])


def beside_typed(content: tuple[Block, ...]) -> tuple[Block, ...]:
    """Return all but what `typed_in` does: files, images, outputs and resources sent with it."""
    texts = [index for index, block in enumerate(content) if block["type"] == "text"]
    return content[: texts[-1]] + content[texts[-1] + 1 :] if texts else content


def is_cut_off(stop_reason: str) -> bool:
    """Return whether a reply with this stop reason may end in the middle of a tool call."""
    return stop_reason in _CUT_OFF


def new_id() -> str:
    """Return an id that is unique in practice: 12 hexadecimal digits."""
    return secrets.token_hex(6)


def now_ms() -> int:
    """Return the Unix time in whole milliseconds."""
    return time.time_ns() // 1_000_000


@dataclass(frozen=True, slots=True)
class SignedSummary(Frozen):
    """A summary as a server made and signed it: it goes back as `block` came, to `model` alone.

    `words` is the text that goes with it.
    """

    model: str
    block: Block
    words: str = ""


@dataclass(frozen=True, slots=True)
class UserMessage(Frozen, Authored):
    """A message in the user's role. `timestamp` (Unix ms) and `author` are never sent.

    `effort` is the thinking level from here on, "" for the model's default, None for no change.
    `signed` is the summary that this message gives as text, as the server signed it for one model.
    """

    role: ClassVar[Literal["user"]] = "user"
    content: tuple[Block, ...]
    timestamp: int = field(default_factory=now_ms)
    author: str = USER
    effort: str | None = None
    signed: SignedSummary | None = None

    @classmethod
    def of(cls, text: str, images: Sequence[Block] = (), *, author: str = USER) -> "UserMessage":
        """Return a message of *text* followed by *images* (image blocks of the Messages API)."""
        return cls((text_block(text), *images) if text else tuple(images), author=author)

    @property
    def text(self) -> str:
        """The text blocks, joined."""
        return text_of(self.content)


@dataclass(frozen=True, slots=True)
class AssistantMessage:
    """A reply, or the received part of an incomplete one.

    `stop_reason` is the API's own, or "aborted", "error", "refusal", "context_window" for a reply
    that is not part of the history. `error` is one sentence when it failed. `beside` is what models
    used that had declined to answer.
    """

    role: ClassVar[Literal["assistant"]] = "assistant"
    content: tuple[Block, ...]
    stop_reason: str = "end_turn"
    usage: Usage = NO_USAGE
    model: str = ""
    error: str | None = None
    timestamp: int = field(default_factory=now_ms)
    beside: tuple[ModelUsage, ...] = ()

    @property
    def text(self) -> str:
        """The text blocks, joined."""
        return text_of(self.content)

    @property
    def broke_off(self) -> bool:
        """Whether the reply is incomplete: stopped, failed, or too long for the window."""
        return self.stop_reason in INCOMPLETE - {"refusal"} or self.error is not None

    @property
    def is_paused(self) -> bool:
        """Whether the server paused the reply, which goes on in the next request."""
        return self.stop_reason == "pause_turn" and not self.tool_calls

    @property
    def thinking(self) -> str:
        """The thinking blocks, joined."""
        thoughts = [block for block in self.content if block["type"] == "thinking"]
        return "".join(str(block.get("thinking", "")) for block in thoughts)

    @property
    def tool_calls(self) -> tuple[Block, ...]:
        """The tool_use blocks, in order."""
        return tuple(block for block in self.content if block["type"] == "tool_use")


@dataclass(frozen=True, slots=True)
class ToolResultMessage:
    """The answer to one tool call; `details` are for the screen and are never sent."""

    role: ClassVar[Literal["toolResult"]] = "toolResult"
    tool_call_id: str
    tool_name: str
    content: tuple[Block, ...]
    is_error: bool = False
    details: Json = None
    timestamp: int = field(default_factory=now_ms)

    @property
    def text(self) -> str:
        """The text blocks, joined."""
        return text_of(self.content)


@dataclass(frozen=True, slots=True)
class CustomMessage:
    """A message of a custom kind, which `convert_to_llm` drops or translates for the model."""

    role: str
    data: Json = None
    timestamp: int = field(default_factory=now_ms)

    @property
    def text(self) -> str:
        """Always "": only its kind can read `data`, which are no words of a conversation."""
        return ""


@dataclass(frozen=True, slots=True)
class CustomKind(Generic[DataT]):
    """A kind of custom messages whose data is a pydantic model.

    The data is stored as JSON, so `data_of` also reads messages of earlier processes.
    """

    role: str
    model: type[DataT]

    def message(self, data: DataT) -> CustomMessage:
        """Return a message of this kind; raises `AgentCliError` if *data* is of another type."""
        require(data, self.model, what=f"the data of a message of the kind {self.role}")
        return CustomMessage(self.role, data.model_dump(mode="json"))

    def data_of(self, message: "Message") -> DataT | None:
        """Return the data of *message*; None if it is of another kind.

        Raises:
            pydantic.ValidationError: It is of this kind, but its data is not valid.
        """
        if not isinstance(message, CustomMessage) or message.role != self.role:
            return None
        return self.model.model_validate(message.data)


Incoming: TypeAlias = UserMessage | CustomMessage
"""Messages that may start a run."""
LlmMessage: TypeAlias = UserMessage | AssistantMessage | ToolResultMessage
Message: TypeAlias = LlmMessage | CustomMessage


def whole_answer(messages: Sequence[Message]) -> AssistantMessage | None:
    """Return the last reply of *messages*, joined with the parts before it; None without a reply.

    A reply that pauses (`pause_turn`) goes on in the next request, so its parts are one answer. A
    result of a call or a message of the user ends it; a part that failed and was repeated is void.
    """
    at = next(
        (i for i in reversed(range(len(messages))) if isinstance(messages[i], AssistantMessage)), 0
    )
    if not messages or not isinstance(last := messages[at], AssistantMessage):
        return None
    parts: list[AssistantMessage] = []
    for message in reversed(messages[:at]):
        if isinstance(message, CustomMessage):
            continue
        if not isinstance(message, AssistantMessage):
            break
        if message.stop_reason in _REPEATED:
            continue
        if not message.is_paused:
            break
        parts.append(message)
    if not parts:
        return last
    content = tuple(block for part in reversed(parts) for block in part.content)
    return replace(last, content=content + last.content)
