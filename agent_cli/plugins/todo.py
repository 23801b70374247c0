"""The model's list of steps for a longer task: replaced as a whole, shown above the input.

The list is plugin state, so a resumed, forked or rewound conversation has the list of that point.
If a compaction removes the call that wrote the list, the model is told the list again.
"""

from collections.abc import Iterator, Sequence
from typing import Annotated, Final, Literal

from agent_cli.contracts.cancel import CancelToken
from agent_cli.contracts.errors import PluginError
from agent_cli.contracts.late_models import (
    AliasChoices,
    BaseModel,
    ConfigDict,
    Field,
    SkipJsonSchema,
)
from agent_cli.contracts.messages import ToolResultMessage, UserMessage
from agent_cli.contracts.tooling import Tool, ToolContext, ToolResult, without_docstring
from agent_cli.contracts.wording import STEP_MARKS
from agent_cli.core.conversation import Conversation
from agent_cli.plugins.api import Plugin, PluginContext, PluginState
from agent_cli.plugins.states import PluginStates

TOOL: Final = "todo"
_ITEMS_MAX: Final = 50
_ITEM_CHARS_MAX: Final = 300


class TodoItem(BaseModel):
    """One step. `active_form` names it while it is being done ("Running the tests")."""

    # A limit on the field would be part of the schema, which costs tokens.
    model_config = ConfigDict(
        frozen=True, str_max_length=_ITEM_CHARS_MAX, json_schema_extra=without_docstring
    )

    content: str
    status: Literal["pending", "in_progress", "completed"]
    # The second name is used by other agents; models know it.
    active_form: str = Field(default="", validation_alias=AliasChoices("active_form", "activeForm"))
    # Not declared: a few editors show it, and every request would pay for it.
    priority: SkipJsonSchema[Literal["high", "medium", "low"]] = "medium"


class TodoInput(BaseModel):
    """The whole list."""

    model_config = ConfigDict(json_schema_extra=without_docstring)

    todos: Annotated[list[TodoItem], Field(max_length=_ITEMS_MAX)]


class TodoState(TodoInput):
    """The list, and the call that wrote it."""

    todos: Annotated[list[TodoItem], Field(default_factory=list, max_length=_ITEMS_MAX)]
    written_by: str = ""


TODO: Final = PluginState("todo", TodoState)


def todo() -> Plugin:
    """Return the plugin."""
    tool = Tool(
        name=TOOL,
        label="Todo",
        description="Show the user a longer task's steps; replaces the list."
        " One is in_progress; completed once done.",
        parameters=TodoInput,
        execute=_write,
        parallel_safe=False,  # it writes state
        changes=False,
        summary=lambda params: _progress(params.todos),
    )
    return Plugin(name="todo", tools=(tool,), prepare=_tell_again, state=TODO)


def todo_list(conversation: Conversation) -> list[TodoItem]:
    """Return the current list of *conversation*; an invalid one counts as none.

    One that an earlier version recorded may exceed today's limits; the next run resets it.
    """
    try:
        return TODO.read(PluginStates(conversation, {}, lambda _event: None)).todos
    except PluginError:
        return []


def new_and_done(
    before: Sequence[TodoItem], after: Sequence[TodoItem]
) -> Iterator[tuple[Literal["new", "done"], int]]:
    """Yield the positions in *after* of the steps that *before* lacks or had not completed."""
    known = {item.content: item.status for item in before}
    for i, item in enumerate(after):
        if item.content not in known:
            yield "new", i
        if item.status == "completed" != known.get(item.content):
            yield "done", i


async def _write(
    tool_call_id: str, params: TodoInput, _cancel: CancelToken, context: ToolContext
) -> ToolResult:
    TODO.write(context.state, TodoState(todos=params.todos, written_by=tool_call_id))
    return ToolResult.of(f"The list is kept: {_progress(params.todos)}.")


def _tell_again(ctx: PluginContext) -> None:
    """Tell the model the list if it has open steps and the conversation no longer shows it."""
    if TOOL not in ctx.state:
        return
    state = TODO.read(ctx.state)
    is_open = any(item.status != "completed" for item in state.todos)
    if not is_open or ctx.conversation.open_calls():
        return
    text = _list_text(state.todos)
    for message in ctx.conversation.context():
        match message:
            case ToolResultMessage(tool_call_id=state.written_by):
                return
            case UserMessage() if text in message.text:
                return
            case _:
                pass
    ctx.add_notice(text)


def _list_text(todos: list[TodoItem]) -> str:
    steps = "\n".join(f"{STEP_MARKS[item.status]} {item.content}" for item in todos)
    return f"[agent-cli: your todo list, which was left out of the conversation]\n{steps}"


def _progress(todos: list[TodoItem]) -> str:
    if not todos:
        return "empty"
    done = sum(item.status == "completed" for item in todos)
    return f"{done} of {len(todos)} done"
