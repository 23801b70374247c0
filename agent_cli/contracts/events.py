"""Events of a run: ten core events, and the application's events in the namespace `app.`.

Events report; hooks decide (core/loop_config.py). Each event is passed to plain functions
(`EventSink`) in order; a sink must be quick and must not raise. Grammar of a run:

    run       = agent_start turn+ limit? agent_end
    turn      = turn_start injected* assistant? batch? turn_end
    injected  = message_start(user) message_end(user)
    assistant = message_start message_update* message_end      absent when no reply began
    batch     = tool events, then message_start message_end of each result, in call order
    limit     = message_start(limit) message_end(limit)            why a limit ended the run

A tool call has one tool_execution_start, then updates, then one tool_execution_end. A reply that
breaks off and is retried ends its turn; the new attempt is a turn of its own. A run that waits for
an approval ends with the batch open; the run that resumes it begins with the batch.
"""

from collections.abc import Callable, Mapping
from typing import ClassVar, Literal, TypeAlias

from agent_cli.contracts.errors import Trouble
from agent_cli.contracts.messages import AssistantMessage, Message, ToolResultMessage
from agent_cli.contracts.provider import StreamEvent
from agent_cli.contracts.side_events import SideEvent
from agent_cli.contracts.timeline import Json, Output, Pending, Prompt, ToolOutput, Usage
from agent_cli.contracts.tooling import ToolResult
from agent_cli.contracts.wording import UNANSWERED_QUESTION
from agent_cli.system.records import dataclass


@dataclass(frozen=True, slots=True)
class AgentStart:
    """A run begins."""

    type: ClassVar[Literal["agent_start"]] = "agent_start"


@dataclass(frozen=True, slots=True)
class AgentEnd:
    """A run ended; nothing follows. `messages` are the messages that this run added.

    `stop_reason` is the last reply's, or "aborted", "error", "max_rounds", "max_cost",
    "waiting_for_approval". `error` is one sentence when it is "error", and `trouble` the part of
    the world that failed, if it was that.
    """

    type: ClassVar[Literal["agent_end"]] = "agent_end"
    messages: tuple[Message, ...]
    stop_reason: str
    error: str | None = None
    trouble: Trouble | None = None


@dataclass(frozen=True, slots=True)
class TurnStart:
    """A turn begins: one reply and the tools it asks for."""

    type: ClassVar[Literal["turn_start"]] = "turn_start"


@dataclass(frozen=True, slots=True)
class TurnEnd:
    """A turn ended; `message` is None when no reply began."""

    type: ClassVar[Literal["turn_end"]] = "turn_end"
    message: AssistantMessage | None
    tool_results: tuple[ToolResultMessage, ...]


@dataclass(frozen=True, slots=True)
class MessageStart:
    """A message enters the conversation; for a reply it is still empty."""

    type: ClassVar[Literal["message_start"]] = "message_start"
    message: Message


@dataclass(frozen=True, slots=True)
class MessageUpdate:
    """A reply grew by `event`. `message` is built on access: holding the event costs nothing."""

    type: ClassVar[Literal["message_update"]] = "message_update"
    snapshot: Callable[[], AssistantMessage]
    event: StreamEvent

    @property
    def message(self) -> AssistantMessage:
        """The reply as it was when this event happened."""
        return self.snapshot()


@dataclass(frozen=True, slots=True)
class MessageEnd:
    """The message is complete, or its stop reason says why it is not."""

    type: ClassVar[Literal["message_end"]] = "message_end"
    message: Message


@dataclass(frozen=True, slots=True)
class ToolExecutionStart:
    """A call begins to run; a call that never runs has this event directly before its end."""

    type: ClassVar[Literal["tool_execution_start"]] = "tool_execution_start"
    tool_call_id: str
    tool_name: str
    args: Json


@dataclass(frozen=True, slots=True)
class ToolExecutionUpdate:
    """A running tool streamed output to show."""

    type: ClassVar[Literal["tool_execution_update"]] = "tool_execution_update"
    tool_call_id: str
    tool_name: str
    partial_result: ToolResult


@dataclass(frozen=True, slots=True)
class ToolExecutionEnd:
    """The call has its result, a success or an error."""

    type: ClassVar[Literal["tool_execution_end"]] = "tool_execution_end"
    tool_call_id: str
    tool_name: str
    result: ToolResult
    is_error: bool


CoreEvent: TypeAlias = (
    AgentStart
    | AgentEnd
    | TurnStart
    | TurnEnd
    | MessageStart
    | MessageUpdate
    | MessageEnd
    | ToolExecutionStart
    | ToolExecutionUpdate
    | ToolExecutionEnd
)


@dataclass(frozen=True, slots=True)
class SessionOpened:
    """The conversation has a session on disk."""

    type: ClassVar[Literal["app.session"]] = "app.session"
    session_id: str
    path: str
    resumed: bool = False


@dataclass(frozen=True, slots=True)
class PromptStarted:
    """A prompt was added to the timeline; the outputs that follow belong to it."""

    type: ClassVar[Literal["app.prompt_started"]] = "app.prompt_started"
    prompt: Prompt


