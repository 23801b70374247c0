"""The timeline: prompts and their typed outputs, in order.

The timeline is the record. It is appended to, never rewritten; what a model is shown is projected
from it (projection.py). This module is data only: it does no I/O and knows no provider, though the
blocks it holds have the shape of the Messages API, because they are kept exactly as received.
Entries are deeply immutable, also for the code that made them.
"""

from typing import ClassVar, Final, Literal, TypeAlias

from agent_cli.contracts.authors import USER, Authored
from agent_cli.contracts.frozen import Frozen
from agent_cli.contracts.frozen import Json as Json  # noqa: PLC0414 - one of the timeline's types
from agent_cli.system.records import dataclass, field

Block: TypeAlias = dict[str, Json]
"""A content block ({"type": "text", "text": ...}) as the Messages API writes it."""

CallDecision: TypeAlias = Literal["approved", "rejected"]
PromptState: TypeAlias = Literal["running", "waiting_for_approval", "completed"]


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens and cost of one reply or of many, from the API's own figures.

    `input_tokens` counts only tokens neither read from nor written to the cache; the prompt's size
    is `prompt_tokens`. `cost_microdollars` is None when any part has no known price.
    `held_microdollars` is the possible cost of calls whose usage is unknown, because they broke off
    or are still running. It is counted only where a cost limit is set. `web_searches` are those
    that the server made; it charges for each. `thinking_tokens` are part of `output_tokens`; 0 also
    where the API does not count them.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_5m_tokens: int = 0
    cache_write_1h_tokens: int = 0
    cost_microdollars: int | None = 0
    held_microdollars: int = 0
    web_searches: int = 0
    thinking_tokens: int = 0

    @property
    def prompt_tokens(self) -> int:
        """Tokens the model read: fresh, cached and newly cached."""
        return self.input_tokens + self.cached_tokens

    @property
    def cache_write_tokens(self) -> int:
        """Tokens that were newly cached, however long they are kept."""
        return self.cache_write_5m_tokens + self.cache_write_1h_tokens

    @property
    def cached_tokens(self) -> int:
        """Tokens that the cache holds afterwards: read from it, or newly written."""
        return self.cache_read_tokens + self.cache_write_tokens

    def __add__(self, other: "Usage") -> "Usage":
        own, its = self.cost_microdollars, other.cost_microdollars
        counts = {name: getattr(self, name) + getattr(other, name) for name in _COUNTS}
        return Usage(cost_microdollars=None if own is None or its is None else own + its, **counts)


_COUNTS: Final = tuple(name for name in Usage.__slots__ if name != "cost_microdollars")
NO_USAGE = Usage()


@dataclass(frozen=True, slots=True)
class ModelUsage:
    """The usage of one model."""

    model: str
    usage: Usage


@dataclass(frozen=True, slots=True)
class Pending:
    """A call without a result yet.

    `why` is "queued" (about to run), "approval" (a person must decide; or the call is a question
    and runs until it is answered) or "deferred" (behind one that waits for a decision). `reason` is
    the sentence shown to the person who decides.
    """

    state: ClassVar[Literal["pending"]] = "pending"
    why: Literal["queued", "approval", "deferred"] = "queued"
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Success(Frozen):
    """The tool ran; `details` are for the screen and never reach the model."""

    state: ClassVar[Literal["success"]] = "success"
    content: tuple[Block, ...]
    details: Json = None


@dataclass(frozen=True, slots=True)
class Error(Frozen):
    """The call failed, was refused, skipped or cut off; the model reads the reason."""

    state: ClassVar[Literal["error"]] = "error"
    content: tuple[Block, ...]
    details: Json = None


ToolState: TypeAlias = Pending | Success | Error


@dataclass(frozen=True, slots=True)
class Output(Frozen):
    """One entry of the timeline: an id, unique in the conversation, and a time in Unix ms."""

    kind: ClassVar[str] = ""
    id: str
    at_ms: int


@dataclass(frozen=True, slots=True)
class UserOutput(Output, Authored):
    """A message in the user's role: a prompt's input, or one added to a running prompt."""

    kind: ClassVar[str] = "user"
    content: tuple[Block, ...]
    author: str = USER


@dataclass(frozen=True, slots=True)
class BlockOutput(Output):
    """A block of a reply that is neither text, thinking nor a tool call; replayed as it is."""

    kind: ClassVar[str] = "block"
    reply_id: str
    block: Block


@dataclass(frozen=True, slots=True)
class TextOutput(BlockOutput):
    """Text of a reply."""

    kind: ClassVar[str] = "text"

    @property
    def text(self) -> str:
        """The text, without the fields beside it."""
        return str(self.block.get("text", ""))


@dataclass(frozen=True, slots=True)
class ThinkingOutput(BlockOutput):
    """Thinking of a reply, signature included."""

    kind: ClassVar[str] = "thinking"


