"""What becomes of a line: a command, or a prompt with the questions its tools raise.

Loaded beside the first prompt, not before it.
"""

from collections.abc import Callable
from functools import partial
from typing import Literal, Protocol

import structlog

from agent_cli.agent import Agent
from agent_cli.cancel import CancelToken
from agent_cli.errors import Aborted, AgentCliError
from agent_cli.events import AgentStart, Event, ToolCall
from agent_cli.repl.application import Application
from agent_cli.repl.approve import Approved, Questions, decide
from agent_cli.repl.commands import Context, run_command
from agent_cli.repl.interrupts import Interrupts
from agent_cli.repl.render import Renderer
from agent_cli.run_result import RunResult
from agent_cli.terminal.narration import narrate_end
from agent_cli.terminal.writer import Writer
from agent_cli.timeline import Pending, ToolOutput

_log = structlog.get_logger(__name__)


class Prompt(Questions, Protocol):
    """Somebody who can be asked, and whose prompt can be printed above."""

    def above(self, write: Callable[[], None]) -> None:
        """Call *write*, which prints whole lines."""
        ...


class Shell:
    """One conversation at a prompt. Whatever goes wrong in a line, the next one can be asked."""

    def __init__(
        self,
        app: Application,
        *,
        prompt: Prompt,
        writer: Writer,
        interrupts: Interrupts,
        streaming: Literal["live", "sequential"] = "live",
        show_thinking: bool = False,
    ) -> None:
        self._app = app
        self._prompt = prompt
        self._writer = writer
        self._interrupts = interrupts
        self._stays = True
        render = Renderer(
            writer, lambda: app.tools, streaming=streaming, show_thinking=show_thinking
        )
        # Servers and timers report while a prompt is on the screen; it must move out of the way.
        app.agent.subscribe(lambda event: prompt.above(partial(render, event)))

    def greet(self) -> None:
        """Show what is there: tools, servers, logs."""
        lines = "\n".join(self._app.overview())
        self._prompt.above(lambda: self._writer.aside(lines, "dim"))

    async def handle(self, line: str) -> bool:
        """Do what *line* says; False when it asks to leave."""
        try:
            if line.startswith("/"):
                await self._command(line)
            else:
                await self._say(line)
        except Aborted:
            self._writer.notice("interrupted", "warning")
        except AgentCliError as error:
            self._writer.notice(str(error), "error")
        except Exception as error:
            # At level info, because the console would repeat it above the line that follows.
            _log.info("line failed", exc_info=True)
            self._writer.notice(f"{type(error).__name__}: {error} (traceback in the log)", "error")
        return self._stays

    async def _command(self, line: str) -> None:
        cancel = CancelToken()
        with self._interrupts.stopping(cancel.cancel):
            async with cancel.scope():
                await run_command(line, Context(self._app, self._writer, self._leave))

    def _leave(self) -> None:
        self._stays = False

    async def _say(self, text: str) -> None:
        agent = self._app.agent
        with self._interrupts.stopping(agent.abort):
            result = await agent.prompt(text)
        while result.stop_reason == "waiting_for_approval":
            result = await self._decide(agent)
        if sentence := narrate_end(result):
            self._writer.notice(sentence.text, sentence.style)

    async def _decide(self, agent: Agent) -> RunResult:
        """Ask about the first waiting call and resume the run."""
        waiting = agent.conversation.questions()
        call = _shown(waiting[0])
        decision = await decide(
            call,
            questions=self._prompt,
            writer=self._writer,
            permissions=self._app.permissions,
        )
        with self._interrupts.stopping(agent.abort):
            if isinstance(decision, Approved):
                return await agent.approve(call.id)
            if not decision.stop:
                return await agent.reject(call.id, decision.reason)
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
