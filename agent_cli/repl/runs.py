"""Prompts that are answered to the end: the questions their tools raise, and what became of them.

The same for every front end that has a person in front of it.
"""

from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext, suppress

from agent_cli.contracts.errors import Aborted, AgentBusy, AgentCliError
from agent_cli.contracts.events import ToolCall
from agent_cli.contracts.messages import UserMessage
from agent_cli.contracts.provider import Model
from agent_cli.core.agent import Agent
from agent_cli.core.declining import apply_decisions
from agent_cli.core.run_result import RunResult
from agent_cli.repl.approval.ask import Approvals
from agent_cli.repl.approval.editing import Editor
from agent_cli.repl.dialogue import Questions
from agent_cli.repl.ports import Application
from agent_cli.system.logger import logger
from agent_cli.terminal.narration import narrate_end
from agent_cli.terminal.writer import Lines

_log = logger(__name__)


class LeftWaiting(Exception):
    """The session ends at a question: nobody has decided, and it waits for the next session."""


async def told(work: Awaitable[None], lines: Lines) -> None:
    """Do *work*; whatever goes wrong in it is one line, and the prompt returns.

    Raises:
        LeftWaiting: There will be no prompt any more.
    """
    try:
        await work
    except Aborted:
        lines.notice("interrupted", "warning")
    except LeftWaiting:
        raise
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
        editor: Editor | None = None,
    ) -> None:
        """Run nothing yet.

        Args:
            app: Whose agent is asked.
            questions: Who answers.
            lines: Where sentences go.
            running: Entered for as long as the agent runs, and left while a question is open.
            before_asking: Called before each question.
            editor: Lets somebody change an input, where the terminal can be left to that.
        """
        self._app = app
        self._questions = questions
        self._lines = lines
        self._running = running
        self._before_asking = before_asking
        self._editor = editor

    async def prompt(self, message: str | UserMessage, *, model: Model | None = None) -> RunResult:
        """Say *message*, to *model* if one is given, and return what the run came to."""
        agent = self._app.agent
        with self._running():
            await agent.wait_for_idle()
        while agent.conversation.waiting:  # a prompt nobody typed left a question
            await self._decide(agent)
        with self._running():
            result = await _prompt(agent, message, model)
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
        """Ask about all calls that wait, and resume the run."""
        calls = [ToolCall.of(output) for output in agent.conversation.questions()]
        approvals = Approvals(
            questions=self._questions,
            writer=self._lines,
            permissions=self._app.permissions,
            tools=self._app.tools,
            workspace=self._app.workspace,
            before_asking=self._before_asking,
            editor=self._editor,
        )
        try:
            decisions = await approvals.decide(calls)
        except EOFError as end:
            raise LeftWaiting from end
        with self._running():
            return await apply_decisions(agent, calls, decisions)


async def _prompt(agent: Agent, message: str | UserMessage, model: Model | None) -> RunResult:
    """Say *message* as soon as no other prompt runs: a reminder may have been faster."""
    while True:
        await agent.wait_for_idle()
        with suppress(AgentBusy):
            return await agent.prompt(message, model=model)
