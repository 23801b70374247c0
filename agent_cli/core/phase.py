"""The state machine of a run (document S4): its phase, and the actions that phase allows.

It only tracks. The loop moves it; the renderer and the executor consult its guards. Approvals are
not a state here: a run that waits for one is over (its prompt waits, not the loop).

    idle → thinking → planning_tools → executing_tools → thinking …
                    → responding → done → idle           any → error → idle
"""

from collections.abc import Callable
from enum import StrEnum
from typing import Final

from agent_cli.contracts.errors import ConversationError


class Phase(StrEnum):
    """The phases of a run."""

    IDLE = "idle"
    THINKING = "thinking"
    PLANNING_TOOLS = "planning_tools"
    EXECUTING_TOOLS = "executing_tools"
    RESPONDING = "responding"
    DONE = "done"
    ERROR = "error"


# Beyond S4: done and error lead back to idle (a REPL goes on), idle to planning_tools (a run that
# resumes an approved batch), thinking to thinking never (a call that is repeated stays there) and
# responding to thinking (a paused or steered answer goes on).
TRANSITIONS: dict[Phase, frozenset[Phase]] = {
    Phase.IDLE: frozenset({Phase.THINKING, Phase.PLANNING_TOOLS}),
    Phase.THINKING: frozenset({Phase.PLANNING_TOOLS, Phase.RESPONDING}),
    Phase.PLANNING_TOOLS: frozenset({Phase.EXECUTING_TOOLS}),
    Phase.EXECUTING_TOOLS: frozenset({Phase.THINKING, Phase.RESPONDING}),
    Phase.RESPONDING: frozenset({Phase.DONE, Phase.THINKING}),
    Phase.DONE: frozenset({Phase.IDLE}),
    Phase.ERROR: frozenset({Phase.IDLE}),
}

# Named as in document S4, for front ends, which learn the phase from `StateChanged`.
THINKING_SHOWN: Final = frozenset({Phase.THINKING, Phase.PLANNING_TOOLS})
CONTENT_STREAMED: Final = frozenset({Phase.RESPONDING})


class ChatStateMachine:
    """A phase that only moves along `TRANSITIONS`; any phase may go to error."""

    def __init__(self, on_change: Callable[[Phase, Phase], None] | None = None) -> None:
        self.phase = Phase.IDLE
        self._on_change = on_change

    def can_go(self, target: Phase) -> bool:
        """Return whether *target* may come next."""
        return target is Phase.ERROR or target in TRANSITIONS[self.phase]

    def go(self, target: Phase) -> None:
        """Move to *target* and call `on_change`.

        Raises:
            ConversationError: The table has no such transition.
        """
        if not self.can_go(target):
            raise ConversationError(f"a run cannot go from {self.phase} to {target}")
        before, self.phase = self.phase, target
        if self._on_change:
            self._on_change(before, target)

    def end(self, *, failed: bool) -> None:
        """Move to idle along the table: through done, or through error if that cannot be reached.

        A limit may end a run before it has left idle, or while its calls are planned.
        """
        if not failed and self.can_go(Phase.RESPONDING):
            self.go(Phase.RESPONDING)
        self.go(Phase.DONE if not failed and self.can_go(Phase.DONE) else Phase.ERROR)
        self.go(Phase.IDLE)

    @property
    def can_stream_content(self) -> bool:
        """The answer may be shown (sequential mode; live mode shows it while thinking too)."""
        return self.phase in CONTENT_STREAMED

    @property
    def can_execute_tools(self) -> bool:
        """Tools may start."""
        return self.phase is Phase.EXECUTING_TOOLS

    @property
    def can_show_thinking(self) -> bool:
        """Thinking may be shown."""
        return self.phase in THINKING_SHOWN
