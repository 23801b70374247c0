"""A subagent as a background job: a task of the session, with its steps in the job's log."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from agent_cli.agents.children import AgentStopped, Tell
from agent_cli.contracts.errors import AgentCliError
from agent_cli.contracts.tooling import ToolResult
from agent_cli.system.logger import logger
from agent_cli_tools.output import OutputBuffer

# The model reads only this much of the reply; the log has all of it.
REPLY_CHARS_MAX: Final = 20_000
_STOP_LIMIT_S: Final = 10.0
_log = logger(__name__)


class BackgroundAgent:
    """The work of a job that is an agent; see `job.JobWork`.

    Attributes:
        reply: Its answer, or the reason it failed.
        outcome: `done` or `failed`; "" while it runs, or after it was stopped.
        stood_still_s: Its limit runs on while its calls wait for a person.
    """

    stood_still_s = 0.0

    def __init__(self, output: OutputBuffer, stopped: Callable[[], None] = lambda: None) -> None:
        """Do nothing yet.

        Args:
            output: Receives a line for each step, and the reply.
            stopped: Called when the user has stopped it by its number or at its question.
        """
        self._task: asyncio.Task[None] | None = None
        self.reply = ""
        self.outcome = ""
        self.put_back: Sequence[str] = ()
        self._output = output
        self._stopped = stopped
        self._last = ""

    def follow(self, task: asyncio.Task[None]) -> None:
        """Store the *task* that executes `run`; its end closes the output."""
        self._task = task
        task.add_done_callback(lambda _task: self._output.close())

    async def run(self, work: Callable[[Tell], Awaitable[ToolResult]]) -> None:
        """Run *work* and store its result; an exception becomes the reply."""
        try:
            answer, self.outcome = (await work(self._note)).text, "done"
        except AgentStopped as error:
            answer = str(error)
            self._stopped()
        except AgentCliError as error:
            answer, self.outcome = str(error), "failed"
        except Exception as error:
            _log.error("background agent failed", exc_info=True)
            answer, self.outcome = f"{type(error).__name__}: {error}", "failed"
        self._output.add(f"\n{answer}\n".encode(errors="replace"))
        left_out = len(answer) - REPLY_CHARS_MAX
        cut = f"\n[{left_out:,} more characters are in its output]" if left_out > 0 else ""
        self.reply = answer[:REPLY_CHARS_MAX] + cut

    def has_ended(self) -> bool:
        """Whether its task has ended."""
        return self._task is None or self._task.done()

    async def drain(self) -> None:
        """Do nothing: all output is complete when the task ends."""

    async def finish(self) -> None:
        """Do nothing: the output is closed already."""

    async def stop(self) -> None:
        """End the task, and the commands it runs."""
        self.kill()
        if self._task:
            await asyncio.wait([self._task], timeout=_STOP_LIMIT_S)

    def terminate(self) -> None:
        """Cancel the task."""
        self.kill()

    def kill(self) -> None:
        """Cancel the task, once: a second time would interrupt its cleanup."""
        if self._task and not self._task.cancelling():
            self._task.cancel()

    def _note(self, line: str) -> None:
        if line != self._last:
            self._last = line
            self._output.add(f"{line}\n".encode(errors="replace"))
