"""Background commands the model has not yet been told the end of."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from agent_cli.terminal.narration import one_line
from agent_cli_tools.processes import RunningCommand

_SHOWN_CHARS_MAX: Final = 100


@dataclass(frozen=True, slots=True)
class Job:
    """A command that goes on after the call that started it, and the file its output is in."""

    tool_call_id: str
    command_line: str
    command: RunningCommand
    log: Path

    def news(self) -> str:
        """Return what the model reads once the command has ended."""
        code = self.command.exit_code
        how = "was stopped" if code is None else f"ended with exit {code}"
        return (
            f"[agent-cli: the background command `{one_line(self.command_line, _SHOWN_CHARS_MAX)}`"
            f" (process group {self.command.group}) {how}. Its output is in {self.log}.]"
        )


class Jobs:
    """Each job is told once, and only in a conversation that started it."""

    def __init__(self) -> None:
        self._untold: list[Job] = []

    def add(self, job: Job) -> None:
        """Tell the end of *job* later."""
        self._untold.append(job)

    def forget(self, command: RunningCommand) -> None:
        """Tell nothing about *command*: the model itself ended it."""
        self._untold = [job for job in self._untold if job.command is not command]

    def take_news(self, is_known: Callable[[str], bool]) -> list[str]:
        """Return a sentence about each job that has ended, and whose call *is_known*."""
        ended = [
            job for job in self._untold if is_known(job.tool_call_id) and job.command.has_ended()
        ]
        self._untold = [job for job in self._untold if job not in ended]
        return [job.news() for job in ended]
