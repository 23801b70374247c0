"""Prompts that are answered to the end: the questions their tools raise, and what became of them.

The same for every front end that has a person in front of it.
"""

import logging
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import partial

import structlog

from agent_cli.agent import Agent
from agent_cli.errors import Aborted, AgentBusy, AgentCliError
from agent_cli.events import AgentStart, Event, ToolCall
from agent_cli.repl.application import Application
from agent_cli.repl.approve import Approved, Questions, Rejected, decide
from agent_cli.run_result import RunResult
from agent_cli.terminal.narration import narrate_end
from agent_cli.terminal.writer import Lines
from agent_cli.timeline import Pending, ToolOutput

_log = structlog.wrap_logger(logging.getLogger(__name__))


async def told(work: Awaitable[None], lines: Lines) -> None:
    """Do *work*; whatever goes wrong in it is one line, and the prompt returns."""
    try:
        await work
    except Aborted:
        lines.notice("interrupted", "warning")
    except AgentCliError as error:
        lines.notice(str(error), "error")
    except Exception as error:
        # At level info, because the console would repeat it above the line that follows.
        _log.info("line failed", exc_info=True)
        lines.notice(f"{type(error).__name__}: {error} (traceback in the log)", "error")


class Runs:
    """Runs of one agent, each taken through its questions to its end, which is told."""

    def __init__(
        self,
        app: Application,
        *,
        questions: Questions,
        lines: Lines,
        running: Callable[[], AbstractContextManager[None]] = nullcontext,
        before_asking: Callable[[], None] = lambda: None,
    ) -> None:
        """Run nothing yet.

        Args:
            app: Whose agent is asked.
            questions: Who answers.
            lines: Where sentences go.
            running: Entered for as long as the agent runs, and left while a question is open.
            before_asking: Called before each question.
        """
        self._app = app
        self._questions = questions
        self._lines = lines
        self._running = running
        self._before_asking = before_asking

    async def prompt(self, text: str) -> RunResult:
        """Say *text* and return what the run came to."""
        agent = self._app.agent
        with self._running():
            await agent.wait_for_idle()
        while agent.conversation.waiting:  # a prompt nobody typed left a question
            await self._decide(agent)
        with self._running():
            result = await _prompt(agent, text)
        return await self._to_the_end(result)

    async def go_on(self) -> RunResult | None:
        """Decide what waits for a decision, or deliver what is still queued; None for neither."""
        agent = self._app.agent
        if agent.conversation.waiting:
            return await self._to_the_end(await self._decide(agent))
        if not agent.has_queued_messages():
            return None
        with self._running():
            result = await agent.continue_()
        return await self._to_the_end(result)

    async def _to_the_end(self, result: RunResult) -> RunResult:
        while result.stop_reason == "waiting_for_approval":
            result = await self._decide(self._app.agent)
        if sentence := narrate_end(result):
            self._lines.notice(sentence.text, sentence.style)
        return result

    async def _decide(self, agent: Agent) -> RunResult:
        """Ask about the first waiting call and resume the run."""
        waiting = agent.conversation.questions()
        call = _shown(waiting[0])
        self._before_asking()
        decision = await decide(
            call,
            questions=self._questions,
            writer=self._lines,
            permissions=self._app.permissions,
            workspace=self._app.workspace,
        )
        with self._running():
            if isinstance(decision, Approved):
                return await agent.approve(call.id)
            if not decision.stop:
                return await agent.reject(call.id, decision.reason)
            return await _stopped(agent, waiting, decision)


async def _prompt(agent: Agent, text: str) -> RunResult:
    """Say *text* as soon as no other prompt runs: a reminder may have been faster."""
    while True:
        await agent.wait_for_idle()
        with suppress(AgentBusy):
            return await agent.prompt(text)


async def _stopped(agent: Agent, waiting: list[ToolOutput], decision: Rejected) -> RunResult:
    """Answer every waiting call with no, and do not ask the model again."""
    unsubscribe = agent.subscribe(partial(_stop_at_start, agent))
    try:
        for output in waiting:
            result = await agent.reject(output.tool_call_id, decision.reason)
        return result
    finally:
        unsubscribe()


def _shown(output: ToolOutput) -> ToolCall:
    """Return a waiting call as it is put to a person."""
    reason = output.result.reason if isinstance(output.result, Pending) else ""
    return ToolCall(output.tool_call_id, output.name, output.input, reason)


def _stop_at_start(agent: Agent, event: Event) -> None:
    """Abort the run that begins only to record a rejection."""
    if isinstance(event, AgentStart):
        agent.abort()
