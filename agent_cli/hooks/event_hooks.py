"""Run the hooks of events: wait for their answers, or run them beside the session.

Two ports are filled by asking them: the one around a compaction, and the one for the questions of
MCP servers.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from agent_cli.contracts.dialogs import Filled
from agent_cli.contracts.errors import ModelError
from agent_cli.contracts.events import EventSink, Notice
from agent_cli.contracts.messages import CustomMessage
from agent_cli.contracts.timeline import Json
from agent_cli.core.conversation import Conversation
from agent_cli.hooks.answers import HookAnswer
from agent_cli.hooks.events import Payloads
from agent_cli.hooks.file_watch import CallChanges, FileChange, FileWatch, is_plain, names_of
from agent_cli.hooks.runs import HookRuns, Ran

WOKEN_MAX: Final = 20
"""The number of times that hooks may begin or prolong a run after a prompt of the user's."""
# Who asks the hooks of these events says himself why the text is not sent, a hook's fault included.
_TOLD_BY_ASKER: Final = frozenset({"UserPromptSubmit", "UserPromptExpansion"})


class LateWords:
    """Words of background hooks for the next model call; an `asyncRewake` hook brings it about.

    Attributes:
        wake: Begins a run as soon as the session is idle, if what it is given returns True then.
    """

    def __init__(self, publish: EventSink) -> None:
        """Keep nothing yet; *publish* shows what concerns the user."""
        self.wake: Callable[[Callable[[], bool]], None] = lambda _has_news: None
        self._publish = publish
        self._words: list[str] = []
        self._is_waking = False
        self._woken = 0

    def add(self, ran: Ran) -> None:
        """Keep the words of a hook that has ended."""
        hook, answer = ran.hook, ran.answer
        for text in answer.messages:
            self._publish(Notice("warning", text))
        if not hook.wakes or ran.outcome.fault or ran.outcome.code != 2:
            self._words += answer.contexts
            return
        self._words.append("\n".join(filter(None, (hook.wake_message, *answer.contexts))))
        self._publish(Notice("info", hook.wake_summary or f"hook {hook.shown} has news"))
        if self._woken == WOKEN_MAX:
            often = f"hooks woke the model {WOKEN_MAX} times; they wait for your next prompt now"
            self._publish(Notice("warning", often))
        self._is_waking = self._woken < WOKEN_MAX
        self._woken += 1
        self.wake(self.are_waking)

    def are_waking(self) -> bool:
        """Return whether there are words for which a run should begin or go on."""
        return self._is_waking

    def take(self) -> Sequence[str]:
        """Return all words that the model was not told yet."""
        words, self._words = self._words, []
        self._is_waking = False
        return words

    def take_waking(self) -> Sequence[str]:
        """Return all texts of hooks, if any hook asks the run to go on."""
        return self.take() if self._is_waking else ()

    def user_spoke(self) -> None:
        """Count from here: the user is there."""
        self._woken = 0


RECORDED: Final = "hook"
"""The kind of the session's notes about hooks that ran."""

_GRACE_S: Final = 2.0
_ANSWERABLE_S: Final = 30.0


