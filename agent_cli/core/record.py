"""The record: an append-only list of prompts and outputs whose changes are published as events.

It knows the position and time of each entry, and which part of the next request a change keeps.
"""

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import replace

from agent_cli.contracts.errors import ConversationError
from agent_cli.contracts.events import (
    Event,
    EventSink,
    PromptCompleted,
    PromptOutput,
    PromptStarted,
    PromptStateChanged,
)
from agent_cli.contracts.messages import (
    EFFORT,
    AssistantMessage,
    Message,
    ToolResultMessage,
    now_ms,
)
from agent_cli.contracts.timeline import (
    BlockOutput,
    CustomOutput,
    FileOutput,
    Output,
    Pending,
    Prompt,
    PromptState,
    ReplyOutput,
    ToolOutput,
    UserOutput,
    WidgetOutput,
)
from agent_cli.core.projection import context, entries, messages, shown
from agent_cli.system.records import dataclass

_NEXT_STATES: dict[PromptState, frozenset[PromptState]] = {
    "running": frozenset({"running", "waiting_for_approval", "completed"}),
    "waiting_for_approval": frozenset({"running"}),
    "completed": frozenset(),
}

# All others are kept in `between_replies`, so that no new kind is missed there.
_OF_REPLIES = (BlockOutput, ReplyOutput, FileOutput, WidgetOutput)


def _last_ms(prompt: Prompt) -> int:
    ends = (out.ended_at_ms or 0 for out in prompt.output if isinstance(out, ToolOutput))
    return max([prompt.at_ms, *(out.at_ms for out in prompt.output), *ends])


class Record:
    """Prompts in order; times never run backwards; every change is published when it is made.

    Attributes:
        prompts: All prompts, oldest first. Read only.
        call_ids: The ids of all tool calls. Read only.
        between_replies: Every entry that is neither a part of a reply nor beside a call: few,
            however long the conversation is. Read only.
    """

    def __init__(self, prompts: Iterable[Prompt], publish: EventSink) -> None:
        self.prompts: list[Prompt] = list(prompts)
        self.call_ids = set[str]()
        self.between_replies = list[Output]()
        self._index(entries(self.prompts))
        self._publish = publish
        self._projected: _Projected | None = None
        self._is_projected = False  # until the next change
        self._last_ms = max(map(_last_ms, self.prompts), default=0)
        self._dated_ms: int | None = None

    def _index(self, outputs: Iterable[Output]) -> None:
        for output in outputs:
            if isinstance(output, ToolOutput):
                self.call_ids.add(output.tool_call_id)
            elif not isinstance(output, _OF_REPLIES):
                self.between_replies.append(output)

    def shown(self) -> Sequence[Output]:
        """Return the entries that the next request shows; see `projection.shown`."""
        return self._project().shown

    def context(self) -> list[Message]:
        """Return the messages of the next request; a message that stays is the same object."""
        return [*self._project().sent]

    def _project(self) -> "_Projected":
        # Several parts of a turn ask, and a whole projection walks through the whole timeline.
        if self._projected is None or not self._is_projected:
            extended = self._projected and self._projected.extended(self.prompts)
            self._projected = extended or _Projected.of(self.prompts)
            self._is_projected = True
        return self._projected

    def call(self, tool_call_id: str) -> ToolOutput:
        """Return a call by its id.

        Raises:
            ConversationError: There is none.
        """
        try:
            prompt, index = self._find_call(tool_call_id)
        except LookupError:
            raise ConversationError(
                f"there is no tool call {tool_call_id!r} in this conversation"
            ) from None
        call = prompt.output[index]
        assert isinstance(call, ToolOutput)
        return call

    def open_calls(self) -> list[ToolOutput]:
        """Return the calls of the last reply that have no result yet, in call order."""
        found: list[ToolOutput] = []
        reply_id = None
        for output in reversed(self.prompts[-1].output if self.prompts else ()):
            if isinstance(output, ReplyOutput):
                if reply_id is not None:
                    break
                reply_id = output.reply_id
            elif isinstance(output, ToolOutput) and isinstance(output.result, Pending):
                found.append(output)
        return found[::-1]

    def complete(self) -> None:
        """Mark the last prompt as completed, if it is running."""
        if self.prompts and self.prompts[-1].state == "running":
            self.set_state("completed")

    def set_state(self, state: PromptState) -> None:
        """Move the last prompt to *state*.

        Raises:
            ConversationError: The current state does not lead to *state*.
        """
        prompt = self.prompts[-1]
        if state not in _NEXT_STATES[prompt.state]:
            raise ConversationError(f"a prompt cannot go from {prompt.state} to {state}")
        prompt.state = state
        if state == "completed":
            self._changed(PromptCompleted(prompt.id))
        else:
            self._changed(PromptStateChanged(prompt.id, state))

    def start(self, prompt: Prompt) -> None:
        """Append *prompt*."""
        self.prompts.append(prompt)
        self._index(entries([prompt]))
        self._projected = None
        self._changed(PromptStarted(prompt))

    def append(self, output: Output) -> None:
        """Append *output* to the last prompt."""
        prompt = self.prompts[-1]
        prompt.output.append(output)
        self._index([output])
        self._changed(PromptOutput(prompt.id, len(prompt.output) - 1, output))

    def attach(self, output: FileOutput | WidgetOutput) -> None:
        """Insert a side output behind its call's entry and the side outputs already there."""
        prompt, index = self._find_call(output.tool_call_id)
        index += 1
        while isinstance(prompt.output[index], FileOutput | WidgetOutput):
            index += 1
        prompt.output.insert(index, output)
        self._projected = None
        self._changed(PromptOutput(prompt.id, index, output))

    def replace(self, call: ToolOutput, *, only_reads: bool = False) -> None:
        """Replace the output that has the id of *call*; see `PromptOutput` for *only_reads*."""
        prompt, index = self._find(lambda old: old.id == call.id)
        prompt.output[index] = call
        if prompt is not self.prompts[-1] or (self._projected and index < self._projected.settled):
            self._projected = None
        self._changed(PromptOutput(prompt.id, index, call, replaced=True, only_reads=only_reads))

    def _changed(self, event: Event) -> None:
        self._is_projected = False
        self._publish(event)

    def _find_call(self, tool_call_id: str) -> tuple[Prompt, int]:
        return self._find(
            lambda old: isinstance(old, ToolOutput) and old.tool_call_id == tool_call_id
        )

    def _find(self, matches: Callable[[Output], bool]) -> tuple[Prompt, int]:
        # From the end: lookups are mostly for recent entries.
        for prompt in reversed(self.prompts):
            for index in reversed(range(len(prompt.output))):
                if matches(prompt.output[index]):
                    return prompt, index
        raise LookupError("no such entry")

    def require_entry(self, id: str) -> None:
        """Raise `ConversationError` if no entry has this id."""
        if all(entry.id != id for entry in entries(self.prompts)):
            raise ConversationError(f"there is no entry {id!r} in this conversation")

    def now(self) -> int:
        """Return the Unix time in ms, never before the last entry's if the clock stepped back."""
        at_ms = now_ms() if self._dated_ms is None else self._dated_ms
        self._last_ms = max(self._last_ms, at_ms)
        return self._last_ms

    @contextmanager
    def dated(self, at_ms: int) -> Generator[None]:
        """Give entries recorded in the body the Unix time *at_ms*."""
        self._dated_ms = at_ms
        try:
            yield
        finally:
            self._dated_ms = None


