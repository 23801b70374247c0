"""One call of a client: a prompt, the questions of its tools, and the outcome."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final, Protocol

from mcp import MCPError
from mcp.server.mcpserver import Context
from mcp_types import (
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    InputRequiredResult,
    InputResponses,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel, Field, create_model

from agent_cli.contracts.dialogs import (
    Approved,
    Decision,
    ModelDialogs,
    PlanDecision,
    PlanRefused,
    Rejected,
    UserQuestion,
)
from agent_cli.contracts.errors import AgentCliError
from agent_cli.contracts.events import (
    Event,
    ToolCall,
    ToolExecutionStart,
    UsageChanged,
    innermost,
)
from agent_cli.contracts.timeline import Json, Usage
from agent_cli.contracts.wording import dollars, in_usd
from agent_cli.core.call_decisions import (
    NOBODY_ALLOWS,
    REFUSALS_MAX,
    UNWANTED,
    apply_decisions,
    decisions_about,
)
from agent_cli.core.run import RunResult
from agent_cli.mcp_server.ports import Application
from agent_cli.system.event_loop import in_background
from agent_cli.system.logger import logger
from agent_cli.system.sanitize import reveal
from agent_cli.terminal.narration import describe_call

_COVERS_LOSSES: Final = "Yes also lets it delete or overwrite many files; it cannot ask later."
# The client may read slowly, or no longer.
_LAST_PROGRESS_S: Final = 2.0
_PLAN_IS_ANSWER: Final = "nobody approves plans here: give it as your answer and end there"
_LIMITS = frozenset({"max_rounds", "max_cost"})


class Outcome(BaseModel):
    """The result of a call."""

    session: str = Field(description="give it to reply to go on")
    text: str = Field(description="the answer")
    stop_reason: str = Field(description="end_turn, or why it stopped early")
    cost_usd: float | None = Field(description="of this call; null when no price is known")
    files_changed: list[str] = Field(description="by edits, and by commands where they are watched")
    refused_commands: list[str] = Field(
        description="stopped before they took more files: nobody could be asked; see --allow"
    )


class Asker(Protocol):
    """Asks the client's user."""

    @property
    def dialogs(self) -> ModelDialogs | None:
        """Dialogs in the midst of a call; None if nothing can be asked there."""
        ...

    async def prepare(self, questions: Mapping[str, str]) -> None:
        """Get all questions in advance; raises AnswersNeeded if they cannot be asked yet."""
        ...

    async def __call__(self, id: str, question: str, /) -> bool:
        """Return whether the call *id* is allowed."""
        ...


class AnswersNeeded(Exception):
    """The run waits for the user, whom the client asks between two of its requests.

    Attributes:
        questions: The questions, by the id of the call.
    """

    def __init__(self, questions: Mapping[str, str]) -> None:
        super().__init__(*questions)
        self.questions = questions


