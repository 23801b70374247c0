"""Run the hooks of an event in parallel, merge their answers, and record each run."""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from agent_cli.contracts.timeline import Json
from agent_cli.hooks.answers import HookAnswer, HookOutcome, merged, read_answer
from agent_cli.hooks.definition import Hook
from agent_cli.hooks.events import QUESTIONS
from agent_cli.hooks.run import ANSWERS, HookEnvironment, run_hook
from agent_cli.system.records import dataclass, field

_KEPT_MAX: Final = 200
# Limit the processes, and the calls of servers, if there are very many hooks.
_AT_ONCE: Final = 8
_IS_LONG_S: Final = 2.0
_TOO_DEEP: Final = (
    f"{_AT_ONCE} hooks already call servers because of a question; have it call a tool that asks"
    " nothing"
)
_NO_PERMISSION: Final = "a project's hook cannot allow a call; only you can, with a rule or hook"

_NOTHING: Final[Mapping[str, Json]] = MappingProxyType({})

Covers: TypeAlias = Callable[[str], bool]


def unmatched(hook: Hook) -> Hook:
    """Return *hook* as hooks are compared that differ only in what they match: they run once."""
    return replace(hook, matcher="", condition="", origin="", is_project=False)


@dataclass(frozen=True, slots=True)
class Ran:
    """One run of a hook, for the session record and for display."""

    hook: Hook
    subject: str
    outcome: HookOutcome
    answer: HookAnswer

    def to_json(self) -> dict[str, Json]:
        """Return the run as stored in the session."""
        return {
            "event": self.hook.event,
            "subject": self.subject,
            "hook": self.hook.shown,
            "origin": self.hook.origin,
            "exit_code": self.outcome.code,
            "elapsed_ms": round(self.outcome.elapsed_s * 1000),
            "decision": self.answer.decision,
            "reason": self.answer.reason or self.answer.fault,
        }

    def __str__(self) -> str:
        verdict = self.answer.decision or ("failed" if self.answer.fault else "no decision")
        about = f" {self.subject}" if self.subject else ""
        return (
            f"{self.hook.event}{about}: {self.hook.shown}"
            f" ({verdict}, {self.outcome.elapsed_s:.1f} s)"
        )


