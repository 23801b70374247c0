"""Run many prompts over many folders or git refs; each task gets one result.

The package begins with the port to an engine, and with the one that runs tasks as child processes
here.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from pathlib import Path
from typing import Final, Protocol, Self

from agent_cli.contracts.errors import AgentCliError
from agent_cli.system.launching import KeeperLink, Launcher, Order
from agent_cli.system.programs import users_path
from agent_cli.system.records import dataclass

PROMPT: Final = "prompt.md"
RESULT: Final = "result.json"
"""The file in an output directory that a run writes last."""
STDERR: Final = "stderr.log"
PATCH: Final = "changes.patch"


@dataclass(frozen=True, slots=True)
class Origin:
    """The origin of a run on another machine: a commit, and a folder inside its repository."""

    repository: Path
    commit: str
    inside: Path
    prompt: str


@dataclass(frozen=True, slots=True)
class TaskRun:
    """One run of `agent-cli -p`: options, working folder, and folder for its files.

    With an `origin` neither the folder nor the file of the prompt exists where it runs.
    """

    options: Sequence[str]
    cwd: Path
    output_dir: Path
    origin: Origin | None = None


class NotStarted(AgentCliError):
    """A run was not started, so it has cost nothing."""


class Engine(AbstractAsyncContextManager["Engine"], Protocol):
    """Port to where tasks run: processes here or on a cluster, which end with it, or an API.

    Attributes:
        jobs: The number of parallel runs unless the user chooses one; known once it is entered.
        copies: Whether it runs tasks where this machine's files are not; they need an `Origin`.
    """

    jobs: int
    copies: bool

    async def collect(self) -> None:
        """Write the results that an earlier batch left with the engine; returns when stopped.

        Raises:
            AgentCliError: They cannot be had.
        """
        ...

    async def run(self, work: TaskRun) -> None:
        """Return once the run has ended in any way; the output directory holds its result, if any.

        Raises:
            NotStarted: It was not started.
            AgentCliError: The engine can no longer be used; the run may have started.
        """
        ...

    def stop(self) -> None:
        """Ask all runs to end, and kill each process that has not ended soon after."""
        ...


GRACE_S: Final = 10.0
_END_LIMIT_S: Final = 5.0
# A file instead of a pipe: it outlives a batch that is killed.
_SHELL: Final = 'exec "$@" > /dev/null 2> "$0"'


def command_of(work: TaskRun) -> list[str]:
    """Return the command line of *work*."""
    program = [sys.executable, "-P", "-m", "agent_cli"]
    shell = ["/bin/sh", "-c", _SHELL, str(work.output_dir / STDERR)]
    return [*shell, *program, *work.options, "--output-dir", str(work.output_dir)]


class LocalEngine:
    """Each run is the child of a keeper (`system.launcher`), which ends it and all it started."""

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        """Start nothing yet; without an *environment*, runs have ours."""
        self.jobs = 1
        self.copies = False
        self._environment = environment or {**os.environ, "PATH": users_path()}
        self._launcher = Launcher()
        self._running: dict[KeeperLink, int] = {}
        self._is_stopping = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_failure: object) -> None:
        for link in self._running:
            link.socket.close()
        await asyncio.to_thread(self._launcher.close)

    async def collect(self) -> None:
        """Do nothing: runs end with the batch."""

    async def run(self, work: TaskRun) -> None:
        """Run *work* and wait for its end; see `Engine`."""
        order = Order(arguments=command_of(work), cwd=str(work.cwd), environment=self._environment)
        try:
            link, output = self._launcher.launch(order)
        except (OSError, ValueError) as error:
            raise NotStarted(f"no process can be started: {error}") from error
        os.close(output)
        link.socket.setblocking(False)
        self._running[link] = 0
        try:
            self._running[link] = await link.pid()
        except OSError as error:
            (work.output_dir / STDERR).write_text(f"{error}\n")
        else:
            if self._is_stopping:
                self._send(link, signal.SIGTERM)
            await link.until(lambda: link.found("status") is not None)
        finally:
            del self._running[link]
            await asyncio.to_thread(link.end, _END_LIMIT_S)

    def stop(self) -> None:
        """Send SIGTERM to all runs, and kill every run that still works `GRACE_S` later."""
        self._is_stopping = True
        for link in self._running:
            self._send(link, signal.SIGTERM)
        asyncio.get_running_loop().call_later(GRACE_S, self._kill)

    def _kill(self) -> None:
        for link in self._running:
            self._send(link, signal.SIGKILL)

    def _send(self, link: KeeperLink, number: signal.Signals) -> None:
        # While the keeper lives, the number of its child cannot be reused.
        if (pid := self._running[link]) and not link.is_closed:
            with suppress(ProcessLookupError):
                os.kill(pid, number)
