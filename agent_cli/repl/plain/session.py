"""The REPL on a pipe, a file or a terminal that cannot move its cursor, and its lines."""

import asyncio
import math
import sys
import threading
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Final, TextIO, TypeAlias

from agent_cli.contracts.cancel import CancelToken
from agent_cli.contracts.errors import Aborted
from agent_cli.repl import Look
from agent_cli.repl.dialogue import Choice, chosen, is_slip, key_hint, key_of, not_an_answer
from agent_cli.repl.hosting import Interrupts, ProgramHost, farewell
from agent_cli.system.event_loop import tell
from agent_cli.system.records import dataclass
from agent_cli.system.sanitize import clean, reveal
from agent_cli.terminal.first_prompt import FIRST_PROMPT, PROMPT
from agent_cli.terminal.writer import STDOUT_CLOSED_EXIT_CODE, Writer

if TYPE_CHECKING:
    from agent_cli.repl.plain.shell import Shell
    from agent_cli.repl.ports import Application

_LEAVE_WITHIN_S: Final = 1.5
_CTRL_D: Final = "\x04"

_Stop: TypeAlias = type[KeyboardInterrupt] | type[EOFError]


@dataclass(frozen=True, slots=True)
class _Line:
    text: str
    at_s: float


class PlainPrompt:
    """Reads line by line and writes only the prompt, if a user is there.

    `can_ask` says whether a user can answer questions.
    """

    def __init__(self, source: TextIO, prompt_to: TextIO) -> None:
        self.can_ask = source.isatty()
        self._source = source
        self._prompt_to = prompt_to
        self._loop = asyncio.get_running_loop()
        self._arrived: asyncio.Queue[_Line | _Stop] = asyncio.Queue()
        self._answers: asyncio.Queue[_Line | _Stop] | None = None
        self._turn = asyncio.Lock()
        self._waits_for = ""
        self._is_lent = False
        self._has_ended = False
        # A thread blocked in a read cannot be stopped, so it must not be waited for at exit.
        threading.Thread(target=self._receive, name="stdin", daemon=True).start()

    async def read(self, message: str) -> str:
        """Return the next line; one that ends with a backslash continues on the following line.

        A line typed before is repeated behind the prompt, to show what is sent now.

        Raises:
            KeyboardInterrupt: `stop(KeyboardInterrupt)`.
            EOFError: The input ended, or `stop(EOFError)`.
        """
        self._waits_for = message
        self._show_again()
        shown_at_s = time.monotonic()
        try:
            line = await self._next(self._arrived)
            text = line.text
            if line.at_s < shown_at_s:  # typed during an answer, so not behind the prompt
                self._show(f"{clean(text)}\n")
            while text.endswith("\\"):
                text = f"{text[:-1]}\n{(await self._next(self._arrived)).text}"
            return text
        except (EOFError, KeyboardInterrupt):
            with suppress(OSError):  # the terminal may be gone
                self._show("\n")
            raise
        finally:
            self._waits_for = ""

    async def select(
        self,
        message: str,
        choices: Sequence[Choice],
        *,
        text: str,
        ctrl_c: str = "stops the run",
        anew: bool = False,
    ) -> Choice | str:
        """Return one of *choices*, typed as a whole line, or a sentence."""
        del ctrl_c, anew  # Ctrl-C always has the same effect here, and lines come whole
        listed = [choice for choice in choices if choice.label]
        width = max(len(choice.lines[0]) for choice in listed)
        rows = [f"{choice.lines[0]:{width}} = {reveal(choice.words)}" for choice in listed]
        shown = "\n".join([*rows, f"any other text = {text}", message])
        while True:
            line = await self.choose(shown, "")
            if found := chosen(line, choices):
                return found
            if line.strip() and not is_slip(line):
                return line
            shown = f"{not_an_answer(line)}\n{message}" if line.strip() else message

    async def choose(self, message: str, keys: str) -> str:
        """Return the first line typed after the question appeared.

        Questions wait for each other, and a `read` waits for them.
        """
        del keys
        async with self._turn:
            answers: asyncio.Queue[_Line | _Stop] = asyncio.Queue()
            self._answers = answers
            if self._has_ended:
                answers.put_nowait(EOFError)
            try:
                return await self._answer(answers, message)
            except asyncio.CancelledError:  # asked anew, or answered elsewhere
                self.next_row()
                raise
            finally:
                self._answers = None
                while not answers.empty():
                    self._deliver(answers.get_nowait())
                self._show_again()

    choose_next = choose

    async def choose_key(self, message: str, keys: Sequence[str], *, at_once: bool = False) -> str:
        """Return one of *keys*, asked for until there is one."""
        del at_once
        shown = message
        while (key := key_of(line := await self.choose(shown, ""), keys)) is None:
            shown = f"{key_hint(keys)}\n{message}" if line.strip() else message
        return key

    def above(self, write: Callable[[], None]) -> None:
        """Call *write*, then show a waiting prompt again, because it cannot be moved."""
        waits = self.can_ask and self._is_shown and self._answers is None
        if waits:
            self._prompt_to.write("\n")
        write()
        if waits:
            self._show_again()

    def lend(self, *, to_run: bool) -> None:
        """Leave the row of a waiting prompt to a run, or show the prompt again below it."""
        if to_run and self._is_shown and self._answers is None:
            self._show("\n")
        self._is_lent = to_run
        if self._answers is None:
            self._show_again()

    def next_row(self) -> None:
        """Begin a row: this one has a question without an answer, or the terminal's `^C`."""
        with suppress(OSError):  # the terminal may be gone
            self._show("\n")

    def stop(self, error: _Stop) -> None:
        """End a pending `choose`, else a pending `read`, with *error*."""
        self._deliver(error)

    def wake(self, line: str = "") -> None:
        """End the pending `read`, or the next one, with an injected *line*."""
        self._arrived.put_nowait(_Line(line, time.monotonic()))

    async def _answer(self, answers: "asyncio.Queue[_Line | _Stop]", message: str) -> str:
        self._show(f"\n{message}" if self._is_shown else message)
        asked_at_s = time.monotonic()
        while (line := await self._next(answers)).at_s - asked_at_s < UNREAD_S:
            if line.text.strip() and not is_slip(line.text) and not key_of(line.text, "yn"):
                self._arrived.put_nowait(line)  # a sentence was meant for the prompt
            self._show(message)
        return line.text

    async def _next(self, lines: "asyncio.Queue[_Line | _Stop]") -> _Line:
        arrived = await lines.get()
        if isinstance(arrived, _Line):
            return arrived
        if arrived is EOFError:
            self._arrived.put_nowait(EOFError)  # EOF is permanent for all further reads
        raise arrived

    def _deliver(self, arrived: _Line | _Stop) -> None:
        self._has_ended = self._has_ended or arrived is EOFError
        (self._arrived if self._answers is None else self._answers).put_nowait(arrived)

    @property
    def _is_shown(self) -> bool:
        return bool(self._waits_for) and not self._is_lent

    def _show_again(self) -> None:
        if self._is_shown:
            self._show(self._waits_for)

    def _show(self, message: str) -> None:
        if self.can_ask:
            self._prompt_to.write(message)
            self._prompt_to.flush()

    def _receive(self) -> None:
        try:
            while line := self._source.readline():
                at_s = time.monotonic()
                if self.can_ask and self._source is sys.stdin:
                    line = self._whole_paste(line)
                text, ends, _ = line.partition(_CTRL_D)
                self._hand_over(_Line(text.rstrip("\r\n"), at_s))
                if ends:
                    break
        except (OSError, ValueError):
            pass  # the terminal is gone, or the stream is closed: this is EOF as well
        self._hand_over(EOFError)

    def _whole_paste(self, line: str) -> str:
        """Return *line* with those pasted behind it: each alone would be sent as a prompt."""
        while line.endswith("\n") and (rest := FIRST_PROMPT.rest_of_paste()):
            # Ctrl-D that was pressed while lines were read is a null character in what is left.
            rest = rest.replace("\0", _CTRL_D)
            line += rest if rest[-1] in f"\n{_CTRL_D}" else rest + self._source.readline()
        return line

    def _hand_over(self, arrived: _Line | _Stop) -> None:
        tell(self._loop, lambda: self._deliver(arrived))