class ServedRun:
    """Runs a prompt, with its questions, to the end."""

    def __init__(
        self,
        app: Application,
        *,
        allow: Asker | None,
        progress: Callable[[int, str], Awaitable[None]],
    ) -> None:
        """Ask nothing yet.

        Args:
            app: The application, entered.
            allow: Asks the client's user; None if the client cannot ask.
            progress: Receives the number and the description of each tool call that starts.
        """
        self._app = app
        self._allow = allow
        self._progress = progress
        self._begun: asyncio.Queue[str] = asyncio.Queue()
        self._refusals = 0
        self._used = Usage()

    async def answer(self, prompt: str | None) -> Outcome:
        """Run *prompt* and return the outcome; None continues a run that waits.

        Raises:
            AgentCliError: The run ended in an error.
            AnswersNeeded: The run waits for answers that `allow` could not get.
        """
        agent = self._app.agent
        agent.subscribe(self._note)
        if self._allow and self._allow.dialogs:
            self._app.answer_model(self._allow.dialogs)
        result = await self._run_result(prompt)
        if result.stop_reason in ("error", "context_window"):
            raise self._failure(result.error or "the run ended in an error")
        if result.stop_reason in _LIMITS:
            text = result.final_message.text if result.final_message else ""
            so_far = f"; its last words: {text}" if text else ""
            raise self._failure(result.ending, so_far)
        changed = await in_background(lambda: self._app.file_changes.differences(last_run=True))
        cost = self._used.cost_microdollars
        return Outcome(
            session=agent.conversation.id,
            text=result.final_message.text if result.final_message else "",
            stop_reason=result.stop_reason or "cancelled",
            cost_usd=None if cost is None else in_usd(cost),
            files_changed=[str(each.path) for each in changed],
            refused_commands=[*self._app.refused_commands],
        )

    def _failure(self, sentence: str, so_far: str = "") -> AgentCliError:
        """Return the error with the cost and the session, which an error has no fields for."""
        conversation = self._app.agent.conversation
        cost = self._used.cost_microdollars
        paid = "its cost is not known" if cost is None else f"this call cost {dollars(cost)}"
        held = self._app.held_microdollars
        besides = f", and replies that broke off at most {dollars(held)} besides" if held else ""
        return AgentCliError(
            f"{sentence}; {paid}{besides}; session {conversation.id} can be continued with reply"
            f"{so_far}"
        )

    async def _run_result(self, prompt: str | None) -> RunResult:
        """Run to the end while reporting the progress."""
        async with asyncio.TaskGroup() as group:
            telling = group.create_task(self._tell())
            try:
                result = await self._to_the_end(prompt)
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._begun.join(), _LAST_PROGRESS_S)
                return result
            except (AnswersNeeded, AgentCliError) as error:
                ending = error  # raised below, since the group would wrap it
            finally:
                telling.cancel()
        raise ending

    async def _to_the_end(self, prompt: str | None) -> RunResult:
        agent = self._app.agent
        result = await self._decide() if agent.conversation.waiting else None
        while result and result.stop_reason == "waiting_for_approval":
            result = await self._decide()
        if prompt is not None:
            result = await agent.prompt(prompt)
        while result and result.stop_reason == "waiting_for_approval":
            result = await self._decide()
        if result is None:
            raise AgentCliError("nothing waits for an answer in this session")
        return result

    async def _decide(self) -> RunResult:
        """Decide about all waiting calls, and resume the run."""
        agent = self._app.agent
        calls = [ToolCall.of(output) for output in agent.conversation.questions()]
        for call in calls:
            await self._app.permissions.recall(call, self._app.tools)
        if self._allow:
            allowable = [call for call in calls if not call.is_question]
            await self._allow.prepare({call.id: self._question(call) for call in allowable})
        decisions = await decisions_about(agent, calls, self._decision)
        return await apply_decisions(agent, calls, decisions)

    async def _decision(self, call: ToolCall) -> Decision:
        """Return the user's decision about *call*."""
        # A question of a terminal's session needs an answer, not a yes or no.
        if self._allow is None or call.is_question:
            self._refusals += 1
            if self._refusals > REFUSALS_MAX:
                raise self._failure(f"stopped after {REFUSALS_MAX} calls that no user could allow")
            return Rejected(NOBODY_ALLOWS)
        if not await self._allow(call.id, self._question(call)):
            return Rejected(UNWANTED)
        if command := self._is_last_asked(call):
            self._app.allow_losses(command)
        return Approved()

    def _is_last_asked(self, call: ToolCall) -> str:
        """Return the command of *call* if nothing can be asked about it once it runs, else ""."""
        match call.input:
            case {"command": str(command)} if self._allow and not self._allow.dialogs:
                return command
            case _:
                return ""

    def _question(self, call: ToolCall) -> str:
        """Return the whole effect of *call*, and the reason for asking."""
        why = [f"Why it asks: {call.reason}"] if call.reason else []
        last = [_COVERS_LOSSES] if self._is_last_asked(call) else []
        facts = [*why, *self._app.permissions.asked_about(call).facts, *last]
        where = f"Allow {call.name} in {self._app.workspace}?"
        return "\n".join([where, *_shown(call.input), *map(reveal, facts)])

    def _note(self, event: Event) -> None:
        if isinstance(inner := innermost(event), UsageChanged):
            self._used += inner.reply
        elif isinstance(event, ToolExecutionStart):
            shown = describe_call(self._app.tools, event.tool_name, event.args)
            self._begun.put_nowait(reveal(shown))

    async def _tell(self) -> None:
        number = 0
        while True:
            shown = await self._begun.get()
            number += 1
            await self._progress(number, shown)
            self._begun.task_done()


