"""One prompt of a session: its runs, the decisions between them, and its result."""

from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Literal

from agent_cli.contracts.dialogs import Decision, Rejected
from agent_cli.contracts.errors import Aborted, AgentCliError
from agent_cli.contracts.events import ApprovalRequested, Event, ToolCall, UsageChanged, innermost
from agent_cli.contracts.messages import Message
from agent_cli.contracts.timeline import NO_USAGE, Json, Usage
from agent_cli.contracts.wording import in_usd
from agent_cli.core.call_decisions import (
    NOBODY_ALLOWS,
    REFUSALS_MAX,
    DeniedCalls,
    apply_decisions,
    decisions_about,
    decline_and_stop,
)
from agent_cli.core.run import RunResult
from agent_cli.library.options import Approve, decided
from agent_cli.system.records import dataclass, field

if TYPE_CHECKING:
    from agent_cli.app.app import App
    from agent_cli.contracts.cancel import CancelToken
    from agent_cli.headless.structured import OutputSchema


@dataclass(frozen=True, slots=True)
class PromptResult:
    """The outcome of one prompt: the fields of `app.result`, the last line of stream-json.

    Attributes:
        text: The final answer.
        stop_reason: "end_turn" when the model was done; see `AgentEnd` for the others.
        rounds: Model calls, also one that a limit kept from being sent; without those of subagents.
        usage: Tokens and cost, with those of subagents.
        session_id: For `SessionOptions(resume=...)`; None if the session is not kept.
        messages: The messages that the prompt added.
        declined: Calls that did not run because nobody could approve them, subagents' included.
        denied: Calls that a rule, a hook or the permission mode denied, subagents' included.
        output: The value of the answer, with `SessionOptions(json_schema=...)`.
    """

    type: ClassVar[Literal["app.result"]] = "app.result"
    text: str
    stop_reason: str
    rounds: int
    usage: Usage
    session_id: str | None
    messages: tuple[Message, ...] = ()
    declined: tuple[ToolCall, ...] = ()
    denied: tuple[ToolCall, ...] = ()
    output: Json = None

    @property
    def cost_usd(self) -> float | None:
        """The cost in US dollars; None if a part has no known price."""
        cost = self.usage.cost_microdollars
        return None if cost is None else in_usd(cost)


class RunFailed(AgentCliError):
    """A prompt did not come to its end: an error, or a limit of rounds or cost.

    Attributes:
        result: The outcome so far; its `stop_reason` is "error", "max_rounds", "max_cost", ...
        trouble: The part of the world that failed, or None.
    """

    def __init__(self, sentence: str, result: PromptResult) -> None:
        super().__init__(sentence)
        self.result = result
        self.stop_reason = result.stop_reason


@dataclass(slots=True)
class PromptRun:
    """The runs of one prompt: it goes on after each question, until nothing waits."""

    app: "App"
    approve: Approve | None
    stop: "CancelToken"
    form: "OutputSchema | None"
    usage: Usage = NO_USAGE
    declined: list[ToolCall] = field(default_factory=list[ToolCall])
    denied: list[ToolCall] = field(default_factory=list[ToolCall])
    denials: DeniedCalls = field(default_factory=DeniedCalls)
    runs: list[RunResult] = field(default_factory=list[RunResult])

    @contextmanager
    def listening(self) -> Generator[None]:
        """Hear the events of the agent, and ask once for an answer in the right form."""
        agent = self.app.agent
        with ExitStack() as stack:
            stack.callback(agent.subscribe(self.note))
            if self.form:
                from agent_cli.headless.structured import AnswerCheck  # rare

                stack.callback(agent.subscribe(AnswerCheck(self.form).listener(agent)))
            yield

    def with_form(self, message: str | Message) -> str | Message:
        """Return *message* as it is sent: with the form of the answer, if it has one."""
        return self.form.asked_by(message) if self.form and message else message

    def note(self, event: Event) -> None:
        """Count usage and denied calls, and calls of subagents that nobody can approve."""
        inner = innermost(event)
        if isinstance(inner, UsageChanged):
            self.usage += inner.reply
        elif isinstance(inner, ApprovalRequested) and event is not inner and not self.approve:
            self.declined.append(inner.call)
        elif denied := self.denials.ended_by(event):
            self.denied.append(denied)

    async def settle(self) -> None:
        """Decide about the calls that wait, and go on, until none waits or the prompt is stopped.

        Without an `approve`, calls that waited before this prompt stay as they are.
        """
        agent = self.app.agent
        while calls := [ToolCall.of(each) for each in agent.conversation.questions()]:
            if self.approve is None and not self.runs:
                return
            if len(self.declined) + len(calls) > REFUSALS_MAX and self.approve is None:
                return
            try:
                decisions = await decisions_about(agent, calls, self._decision)
                self.stop.check()
            except Aborted:
                self.runs.append(await decline_and_stop(agent, [call.id for call in calls]))
                return
            self.runs.append(await apply_decisions(agent, calls, decisions))

    async def _decision(self, call: ToolCall) -> Decision:
        if self.approve is None:
            self.declined.append(call)
            return Rejected(NOBODY_ALLOWS)
        async with self.stop.scope():
            return await decided(self.approve, call)

    def result(self) -> PromptResult:
        """Return the outcome of the prompt.

        Raises:
            RunFailed: The last run ended in an error or at a limit.
        """
        last = self.runs[-1] if self.runs else RunResult((), None, 0, "aborted")
        final = last.final_message
        text, output = final.text if final and final.error is None else "", None
        if self.form and last.stop_reason == "end_turn":
            output, fault = self.form.settle(text, "json_schema")
            if fault:
                last = replace(last, stop_reason="invalid_output", error=fault)
        outcome = PromptResult(
            text=text,
            stop_reason=last.stop_reason,
            rounds=sum(run.iterations for run in self.runs),
            usage=self.usage,
            session_id=self.app.session_id,
            messages=tuple(each for run in self.runs for each in run.messages),
            declined=tuple(self.declined),
            denied=tuple(self.denied),
            output=output,
        )
        if last.error is not None:
            failure = RunFailed(last.error, outcome)
            failure.trouble = last.trouble
            raise failure
        return outcome
