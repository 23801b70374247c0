"""Run the hooks of a session's events; prompt and stop hooks may decide."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import takewhile
from typing import Final

from agent_cli.contracts.agents import WorkingAgent
from agent_cli.contracts.authors import HOOK
from agent_cli.contracts.cancel import CancelToken
from agent_cli.contracts.claude_tools import claude_tool_name
from agent_cli.contracts.errors import Aborted, AgentCliError, UsageError
from agent_cli.contracts.events import (
    AgentEnd,
    AgentStart,
    ApprovalRequested,
    Event,
    SessionOpened,
    ToolCall,
    innermost,
)
from agent_cli.contracts.messages import AssistantMessage, CustomMessage, UserMessage, whole_answer
from agent_cli.contracts.timeline import Json, Prompt, ReplyOutput, UserOutput, text_of
from agent_cli.contracts.wording import one_line
from agent_cli.core.conversation import Conversation
from agent_cli.core.projection import entries, has_reply, unsent_ids
from agent_cli.core.returned_values import TakeMessages, queued
from agent_cli.core.turn import Turn
from agent_cli.hooks.answers import Exports, HookAnswer
from agent_cli.hooks.event_hooks import EventHooks
from agent_cli.hooks.events import about_agent, for_model
from agent_cli.hooks.file_watch import EVERY_S, FileWatch

SENT_BACK_MAX: Final = 3
_LAST_CHANGES_S: Final = 10.0
_SUBMIT: Final = "UserPromptSubmit"
_STOPPED: Final = "stopped before a hook had decided; this message was not sent"
# What ended a run, in Claude Code's words.
_FAILURES: Final[Mapping[str | None, str]] = {
    "auth": "authentication_failed",
    "billing": "billing_error",
    "rate_limit": "rate_limit",
    "overloaded": "overloaded",
    "server": "server_error",
    "network": "server_error",
}


class Lifecycle:
    """`async with` runs the hooks for the session's start and end; hooks that still run are killed.

    It is the first `prepare` contributor, and a source of follow-up messages.
    """

    def __init__(
        self,
        asking: EventHooks,
        *,
        end_reason: str,
        idle_after_s: float | None = None,
        export: Callable[[Sequence[Exports]], None] = lambda _exports: None,
        answers: Callable[[ToolCall, bool], Mapping[str, Json]] | None = None,
    ) -> None:
        """Start nothing yet.

        *end_reason* is the reason passed to SessionEnd hooks. After *idle_after_s* without a run,
        hooks are notified that the program waits for the user; None for no user. *export* gets
        the variables that SessionStart hooks set for commands, in place of earlier ones. *answers*
        returns the fields with signed answers to the question about a call, of a subagent or not;
        none where it cannot be answered from elsewhere.
        """
        self._asking = asking
        self._export = export
        self._answers = answers
        self._idle_after_s = idle_after_s
        self._idle: asyncio.TimerHandle | None = None
        self._end_reason = end_reason
        self._leaving = CancelToken()
        self._started: asyncio.Task[object] | None = None
        self._contexts: list[str] = []
        self._asked: set[str] = set()  # ids of the messages that hooks have passed
        self._sent_back = 0
        self._session: str | None = None
        self._exports: tuple[Exports, ...] = ()
        self._watch = asking.watched_files()
        self._watching: asyncio.Task[object] | None = None
        self._ending = asyncio.Event()

    async def __aenter__(self) -> "Lifecycle":
        await self._asking.__aenter__()
        self._session = self._asking.payloads.session_id()
        self._begin("resume" if self._asking.conversation().prompts else "startup")
        if self._watch is not None:
            await asyncio.to_thread(self._watch.look)
            self._watching = self._asking.start(self._watch_files(self._watch))
        return self

    async def __aexit__(self, *_failure: object) -> None:
        self._end_idling()
        self._ending.set()
        with suppress(Aborted):
            async with self._leaving.scope():
                if self._watching:  # a short run has changed all its files just now
                    await asyncio.wait({self._watching}, timeout=_LAST_CHANGES_S)
        await self._asking.__aexit__()
        with suppress(Aborted):
            async with self._leaving.scope():
                await self._asking.ask("SessionEnd", self._end_reason, reason=self._end_reason)

    def leave(self) -> None:
        """End the hooks that the end of the session waits for; may be called from any thread."""
        self._leaving.cancel()

    def listen(self, event: Event) -> None:
        """Notify hooks of *event*, without delaying the run."""
        asked = innermost(event)  # a subagent's as well
        if isinstance(asked, ApprovalRequested):
            self._tell_question(asked.call, of_agent=asked is not event)
        match event:
            case AgentStart():
                self._asking.stop = ""
                self._end_idling()
            case AgentEnd(stop_reason="error") if self._asking.is_open:
                self._tell_failure(event)
                self._begin_idling()
            case AgentEnd() if self._asking.is_open and event.stop_reason != "waiting_for_approval":
                self._begin_idling()
            case SessionOpened() if self._asking.is_open and event.session_id != self._session:
                self._session = event.session_id
                source = "resume" if event.resumed else "clear"
                self._asking.tell("SessionEnd", source, reason=source)
                self._begin(source)
            case _:
                pass

    async def __call__(self, turn: Turn) -> None:
        """Submit prompts to the hooks, and pass the hooks' information on to the model.

        Raises:
            AgentCliError: A hook blocks the prompt, or ended the run.
        """
        self._asking.write_record()
        if turn.conversation.open_calls():
            return
        if self._asking.stop:
            raise AgentCliError(f"a hook ended the run: {self._asking.stop}")
        try:
            if self._started:
                await asyncio.shield(self._started)
            if typed := self._unasked(turn.conversation):
                self._sent_back = 0
                self._asking.late.user_spoke()
                await self._submit(turn, typed)
        except asyncio.CancelledError:
            self._hold_back(turn.conversation)
            raise
        contexts, self._contexts = [*self._contexts, *self._asking.late.take()], []
        for text in contexts:
            turn.tell_model(for_model(text), author=HOOK)

    def follow_ups_beside(self, own: TakeMessages | None) -> TakeMessages:
        """Return a source that asks Stop hooks only if the source *own* has no messages left."""

        async def take() -> Sequence[UserMessage]:
            return await queued(own) or await self.follow_ups()

        return take

    async def follow_ups(self) -> Sequence[UserMessage]:
        """Return the message with which Stop hooks keep the model working; none to end the run.

        Raises:
            AgentCliError: A guard could not run: a mistake that only the user can correct.
        """
        if self._asking.stop:
            return ()
        if woken := self._asking.late.take_waking():
            return [UserMessage.of(for_model(text), author=HOOK) for text in woken]
        answer = await self._asking.ask(
            "Stop",
            "",
            stop_hook_active=self._sent_back > 0,
            last_assistant_message=self._last_text(),
        )
        reason = answer.reason if answer.decision == "deny" else "\n".join(answer.contexts)
        if answer.broken:
            self._sent_back = 0
            raise AgentCliError(answer.broken)
        if answer.stops or not reason:
            self._sent_back = 0
            return ()
        if self._sent_back == SENT_BACK_MAX:
            self._sent_back = 0
            often = f"Stop hooks sent the model back {SENT_BACK_MAX} times; the run ends anyway"
            self._asking.warn(f"{often}: {reason}")
            return ()
        self._sent_back += 1
        text = f"[A Stop hook of the user's does not let you end yet: {reason}]"
        return [UserMessage.of(text, author=HOOK)]

    async def agent_starts(self, agent: WorkingAgent) -> Sequence[str]:
        """Return the information that hooks give to a subagent."""
        answer = await self._asking.ask("SubagentStart", agent.name, **about_agent(agent))
        return answer.contexts

    async def agent_ends(
        self, agent: WorkingAgent, text: str, *, again: bool, transcript: Callable[[], str]
    ) -> str:
        """Return why hooks keep a subagent from ending, or ""; *again* if they did it before.

        *transcript* writes what the agent said until now, and returns the file.
        """
        if not self._asking.is_asked("SubagentStop", agent.name):
            return ""
        answer = await self._asking.ask(
            "SubagentStop",
            agent.name,
            **about_agent(agent),
            agent_transcript_path=transcript(),
            stop_hook_active=again,
            last_assistant_message=text,
        )
        return answer.reason if answer.decision == "deny" and not answer.stops else ""

    async def prompt_expands(self, command: str, argument: str, source: str, text: str) -> None:
        """Ask hooks about *text*, which a command stands for, before it is sent.

        Raises:
            UsageError: One of them blocks it.
        """
        answer = await self._asking.ask(
            "UserPromptExpansion",
            command,
            expansion_type="slash_command",
            command_name=command,
            command_args=argument,
            command_source=source,
            prompt=text,
        )
        if answer.refusal:
            raise UsageError(f"a hook blocked /{command}; it was not sent: {answer.refusal}")
        self._contexts += answer.contexts

    async def question_is_asked(self, question: str) -> None:
        """Ask hooks about a question beside the conversation, which gets none of their context.

        Raises:
            UsageError: One of them blocks it.
        """
        answer = await self._asking.ask(_SUBMIT, "", prompt=question)
        if answer.refusal:
            raise UsageError(f"a hook blocked this question; it was not sent: {answer.refusal}")

    async def model_switches(self, to_model: str, **about: Json) -> HookAnswer:
        """Ask hooks whether the session may go on with *to_model*; *about* says what it costs."""
        return await self._asking.ask("PreModelSwitch", to_model, to_model=to_model, **about)

    def model_switched(self, to_model: str, **about: Json) -> None:
        """Tell hooks that the session goes on with *to_model*."""
        self._asking.tell("PostModelSwitch", to_model, to_model=to_model, **about)

    def _last_text(self) -> str:
        reply = whole_answer(self._asking.conversation().messages())
        return reply.text if reply else ""

    def _tell_failure(self, event: AgentEnd) -> None:
        kind = _FAILURES.get(event.trouble, "unknown")
        self._asking.tell(
            "StopFailure",
            kind,
            error=kind,
            error_details=event.error or "",
            last_assistant_message=self._last_text(),
        )

    async def _watch_files(self, watch: FileWatch) -> None:
        is_last = False
        while not is_last:
            # What changed in the last moments of a run is told before it ends.
            with suppress(TimeoutError):
                async with asyncio.timeout(EVERY_S):
                    await self._ending.wait()
            is_last = self._ending.is_set()
            for change in await asyncio.to_thread(watch.look):
                await self._use(await self._asking.ask_about_file(change))
                await asyncio.to_thread(watch.note_hooks_ran, change.path)

    async def _use(self, answer: HookAnswer) -> None:
        """Export the variables of *answer* beside earlier ones, and watch the paths it names."""
        if answer.exports:
            self._exports += answer.exports
            self._export(self._exports)
        if answer.watch is not None and self._watch is not None:
            await asyncio.to_thread(self._watch.watch, answer.watch)

    def _unasked(self, conversation: Conversation) -> list[UserOutput]:
        """Return the typed text without an answer that no hook was asked about yet.

        It may be older than the run: the program may have been killed while a hook decided.
        """
        typed = _unanswered(conversation.prompts)
        return [entry for entry in typed if entry.id not in self._asked]

    def _hold_back(self, conversation: Conversation) -> None:
        """Leave out what no hook has decided about, so that it is not sent later either."""
        if not self._asking.is_asked(_SUBMIT, ""):
            return
        for entry in self._unasked(conversation):
            conversation.withdraw(entry, _STOPPED)
            self._asking.warn(f"{_STOPPED}: {one_line(text_of(entry.content))}")

    async def _submit(self, turn: Turn, messages: Sequence[UserOutput]) -> None:
        """Ask hooks about *messages* before they are sent, and remove blocked messages.

        Raises:
            AgentCliError: No message is left to be sent.
        """
        blocked = ""
        for message in messages:
            answer = await self._asking.ask(_SUBMIT, "", prompt=text_of(message.content))
            self._asked.add(message.id)
            if not answer.refusal:
                self._contexts += answer.contexts
                continue
            blocked = answer.refusal
            if not turn.conversation.withdraw(message, blocked):
                raise AgentCliError(f"a hook blocked this prompt; it was not sent: {blocked}")
            if not _is_answered(turn.conversation):
                warning = f"a hook blocked this message; the run goes on without it: {blocked}"
                self._asking.warn(warning)
        if blocked and _is_answered(turn.conversation):
            raise AgentCliError(f"a hook blocked this message; it was not sent: {blocked}")

    def _begin(self, source: str) -> None:
        async def begin() -> None:
            model = self._asking.payloads.model()
            more: dict[str, Json] = {"model": model} if model else {}
            answer = await self._asking.ask("SessionStart", source, source=source, **more)
            self._contexts += answer.contexts
            self._exports = ()
            self._export(())
            await self._use(answer)

        self._started = self._asking.start(begin())

    def _begin_idling(self) -> None:
        self._end_idling()
        if self._idle_after_s is not None:
            notification = ("idle_prompt", "agent-cli is waiting for your input")
            loop = asyncio.get_running_loop()
            self._idle = loop.call_later(self._idle_after_s, self._notify, *notification)

    def _end_idling(self) -> None:
        if self._idle:
            self._idle.cancel()

    def _tell_question(self, call: ToolCall, *, of_agent: bool) -> None:
        kind = "permission_prompt"
        message = f"agent-cli needs your permission to use {claude_tool_name(call.name)}"
        answers: Mapping[str, Json] = {}
        if self._answers and self._asking.gets_answers("Notification", kind):
            answers = self._answers(call, of_agent)
        if not answers:
            self._notify(kind, message)
            return
        theirs = self._asking.payloads.translated(call)
        about: dict[str, Json] = {
            "tool_name": theirs.name,
            "tool_input": theirs.input,
            "tool_use_id": call.id,
            "reason": call.reason,
            **answers,
        }
        fields: dict[str, Json] = {"message": message, "notification_type": kind}
        self._asking.tell_answerable("Notification", kind, about, **fields)

    def _notify(self, kind: str, message: str) -> None:
        self._asking.tell("Notification", kind, message=message, notification_type=kind)


def _unanswered(prompts: Sequence[Prompt]) -> list[UserOutput]:
    """Return the text typed after the last reply, without parts that are never sent."""
    replied = (i for i in reversed(range(len(prompts))) if has_reply(prompts[i : i + 1]))
    recent = prompts[next(replied, 0) :]
    unsent = unsent_ids(recent)
    behind = takewhile(lambda out: not isinstance(out, ReplyOutput), [*entries(recent)][::-1])
    users = [out for out in behind if isinstance(out, UserOutput) and out.id not in unsent]
    return [out for out in users[::-1] if out.is_typed]


def _is_answered(conversation: Conversation) -> bool:
    """Return whether the context ends with a reply, so that no request is due."""
    sent = (each for each in conversation.context()[::-1] if not isinstance(each, CustomMessage))
    return isinstance(next(sent, None), AssistantMessage)