def _shown(arguments: Json) -> list[str]:
    match arguments:
        case {"command": str(command), **rest} if not rest:
            return [reveal(command)]
        case _:
            return [reveal(json.dumps(arguments, ensure_ascii=False, indent=2))]


# Up to revision 2025-11-25 the server asks during the call. Since 2026-07-28 the call ends with
# the questions and is repeated with the answers; meanwhile the run waits in its session.
_log = logger(__name__)


class _Decision(BaseModel):
    """The form of a question."""

    allow: bool = Field(default=False, strict=True, title="Allow this call")


_SCHEMA: Final = {
    "type": "object",
    "properties": {"allow": {"type": "boolean", "title": "Allow this call", "default": False}},
}


def asker_of(ctx: Context) -> Asker:
    """Return the asker for the user of *ctx*; any answer but yes means no."""
    if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
        return _BetweenCalls(ctx.input_responses or {})
    return _DuringCall(ctx)


def questions_for(session: str, questions: Mapping[str, str]) -> InputRequiredResult:
    """Return the result that makes the client ask, and repeat the call for *session*."""
    requests = {
        id: ElicitRequest(
            params=ElicitRequestFormParams(message=question, requested_schema=_SCHEMA)
        )
        for id, question in questions.items()
    }
    return InputRequiredResult(input_requests=dict(requests), request_state=session)


class _DuringCall:
    """Asks during the call."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self.dialogs = _ClientsDialogs(ctx)

    async def prepare(self, questions: Mapping[str, str]) -> None:
        """Do nothing: questions are asked one by one."""

    async def __call__(self, _id: str, question: str) -> bool:
        try:
            answer = await self._ctx.elicit(question, _Decision)
        except (MCPError, ValueError) as error:
            _log.info("the client did not ask its user", fault=str(error))
            return False
        return answer.action == "accept" and answer.data.allow


class _ClientsDialogs:
    """Asks in the midst of a call; implements `contracts.dialogs.ModelDialogs`."""

    can_ask = True

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx

    async def ask(
        self, questions: Sequence[UserQuestion], *, asker: str = "the model"
    ) -> Sequence[str] | None:
        answers: list[str] = []
        for question in questions:
            labels: list[Json] = [option.label for option in question.options]
            extra: dict[str, Json] = {"enum": labels} if labels else {}
            field = Field(title=reveal(question.header), json_schema_extra=extra)
            form = create_model("Answer", answer=(str, field))
            about = (f"{each.label}: {each.description}" for each in question.options)
            shown = "\n".join([f"{asker}: {question.question}", *about])
            try:
                answer = await self._ctx.elicit(reveal(shown), form)
            except (MCPError, ValueError) as error:
                _log.info("the client did not ask its user", fault=str(error))
                break
            if answer.action != "accept":
                break
            answers.append(str(answer.data.model_dump()["answer"]))
        return answers or None

    async def decide_plan(self, plan: str) -> PlanDecision:  # noqa: ARG002 - of the port
        # Approved, it would end the mode that the server was started in.
        return PlanRefused(_PLAN_IS_ANSWER)


class _BetweenCalls:
    """Uses the answers that came with the call, each for one question."""

    def __init__(self, answers: InputResponses) -> None:
        self._answers = dict(answers)
        self.dialogs = None

    async def prepare(self, questions: Mapping[str, str]) -> None:
        """Raise AnswersNeeded unless each question has an answer."""
        if not questions.keys() <= self._answers.keys():
            raise AnswersNeeded(questions)

    async def __call__(self, id: str, _question: str) -> bool:
        match self._answers.pop(id):
            case ElicitResult(action="accept", content={"allow": True}):
                return True
            case _:
                return False
