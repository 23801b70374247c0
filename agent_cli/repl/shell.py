"""What becomes of a line: a command, or a prompt with the questions its tools raise.

Loaded beside the first prompt, not before it.
"""

from collections.abc import Callable
from functools import partial
from typing import Final, Literal, Protocol

from agent_cli.cancel import CancelToken
from agent_cli.repl.application import Application
from agent_cli.repl.approve import Questions
from agent_cli.repl.command import Context
from agent_cli.repl.commands import run_command
from agent_cli.repl.interrupts import Interrupts
from agent_cli.repl.recall import recalled
from agent_cli.repl.render import Renderer
from agent_cli.repl.runs import Runs, told
from agent_cli.terminal.writer import Writer

_ASKED_NEXT: Final = "a tool call waits for your decision: it is asked before your next message"
_REFUSED_NEXT: Final = "a tool call waits for a decision: nobody can be asked, the next line is no"


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
        self._runs = Runs(
            app,
            questions=prompt,
            lines=writer,
            running=lambda: interrupts.stopping(app.agent.abort),
        )
        render = Renderer(
            writer, lambda: app.tools, streaming=streaming, show_thinking=show_thinking
        )
        # Servers and timers report while a prompt is on the screen; it must move out of the way.
        app.agent.subscribe(lambda event: prompt.above(partial(render, event)))

    def greet(self) -> None:
        """Show what is there: tools, servers, logs."""
        lines = "\n".join(self._app.overview())
        self._prompt.above(lambda: self._writer.aside(lines, "dim"))
        conversation = self._app.agent.conversation
        if earlier := recalled(conversation):
            self._prompt.above(lambda: self._writer.aside(earlier, "dim"))
        if conversation.waiting:
            waits = _ASKED_NEXT if self._prompt.can_ask else _REFUSED_NEXT
            self._prompt.above(lambda: self._writer.notice(waits, "warning"))

    async def handle(self, line: str) -> bool:
        """Do what *line* says; False when it asks to leave."""
        await told(self._do(line), self._writer)
        return self._stays

    async def _do(self, line: str) -> None:
        if not line.startswith("/"):
            await self._runs.prompt(line)
            return
        cancel = CancelToken()
        with self._interrupts.stopping(cancel.cancel):
            async with cancel.scope():
                await run_command(line, self._context())
        if self._prompt.can_ask and self._app.agent.conversation.waiting:
            await self._runs.go_on()

    def _context(self) -> Context:
        return Context(self._app, self._writer, self._prompt, self._leave)

    def _leave(self) -> None:
        self._stays = False
