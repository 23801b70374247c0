"""The REPL: show a prompt at once, and load the program behind it meanwhile.

Until the first prompt is drawn only the standard library and prompt_toolkit are imported; other
modules are named here for the type checker and imported by the loading thread.
"""

import asyncio
import fcntl
import os
import struct
import sys
import termios
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TextIO, TypeVar

from agent_cli.repl import Look
from agent_cli.repl.hosting import Interrupts, Maker, ProgramHost
from agent_cli.system.loading import without_collections
from agent_cli.system.stop_signals import end_with, exit_code_of
from agent_cli.terminal.abilities import is_dumb
from agent_cli.terminal.first_prompt import FIRST_PROMPT, unechoed
from agent_cli.terminal.writer import Writer, flush_or_silence

if TYPE_CHECKING:
    from agent_cli.repl.ports import Application

_CLOSING_NOTICE_AFTER_S: Final = 0.7
_CLOSING: Final = "closing: servers and hooks have a moment to end · Ctrl-C leaves at once"
ShellT = TypeVar("ShellT")


class ReplOptions(NamedTuple):
    """Options of the session.

    Attributes:
        history: The file that stores earlier prompts.
        first_lines: Lines run first, as if they had been typed.
        stays: On a screen, False leaves as soon as the first lines are done.
        script: The source of lines instead of stdin, with no user to answer questions.
    """

    history: Path
    look: Look = Look()
    first_lines: Sequence[str] = ()
    stays: bool = True
    script: TextIO | None = None


class _Front(Protocol[ShellT]):
    """The front end: screen or plain."""

    @property
    def exit_code(self) -> int:
        """The exit code of the session unless a signal ended it."""
        ...

    async def run(self, host: ProgramHost[ShellT]) -> None:
        """Run until the user leaves."""
        ...


async def run(options: ReplOptions, build: "Callable[[], Application]") -> int:
    """Run the REPL on this process's streams until the user leaves.

    Args:
        options: Options of the session.
        build: Called once, in a thread, after the first prompt is drawn.

    Returns:
        The exit code: 0, or 128 + the number of the signal that ended it.

    Raises:
        Exception: Any error of *build*.
    """
    try:
        if has_screen() and not options.look.screen_reader and options.script is None:
            with typeahead_kept(sys.stdin) as typed:
                return await _run_live(options, build, FIRST_PROMPT.kept_keys() + typed)
        finished = [*FIRST_PROMPT.kept_lines(), *FIRST_PROMPT.take_away()]
        return await _run_plain(options, build, finished)
    finally:
        # Otherwise Python flushes them at exit and replaces our exit code with its own.
        for stream in (sys.stdout, sys.stderr):
            flush_or_silence(stream)


def has_screen() -> bool:
    """Return whether this process has a terminal whose cursor can be moved."""
    return sys.stdin.isatty() and sys.stdout.isatty() and not is_dumb(os.environ)


async def _run_live(options: ReplOptions, build: "Callable[[], Application]", typed: str) -> int:
    with without_collections():  # a tenth of the time to the first frame
        from agent_cli.repl.live.shared_terminal import lines_above
        from agent_cli.repl.live.start import LiveRepl, LiveShells, StartupQueue, open_screen

        waiting = StartupQueue(options.first_lines)
        screen = open_screen(options.history, waiting, look=options.look, typed=typed)
    waiting.leave = screen.leave
    interrupts = Interrupts(
        lambda stop: screen.interrupt() if stop is KeyboardInterrupt else screen.leave()
    )
    shells = LiveShells(screen, waiting, options.look, stays=options.stays)
    with lines_above(lambda text: screen.warn(text)):
        code = await _host(LiveRepl(screen), build, shells, interrupts, screen.leave)
    if shells.farewell:
        Writer(sys.stdout, sys.stderr, color=options.look.color).aside(shells.farewell, "dim")
    return code


async def _run_plain(
    options: ReplOptions, build: "Callable[[], Application]", typed: Sequence[str]
) -> int:
    from agent_cli.repl.plain.session import PlainRepl, PlainShells, plain_prompt

    color = options.look.color and not options.look.screen_reader
    writer = Writer(sys.stdout, sys.stderr, color=color)
    prompt = plain_prompt(options.script)
    for line in (*options.first_lines, *typed):
        prompt.wake(line)
    interrupts = Interrupts(prompt.stop, prompt.next_row)
    shells = PlainShells(prompt, writer, interrupts, options.look)
    repl = PlainRepl(prompt, writer, interrupts)
    code = await _host(repl, build, shells, interrupts, lambda: prompt.stop(EOFError))
    if shells.farewell:
        writer.aside(shells.farewell, "dim")
    return code


async def _host(
    front: _Front[ShellT],
    build: "Callable[[], Application]",
    maker: Maker[ShellT],
    interrupts: Interrupts,
    stop: Callable[[], None],
) -> int:
    host = ProgramHost(build, maker)
    with interrupts.installed():
        try:
            async with asyncio.TaskGroup() as tasks:
                hosting = tasks.create_task(host.run(stop))
                try:
                    await front.run(host)
                    stopped_by = interrupts.signal  # a later one stops nothing but the closing
                finally:
                    if not host.leave():
                        hosting.cancel()
                await _announce_slow_closing(hosting, front.exit_code)
        except ExceptionGroup as failed:
            # Nearly always a single error, from closing the application.
            raise failed.exceptions[0] from failed
    if host.ready.done():
        host.ready.result()
    return front.exit_code if stopped_by is None else exit_code_of(stopped_by)


async def _announce_slow_closing(hosting: asyncio.Task[None], exit_code: int) -> None:
    closed, _ = await asyncio.wait([hosting], timeout=_CLOSING_NOTICE_AFTER_S)
    if not closed:
        end_with(exit_code)
        Writer(sys.stdout, sys.stderr, color=False).aside(_CLOSING)


@contextmanager
def typeahead_kept(terminal: TextIO) -> Generator[str]:
    """Keep typed keys; Ctrl-C and Ctrl-Z still send signals. Restores the terminal afterwards.

    Yields keys typed before; the terminal has converted their carriage returns to newlines, which
    is undone. From now on it converts none, because a prompt would read them as Ctrl-J.
    """
    fd = terminal.fileno()
    with unechoed(fd, keeps_returns=True):
        yield _typed(fd).replace("\n", "\r")


def _typed(fd: int) -> str:
    """Return the unread keys."""
    (waiting,) = struct.unpack("i", fcntl.ioctl(fd, termios.FIONREAD, b"\0" * 4))
    return os.read(fd, waiting).decode(errors="replace") if waiting else ""
