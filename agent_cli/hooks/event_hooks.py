"""Run the hooks of events: wait for their answers, run them beside the session, watch files.

Two ports are filled by asking them: the one around a compaction, and the one for the questions of
MCP servers.
"""

import asyncio
import os
from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from agent_cli.contracts.dialogs import Filled
from agent_cli.contracts.errors import ModelError
from agent_cli.contracts.events import EventSink, Notice
from agent_cli.contracts.messages import CustomMessage
from agent_cli.contracts.timeline import Json
from agent_cli.core.conversation import Conversation
from agent_cli.hooks.answers import HookAnswer
from agent_cli.hooks.payloads import Payloads
from agent_cli.hooks.runs import HookRuns, Ran
from agent_cli.system.records import dataclass, field

WOKEN_MAX: Final = 20
"""How often hooks begin or prolong a run after a prompt of the user's."""


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
            told = f"hooks woke the model {WOKEN_MAX} times; they wait for your next prompt now"
            self._publish(Notice("warning", told))
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

# It compares what the file system says once a second. Of a folder, the files directly in it count.
_Stamp: TypeAlias = tuple[int, int, int]


class FileChange(NamedTuple):
    """A file that came, changed or went since the last look."""

    path: Path
    what: Literal["add", "change", "unlink"]


@dataclass(slots=True)
class FileWatch:
    """The watched files and their state at the last look.

    Attributes:
        root: The folder that relative paths are in.
        names: Names of files in `root` that are always watched.
    """

    root: Path
    names: Collection[str]
    _paths: tuple[Path, ...] = ()
    _seen: dict[Path, _Stamp] = field(default_factory=dict[Path, _Stamp])

    def watch(self, paths: Iterable[str]) -> None:
        """Watch *paths* beside the names, in place of the earlier *paths*."""
        self._paths = tuple(self.root / os.path.expanduser(path) for path in paths)[:FILES_MAX]  # noqa: PTH111
        # A change of a file that was watched before is still to be told.
        self._seen = {**dict(self._stamps()), **self._seen}

    def look(self) -> list[FileChange]:
        """Return what changed since the last look; blocks."""
        before, self._seen = self._seen, dict(self._stamps())
        known = [path for path in before if path in self._seen]
        return [
            *(FileChange(path, "add") for path in self._seen if path not in before),
            *(FileChange(path, "change") for path in known if before[path] != self._seen[path]),
            *(FileChange(path, "unlink") for path in before if path not in self._seen),
        ]

    def _stamps(self) -> Iterator[tuple[Path, _Stamp]]:
        places = dict.fromkeys((*(self.root / name for name in self.names), *self._paths))
        found = dict.fromkeys(file for place in places for file in _files_at(place))
        # Those known first: a file beyond the limit must not push out one that is still there.
        known = (path for path in self._seen if path in found)
        left = FILES_MAX
        for file in dict.fromkeys((*known, *found)):
            try:
                about = file.stat()
            except (OSError, ValueError):
                continue
            yield file, (about.st_mtime_ns, about.st_size, about.st_ino)
            left -= 1
            if not left:
                return


class EventHooks:
    """Runs hooks in the background inside `async with`; hooks that run at its end are killed.

    Attributes:
        stop: The reason a hook gave for ending the run, or "".
        late: What hooks in the background said.
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
        self._runs = runs
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
        return bool(self._runs.matching(event, (matched,)))

    def watched_files(self) -> FileWatch | None:
        """Return a watch of the files that FileChanged hooks name; None without such hooks."""
        hooks = [hook for hook in self._runs.hooks if hook.event == "FileChanged"]
        names = {name for hook in hooks for name in hook.file_names}
        return FileWatch(self.payloads.workspace, names) if hooks else None

    async def ask(self, event: str, matched: str, /, **more: Json) -> HookAnswer:
        """Run the hooks of *event* whose matcher fits *matched*, and return their joint answer.

        *more* are the fields of the payload besides those that each event has.
        """
        wanted = self._runs.matching(event, (matched,))
        if not wanted:
            return HookAnswer()
        answer = await self._runs.run(wanted, self.payloads.payload(event, **more), matched)
        self.heard(answer)
        return answer

    def gets_answers(self, event: str, matched: str) -> bool:
        """Return whether a hook that runs at *event* may pass signed answers on."""
        return any(hook.answers for hook in self._runs.matching(event, (matched,)))

    def tell_answerable(
        self, event: str, matched: str, answerable: Mapping[str, Json], /, **more: Json
    ) -> None:
        """Run the hooks of *event* as `tell` does; the session's end waits for them.

        *answerable* are the fields for those that may pass signed answers on.
        """

        async def run() -> None:
            hooks, payload = self._runs.matching(event, (matched,)), self.payloads.payload
            heard = await self._runs.run(
                hooks, payload(event, **more), matched, answerable=answerable
            )
            self.heard(heard)

        if task := self.start(run()):
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
        if answer.decision == "deny" or answer.stops:
            raise ModelError(f"a hook blocked it: {answer.reason or answer.stops}")
        return "\n".join(filter(None, (focus, *answer.contexts)))

    def after(self, focus: str, *, trigger: str) -> None:
        """Run PostCompact hooks without waiting for them."""
        self._asking.tell("PostCompact", trigger, **self._fields(focus, trigger))

    def _fields(self, focus: str, trigger: str) -> Mapping[str, Json]:
        return {**self._about(), "trigger": trigger, "custom_instructions": focus}


class ServerQuestionHooks:
    """Fills `app.mcp.host.QuestionHooks`."""

    def __init__(self, asking: EventHooks) -> None:
        """Use *asking*."""
        self._asking = asking

    async def asks(self, server: str, about: Mapping[str, Json]) -> Filled | None:
        """Return the answer of Elicitation hooks to a question; None to ask the user."""
        answer = await self._asking.ask("Elicitation", server, mcp_server_name=server, **about)
        return self._refusal("question", server, answer) or answer.filled

    def shown(self, server: str) -> None:
        """Tell Notification hooks that the user is asked."""
        told = f"MCP server {server} has a question"
        kind = "elicitation_dialog"
        self._asking.tell("Notification", kind, message=told, notification_type=kind)

    async def answered(self, server: str, about: Mapping[str, Json], filled: Filled) -> Filled:
        """Return what the server gets in place of the user's answer *filled*."""
        given: dict[str, Json] = {"action": filled.action, **about}
        if filled.values:
            given["content"] = dict(filled.values)
        answer = await self._asking.ask(
            "ElicitationResult", server, mcp_server_name=server, **given
        )
        return self._refusal("answer", server, answer) or answer.filled or filled

    def _refusal(self, what: str, server: str, answer: HookAnswer) -> Filled | None:
        if answer.decision != "deny" and not answer.stops:
            return None
        if not answer.fault:  # that is shown already
            why = answer.reason or answer.stops
            self._asking.warn(f"a hook declined the {what} for MCP server {server}: {why}")
        return Filled("decline")


EVERY_S: Final = 1.0
FILES_MAX: Final = 1_000


def _files_at(path: Path) -> list[Path]:
    try:
        with os.scandir(path) as entries:
            return [Path(entry.path) for entry in entries if entry.is_file()]
    except (OSError, ValueError):
        return [path]
