"""The REPL on a pipe, a file or a terminal that cannot move its cursor."""

import asyncio
import math
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from agent_cli.contracts.cancel import CancelToken
from agent_cli.contracts.errors import Aborted
from agent_cli.repl.hosting import ProgramHost
from agent_cli.repl.interrupts import Interrupts
from agent_cli.repl.look import Look
from agent_cli.repl.plain.lines import PlainPrompt
from agent_cli.terminal.writer import STDOUT_CLOSED_EXIT_CODE, Writer

if TYPE_CHECKING:
    from agent_cli.repl.plain.shell import Shell
    from agent_cli.repl.ports import Application

_PROMPT: Final = "you> "
_LEAVE_WITHIN_S: Final = 1.5


class PlainShells:
    """Makes the shell of a session without a screen."""

    def __init__(
        self, prompt: PlainPrompt, writer: Writer, interrupts: Interrupts, look: Look
    ) -> None:
        self._prompt = prompt
        self._writer = writer
        self._interrupts = interrupts
        self._look = look

    def load(self) -> None:
        """Import the shell, and with it the agent."""
        from agent_cli.repl.plain import shell  # noqa: F401, PLC0415 # pyright: ignore[reportUnusedImport]

    @asynccontextmanager
    async def open(self, app: "Application") -> "AsyncGenerator[Shell]":
        """Yield a shell that has greeted."""
        from agent_cli.repl.plain.shell import Shell  # noqa: PLC0415

        shell = Shell(
            app,
            prompt=self._prompt,
            writer=self._writer,
            interrupts=self._interrupts,
            streaming=self._look.streaming,
            show_thinking=self._look.show_thinking,
            spoken=self._look.screen_reader and self._prompt.can_ask,
        )
        shell.greet()
        if app.agent.conversation.waiting:
            self._prompt.wake()
        yield shell


class PlainRepl:
    """Reads lines until the user leaves or the input ends; errors in a line do not end it."""

    def __init__(self, prompt: PlainPrompt, writer: Writer, interrupts: Interrupts) -> None:
        self._prompt = prompt
        self._writer = writer
        self._interrupts = interrupts

    @property
    def exit_code(self) -> int:
        """The exit code of the session unless a signal ended it."""
        return STDOUT_CLOSED_EXIT_CODE if self._writer.stdout_closed else 0

    async def run(self, host: "ProgramHost[Shell]") -> None:
        """Read and run lines."""
        host.drawn.set()
        hinted_at_s = -math.inf
        while self._interrupts.signal is None and not self._writer.stdout_closed:
            try:
                line = (await self._prompt.read(_PROMPT)).strip()
            except EOFError:
                if not self._prompt.can_ask and self._interrupts.signal is None:
                    # The exit code tells a script whether the program could be started.
                    await self._when_ready(host)
                return
            except KeyboardInterrupt:
                if time.monotonic() - hinted_at_s < _LEAVE_WITHIN_S:
                    return
                hinted_at_s = time.monotonic()
                self._writer.notice("press Ctrl-C again to leave", "dim")
                continue
            if line in ("exit", "quit"):
                return
            if not line and not host.ready.done():
                continue
            if self._prompt.can_ask and not host.ready.done():
                self._writer.aside("still starting …", "dim")
            shell = await self._when_ready(host)
            if shell and not await shell.handle(line):
                return

    async def _when_ready(self, host: "ProgramHost[Shell]") -> "Shell | None":
        """Return the shell once it is ready; None if the user did not wait."""
        cancel = CancelToken()
        with self._interrupts.stopping(cancel.cancel):
            try:
                async with cancel.scope():
                    return await asyncio.shield(host.ready)
            except Aborted:
                return None
