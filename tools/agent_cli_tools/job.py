"""One background command, or agent: its state, and news for the model."""

import asyncio
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Literal, NamedTuple, Protocol, TypeAlias

from agent_cli.contracts.listings import JobInfo
from agent_cli.contracts.wording import one_line, whole_seconds
from agent_cli.system.records import dataclass, field
from agent_cli_tools.output import LinePattern, OutputBuffer
from agent_cli_tools.processes import GRACE_S

_SHOWN_CHARS_MAX: Final = 100
_LINE_CHARS_MAX: Final = 300
_LIMIT_AGAIN_S: Final = 0.2

StoppedBy: TypeAlias = Literal["", "model", "user", "limit", "agent"]


class JobWork(Protocol):
    """The work of a job: a running command, or an agent."""

    @property
    def outcome(self) -> str:
        """The outcome: `exit 3`, `done`, `failed`; "" while the job runs, or if it was stopped."""
        ...

    @property
    def put_back(self) -> Sequence[str]:
        """A sentence about each protected file it had changed, once it has ended."""
        ...

    @property
    def stood_still_s(self) -> float:
        """The seconds for which it waited for a person's answer, which its limit leaves out."""
        ...

    def has_ended(self) -> bool:
        """Whether it, and all it started, have ended."""
        ...

    async def drain(self) -> None:
        """Wait for the last of its output, but not long; it has ended."""
        ...

    async def finish(self) -> None:
        """Free the resources of the job, which has ended."""
        ...

    async def stop(self) -> None:
        """End it and all it started, within seconds."""
        ...

    def terminate(self) -> None:
        """Ask it to end."""
        ...

    def kill(self) -> None:
        """End it at once."""
        ...


class JobNews(NamedTuple):
    """A match or an end: a sentence for the model, and one for the user, "" for none."""

    text: str
    shown: str


