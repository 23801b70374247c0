"""The port to an engine, which runs the tasks of a batch."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Final, Protocol

from agent_cli.contracts.errors import AgentCliError
from agent_cli.system.records import dataclass

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
    """Runs work in child processes, which end with the engine.

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
        """Ask all runs to end, and kill every run that has not ended soon after."""
        ...
