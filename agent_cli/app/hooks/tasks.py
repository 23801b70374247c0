"""Run TaskCreated and TaskCompleted hooks when the model changes its list of steps."""

from collections.abc import Iterator
from typing import Any, Final

from agent_cli.contracts.events import ToolCall
from agent_cli.contracts.timeline import Json
from agent_cli.contracts.tooling import Deny, Tool, Verdict
from agent_cli.hooks.event_hooks import EventHooks
from agent_cli.plugins.todo import TodoInput, new_and_done, todo_list

_EVENTS: Final = {"new": "TaskCreated", "done": "TaskCompleted"}


def around_tasks(asking: EventHooks, authorize: Any) -> Any:
    """Wrap *authorize* in the hooks of the list of steps; unchanged without such hooks.

    A hook that says no keeps the list as it was.
    """
    if not any(asking.is_asked(event, "") for event in _EVENTS.values()):
        return authorize

    async def asked(call: ToolCall, tool: Tool, params: object) -> Verdict:
        verdict: Verdict = await authorize(call, tool, params)
        if isinstance(verdict, Deny) or not isinstance(params, TodoInput):
            return verdict
        for event, subject, about in _changes(asking, params):
            answer = await asking.ask(event, "", **about)
            if answer.refusal:
                return Deny(
                    f"A {event} hook of the user's says no to the step {subject!r};"
                    f" the list stays as it was: {answer.refusal}"
                )
        return verdict

    return asked


def _changes(asking: EventHooks, params: TodoInput) -> Iterator[tuple[str, str, dict[str, Json]]]:
    """Yield the event, the step and the fields of the hook's input for each change of the list."""
    for change, i in new_and_done(todo_list(asking.conversation()), params.todos):
        item = params.todos[i]
        about: dict[str, Json] = {"task_id": str(i + 1), "task_subject": item.content}
        described: dict[str, Json] = {"task_description": item.active_form}
        yield _EVENTS[change], item.content, about | (described if item.active_form else {})
