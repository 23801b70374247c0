"""Pursue a goal: when the model ends its work, run the check, and go on as long as it fails.

A source of follow-ups, and a `prepare` contributor that holds the limits during a run. It stops
when the check passes, a limit is reached, the same failure came twice although nothing had changed
between, or the model says what blocks it. Why a check and no judgement: docs/decisions/goals.md.

The goal stands in the record: it is resumed, forked and rewound with the conversation, its budget
included.
"""

import re
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import cache
from hashlib import sha256
from typing import Final, NoReturn

from pydantic import TypeAdapter, ValidationError

from agent_cli.contracts.errors import LimitReached
from agent_cli.contracts.events import AgentEnd, AgentStart, Event, EventSink, Notice
from agent_cli.contracts.goals import CheckRun, Goal, GoalProgress, GoalState
from agent_cli.contracts.messages import GOAL, CustomMessage, UserMessage, whole_answer
from agent_cli.contracts.wording import counted, in_microdollars, requested_duration
from agent_cli.core.conversation import Conversation
from agent_cli.core.projection import noted
from agent_cli.core.turn import Turn


def record(conversation: Conversation, progress: GoalProgress) -> None:
    """Append *progress* to the record; the last one counts."""
    conversation.note(CustomMessage(GOAL, progress.to_json()))


def recorded(conversation: Conversation) -> GoalProgress | None:
    """Return the progress of the last goal of *conversation*; None without a readable goal."""
    found = [*noted(conversation.between_replies, GOAL)]
    if not found:
        return None
    try:
        return _progress_type().validate_python(found[-1])
    except ValidationError:  # of a later version
        return None


@cache  # each draw of the status line reads a goal, and making this takes a millisecond
def _progress_type() -> TypeAdapter[GoalProgress]:
    return TypeAdapter(GoalProgress)


CHECK_LIMIT_S: Final = 600.0
# What a kill may lose of the time that is counted.
_RECORD_EVERY_S: Final = 30.0
_HEAD_CHARS: Final = 1_000
_TAIL_CHARS: Final = 5_000
_SAID: Final = re.compile(r"^[ \t*_>-]*(BLOCKED|DONE)[*_]*:[*_]*[ \t]*(\S.*)", re.MULTILINE)
# Durations, dates, addresses in memory and names of temporary files differ each time.
_VARIES: Final = re.compile(r"0x[0-9a-fA-F]+|\d+")
_BLOCKED: Final = "end your reply with a line `BLOCKED: ` and what you need"


