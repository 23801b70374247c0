"""The todo list: one list, replaced as a whole, that survives compaction, resume and rewind."""

from collections.abc import Sequence

import pytest
from pydantic import ValidationError

from agent_cli.contracts.messages import CustomMessage
from agent_cli.contracts.timeline import Json
from agent_cli.core.conversation import Conversation
from agent_cli.plugins.states import ENTRY
from agent_cli.plugins.todo import TodoItem, todo, todo_list
from tests.fakes import calls, says, tool_use
from tests.plugins.contributing import Contributing, tool_results
from tests.tables import each_row

STEPS: list[Json] = [
    {"content": "Read the code", "status": "completed"},
    {"content": "Run the tests", "status": "in_progress", "activeForm": "Running the tests"},
    {"content": "Write it down", "status": "pending", "priority": "high"},
]
LIST = [
    TodoItem(content="Read the code", status="completed"),
    TodoItem(content="Run the tests", status="in_progress", active_form="Running the tests"),
    TodoItem(content="Write it down", status="pending", priority="high"),
]
TOLD = (
    "[agent-cli: your todo list, which was left out of the conversation]\n"
    "[x] Read the code\n[>] Run the tests\n[ ] Write it down"
)


async def with_a_list(*later: str, steps: Sequence[Json] = tuple(STEPS)) -> Contributing:
    """Return an agent whose first prompt wrote *steps*; *later* are its next answers."""
    first = calls(tool_use("todo", {"todos": [*steps]}))
    run = Contributing([todo()], first, says("noted"), *map(says, later))
    await run.prompt()
    return run


async def test_todo_call_replaces_the_whole_list() -> None:
    """`activeForm` is the name that other programs give to `active_form`."""
    run = await with_a_list()

    assert todo_list(run.agent.conversation) == LIST
    assert tool_results(run) == ["The list is kept: 1 of 3 done."]


async def test_invalid_todo_list_is_refused_and_the_old_list_kept() -> None:
    """Invalid input is answered with the field's name, and loses nothing."""
    wrong: Json = {"todos": [{"content": "x", "status": "begun"}]}
    long: Json = {"todos": [{"content": "x" * 301, "status": "pending"}]}
    one: Json = {"content": "x", "status": "pending"}
    many: Json = {"todos": [one for _ in range(51)]}
    run = Contributing(
        [todo()],
        calls(tool_use("todo", {"todos": [*STEPS]}, "t0")),
        calls(
            *(tool_use("todo", given, f"t{n}") for n, given in enumerate((wrong, long, many), 1))
        ),
        says("done"),
    )
    await run.prompt()

    refusals = tool_results(run)[1:]
    assert ["todos.0.status" in refusals[0], "todos.0.content" in refusals[1]] == [True, True]
    assert "at most 50" in refusals[2]
    assert todo_list(run.agent.conversation) == LIST


async def test_list_is_kept_up_to_its_limits() -> None:
    """Fifty steps of three hundred characters: longer lists are no list that a person reads."""
    steps: list[Json] = [{"content": "x" * 300, "status": "pending"}] * 50

    run = await with_a_list(steps=steps)

    assert tool_results(run) == ["The list is kept: 0 of 50 done."]


def test_step_cannot_change_without_a_new_list() -> None:
    """Rows on the screen are those of the record."""
    step = TodoItem(content="Read the code", status="pending")

    with pytest.raises(ValidationError, match="frozen"):
        step.status = "completed"


async def test_recorded_list_beyond_the_limits_is_shown_as_none_and_reset() -> None:
    """An earlier version may have allowed more; the program must still start and show the rest."""
    run = await with_a_list("again")
    long: Json = {"todos": [{"content": "x" * 301, "status": "pending"}]}
    data: Json = {"plugin": "todo", "version": 1, "state": long}
    run.agent.conversation.note(CustomMessage(ENTRY, data))

    shown = todo_list(run.agent.conversation)
    await run.prompt()

    assert shown == todo_list(run.agent.conversation) == []


async def test_compacted_todo_list_is_sent_again_once() -> None:
    """S2-17: the model continues its work; the list is not repeated while it is still visible."""
    run = await with_a_list("one", "two", "three")
    await run.prompt()
    before = [message["content"] for message in run.model.sent()]
    last = run.agent.conversation.prompts[-1].output[-1]
    run.agent.conversation.compact("there were steps", last.id)
    await run.prompt()
    await run.prompt()

    assert TOLD not in str(before)
    assert str(run.model.sent()).count(repr(TOLD)[1:-1]) == 1


@each_row("steps", [[], STEPS[:1]])
async def test_todo_list_without_open_steps_is_not_sent_again(steps: list[Json]) -> None:
    """A finished list needs no tokens in the next request."""
    run = await with_a_list("one", steps=steps)
    last = run.agent.conversation.prompts[-1].output[-1]
    run.agent.conversation.compact("all is done", last.id)
    await run.prompt()

    assert "todo list" not in str(run.model.sent())


async def test_rewind_restores_the_todo_list_of_that_point() -> None:
    """The list is part of the record and nowhere else, so a fork restores it, too."""
    run = Contributing(
        [todo()],
        calls(tool_use("todo", {"todos": STEPS[:1]}, "t1")),
        says("one"),
        calls(tool_use("todo", {"todos": [*STEPS]}, "t2")),
        says("two"),
    )
    await run.prompt()
    await run.prompt()
    earlier = Conversation(run.agent.conversation.prompts[:1])

    assert todo_list(run.agent.conversation) == LIST
    assert todo_list(earlier) == LIST[:1]
    assert todo_list(Conversation()) == []
