"""The REPL: a prompt on the screen at once, the program behind it loaded meanwhile.

Until the first prompt is drawn only the standard library and prompt_toolkit are imported; what
needs more is named here for the type checker and imported by the loading thread.
"""

import asyncio
import math
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from agent_cli.cancel import CancelToken
from agent_cli.errors import Aborted
from agent_cli.repl.interrupts import Interrupts
from agent_cli.repl.lines import PlainPrompt, plain_prompt
from agent_cli.repl.loading import smooth_typing
from agent_cli.repl.prompt import TerminalPrompt
from agent_cli.repl.typeahead import typeahead_kept
from agent_cli.terminal.background import in_background
from agent_cli.terminal.writer import Writer

if TYPE_CHECKING:
    from agent_cli.repl.application import Application
    from agent_cli.repl.shell import Shell

PROMPT: Final = "you> "
_LEAVE_WITHIN_S: Final = 1.5
_STDOUT_CLOSED_EXIT_CODE: Final = 141


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplOptions:
    """How the session looks. `history` is the file earlier prompts are kept in."""

    history: Path
    color: bool = True
    streaming: Literal["live", "sequential"] = "live"
    show_thinking: bool = False


async def run(options: ReplOptions, build: "Callable[[], Application]") -> int:
    """Run the REPL on this process's streams until the person leaves.

    Args:
        options: How it looks.
        build: Called once, in a thread, after the first prompt is drawn.

    Returns:
        The exit code: 0, or 128 + the number of the signal that ended it.

    Raises:
        Exception: Whatever *build* raised.
    """
    repl = Repl(options, build, Writer(sys.stdout, sys.stderr, color=options.color))
    if not _is_terminal():
        return await repl.run_plain()
    with typeahead_kept(sys.stdin):
        return await repl.run_in_terminal()


def _is_terminal() -> bool:
    """Return whether there is a terminal whose cursor can be moved."""
    dumb = os.environ.get("TERM", "dumb") in ("dumb", "unknown", "")
    return sys.stdin.isatty() and sys.stdout.isatty() and not dumb


class Repl:
    """One session at the prompt: reads lines until the person leaves, whatever a line leads to."""

    def __init__(
        self, options: ReplOptions, build: "Callable[[], Application]", writer: Writer
    ) -> None:
        self._options = options
        self._build = build
        self._writer = writer
        self._drawn = asyncio.Event()
        self._ready: asyncio.Future[Shell] = asyncio.get_running_loop().create_future()
        self._leaving = asyncio.Event()

    async def run_in_terminal(self) -> int:
        """Run with line editing; nothing is loaded before the first prompt is on the screen."""
        prompt = TerminalPrompt(
            self._options.history,
            on_first_draw=self._drawn.set,
            warn=lambda text: self._writer.notice(text, "warning"),
        )
        return await self._run(prompt)

    async def run_plain(self) -> int:
        """Run on a pipe, a file or a dumb terminal."""
        self._drawn.set()
        return await self._run(plain_prompt())

    def _import_and_build(self) -> "tuple[type[Shell], Application]":
        with smooth_typing():
            app = self._build()
            # Here and not above: it pulls in everything the first prompt must not wait for.
            from agent_cli.repl.shell import Shell  # noqa: PLC0415

            return Shell, app

    async def _run(self, prompt: TerminalPrompt | PlainPrompt) -> int:
        interrupts = Interrupts(prompt.stop)
        with interrupts.installed():
            try:
                await self._converse(prompt, interrupts)
            except ExceptionGroup as failed:
                # Nearly always one: what went wrong while the application was closed.
                raise failed.exceptions[0] from failed
        if self._ready.done():
            self._ready.result()
        if interrupts.signal is not None:
            return 128 + interrupts.signal
        return _STDOUT_CLOSED_EXIT_CODE if self._writer.stdout_closed else 0

    async def _converse(self, prompt: TerminalPrompt | PlainPrompt, interrupts: Interrupts) -> None:
        async with asyncio.TaskGroup() as tasks:
            hosting = tasks.create_task(self._host(prompt, interrupts))
            try:
                await self._ask(prompt, interrupts)
            finally:
                self._leaving.set()
                if not self._ready.done():
                    hosting.cancel()

    async def _host(self, prompt: TerminalPrompt | PlainPrompt, interrupts: Interrupts) -> None:
        """Build the application, enter it, and leave it when the person does."""
        try:
            await self._drawn.wait()
            shell_type, app = await in_background(self._import_and_build)
            async with app:
                shell = shell_type(
                    app,
                    prompt=prompt,
                    writer=self._writer,
                    interrupts=interrupts,
                    streaming=self._options.streaming,
                    show_thinking=self._options.show_thinking,
                )
                shell.greet()
                self._ready.set_result(shell)
                await self._leaving.wait()
        except Exception as error:
            if self._ready.done():
                raise
            self._ready.set_exception(error)
            prompt.stop(EOFError)

    async def _ask(self, prompt: TerminalPrompt | PlainPrompt, interrupts: Interrupts) -> None:
        hinted_at_s = -math.inf
        while interrupts.signal is None and not self._writer.stdout_closed:
            try:
                line = (await prompt.read(PROMPT)).strip()
            except EOFError:
                return
            except KeyboardInterrupt:
                if time.monotonic() - hinted_at_s < _LEAVE_WITHIN_S:
                    return
                hinted_at_s = time.monotonic()
                self._writer.notice("press Ctrl-C again to leave", "dim")
                continue
            if line in ("exit", "quit"):
                return
            if line and prompt.can_ask and not self._ready.done():
                self._writer.aside("still starting …", "dim")
            shell = await self._when_ready(interrupts) if line else None
            if shell and not await shell.handle(line):
                return

    async def _when_ready(self, interrupts: Interrupts) -> "Shell | None":
        """Return the shell once it is there; None when the person would not wait."""
        cancel = CancelToken()
        with interrupts.stopping(cancel.cancel):
            try:
                async with cancel.scope():
                    return await asyncio.shield(self._ready)
            except Aborted:
                return None