class Pursuit:
    """The goal of one agent, as in `GoalsPort`. Subscribe `listen` to the agent's events."""

    def __init__(
        self,
        conversation: Callable[[], Conversation],
        *,
        run_check: Callable[[str, float], Awaitable[CheckRun]],
        has_jobs: Callable[[], bool],
        cost_of_agents: Callable[[], int],
        tree: Callable[[], Awaitable[str]],
        publish: EventSink,
        one_shot: bool,
        is_planning: Callable[[], bool],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Pursue nothing yet, or the goal of a resumed conversation.

        Args:
            conversation: Returns the agent's conversation, which records the goal.
            run_check: Runs a command, at most so many seconds.
            has_jobs: Whether background commands of the agent run.
            cost_of_agents: Returns what all its agents have cost so far, in microdollars.
            tree: Returns a digest of the files, "" if that is unknown.
            publish: Receives a notice for each check.
            one_shot: No run begins by itself when a job ends, so the model is to wait for it.
            is_planning: Whether plan mode holds, in which no file changes.
            clock: A monotonic clock, in seconds.
        """
        self._conversation = conversation
        self._run_check = run_check
        self._has_jobs = has_jobs
        self._cost_of_agents = cost_of_agents
        self._tree = tree
        self._publish = publish
        self._one_shot = one_shot
        self._is_planning = is_planning
        self._clock = clock
        self._since_s: float | None = None
        self._unrecorded_s = 0.0

    @property
    def progress(self) -> GoalProgress | None:
        """The current or last goal; None if there was none."""
        return recorded(self._conversation())

    @property
    def badge(self) -> str:
        """The round of the current goal, for the status line; "" without one."""
        progress = self._active()
        return f"goal, round {progress.rounds + 1}" if progress else ""

    def begin(self, goal: Goal) -> str:
        """Pursue *goal*; a goal with the same check goes on with the rest of its limits."""
        now = self._active()
        if now is None or now.goal.check != goal.check or not goal.check:
            spent = self._conversation().usage.cost_microdollars or 0
            spent += self._cost_of_agents()
            self._unrecorded_s = 0.0
            record(self._conversation(), GoalProgress(goal=goal, spent_before=spent))
        if not goal.check:
            return (
                "[agent-cli: work until this goal is reached. Then end your reply with a line"
                f" `DONE: ` and the evidence. If only the user can help, {_BLOCKED}.]"
            )
        return (
            f"[agent-cli: this is done when `{goal.check}` exits with 0. It is run whenever you"
            f" end your turn; you read its output if it fails. If only the user can help,"
            f" {_BLOCKED}. Do not weaken the check.]"
        )

    def drop(self) -> None:
        """End the current goal."""
        if progress := self._active():
            self._settle(progress, "stopped", "the user ended it")

    def rewound(self) -> bool:
        """End the goal whose own prompt was just taken back; return whether there was one.

        A goal is recorded right before its prompt, so it survives the rewind as the last entry.
        """
        last = (prompt.output[-1:] for prompt in self._conversation().prompts[-1:])
        is_last = any(True for entries in last for _ in noted(entries, GOAL))
        if is_last and self._active():
            self.drop()
            return True
        return False

    def listen(self, event: Event) -> None:
        """Count the time of runs."""
        match event:
            case AgentStart():
                self._since_s = self._clock()
            case AgentEnd():
                self._count()
                self._since_s = None
            case _:
                pass

    def __call__(self, turn: Turn) -> None:
        """Hold the limits of cost and time before each model call.

        Raises:
            LimitReached: One is used up.
        """
        if not turn.conversation.open_calls() and (progress := self._active()):
            self._count()
            if self._unrecorded_s >= _RECORD_EVERY_S:
                progress = self._timed(progress)
                record(turn.conversation, progress)
            elapsed_s = progress.elapsed_s + self._unrecorded_s
            self._hold_limits(replace(progress, elapsed_s=elapsed_s))

    async def follow_ups(self) -> Sequence[UserMessage]:
        """Check whether the goal is reached; return what the model is told if it is not.

        Raises:
            LimitReached: It is given up.
        """
        progress = self._active()
        if progress is None:
            return ()
        progress = replace(progress, rounds=progress.rounds + 1)
        if self._has_jobs():
            wait = "background commands still run; wait for them with job_output, or end them"
            return self._go_on(progress, wait) if self._one_shot else ()
        claims = self._last_words()
        if blocked := claims.get("BLOCKED"):
            self._give_up(progress, "blocked", f"the model says what blocks it: {blocked}")
        if not progress.goal.check:
            if evidence := claims.get("DONE"):
                self._meet(progress, f"goal reached, says the model: {evidence}")
                return ()
            return self._go_on(progress, "the goal is not reported as reached", then="; go on")
        return await self._checked(progress)

    async def _checked(self, progress: GoalProgress) -> Sequence[UserMessage]:
        check = progress.goal.check
        left_s = CHECK_LIMIT_S
        if limit_s := progress.goal.time_max_s:
            self._count()
            left_s = min(left_s, max(limit_s - progress.elapsed_s - self._unrecorded_s, 1.0))
        before = await self._tree()
        self._publish(Notice("info", f"checking the goal: {check}"))
        run = await self._run_check(check, left_s)
        if self._active() is None:  # the user ended the goal meanwhile
            return ()
        progress = replace(progress, exit_code=run.exit_code)
        if run.exit_code == 0:
            rounds = counted(progress.rounds, "round")
            self._meet(progress, f"goal reached: `{check}` exits with 0 · {rounds}")
            return ()
        how = "did not end" if run.exit_code is None else f"failed with exit {run.exit_code}"
        failure = _digest_of(run)
        if failure == progress.failure and before and before == progress.tree:
            why = f"`{check}` {how} twice in the same way, and no file changed in between"
            if self._is_planning():
                why += ": plan mode lets none change, so set the goal again in another mode"
            elif not self._one_shot:
                why += "; set it again to go on"
            self._give_up(progress, "stopped", why)
        progress = replace(progress, failure=failure, tree=await self._tree())
        if self._active() is None:
            return ()
        return self._go_on(progress, f"`{check}` {how}", run.output)

    def _go_on(
        self, progress: GoalProgress, what: str, output: str = "", *, then: str = ""
    ) -> Sequence[UserMessage]:
        """Return the message with which the model goes on, if another round is left.

        *then* is for the model alone.
        """
        progress = self._timed(progress)
        most = progress.goal.rounds_max
        if progress.rounds >= most:
            more = "" if self._one_shot else "; set it again with --rounds N to go on"
            self._give_up(progress, "stopped", f"{what} after {counted(most, 'round')}{more}")
        self._hold_limits(progress)
        record(self._conversation(), progress)
        self._publish(Notice("info", f"{what} · round {progress.rounds} of {most}"))
        text = f"[agent-cli: {what}{then} (round {progress.rounds} of {most})]"
        return [UserMessage.of(f"{text}\n{_shortened(output)}" if output else text)]

    def _hold_limits(self, progress: GoalProgress) -> None:
        goal = progress.goal
        if goal.time_max_s and progress.elapsed_s >= goal.time_max_s:
            time = requested_duration(goal.time_max_s)
            self._give_up(progress, "stopped", f"the goal's time of {time} is used")
        if not goal.cost_max_usd:
            return
        cost = self._conversation().usage.cost_microdollars
        if cost is None:
            self._give_up(progress, "stopped", "the cost is unknown, so its limit cannot be held")
        cost += self._cost_of_agents()
        if cost - progress.spent_before >= in_microdollars(goal.cost_max_usd):
            self._give_up(progress, "stopped", f"the goal's ${goal.cost_max_usd:g} are spent")

    def _meet(self, progress: GoalProgress, text: str) -> None:
        self._settle(progress, "met", "")
        self._publish(Notice("info", text))

    def _give_up(self, progress: GoalProgress, state: GoalState, reason: str) -> NoReturn:
        self._settle(progress, state, reason)
        limit = "blocked" if state == "blocked" else "check_failed"
        raise LimitReached(f"goal not reached: {reason}", limit=limit)

    def _settle(self, progress: GoalProgress, state: GoalState, reason: str) -> None:
        ended = replace(self._timed(progress), state=state, reason=reason)
        record(self._conversation(), ended)

    def _active(self) -> GoalProgress | None:
        progress = self.progress
        return progress if progress and progress.state == "active" else None

    def _timed(self, progress: GoalProgress) -> GoalProgress:
        """Return *progress* with the time that passed meanwhile; it must be recorded then."""
        self._count()
        passed_s, self._unrecorded_s = self._unrecorded_s, 0.0
        return replace(progress, elapsed_s=progress.elapsed_s + passed_s)

    def _count(self) -> None:
        if self._since_s is not None:
            now_s = self._clock()
            self._unrecorded_s += now_s - self._since_s
            self._since_s = now_s

    def _last_words(self) -> dict[str, str]:
        """Return what the last reply says behind `BLOCKED:` or `DONE:`."""
        reply = whole_answer(self._conversation().context())
        text = reply.text if reply else ""
        return {found[1]: found[2].strip() for found in _SAID.finditer(text)}


def _digest_of(run: CheckRun) -> str:
    """Return a digest of a failure, equal for two that differ in numbers only."""
    text = f"{run.exit_code} {_VARIES.sub('#', run.output)}"
    return sha256(text.encode(errors="replace")).hexdigest()


def _shortened(output: str) -> str:
    if len(output) <= _HEAD_CHARS + _TAIL_CHARS:
        return output
    left_out = len(output) - _HEAD_CHARS - _TAIL_CHARS
    return f"{output[:_HEAD_CHARS]}\n[… {left_out:,} characters …]\n{output[-_TAIL_CHARS:]}"