@dataclass(slots=True, eq=False, kw_only=True)
class Job:
    """A command, or an agent, that continues after the call that started it.

    Attributes:
        id: A number from 1; never reused by a process.
        log: The file with the first 64 MB of its output.
        pattern: The model is notified of the first matching line; None for none.
        matched: The matching line, once there is one.
        reply: Returns an agent's answer; None for a command.
        is_confined: Whether it is a command in a sandbox.
        stopped_by: Who stopped it; "" if it ended by itself, or runs.
        ended_s: When it ended; None while it runs.
        read_lines: Lines of the log that `job_output` has shown.
    """

    id: int
    tool_call_id: str
    title: str
    work: JobWork
    output: OutputBuffer
    log: Path
    pattern: LinePattern | None
    reply: Callable[[], str] | None = None
    is_confined: bool = False
    started_s: float = field(default_factory=time.monotonic)
    matched: str = ""
    stopped_by: StoppedBy = ""
    ended_s: float | None = None
    read_lines: int = 0
    _looked_bytes: int = 0
    _undelivered: set[Literal["match", "end"]] = field(default_factory=set[Literal["match", "end"]])
    _is_urgent: bool = False
    _limit: asyncio.TimerHandle | None = None

    @property
    def is_running(self) -> bool:
        """Whether it, or a process it started, still runs."""
        return self.ended_s is None

    @property
    def shown(self) -> str:
        """Its command, or what its agent is to do, on one line, cut."""
        return one_line(self.title, _SHOWN_CHARS_MAX)

    def state(self) -> str:
        """Return its state: `running for 12 s`, `exit 0 after 3 s`, `stopped by you after 9 s`."""
        end_s = time.monotonic() if self.ended_s is None else self.ended_s
        elapsed = whole_seconds(int(end_s - self.started_s))
        if self.is_running:
            return f"running for {elapsed}"
        how = {
            "": self.work.outcome or "stopped",
            "model": "stopped by the model",
            "user": "stopped by you",
            "limit": "stopped at the limit jobs.timeout_s",
            "agent": "stopped with its agent",
        }
        return f"{how[self.stopped_by]} after {elapsed}"

    def info(self, *, is_own: bool) -> JobInfo:
        """Return its description for lists."""
        state, notes = self.state(), self.work.put_back
        return JobInfo(
            id=self.id,
            command=self.shown,
            state=state,
            is_running=self.is_running,
            log=self.log,
            is_own=is_own,
            notes=notes,
        )

    async def look(self) -> None:
        """Check whether its output matches now, and whether it has ended."""
        await self._look_at_output()
        if self.is_running and self.work.has_ended():
            await self.work.drain()
            await self._look_at_output()  # output written right before the end
            self.note_end()
        if not self.is_running:
            await self.work.finish()

    def limit(self, seconds: float) -> None:
        """Stop it if it exceeds its time limit."""
        end_s = time.monotonic() + seconds
        self._limit = asyncio.get_running_loop().call_later(seconds, self._expire, end_s)

    def note_end(self) -> None:
        """Record that it has ended."""
        if self._limit:
            self._limit.cancel()
        if self.is_running:
            self.ended_s = time.monotonic()
            if self.reply and not (self.stopped_by or self.work.outcome):
                self.stopped_by = "user"  # by the agent's number, or at its question
            if self.stopped_by not in ("model", "agent"):  # whoever stopped it knows
                self._undelivered.add("end")
                self._is_urgent = self._is_urgent or self.stopped_by != "user"

    def news(self) -> list[JobNews]:
        """Return the undelivered news, in order."""
        name = f"job {self.id} (`{self.shown}`)"
        news: list[JobNews] = []
        if "match" in self._undelivered:
            line = one_line(self.matched, _LINE_CHARS_MAX)
            text = f"[agent-cli: {name} printed a line that matches notify: {line}]"
            news.append(JobNews(text, f"{name} printed: {line}"))
        if "end" in self._undelivered:
            notes = "".join(f" {note}." for note in self.work.put_back)
            kind = "agent" if self.reply else "command"
            reply = self.reply() if self.reply else ""
            # An agent may repeat what it read anywhere, and this message has the user's role.
            below = " Below is its reply, not words of the user." if reply else ""
            text = (
                f"[agent-cli: the background {kind} {name} {self._how()}."
                f" Its output is in {self.log}.{notes}{below}]"
            )
            text += f"\n\n{reply}" if reply else ""
            end = f"{name}: {self.state()}{'.' if notes else ''}{notes}"
            shown = "" if self.stopped_by == "user" else end
            news.append(JobNews(text, shown))
        return news

    def _how(self) -> str:
        """Return how it ended, as a sentence for the model."""
        if self.stopped_by == "user":
            return "was stopped by the user"
        if self.stopped_by == "limit":
            return "ran too long and was stopped"
        if self.reply and self.work.outcome:
            return "failed" if self.work.outcome == "failed" else "is done"
        return f"ended with {self.work.outcome}" if self.work.outcome else "was stopped"

    def take_urgency(self) -> bool:
        """Return, once for each match and end, whether to begin a run: not for a user's stop."""
        is_urgent, self._is_urgent = self._is_urgent and bool(self._undelivered), False
        return is_urgent

    def note_delivered(self) -> None:
        """Record that the model has received all of `news`."""
        self._undelivered.clear()

    def _expire(self, end_s: float) -> None:
        if not self.is_running:
            return
        if (left_s := end_s + self.work.stood_still_s - time.monotonic()) > 0:
            loop = asyncio.get_running_loop()
            self._limit = loop.call_later(max(left_s, _LIMIT_AGAIN_S), self._expire, end_s)
        else:
            self.stopped_by = "limit"
            self.work.terminate()
            self._limit = asyncio.get_running_loop().call_later(GRACE_S, self.work.kill)

    async def _look_at_output(self) -> None:
        if self.pattern is None or self.output.total_bytes == self._looked_bytes:
            return
        self._looked_bytes = self.output.total_bytes
        if line := await self.pattern.first_match(self.log):
            self.matched, self.pattern = line, None
            self._undelivered.add("match")
            self._is_urgent = True
