"""The hooks of a run, each with its contract. Every feature of the program is built on such a hook.

A hook may be a plain function or a coroutine function. Unless its contract says otherwise it may be
slow (a run can be interrupted while it waits) and may raise: an `AgentCliError` ends the run with
that sentence, anything else is a bug and is reported as one.
"""

from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from typing import TYPE_CHECKING

from agent_cli.contracts import options
from agent_cli.contracts.cancel import CancelToken
from agent_cli.contracts.events import ToolCall
from agent_cli.contracts.messages import Message
from agent_cli.contracts.provider import Model, ProviderRegistry, StreamFn
from agent_cli.contracts.timeline import Json
from agent_cli.contracts.tooling import Tool, Verdict
from agent_cli.core.arguments import check_options
from agent_cli.core.returned_values import FinishResult, Maybe, TakeMessages
from agent_cli.core.waits import InOrder
from agent_cli.system.records import dataclass, field

if TYPE_CHECKING:
    from agent_cli.core.turn import Turn


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopConfig:
    """The options and hooks of one run; frozen, so that they cannot change during the run.

    Attributes:
        system_prompt: The stable part of the system prompt.
        stream_fn: Asks the model; wins over `registry`, which finds one by `model.api`.
        max_tokens: The limit of one reply.
        temperature: None sends none.
        thinking_level: How much the model thinks; None leaves it to the model.
        thinking_budgets: Tokens of thinking by level, for models that take a number.
        api_key: The key for every model call; None leaves it to the provider. Never written.
        session_id: Sent with every request and written to its log line; by default an `Agent` uses
            the id of its conversation, under which it is stored.
        max_retry_delay_ms: The longest wait a server may ask for before the run ends instead; None
            leaves it to the provider.
        max_rounds: Turns per run; 0 is no limit.
        tool_execution: Whether the calls of one reply run "parallel" or "sequential".
        concurrency: Tools running at once.
        tool_timeout_s: Seconds a tool may take unless it says otherwise; 0 is no limit.
        tool_stop_timeout_s: Seconds a tool may take to end after it is cancelled; then the run
            continues without it and reports that.
        steering: Effect of a steering message on the current batch: skip the calls that have not
            started, cancel the running ones too, or finish the whole batch first.
        user_id: Recorded with each prompt, and passed to each call.
        services: Objects of the program, passed to each call.
        state: What tools and plugins share, by key; changed in place.
        path_order: The queue shared by several agents whose calls use the same files; None for one
            agent alone.
        approval: "defer": calls before the first one that needs a person run, the rest waits.
            "batch": all questions are asked first, then everything runs at once.

        prepare: Contributors, called in order before every model call.
        transform_context: (messages, cancel) -> messages; the record is not touched.
        convert_to_llm: messages -> messages the model can read. None refuses custom kinds.
        authorize_tool: (call, tool, valid params) -> verdict; raising counts as `Ask`.
        explain_missing: name -> why no tool has it, as a sentence for the model, "" if not known.
        finish_result: (call, result) -> result; the last chance to shorten it. Must not raise.
        get_steering_messages: Taken between tools and after a turn; None and [] mean none.
        get_follow_up_messages: Taken only when the run would end.
        wait_for_steering: Returns when steering is queued from then on; only for
            `steering="cancel_running"`.
        get_api_key: provider name -> key, before every model call; wins over `api_key` unless it
            returns None. Never stored.

    Raises:
        AgentCliError: An option is of another type or out of its range, or two tools have one name.
    """

    model: Model | None = None
    system_prompt: str = ""
    tools: Sequence[Tool] = ()
    stream_fn: StreamFn | None = None
    registry: ProviderRegistry | None = None
    max_tokens: int = options.MAX_TOKENS
    temperature: float | None = None
    thinking_level: options.ThinkingLevel | None = "minimal"
    thinking_budgets: Mapping[str, int] = field(default_factory=dict[str, int])
    api_key: str | None = field(default=None, repr=False)
    session_id: str | None = None
    max_retry_delay_ms: int | None = 60_000
    max_rounds: int = options.MAX_ROUNDS
    tool_execution: options.ToolExecution = options.TOOL_EXECUTION
    concurrency: int = options.CONCURRENCY
    tool_timeout_s: float = options.TOOL_TIMEOUT_S
    tool_stop_timeout_s: float = 5.0
    steering: options.Steering = options.STEERING
    approval: options.ApprovalOrder = options.APPROVAL
    user_id: str = "local"
    services: Mapping[str, object] = field(default_factory=dict[str, object])
    path_order: InOrder | None = None
    state: MutableMapping[str, Json] = field(default_factory=dict[str, Json])

    prepare: Sequence["Callable[[Turn], Maybe[None]]"] = ()
    transform_context: (
        Callable[[Sequence[Message], CancelToken], Maybe[Sequence[Message]]] | None
    ) = None
    convert_to_llm: Callable[[Sequence[Message]], Maybe[Sequence[Message]]] | None = None
    authorize_tool: Callable[[ToolCall, Tool, object], Maybe[Verdict]] | None = None
    explain_missing: Callable[[str], str] | None = None
    finish_result: FinishResult | None = None
    get_steering_messages: TakeMessages | None = None
    get_follow_up_messages: TakeMessages | None = None
    wait_for_steering: Callable[[], Awaitable[None]] | None = None
    get_api_key: Callable[[str], Maybe[str | None]] | None = None

    def __post_init__(self) -> None:
        # A copy: the caller's list may change during the run.
        object.__setattr__(self, "tools", options.all_of(self.tools, Tool, what="tools"))
        object.__setattr__(self, "prepare", options.all_of(self.prepare, what="prepare"))
        check_options(self)
        object.__setattr__(self, "thinking_budgets", dict(self.thinking_budgets))