@dataclass(frozen=True, slots=True)
class PromptOutput:
    """An output was put at `index` of a prompt; `replaced` if it replaces one with the same id.

    `only_reads` if it is a call that starts and has no effect: nothing is lost if it runs again.
    """

    type: ClassVar[Literal["app.prompt_output"]] = "app.prompt_output"
    prompt_id: str
    index: int
    output: Output
    replaced: bool = False
    only_reads: bool = False


@dataclass(frozen=True, slots=True)
class PromptStateChanged:
    """A prompt waits for an approval, or continues."""

    type: ClassVar[Literal["app.prompt_state"]] = "app.prompt_state"
    prompt_id: str
    state: str


@dataclass(frozen=True, slots=True)
class PromptCompleted:
    """A prompt is completed; sent once for each prompt."""

    type: ClassVar[Literal["app.prompt_completed"]] = "app.prompt_completed"
    prompt_id: str


@dataclass(frozen=True, slots=True)
class StateChanged:
    """The phase of the run changed (core/run.py)."""

    type: ClassVar[Literal["app.state_changed"]] = "app.state_changed"
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call as announced, or as shown to a person for approval."""

    id: str
    name: str
    input: Json
    reason: str = ""

    @classmethod
    def of(cls, call: ToolOutput) -> "ToolCall":
        """Build it from a recorded call, with the reason for which the call waits, if it does."""
        reason = call.result.reason if isinstance(call.result, Pending) else ""
        return cls(call.tool_call_id, call.name, call.input, reason)

    @property
    def is_question(self) -> bool:
        """Whether it waits for an answer in words, and not for a decision about it."""
        return self.reason == UNANSWERED_QUESTION

    @property
    def arguments(self) -> Mapping[str, Json]:
        """The input by parameter; empty if the model wrote something other than an object."""
        return self.input if isinstance(self.input, dict) else {}


@dataclass(frozen=True, slots=True)
class ToolCallsAnnounced:
    """All calls of a reply, before the first one starts."""

    type: ClassVar[Literal["app.tool_calls_announced"]] = "app.tool_calls_announced"
    calls: tuple[ToolCall, ...]


@dataclass(frozen=True, slots=True)
class ApprovalRequested:
    """A call waits for a person; the pause is already recorded."""

    type: ClassVar[Literal["app.approval_requested"]] = "app.approval_requested"
    call: ToolCall


@dataclass(frozen=True, slots=True)
class Retry:
    """A model call failed for *reason*, a sentence, and is retried after *wait_s* seconds.

    `attempt` counts from 1. `restarted` is True when a part of the reply was shown: that is void.
    """

    type: ClassVar[Literal["app.retry"]] = "app.retry"
    attempt: int
    max_attempts: int
    wait_s: float
    reason: str
    restarted: bool


@dataclass(frozen=True, slots=True)
class Compacted:
    """Older messages were replaced by a summary; the token counts before and after are estimates.

    `tokens_read` is the API's count of what the summary was made from: long results of tools are
    shortened for it. 0 when unknown.
    """

    type: ClassVar[Literal["app.compaction"]] = "app.compaction"
    removed_messages: int
    tokens_before: int
    tokens_after: int
    tokens_read: int = 0


@dataclass(frozen=True, slots=True)
class UsageChanged:
    """The usage of the last reply, and of the conversation so far."""

    type: ClassVar[Literal["app.usage"]] = "app.usage"
    reply: Usage
    total: Usage


@dataclass(frozen=True, slots=True)
class Notice:
    """A sentence for the user: level "info" or "warning"."""

    type: ClassVar[Literal["app.notice"]] = "app.notice"
    level: Literal["info", "warning"]
    text: str


@dataclass(frozen=True, slots=True)
class ErrorShown:
    """A failure, as one sentence for the user."""

    type: ClassVar[Literal["app.error"]] = "app.error"
    text: str


@dataclass(frozen=True, slots=True)
class UsageHeld:
    """A change of costs that no entry holds: a reserved cost, or the cost of a summary."""

    type: ClassVar[Literal["app.usage_held"]] = "app.usage_held"
    prompt_id: str
    held_microdollars: int


@dataclass(frozen=True, slots=True)
class AgentEvent:
    """An event of a subagent that the call `tool_call_id` started; `agent` is its kind.

    An event of a subagent's own subagent is an `AgentEvent` inside an `AgentEvent`.
    """

    type: ClassVar[Literal["app.agent_event"]] = "app.agent_event"
    agent_id: str
    agent: str
    tool_call_id: str
    event: "Event"


AppEvent: TypeAlias = (
    SessionOpened
    | PromptStarted
    | PromptOutput
    | PromptStateChanged
    | PromptCompleted
    | StateChanged
    | ToolCallsAnnounced
    | ApprovalRequested
    | Retry
    | Compacted
    | UsageChanged
    | UsageHeld
    | SideEvent
    | AgentEvent
    | Notice
    | ErrorShown
)
Event: TypeAlias = CoreEvent | AppEvent
EventSink: TypeAlias = Callable[[Event], None]


def innermost(event: Event) -> Event:
    """Return the event itself, without the `AgentEvent` layers around it."""
    while isinstance(event, AgentEvent):
        event = event.event
    return event
