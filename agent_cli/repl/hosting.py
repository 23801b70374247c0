"""Host the program behind the prompt: build it in a thread, handle its signals, leave it."""

import asyncio
import signal
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeAlias, TypeVar

from agent_cli.contracts.wording import counted
from agent_cli.system.event_loop import in_background
from agent_cli.system.loading import without_collections
from agent_cli.system.stop_signals import taken

if TYPE_CHECKING:
    from agent_cli.contracts.listings import JobInfo
    from agent_cli.repl.ports import Application

ShellT = TypeVar("ShellT")
MadeT_co = TypeVar("MadeT_co", covariant=True)


class Maker(Protocol[MadeT_co]):
    """A factory of shells; loading its modules may take a second."""

    def load(self) -> None:
        """Import the modules that the first prompt must not wait for; called in a thread."""
        ...

    def open(self, app: "Application") -> AbstractAsyncContextManager[MadeT_co]:
        """Return the shell as an async context manager."""
        ...


class ProgramHost(Generic[ShellT]):
    """The program of one session. `ready` gets the shell, or the error that prevented it."""

    def __init__(self, build: "Callable[[], Application]", maker: Maker[ShellT]) -> None:
        self.ready: asyncio.Future[ShellT] = asyncio.get_running_loop().create_future()
        self.drawn = asyncio.Event()
        self._build = build
        self._maker = maker
        self._leaving = asyncio.Event()

    async def run(self, on_failure: Callable[[], None]) -> None:
        """Build and enter the program once the first prompt is drawn; leave it after `leave`."""
        try:
            await self.drawn.wait()
            app = await in_background(self._load)
            async with app, self._maker.open(app) as shell:
                self.ready.set_result(shell)
                await self._leaving.wait()
        except Exception as error:
            if self.ready.done():
                raise
            self.ready.set_exception(error)
            on_failure()

    def leave(self) -> bool:
        """Let `run` end; return False if it has not begun."""
        self._leaving.set()
        return self.ready.done()

    def _load(self) -> "Application":
        with smooth_typing():
            app = self._build()
            self._maker.load()
            return app


_SWITCH_INTERVAL_S: Final = 0.0005


@contextmanager
def smooth_typing() -> Generator[None]:
    """Keep the event loop's thread responsive while the body imports thousands of modules.

    Measured while importing the SDK, 99th percentile from key to echo: 80-90 ms; without
    collections 18-33 ms; with shorter turns of the threads too, 13 ms.
    """
    interval_s = sys.getswitchinterval()
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    try:
        with without_collections():
            yield
    finally:
        sys.setswitchinterval(interval_s)


def lost_jobs(app: "Application") -> str:
    """Return how many commands and agents in the background leaving would end; "" for none."""
    count = len(_running(app))
    ends = "ends" if count == 1 else "end"
    return f"{counted(count, 'job')} {ends} with the session" if count else ""


def farewell(app: "Application") -> str:
    """Return rows about the jobs that end with the session, and how to resume it; or ""."""
    rows = [
        f"job {job.id} (`{job.command}`) still ran; it ends with this session"
        for job in _running(app)
    ]
    id, path = app.sessions.id, app.sessions.path
    if not id or not app.agent.conversation.prompts:
        return "\n".join(rows)
    if path and not path.exists():
        rows.append("this session could not be saved, so it cannot be resumed")
    else:
        is_behind = app.sessions.is_behind
        which = "what was saved of this session; its end was not" if is_behind else "this session"
        rows += [f"to resume {which}:", f"  agent-cli --resume {id}"]
    return "\n".join(rows)


def _running(app: "Application") -> Sequence["JobInfo"]:
    return [job for job in app.jobs.all() if job.is_running]


Stop: TypeAlias = Callable[[type[KeyboardInterrupt] | type[EOFError]], None]


class Interrupts:
    """During a run, both signals stop it; otherwise they end the pending question.

    `signal` is the termination signal received, if any. Another one a second later ends the process
    at once.
    """

    def __init__(self, stop_asking: Stop, echoed: Callable[[], None] = lambda: None) -> None:
        """Handle nothing yet; *echoed* is called when the terminal has shown `^C` during a run."""
        self._stop_asking = stop_asking
        self._echoed = echoed
        self._stop_running: Callable[[], None] | None = None
        self.signal: signal.Signals | None = None

    @contextmanager
    def installed(self) -> Generator[None]:
        """Handle SIGINT, SIGTERM and SIGHUP while the body runs."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, self._interrupt)
        try:
            with taken(self._terminate, numbers=(signal.SIGTERM, signal.SIGHUP)):
                yield
        finally:
            loop.remove_signal_handler(signal.SIGINT)

    @contextmanager
    def stopping(self, stop: Callable[[], None]) -> Generator[None]:
        """Call *stop* when a signal comes while the body runs."""
        self._stop_running = stop
        try:
            yield
        finally:
            self._stop_running = None

    @contextmanager
    def asking(self) -> Generator[None]:
        """Let both signals end the pending question, not the run, while the body runs."""
        running, self._stop_running = self._stop_running, None
        try:
            yield
        finally:
            self._stop_running = running

    def _interrupt(self) -> None:
        if self._stop_running:
            self._echoed()
        self._stop(KeyboardInterrupt)

    def _terminate(self, number: signal.Signals) -> None:
        self.signal = self.signal or number
        self._stop(EOFError)

    def _stop(self, answer: type[KeyboardInterrupt] | type[EOFError]) -> None:
        if self._stop_running:
            self._stop_running()
        else:
            self._stop_asking(answer)
