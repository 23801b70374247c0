"""Run prompts to their end, including the questions their tools raise, and report the outcome.

Shared by every interactive front end.
"""

from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import partial
from typing import Final

from agent_cli.contracts import events
from agent_cli.contracts.errors import (
    CHANGE_IT,
    CHECK_KEY,
    CHECK_OPENAI_KEY,
    RAISE_LIMIT,
    START_OVER,
    Aborted,
    AgentBusy,
    AgentCliError,
    sentence_of,
)
from agent_cli.contracts.events import ToolCall
from agent_cli.contracts.messages import UserMessage
from agent_cli.contracts.provider import Model
from agent_cli.contracts.side_events import ToolAttemptStart, ToolAttemptUpdate
from agent_cli.core.agent import Agent
from agent_cli.core.call_decisions import apply_decisions, record_decision
from agent_cli.core.run import RunResult
from agent_cli.repl.approval.ask import Announced, Approvals
from agent_cli.repl.dialogue import DialogParts
from agent_cli.repl.ports import Application
from agent_cli.system.logger import logger
from agent_cli.terminal.narration import describe_call, narrate_end
from agent_cli.terminal.writer import Lines

_log = logger(__name__)
_SHOWN = (
    events.MessageStart
    | events.MessageUpdate
    | events.MessageEnd
    | events.PromptOutput
    | events.ToolCallsAnnounced
    | ToolAttemptStart
    | ToolAttemptUpdate
    | events.ToolExecutionStart
    | events.ToolExecutionUpdate
    | events.ToolExecutionEnd
)
_WITH_A_KEY: Final = "leave, set a valid one, and go on: agent-cli -c"
_COMMANDS: Final = {
    START_OVER: (
        "/rewind takes a long message back, /clear starts over, /model chooses a model with a"
        " larger window"
    ),
    CHANGE_IT: "change it with /rewind, or start over with /clear",
    CHECK_KEY: f"{CHECK_KEY}: {_WITH_A_KEY}",
    CHECK_OPENAI_KEY: f"{CHECK_OPENAI_KEY}: {_WITH_A_KEY}",
    RAISE_LIMIT: "the limit: leave, and go on with a higher one: agent-cli -c --max-cost USD",
}
"""Advice for every front end, and the commands that follow it here."""


class LeftWaiting(Exception):
    """The session ends at an open question, which waits for the next session."""


async def reported(work: Awaitable[None], lines: Lines) -> None:
    """Run *work*; report any error in one line, so that the prompt returns.

    Raises:
        LeftWaiting: The session ends at an open question.
    """
    try:
        await work
    except Aborted:
        lines.notice("interrupted", "warning")
    except LeftWaiting:
        raise
    except Exception as error:
        report(error, lines)


def report(error: Exception, lines: Lines) -> None:
    """Report the *error* being handled in one line."""
    if isinstance(error, AgentBusy):  # its own words are for programmers
        lines.notice("a run has begun meanwhile: try again when it has ended", "error")
        return
    if isinstance(error, AgentCliError):
        lines.notice(with_commands(str(error)), "error")
        return
    # At level info, because the console would repeat it above the next line.
    _log.info("line failed", exc_info=True)
    lines.notice(f"{sentence_of(error)} (traceback in the log)", "error")


def with_commands(sentence: str) -> str:
    """Return *sentence* with the commands that follow its advice here."""
    for advice, commands in _COMMANDS.items():
        sentence = sentence.replace(advice, commands)
    return sentence


class Runs:
    """Runs of one agent: asks their questions, continues them, and reports their ends."""

    def __init__(
        self,
        app: Application,
        parts: DialogParts,
        *,
        ends: Lines | None = None,
        running: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        """Run nothing yet.

        Args:
            app: The program with the agent.
            parts: Shared by all dialogs of the front end.
            ends: Shows the sentences about the ends of runs; the lines of *parts* by default.
            running: Entered while the agent runs, but not while a question is open.
        """
        self._app = app
        self._parts = parts
        self._ends = ends or parts.lines
        self._running = running
        if app.remote_answers and parts.questions.can_ask:
            app.remote_answers.is_awaited = True

    async def prompt(self, message: str | UserMessage, *, model: Model | None = None) -> RunResult:
        """Send *message*, to *model* if given, and return the result of the run."""
        agent = self._app.agent
        while True:
            with self._running():  # a prompt that the user did not type may be faster
                await agent.wait_for_idle()
                if not agent.conversation.waiting:
                    with suppress(AgentBusy):
                        result = await agent.prompt(message, model=model)
                        break
            while agent.conversation.waiting:  # and leave a question
                await self._decide(agent)
        return await self._to_the_end(result)

    async def go_on(self) -> RunResult | None:
        """Ask about waiting calls, or deliver queued messages; None if there are neither."""
        agent = self._app.agent
        if agent.conversation.waiting:
            return await self._to_the_end(await self._decide(agent))
        if not agent.has_queued_messages():
            return None
        with self._running():
            result = await agent.continue_()
        return await self._to_the_end(result)

    def approvals(self, asker: str = "", announced: Announced = nullcontext) -> Approvals:
        """Return the dialog about calls of this agent, or of the subagent *asker*."""
        return Approvals(
            self._parts,
            permissions=self._app.permissions,
            tools=self._app.tools,
            workspace=self._app.workspace,
            publish=self._app.agent.publish,
            asker=asker,
            elsewhere=self._app.remote_answers,
            announced=announced,
        )

    async def _to_the_end(self, result: RunResult) -> RunResult:
        while result.stop_reason == "waiting_for_approval":
            result = await self._decide(self._app.agent)
        if sentence := narrate_end(result):
            self._ends.notice(with_commands(sentence.text), sentence.style)
        return result

    async def _decide(self, agent: Agent) -> RunResult:
        """Ask about all waiting calls, and resume the run."""
        self._tell_decided(agent)
        calls = [ToolCall.of(output) for output in agent.conversation.questions()]
        try:
            decisions = await self.approvals().decide(calls, partial(record_decision, agent))
        except EOFError as end:
            raise LeftWaiting from end
        with self._running():
            return await apply_decisions(agent, calls, decisions)

    def _tell_decided(self, agent: Agent) -> None:
        """Name the calls beside the waiting ones that were decided before the program ended."""
        decided = [call for call in agent.conversation.open_calls() if call.decision]
        for call in decided:
            verdict = "allowed" if call.decision == "approved" else "declined"
            shown = describe_call(self._app.tools, call.name, call.input)
            self._parts.lines.aside(f"{verdict} before: {shown}", "dim")
        if decided:
            self._parts.lines.aside("")  # the question stands below


class HiddenPrompts:
    """Decides which events to hide; questions, notices and errors are always shown."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._revealed = ""

    def hides(self, event: events.Event) -> bool:
        """Return whether *event* belongs to a hidden prompt."""
        prompts = self._agent.conversation.prompts
        hidden = bool(prompts) and not prompts[-1].visible and prompts[-1].id != self._revealed
        return hidden and isinstance(event, _SHOWN)

    def reveal(self) -> None:
        """Show the rest of the running prompt, because the user has steered it."""
        prompts = self._agent.conversation.prompts
        self._revealed = prompts[-1].id if prompts else ""