_APPENDED = (BlockOutput, ReplyOutput, UserOutput)
_ENDING = (AssistantMessage, ToolResultMessage)


@dataclass(frozen=True, slots=True)
class _Projected:
    """The entries that the next request shows, and its messages.

    The entries up to a reply of the last prompt are settled: they are projected once, and what
    follows them is projected by itself and appended. That is right under three conditions; in all
    other cases the whole timeline is projected:

    * What follows are blocks, replies and messages of the user; a cut, a note or a withdrawal may
      change earlier messages (`extended`).
    * No settled entry is replaced, and none is inserted (`Record.replace`, `Record.attach`).
    * No message of the user that follows depends on settled entries (`_decides_next`).

    Attributes:
        shown: The entries.
        sent: The messages.
        settled: How many entries of the last prompt are settled; 0 for none.
        settled_shown: How many of `shown` are settled, earlier prompts included.
        settled_sent: How many messages those became.
        last_ms: The time of the last settled reply, or of the last answer to its calls.
    """

    shown: Sequence[Output]
    sent: Sequence[Message]
    settled: int = 0
    settled_shown: int = 0
    settled_sent: int = 0
    last_ms: int = 0

    @classmethod
    def of(cls, prompts: Sequence[Prompt]) -> "_Projected":
        """Project all *prompts*."""
        outputs = shown(prompts)
        whole = cls(outputs, context(outputs))
        settled = whole._with_settled(prompts[-1].output if prompts else ())
        return whole if _decides_next(outputs[: settled.settled_shown]) else settled

    def extended(self, prompts: Sequence[Prompt]) -> "_Projected | None":
        """Project the entries after the settled ones; None if the whole timeline must be."""
        behind = prompts[-1].output[self.settled :] if self.settled else ()
        if not behind or not all(isinstance(each, _APPENDED) for each in behind):
            return None
        known = [*self.shown[: self.settled_shown], *behind]
        sent = [*self.sent[: self.settled_sent], *messages(behind, last_ms=self.last_ms)]
        return replace(self, shown=known, sent=sent)._with_settled(prompts[-1].output)

    def _with_settled(self, outputs: Sequence[Output]) -> "_Projected":
        """Settle the entries of the last prompt, *outputs*, to the end of its last reply."""
        at = len(outputs)
        while at > self.settled and isinstance(outputs[at - 1], UserOutput):
            at -= 1
        users = len(outputs) - at  # each shown, and a message
        last, count = len(self.shown) - users, len(self.sent) - users
        if not (at > self.settled and isinstance(outputs[at - 1], ReplyOutput)):
            return self
        if not (last > 0 and self.shown[last - 1] is outputs[at - 1]):
            return self  # left out by a cut
        new = (each for each in self.sent[self.settled_sent : count] if isinstance(each, _ENDING))
        answered = [each.timestamp for each in new]
        return _Projected(
            self.shown, self.sent, at, last, count, last_ms=max(self.last_ms, *answered)
        )


def _decides_next(outputs: Sequence[Output]) -> bool:
    """Return whether the projection of the user's next message depends on *outputs*.

    A note of a thinking level becomes the effort of that message, unless it follows a message of
    the user at once. A cut keeps the first message of all, which may be that one.
    """
    users = [at for at, each in enumerate(outputs) if isinstance(each, UserOutput)]
    levels = [
        at
        for at, each in enumerate(outputs)
        if isinstance(each, CustomOutput) and each.name == EFFORT
    ]
    return not users or any(at > users[-1] + 1 for at in levels)
