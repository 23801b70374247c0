"""The record: an append-only list of prompts and outputs whose changes are published as events.

It knows the position and time of an entry, not its meaning.
"""

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager

from agent_cli.contracts.errors import ConversationError
from agent_cli.contracts.events import (
    Event,
    EventSink,
    PromptCompleted,
    PromptOutput,
    PromptStarted,
    PromptStateChanged,
)
from agent_cli.contracts.messages import Message, now_ms
from agent_cli.contracts.timeline import NO_USAGE, Output, Prompt, PromptState, ToolOutput, Usage
from agent_cli.core.projection import entries, usage_of

_NEXT_STATES: dict[PromptState, frozenset[PromptState]] = {
    "running": frozenset({"running", "waiting_for_approval", "completed"}),
    "waiting_for_approval": frozenset({"running"}),
    "completed": frozenset(),
}


def _ignore(_event: object) -> None:
    """Discard *event*."""


def _last_ms(prompt: Prompt) -> int:
    ends = (out.ended_at_ms or 0 for out in prompt.output if isinstance(out, ToolOutput))
    return max([prompt.at_ms, *(out.at_ms for out in prompt.output), *ends])


class Record:
    """Prompts in order; times never run backwards; every change is published when it is made."""

    def __init__(self, prompts: Iterable[Prompt] = ()) -> None:
        self.publish: EventSink = _ignore
        self.taken_back = NO_USAGE  # the cost of prompts that were rewound
        self._prompts = list(prompts)
        self._projected: list[Message] | None = None  # the next request's, until a change
        self._last_ms = max(map(_last_ms, self._prompts), default=0)
        self._dated_ms: int | None = None

    @property
    def prompts(self) -> Sequence[Prompt]:
        """All prompts, oldest first. Read only."""
        return self._prompts

    @property
    def usage(self) -> Usage:
        """Usage of the whole conversation, rewound prompts included."""
        return usage_of(self._prompts, self.taken_back)

    def has_call(self, tool_call_id: str) -> bool:
        """Return whether a tool call has this id; those of rewound prompts are gone."""
        try:
            self._find_call(tool_call_id)
        except LookupError:
            return False
        return True

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

    def complete(self) -> None:
        """Mark the last prompt as completed, if it is running."""
        if self._prompts and self._prompts[-1].state == "running":
            self.set_state("completed")

    def set_state(self, state: PromptState) -> None:
        """Move the last prompt to *state*.

        Raises:
            ConversationError: The current state does not lead to *state*.
        """
        prompt = self._prompts[-1]
        if state not in _NEXT_STATES[prompt.state]:
            raise ConversationError(f"a prompt cannot go from {prompt.state} to {state}")
        prompt.state = state
        if state == "completed":
            self._changed(PromptCompleted(prompt.id))
        else:
            self._changed(PromptStateChanged(prompt.id, state))

    def _start(self, prompt: Prompt) -> None:
        self._prompts.append(prompt)
        self._changed(PromptStarted(prompt))

    def _append(self, output: Output) -> None:
        prompt = self._prompts[-1]
        prompt.output.append(output)
        self._changed(PromptOutput(prompt.id, len(prompt.output) - 1, output))

    def _insert(self, prompt: Prompt, index: int, output: Output) -> None:
        prompt.output.insert(index, output)
        self._changed(PromptOutput(prompt.id, index, output))

    def _replace(self, output: Output) -> None:
        """Replace the output that has the id of *output*."""
        prompt, index = self._find(lambda old: old.id == output.id)
        prompt.output[index] = output
        self._changed(PromptOutput(prompt.id, index, output, replaced=True))

    def _changed(self, event: Event) -> None:
        self._projected = None
        self.publish(event)

    def _find_call(self, tool_call_id: str) -> tuple[Prompt, int]:
        return self._find(
            lambda old: isinstance(old, ToolOutput) and old.tool_call_id == tool_call_id
        )

    def _find(self, matches: Callable[[Output], bool]) -> tuple[Prompt, int]:
        # From the end: lookups are mostly for recent entries.
        for prompt in reversed(self._prompts):
            for index in reversed(range(len(prompt.output))):
                if matches(prompt.output[index]):
                    return prompt, index
        raise LookupError("no such entry")

    def _require_entry(self, id: str) -> None:
        if all(entry.id != id for entry in entries(self._prompts)):
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