class PlainShells:
    """Makes the shell of a session without a screen; `farewell` is set at its end for a user."""

    def __init__(
        self, prompt: PlainPrompt, writer: Writer, interrupts: Interrupts, look: Look
    ) -> None:
        self.farewell = ""
        self._prompt = prompt
        self._writer = writer
        self._interrupts = interrupts
        self._look = look

    def load(self) -> None:
        """Import the shell, and with it the agent."""
        from agent_cli.repl.plain import shell  # noqa: F401 # pyright: ignore[reportUnusedImport]

    @asynccontextmanager
    async def open(self, app: "Application") -> "AsyncGenerator[Shell]":
        """Yield a shell that has greeted."""
        from agent_cli.repl.plain.shell import Shell

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
        try:
            yield shell
        finally:
            if self._prompt.can_ask:
                self.farewell = farewell(app)


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
        if self._prompt.can_ask:
            # It cannot be moved, so the greeting would stand below a first prompt, and it twice.
            await self._when_ready(host)
        hinted_at_s = -math.inf
        while self._interrupts.signal is None and not self._writer.stdout_closed:
            try:
                line = (await self._prompt.read(PROMPT)).strip()
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


# Input that arrives this soon after a question cannot be an answer to it.
UNREAD_S: Final = 0.3


def plain_prompt(script: TextIO | None) -> PlainPrompt:
    """Return the prompt over *script* or this process's stdin, on stdout if it is a terminal."""
    return PlainPrompt(script or sys.stdin, sys.stdout if sys.stdout.isatty() else sys.stderr)
