"""The controller of a plain session: runs a line, and asks the questions its tools raise.

Imported after the first prompt is shown.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final, Protocol

from agent_cli.contracts.cancel import CancelToken
from agent_cli.contracts.events import Event
from agent_cli.contracts.options import STREAMING, Streaming
from agent_cli.repl.approval.ask import Approvals
from agent_cli.repl.dialogue import Dialogue, Questions
from agent_cli.repl.dispatch import LineDispatcher
from agent_cli.repl.hidden_prompts import HiddenPrompts
from agent_cli.repl.interrupts import Interrupts
from agent_cli.repl.mcp.dialogs import Dialogs
from agent_cli.repl.model_dialogs import ModelQuestions
from agent_cli.repl.plain.render import Renderer
from agent_cli.repl.ports import Application
from agent_cli.repl.recall import recalled
from agent_cli.repl.runs import LeftWaiting, Runs, told
from agent_cli.terminal.narration import narrate
from agent_cli.terminal.writer import Writer

_REFUSED_NEXT: Final = (
    "a tool call waits for a decision: cannot ask here, so the next prompt declines it"
)


class PlainDialogue(Dialogue, Questions, Protocol):
    """Port to a user who can be asked, with a prompt above which lines can be printed."""

    def above(self, write: Callable[[], None]) -> None:
        """Call *write*, which prints whole lines."""
        ...


class Shell:
    """One conversation at a prompt. An error in one line never prevents the next one."""

    def __init__(
        self,
        app: Application,
        *,
        prompt: PlainDialogue,
        writer: Writer,
        interrupts: Interrupts,
        streaming: Streaming = STREAMING,
        show_thinking: bool = False,
        spoken: bool = False,
    ) -> None:
        self._app = app
        self._prompt = prompt
        self._writer = writer
        self._interrupts = interrupts
        self._stays = True
        self._dispatcher = LineDispatcher(app, lines=writer, questions=prompt, leave=self._leave)
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
        self._render = render
        self._hidden = HiddenPrompts(app.agent)
        app.agent.subscribe(self._show)

    def _show(self, event: Event) -> None:
        # Servers and timers report while a prompt is on the screen, so it must be repeated below;
        # but not for events without text, or a screen reader would say `you> ` again.
        if self._hidden.hides(event):
            return
        if narrate(event):
            self._prompt.above(partial(self._render, event))
        else:
            self._render(event)

    def greet(self) -> None:
        """Show the greeting: tools, servers, logs."""
        lines = "\n".join(self._app.overview())
        self._prompt.above(lambda: self._writer.aside(lines, "dim"))
        conversation = self._app.agent.conversation
        if earlier := recalled(conversation):
            self._prompt.above(lambda: self._writer.aside(earlier, "dim"))
        if conversation.waiting and not self._prompt.can_ask:
            self._prompt.above(lambda: self._writer.notice(_REFUSED_NEXT, "warning"))
        self._open_dialogs()

    def _open_dialogs(self) -> None:
        turn = asyncio.Lock()

        def begin() -> None:
            self._writer.aside("")

        servers = Dialogs(
            self._prompt,
            self._writer,
            publish=self._app.agent.publish,
            begin=begin,
            asking=self._interrupts.asking,
            turn=turn,
        )
        asking = self._interrupts.asking
        model = ModelQuestions(
            self._prompt,
            self._writer,
            turn=turn,
            begin=begin,
            asking=asking,
            approvals=self._approvals,
        )
        self._app.answer(servers, model, model)

    def _approvals(self, who: str) -> Approvals:
        return Approvals(
            questions=self._prompt,
            writer=self._writer,
            permissions=self._app.permissions,
            tools=self._app.tools,
            workspace=self._app.workspace,
            who=who,
        )

    async def handle(self, line: str) -> bool:
        """Run *line*, and ask pending questions; return False if it ends the session."""
        try:
            await told(self._do(line), self._writer)
        except LeftWaiting:
            return False
        return self._stays

    async def _do(self, line: str) -> None:
        cancel = CancelToken()
        with self._interrupts.stopping(cancel.cancel):
            messages = await self._dispatcher.dispatch(line, cancel)
        for message, model in messages:
            await self._runs.prompt(message, model=model)
        if self._prompt.can_ask and self._app.agent.conversation.waiting:
            await self._runs.go_on()

    def _leave(self) -> None:
        self._stays = False
