"""Dispatch one input line: slash command, shell escape, or prompt."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace

from agent_cli.attachments.attachments import Attachments
from agent_cli.contracts.cancel import CancelToken
from agent_cli.contracts.errors import Aborted
from agent_cli.contracts.messages import UserMessage
from agent_cli.contracts.provider import Model
from agent_cli.contracts.timeline import text_block
from agent_cli.core.conversation import Conversation
from agent_cli.core.message_queue import own_outputs, told_of_outputs
from agent_cli.repl.commands import Context, Controls, OutgoingPrompt
from agent_cli.repl.commands.registry import is_command, run_command
from agent_cli.repl.dialogue import Dialogue
from agent_cli.repl.mcp import ServersPort
from agent_cli.repl.mcp.offers import with_resources
from agent_cli.repl.own_commands import OwnCommands
from agent_cli.repl.ports import Application
from agent_cli.system.sanitize import reveal
from agent_cli.terminal.writer import Lines, OutputLines, Pages


class LineDispatcher:
    """Dispatches lines, in the same way for every interactive front end.

    `attachments` are the files and images of the session.
    """

    def __init__(
        self,
        app: Application,
        *,
        lines: OutputLines,
        questions: Dialogue,
        leave: Callable[[], None],
        controls: Controls | None = None,
    ) -> None:
        """Dispatch nothing yet; `Context` describes the arguments."""
        self.attachments = Attachments.of(app, tell=lambda text: lines.aside(text, "dim"))
        self._app = app
        self._lines = lines
        self._questions = questions
        self._leave = leave
        self._controls = controls
        self._own_commands = OwnCommands(
            lines,
            lambda: app.agent.conversation,
            controls.lend_terminal if controls else None,
            folder=app.workspace,
            launcher=app.launcher,
            kept=app.file_changes.begin_own,
        )

    def is_prompt(self, line: str) -> bool:
        """Return whether *line* is a prompt, and neither a command nor a shell escape."""
        # Not from a pipe: piped text may only look like a command.
        is_own = line.startswith("!") and self._questions.can_ask
        return not is_own and not is_command(line, self._app)

    async def dispatch(
        self, line: str, cancel: CancelToken
    ) -> Sequence[tuple[UserMessage, Model | None]]:
        """Run *line*; return the message it sends, if any, and its model (None: the session's).

        The output of shell escapes since the last message goes with it.

        Raises:
            AgentCliError: The line failed.
            Aborted: *cancel* was set, or a question that the line asked was closed.
        """
        is_prompt = self.is_prompt(line)
        if not is_prompt and line.startswith("!"):
            await self._own_commands.run(line, cancel)
            return ()
        prompts: list[OutgoingPrompt] = []
        try:
            async with cancel.scope():
                if not is_prompt:
                    await self._run_command(line, prompts.append)
                elif line:
                    prompts.append(OutgoingPrompt(line))
                sent = [(await self._message(prompt), prompt.model) for prompt in prompts]
        except (KeyboardInterrupt, EOFError) as closed:
            raise Aborted("its question was closed") from closed
        return [(self._own_commands.offered_with(message), model) for message, model in sent]

    async def _run_command(self, line: str, send: Callable[[OutgoingPrompt], None]) -> None:
        before = self._app.agent.conversation
        await run_command(line, self.context(send))
        after = self._app.agent.conversation
        if after is not before and (told := self._outputs_after(before, after)):
            self._lines.aside(told, "dim")

    def _outputs_after(self, before: Conversation, after: Conversation) -> str:
        """Return where outputs of shell escapes wait now; those that a rewind took out wait on."""
        still = own_outputs(after)
        if after.id != before.id:  # one that was opened has named its own
            return "" if still else told_of_outputs(before, left=True)
        for output in own_outputs(before):
            if output not in still:
                self._own_commands.offer(output)
        return told_of_outputs(after)

    async def _message(self, prompt: OutgoingPrompt) -> UserMessage:
        servers = self._app.servers
        if isinstance(prompt.message, str):
            await self._ask_about_outside(prompt.message)
        message = await build_message(prompt.message, self.attachments, servers, self._lines)
        if not prompt.opening:
            return message
        return replace(message, content=(text_block(prompt.opening), *message.content))

    async def _ask_about_outside(self, text: str) -> None:
        """Ask about each file named in *text* that lies outside of the workspace."""
        if "@" not in text or not self._questions.can_ask:
            return
        for real in await asyncio.to_thread(self.attachments.outside, text):
            question = f"attach {reveal(str(real))}, outside of the workspace? (y/n) "
            if await self._questions.choose_key(question, "yn") == "y":
                self.attachments.allow(real)

    def context(
        self, send: Callable[[OutgoingPrompt], None], lines: Pages | None = None
    ) -> Context:
        """Return the context of a command; prompts go to *send*, output to *lines* if given."""
        writer = lines or self._lines
        return Context(self._app, writer, self._questions, self._leave, send, self._controls)


async def build_message(
    prompt: str | UserMessage, attachments: Attachments, servers: ServersPort, lines: Lines
) -> UserMessage:
    """Return *prompt* as a message for the model; a message is returned unchanged.

    Raises:
        AgentCliError: A file or resource it names cannot be read.
    """
    if isinstance(prompt, UserMessage):
        return prompt
    return await attachments.attached(
        await with_resources(attachments.marked(prompt), servers, lines)
    )
