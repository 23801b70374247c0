"""What becomes of a line: a command, or a prompt with the questions its tools raise.

Loaded beside the first prompt, not before it.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, Literal, Protocol

from agent_cli.attachments import Attachments
from agent_cli.cancel import CancelToken
from agent_cli.messages import UserMessage
from agent_cli.repl.application import Application
from agent_cli.repl.command import Context
from agent_cli.repl.commands import run_command
from agent_cli.repl.dialogue import Dialogue
from agent_cli.repl.interrupts import Interrupts
from agent_cli.repl.mcp.dialogs import Dialogs
from agent_cli.repl.meaning import meant
from agent_cli.repl.own_commands import OwnCommands
from agent_cli.repl.recall import recalled
from agent_cli.repl.render import Renderer
from agent_cli.repl.runs import Runs, told
from agent_cli.terminal.writer import Writer

_REFUSED_NEXT: Final = "a tool call waits for a decision: nobody can be asked, the next line is no"


class Prompt(Dialogue, Protocol):
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
        spoken: bool = False,
    ) -> None:
        self._app = app
        self._prompt = prompt
        self._writer = writer
        self._interrupts = interrupts
        self._stays = True
        self._own_commands = OwnCommands(writer)
        self._runs = Runs(
            app,
            questions=prompt,
            lines=writer,
            running=lambda: interrupts.stopping(app.agent.abort),
        )
        render = Renderer(
            writer,
            lambda: app.tools,
            streaming=streaming,
            show_thinking=show_thinking,
            spoken=spoken,
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
        if conversation.waiting and not self._prompt.can_ask:
            self._prompt.above(lambda: self._writer.notice(_REFUSED_NEXT, "warning"))
        self._app.answer_servers(
            Dialogs(
                self._prompt,
                self._writer,
                publish=self._app.agent.publish,
                begin=lambda: self._writer.aside(""),
                asking=self._interrupts.asking,
            )
        )

    async def handle(self, line: str) -> bool:
        """Do what *line* says, and ask what waits for an answer; False when it asks to leave."""
        await told(self._do(line), self._writer)
        return self._stays

    async def _do(self, line: str) -> None:
        for message in await self._done(line):
            await self._runs.prompt(self._own_commands.offered_with(message))
        if self._prompt.can_ask and self._app.agent.conversation.waiting:
            await self._runs.go_on()

    async def _done(self, line: str) -> Sequence[UserMessage]:
        """Do what *line* says and return what it says to the model."""
        said: list[str | UserMessage] = []
        cancel = CancelToken()
        with self._interrupts.stopping(cancel.cancel):
            # Not from a pipe: what is fed to us may be text that only looks like that.
            if line.startswith("!") and self._prompt.can_ask:
                await self._own_commands.run(line, cancel)
                return ()
            async with cancel.scope():
                if line.startswith("/"):
                    await run_command(line, self._context(said))
                elif line:
                    said.append(line)
                images, servers = Attachments(self._app.workspace), self._app.servers
                return [await meant(each, images, servers, self._writer) for each in said]

    def _context(self, said: list[str | UserMessage]) -> Context:
        return Context(self._app, self._writer, self._prompt, self._leave, said.append)

    def _leave(self) -> None:
        self._stays = False