@dataclass(frozen=True, slots=True)
class ToolOutput(BlockOutput):
    """One tool call and, in the same place, its result.

    The only entry that changes: `result` goes from Pending to Success or Error, and the times, the
    question and the decision are filled in once. Times are Unix ms. A person was asked if
    `asked_at_ms` is set, for `asked_reason`. `edited_input` is the input with which a person or a
    lifecycle hook replaced the model's arguments.
    """

    kind: ClassVar[str] = "tool"
    result: ToolState = Pending()
    asked_reason: str | None = None
    asked_at_ms: int | None = None
    decision: CallDecision | None = None
    decided_at_ms: int | None = None
    started_at_ms: int | None = None
    ended_at_ms: int | None = None
    edited_input: Json = None

    @property
    def tool_call_id(self) -> str:
        """The id the model gave the call."""
        return str(self.block["id"])

    @property
    def name(self) -> str:
        """The tool's name as the model wrote it."""
        return str(self.block["name"])

    @property
    def input(self) -> Json:
        """The arguments it runs with, not validated: the model's, or the edited ones."""
        return self.block.get("input") if self.edited_input is None else self.edited_input

    @property
    def is_running(self) -> bool:
        """Whether the tool has begun, and has no result yet."""
        return self.started_at_ms is not None and isinstance(self.result, Pending)


@dataclass(frozen=True, slots=True)
class ReplyOutput(Output):
    """The end of a reply whose blocks precede it; blocks without this mark are no reply.

    `beside` is what the server's other calls for it used, on models that declined. `message_id` is
    the server's own id of the reply; "" in records of earlier versions.
    """

    kind: ClassVar[str] = "reply"
    reply_id: str
    model: str
    stop_reason: str
    usage: Usage = NO_USAGE
    request_id: str | None = None
    beside: tuple[ModelUsage, ...] = ()
    message_id: str = ""


@dataclass(frozen=True, slots=True)
class DiscardedOutput(Output):
    """An incomplete reply: the received part, and why it ended. Never projected.

    `reason` is "aborted", "error", "refusal" or "context_window".
    """

    kind: ClassVar[str] = "discarded"
    text: str
    reason: str
    error: str | None = None


@dataclass(frozen=True, slots=True)
class FileOutput(Output):
    """A file a tool hands to the user; the model reads only `summary`."""

    kind: ClassVar[str] = "file"
    tool_call_id: str
    path: str
    media_type: str
    summary: str


@dataclass(frozen=True, slots=True)
class WidgetOutput(Output):
    """A widget to draw; `fallback` is its text where it cannot be drawn. Never projected."""

    kind: ClassVar[str] = "widget"
    tool_call_id: str
    widget: str
    data: Json
    fallback: str


@dataclass(frozen=True, slots=True)
class CompactionOutput(Output):
    """From here on the projection shows `summary` in place of all before `first_kept_id`.

    The first user message is always shown, and `words`, what the user said, follow the summary.
    `first_kept_id` None undoes all compactions and trims. `signed` is the `SignedSummary`.
    """

    kind: ClassVar[str] = "compaction"
    summary: str
    first_kept_id: str | None
    tokens_before: int = 0
    tokens_after: int = 0
    words: str = ""
    signed: Json = None


@dataclass(frozen=True, slots=True)
class TrimOutput(Output):
    """From here on the projection leaves out all before `first_kept_id`.

    The first user message is always shown, and so is a summary. `note`, with what the user said,
    follows them; "" for none (as in records of earlier versions).
    """

    kind: ClassVar[str] = "trim"
    first_kept_id: str
    removed_messages: int
    note: str = ""


@dataclass(frozen=True, slots=True)
class CustomOutput(Output):
    """An entry of a custom kind (a notification, a plugin's note). Never projected."""

    kind: ClassVar[str] = "custom"
    name: str
    data: Json


UNKNOWN_MODEL: Final = "normal"
"""The `model` of a prompt that was begun without one."""


@dataclass(slots=True)
class Prompt:
    """One request of the user, or of a trigger (then `input` is None), and its outputs.

    Only `Conversation` writes to it. `model` is the id of the model asked first, or
    `UNKNOWN_MODEL`; `once` is True if it was chosen for this prompt alone. `visible` is False for
    prompts the transcript hides.
    """

    id: str
    user_id: str
    model: str
    at_ms: int
    visible: bool = True
    state: PromptState = "running"
    input: UserOutput | None = None
    output: list[Output] = field(default_factory=list[Output])
    usage: Usage = NO_USAGE
    once: bool = False


def text_block(text: str) -> Block:
    """Return a text block."""
    return {"type": "text", "text": text}


def text_of(content: tuple[Block, ...]) -> str:
    """Return the text of *content*: its text blocks joined, everything else left out."""
    return "".join(str(block.get("text", "")) for block in content if block["type"] == "text")