class EventHooks:
    """Runs hooks in the background inside `async with`; hooks that run at its end are killed.

    Attributes:
        stop: The reason a hook gave for ending the run, or "".
        late: What hooks in the background said.
        changes: What calls of tools and hooks change; None if that is not recorded.
        runs: The hooks, and those that ran last.
    """

    def __init__(
        self,
        runs: HookRuns,
        payloads: Payloads,
        *,
        conversation: Callable[[], Conversation],
        publish: EventSink,
    ) -> None:
        """Start nothing yet; *conversation* is where the hooks that ran are recorded."""
        self.payloads = payloads
        self.conversation = conversation
        self.publish = publish
        self.stop = ""
        self.late = LateWords(publish)
        self.changes: CallChanges | None = None
        self.runs = runs
        self._group = asyncio.TaskGroup()
        self._tasks: set[asyncio.Task[object]] = set()
        self._awaited: set[asyncio.Task[object]] = set()
        self._is_open = False
        self._unrecorded: list[Ran] = []
        runs.record = self._record
        runs.background = self.start
        runs.late = self._heard_late

    async def __aenter__(self) -> "EventHooks":
        await self._group.__aenter__()
        self._is_open = True
        return self

    async def __aexit__(self, *_failure: object) -> None:
        if self._awaited:  # who is away has to learn of the question
            await asyncio.wait(self._awaited, timeout=_ANSWERABLE_S)
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_GRACE_S)
        self._is_open = False
        for task in self._tasks:
            task.cancel()
        await self._group.__aexit__(None, None, None)

    @property
    def is_open(self) -> bool:
        """Whether work can be started in the background."""
        return self._is_open

    def is_asked(self, event: str, matched: str) -> bool:
        """Return whether a hook runs at *event*."""
        return bool(self.runs.matching(event, (matched,)))

    def watched_files(self) -> FileWatch | None:
        """Return a watch of the files for FileChanged hooks; None without such hooks."""
        hooks = [hook for hook in self.runs.hooks if hook.event == "FileChanged"]
        written = (name for hook in hooks for name in hook.file_names if is_plain(name))
        names = {name.removeprefix("/") for name in written}
        if not hooks:
            return None
        return FileWatch(self.payloads.workspace, names, self._is_watched, self.changes)

    def _is_watched(self, path: Path) -> bool:
        return bool(self.runs.matching("FileChanged", names_of(path, self.payloads.workspace)))

    async def ask_about_file(self, change: FileChange) -> HookAnswer:
        """Run the FileChanged hooks that match a file, and return their joint answer."""
        path, what = change
        names = names_of(path, self.payloads.workspace)
        return await self._ask("FileChanged", names, file_path=str(path), event=what)

    async def ask(self, event: str, matched: str, /, **more: Json) -> HookAnswer:
        """Run the hooks of *event* whose matcher fits *matched*, and return their joint answer.

        *more* are the fields of the payload besides those that each event has.
        """
        return await self._ask(event, (matched,), **more)

    async def _ask(
        self,
        event: str,
        names: Sequence[str],
        answerable: Mapping[str, Json] = MappingProxyType({}),
        /,
        **more: Json,
    ) -> HookAnswer:
        hooks = self.runs.matching(event, names)
        if not hooks:
            return HookAnswer()
        payload = self.payloads.payload(event, **more)
        answer = await self.runs.run(hooks, payload, names[0], answerable=answerable)
        self.heard(replace(answer, fault="") if event in _TOLD_BY_ASKER else answer)
        return answer

    def gets_answers(self, event: str, matched: str) -> bool:
        """Return whether a hook that runs at *event* may pass signed answers on."""
        return any(hook.answers for hook in self.runs.matching(event, (matched,)))

    def tell_answerable(
        self, event: str, matched: str, answerable: Mapping[str, Json], /, **more: Json
    ) -> None:
        """Run the hooks of *event* as `tell` does; the session's end waits for them.

        *answerable* are the fields for those that may pass signed answers on.
        """
        if task := self.start(self._ask(event, (matched,), answerable, **more)):
            self._awaited.add(task)
            task.add_done_callback(self._awaited.discard)

    def heard(self, answer: HookAnswer) -> None:
        """Pass an answer's messages on to the user, and note whether it ends the run."""
        fault = answer.reason if answer.fault else ""
        for text in filter(None, (fault, *answer.messages)):
            self.warn(text)
        if answer.stops:
            self.stop = answer.stops

    def start(self, work: Coroutine[Any, Any, object]) -> asyncio.Task[object] | None:
        """Run *work* in a task that ends with the session."""
        if not self._is_open:
            work.close()
            return None
        task = self._group.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def tell(self, event: str, matched: str, /, **more: Json) -> None:
        """Run the hooks of *event* without waiting for them."""
        self.start(self.ask(event, matched, **more))

    def warn(self, text: str) -> None:
        """Show a warning to the user."""
        self.publish(Notice("warning", text))

    def write_record(self) -> None:
        """Record the hooks that ran; before the first prompt there is no session to record in."""
        conversation = self.conversation()
        if conversation.prompts:
            for ran in self._unrecorded:
                conversation.note(CustomMessage(RECORDED, ran.to_json()))
            self._unrecorded = []

    def _heard_late(self, ran: Ran, payload: Mapping[str, Json]) -> None:
        # A hook may outlive its conversation (/clear, /resume): the next one is not told.
        if payload["session_id"] == self.payloads.session_id():
            self.late.add(ran)

    def _record(self, ran: Ran) -> None:
        self._unrecorded.append(ran)
        self.write_record()


class CompactionHooks:
    """Fills `policies.compaction.AroundCompaction` for one agent."""

    def __init__(self, asking: EventHooks, about: Callable[[], Mapping[str, Json]] = dict) -> None:
        """Use *asking*; *about* returns the fields that name a subagent."""
        self._asking = asking
        self._about = about

    async def before(self, focus: str, *, trigger: str) -> str:
        """Return *focus* with the additions of PreCompact hooks.

        Raises:
            ModelError: One of them blocks the compaction.
        """
        answer = await self._asking.ask("PreCompact", trigger, **self._fields(focus, trigger))
        if answer.refusal:
            raise ModelError(f"a hook blocked it: {answer.refusal}")
        return "\n".join(filter(None, (focus, *answer.contexts)))

    def after(self, focus: str, *, trigger: str) -> None:
        """Run PostCompact hooks without waiting for them."""
        self._asking.tell("PostCompact", trigger, **self._fields(focus, trigger))

    def _fields(self, focus: str, trigger: str) -> Mapping[str, Json]:
        return {**self._about(), "trigger": trigger, "custom_instructions": focus}


class ServerQuestionHooks:
    """The hooks around a server's question; *about* is the question in Claude Code's fields."""

    def __init__(self, asking: EventHooks) -> None:
        """Use *asking*."""
        self._asking = asking

    async def asks(self, server: str, about: Mapping[str, Json]) -> Filled | None:
        """Return the answer of Elicitation hooks to a question; None to ask the user."""
        answer = await self._asking.ask("Elicitation", server, mcp_server_name=server, **about)
        return self._refusal("question", server, answer) or answer.filled

    def shown(self, server: str) -> None:
        """Tell Notification hooks that the user is asked."""
        message, kind = f"MCP server {server} has a question", "elicitation_dialog"
        self._asking.tell("Notification", kind, message=message, notification_type=kind)

    async def answered(self, server: str, about: Mapping[str, Json], filled: Filled) -> Filled:
        """Return the answer that the server gets in place of the user's answer *filled*."""
        more: dict[str, Json] = {"mcp_server_name": server, "action": filled.action, **about}
        if filled.values:
            more["content"] = dict(filled.values)
        answer = await self._asking.ask("ElicitationResult", server, **more)
        return self._refusal("answer", server, answer) or answer.filled or filled

    def _refusal(self, what: str, server: str, answer: HookAnswer) -> Filled | None:
        if not answer.refusal:
            return None
        if not answer.fault:  # that is shown already
            declined = f"a hook declined the {what} for MCP server {server}"
            self._asking.warn(f"{declined}: {answer.refusal}")
        return Filled("decline")
