"""Reminders: the model asks to be woken, and a prompt without input starts at that time.

A reminder is delivered as a message at the end of the conversation. One that falls due during a
run joins that run; once the program has ended, it waits for the next session.
"""

import asyncio
import contextlib
from collections.abc import Callable
from datetime import MAXYEAR, MINYEAR, datetime
from typing import Final

from pydantic import BaseModel, ConfigDict, Field, model_validator

from agent_cli.contracts.cancel import CancelToken
from agent_cli.contracts.errors import ConversationError, ToolError
from agent_cli.contracts.events import AgentEnd, Event, PromptOutput
from agent_cli.contracts.messages import now_ms
from agent_cli.contracts.timeline import CustomOutput
from agent_cli.contracts.tooling import Tool, ToolContext, ToolResult, without_docstring
from agent_cli.core.agent import Agent
from agent_cli.core.conversation import Conversation
from agent_cli.plugins.api import Plugin, PluginContext, PluginState
from agent_cli.plugins.states import PluginStates

_WAITING_MAX: Final = 20
_TEXT_CHARS_MAX: Final = 2_000
_AHEAD_S_MAX: Final = 366 * 86_400.0
# After a clock change or a suspend, a reminder must not be later than this.
LOOK_AGAIN_S: Final = 60.0


class Reminder(BaseModel):
    """The text of a reminder, and the earliest time to deliver it (Unix ms)."""

    at_ms: int
    text: str


class PendingReminders(BaseModel):
    """The reminders not delivered yet."""

    waiting: list[Reminder] = Field(default_factory=list[Reminder])


WAITING = PluginState("reminders", PendingReminders)


class RemindInput(BaseModel):
    """The input of `remind`: a point in time, or a delay."""

    model_config = ConfigDict(json_schema_extra=without_docstring)

    text: str = Field(min_length=1, max_length=_TEXT_CHARS_MAX)
    after_s: float | None = Field(None, ge=0, le=_AHEAD_S_MAX, description="Seconds from now")
    at: datetime | None = Field(None, description="ISO 8601; local time without an offset")

    @model_validator(mode="after")
    def _one_of_two(self) -> "RemindInput":
        if (self.after_s is None) == (self.at is None):
            raise ValueError("give either after_s or at")
        return self


def reminders(clock: Callable[[], int] = now_ms, *, look_again_s: float = LOOK_AGAIN_S) -> Plugin:
    """Return the plugin.

    Args:
        clock: Returns the time in Unix ms.
        look_again_s: The longest wait between two checks of the clock.
    """
    timer = _Reminders(clock, look_again_s)
    tool = Tool(
        name="remind",
        label="Remind",
        description="Get a message later, while the program runs. The user need not be there.",
        parameters=RemindInput,
        execute=timer.remind,
        parallel_safe=False,  # it writes state
        summary=lambda params: params.text,
    )
    return Plugin(
        name="reminders", tools=(tool,), prepare=timer.deliver, state=WAITING, watch=timer.watch
    )


class _Reminders:
    """Sets, delivers and watches reminders, which are kept in the plugin's state."""

    def __init__(self, clock: Callable[[], int], look_again_s: float) -> None:
        self._clock = clock
        self._look_again_s = look_again_s

    async def remind(
        self, _tool_call_id: str, params: RemindInput, _cancel: CancelToken, context: ToolContext
    ) -> ToolResult:
        """Store a reminder."""
        state = WAITING.read(context.state)
        if len(state.waiting) == _WAITING_MAX:
            raise ToolError(f"{_WAITING_MAX} reminders wait already; no more can be set.")
        at_ms = self._time_of(params)
        state.waiting.append(Reminder(at_ms=at_ms, text=params.text))
        WAITING.write(context.state, state)
        when = datetime.fromtimestamp(at_ms / 1000).astimezone().isoformat(timespec="seconds")
        return ToolResult.of(f"Reminder set for {when}.")

    def _time_of(self, params: RemindInput) -> int:
        """Return the Unix time in ms; a time in the past means now."""
        now = self._clock()
        if params.at is None:
            return now + round((params.after_s or 0) * 1000)
        # Python cannot convert every time of its first and last year.
        if params.at.year == MINYEAR:
            return now
        if params.at.year < MAXYEAR:
            at_ms = round(params.at.timestamp() * 1000)
            if at_ms <= now + _AHEAD_S_MAX * 1000:
                return max(at_ms, now)
        raise ToolError(f"`at` can be at most {_AHEAD_S_MAX / 86_400:.0f} days from now.")

    def deliver(self, ctx: PluginContext) -> None:
        """Deliver each due reminder once."""
        state = WAITING.read(ctx.state)
        due = [each for each in state.waiting if each.at_ms <= self._clock()]
        if not due or ctx.conversation.open_calls():
            return
        state.waiting = [each for each in state.waiting if each not in due]
        WAITING.write(ctx.state, state)
        for reminder in due:
            ctx.add_notice(f"[A reminder you set is due] {reminder.text}")

    async def watch(self, agent: Agent) -> None:
        """Start a prompt whenever a reminder is due and the agent is idle."""
        changed = asyncio.Event()
        unsubscribe = agent.subscribe(lambda event: changed.set() if _matters(event) else None)
        # A prompt that could not start must not be retried in a loop.
        tried: list[Reminder] = []
        try:
            while True:
                # Reminders that fall due during a run are delivered there.
                await agent.wait_for_idle()
                changed.clear()
                waiting = _waiting(agent.conversation)
                due = [each for each in waiting if each.at_ms <= self._clock()]
                if any(each not in tried for each in due):
                    with contextlib.suppress(ConversationError):  # a person must decide first
                        tried = due
                        await agent.trigger()
                        continue
                    tried = []
                times = [each.at_ms for each in waiting if each not in due]
                await self._sleep(changed, until_ms=min(times, default=None))
        finally:
            unsubscribe()

    async def _sleep(self, changed: asyncio.Event, *, until_ms: int | None) -> None:
        """Return at *until_ms*, after a change, or to check the clock again."""
        left_s = self._look_again_s
        if until_ms is not None:
            left_s = min(left_s, max(until_ms - self._clock(), 0) / 1000)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(left_s):
                await changed.wait()


def _waiting(conversation: Conversation) -> list[Reminder]:
    return WAITING.read(PluginStates(conversation, {}, lambda _event: None)).waiting


def _matters(event: Event) -> bool:
    """Return whether *event* can change the due reminders, or end what delayed them."""
    return isinstance(event, AgentEnd) or (
        isinstance(event, PromptOutput) and isinstance(event.output, CustomOutput)
    )
