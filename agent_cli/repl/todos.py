"""The display of the model's to-do list: one line above the input, or in full."""

from collections.abc import Callable, Sequence
from typing import Final

from agent_cli.contracts.events import Event, PromptOutput
from agent_cli.contracts.timeline import CustomOutput
from agent_cli.contracts.wording import STEP_MARKS, one_line
from agent_cli.core.agent import Agent
from agent_cli.core.application import Todo
from agent_cli.system.sanitize import reveal

_CONTENT_CHARS_MAX: Final = 300


class TodoPanel:
    """The list on one line; read again only when the record has changed."""

    def __init__(
        self,
        agent: Agent,
        todos: Callable[[], Sequence[Todo]],
        is_hidden: Callable[[], bool] = bool,
    ) -> None:
        """Follow *agent*; *todos* returns its list."""
        self._agent = agent
        self._todos = todos
        self._is_hidden = is_hidden
        self._text = ""
        self._is_old = True
        self._conversation = agent.conversation
        agent.subscribe(self._note)

    def __call__(self) -> Sequence[tuple[bool, str]]:
        """Return one row; none if no step is open."""
        if self._is_hidden():
            return ()
        if self._is_old or self._conversation is not self._agent.conversation:
            self._conversation, self._is_old = self._agent.conversation, False
            self._text = folded(self._todos())
        return [(False, self._text)] if self._text else ()

    def _note(self, event: Event) -> None:
        if isinstance(event, PromptOutput) and isinstance(event.output, CustomOutput):
            self._is_old = True


def folded(todos: Sequence[Todo]) -> str:
    """Return the number of done steps, and the current or next one; "" if none is open."""
    left = [todo for todo in todos if todo.status != "completed"]
    if not left:
        return ""
    current = next((todo for todo in left if todo.status == "in_progress"), None)
    words = (current.active_form or current.content) if current else f"next: {left[0].content}"
    done = len(todos) - len(left)
    return f"todo {done}/{len(todos)} · {_shown(words)}"


def unfolded(todos: Sequence[Todo]) -> list[str]:
    """Return a line for each step."""
    return [
        f"{STEP_MARKS[todo.status]} {_shown(todo.content)}"
        f"{' (high priority)' if todo.priority == 'high' else ''}"
        for todo in todos
    ]


def _shown(text: str) -> str:
    return one_line(reveal(text), _CONTENT_CHARS_MAX)