@dataclass(slots=True)
class HookRuns:
    """The hooks of a session.

    Attributes:
        hooks: All hooks.
        around: Their folder and environment.
        objection: Returns why a hook of the project must not run any more, or "".
        record: Called with each run at its end.
        background: Starts a hook that nothing waits for.
        late: Called with each run in the background at its end, and the payload it got.
        waits: Called with a hook that something has waited for `slow_after_s`.
        done: The last runs, the newest last.
    """

    hooks: Sequence[Hook]
    around: HookEnvironment
    objection: Callable[[Hook], str] = lambda _hook: ""
    record: Callable[[Ran], None] = lambda _ran: None
    background: Callable[[Coroutine[Any, Any, object]], object] | None = None
    late: Callable[[Ran, Mapping[str, Json]], None] = lambda _ran, _payload: None
    waits: Callable[[Hook], None] = lambda _hook: None
    slow_after_s: float = 10.0
    done: deque[Ran] = field(default_factory=lambda: deque(maxlen=_KEPT_MAX))
    _used: set[int] = field(default_factory=set[int])
    _running: list[tuple[float, Hook]] = field(default_factory=list[tuple[float, Hook]])
    _slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_AT_ONCE))
    _calls: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_AT_ONCE))
    _calls_about_questions: int = 0

    def matching(
        self, event: str, names: Sequence[str], covers: Covers = lambda _rule: True
    ) -> list[Hook]:
        """Return the hooks for *event* that match one of *names*; *covers* evaluates their `if`.

        Of hooks that differ only in what they match, the first alone.
        """
        found: dict[Hook, Hook] = {}
        for hook in self.hooks:
            if (
                hook.event == event
                and hook.matches(names)
                and id(hook) not in self._used
                and (not hook.condition or covers(hook.condition))
            ):
                found.setdefault(unmatched(hook), hook)
        return list(found.values())

    async def run(
        self,
        hooks: Sequence[Hook],
        payload: Mapping[str, Json],
        subject: str = "",
        *,
        answerable: Mapping[str, Json] = _NOTHING,
    ) -> HookAnswer:
        """Run *hooks* with *payload* and return their merged answer.

        *answerable* are further fields, for hooks of the user that may pass signed answers on.
        """
        answers = await self.answers(hooks, payload, subject, answerable=answerable)
        return merged([*answers.values()])

    async def answers(
        self,
        hooks: Sequence[Hook],
        payload: Mapping[str, Json],
        subject: str = "",
        *,
        answerable: Mapping[str, Json] = _NOTHING,
    ) -> dict[Hook, HookAnswer]:
        """Run *hooks* as `run` does; return the answers of those that are waited for."""

        async def ran(hook: Hook) -> Ran:
            return await self._ran(hook, payload, subject, answerable)

        async def ran_late(hook: Hook) -> None:
            self.late(await ran(hook), payload)

        for hook in hooks:
            if hook.once:
                self._used.add(id(hook))
            if hook.background and self.background:
                self.background(ran_late(hook))
        async with asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(ran(hook)) for hook in hooks if not hook.background]
        return {task.result().hook: task.result().answer for task in running}

    async def _ran(
        self,
        hook: Hook,
        payload: Mapping[str, Json],
        subject: str,
        answerable: Mapping[str, Json],
    ) -> Ran:
        fault = self.objection(hook) if hook.is_project else ""
        sent = {**payload, **answerable} if hook.answers and answerable else payload
        if fault:
            outcome = HookOutcome(fault=fault, is_broken=True)
        elif hook.server:
            outcome = await self._called(hook, payload)
        else:
            async with self._slots:
                outcome = await self._outcome(hook, sent)
        if sent is not payload:  # what it prints would reach the model and the record
            fault = _without_answers(outcome.fault, answerable)
            outcome = replace(outcome, stdout="", stderr="", fault=fault)
        answer = _without_permission(hook, read_answer(hook, outcome))
        ran = Ran(hook, subject, outcome, answer)
        self.done.append(ran)
        self.record(ran)
        return ran

    @property
    def status(self) -> str:
        """The text about the running hook that was started last, or ""."""
        now_s = time.monotonic()
        texts = (_status(hook, now_s - began_s) for began_s, hook in reversed(self._running))
        return next(filter(None, texts), "")

    async def _called(self, hook: Hook, payload: Mapping[str, Json]) -> HookOutcome:
        """Run a hook that calls a server, which may ask something before it answers.

        The hooks of its question wait for none of the calls that caused it.
        """
        if hook.event not in QUESTIONS:
            async with self._calls:
                return await self._outcome(hook, payload)
        if self._calls_about_questions == _AT_ONCE:
            return HookOutcome(fault=_TOO_DEEP)
        self._calls_about_questions += 1
        try:
            return await self._outcome(hook, payload)
        finally:
            self._calls_about_questions -= 1

    async def _outcome(self, hook: Hook, payload: Mapping[str, Json]) -> HookOutcome:
        running = (time.monotonic(), hook)
        self._running.append(running)
        loop = asyncio.get_running_loop()
        timer = None if hook.background else loop.call_later(self.slow_after_s, self.waits, hook)
        try:
            return await run_hook(hook, payload, self.around)
        finally:
            self._running.remove(running)
            if timer:
                timer.cancel()


def _status(hook: Hook, ran_s: float) -> str:
    if hook.status or hook.background or ran_s < _IS_LONG_S:
        return hook.status
    return f"waiting for the {hook.event} hook {hook.shown}"


def _without_answers(fault: str, answerable: Mapping[str, Json]) -> str:
    answers = answerable.get(ANSWERS)
    for each in answers.values() if isinstance(answers, dict) else ():
        fault = fault.replace(str(each), "[answer]")
    return fault


def _without_permission(hook: Hook, answer: HookAnswer) -> HookAnswer:
    """Return the *answer* of *hook*; a project's allows nothing, as its settings do not.

    Trust lets a project's hooks act and refuse. A question of the mode is the person's to answer.
    """
    if answer.decision == "allow" and hook.is_project and hook.is_about_calls:
        return replace(answer, decision=None, reason=_NO_PERMISSION)
    return answer
