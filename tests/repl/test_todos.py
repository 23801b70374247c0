"""The todo list as shown to the user."""

from agent_cli.contracts.timeline import Json
from agent_cli.core.conversation import Conversation
from agent_cli.plugins.todo import TodoItem, todo, todo_list
from agent_cli.repl.todos import TodoPanel, folded, unfolded
from tests.fakes import calls, says, tool_use
from tests.plugins.contributing import Contributing

DONE = TodoItem(content="Read the code", status="completed")
NOW = TodoItem(content="Run the tests", status="in_progress", active_form="Running the tests")
NEXT = TodoItem(content="Write it down", status="pending", priority="high")


def test_todo_row_names_the_current_step_or_the_next_one() -> None:
    """It is one line, whatever the length of the list; none once everything is done."""
    assert folded([DONE, NOW, NEXT]) == "todo 1/3 · Running the tests"
    assert folded([DONE, NEXT]) == "todo 1/2 · next: Write it down"
    assert folded([NOW.model_copy(update={"active_form": ""})]) == "todo 0/1 · Run the tests"
    assert (folded([DONE]), folded([])) == ("", "")


def test_unfolded_todo_list_has_a_line_for_each_step() -> None:
    """`/todo` unfolds the row; the marks are readable without colours."""
    assert unfolded([DONE, NOW, NEXT]) == [
        "[x] Read the code",
        "[>] Run the tests",
        "[ ] Write it down (high priority)",
    ]


def test_text_of_a_todo_step_cannot_control_the_terminal() -> None:
    """A model writes the texts: escape sequences are shown, and lines are joined."""
    sly = TodoItem(content="a\x1b[2Jb\nc", status="pending")

    assert folded([sly]) == "todo 0/1 · next: a\\x1b[2Jb c"
    assert unfolded([sly]) == ["[ ] a\\x1b[2Jb c"]


async def test_todo_row_follows_changes_of_the_list_and_the_conversation() -> None:
    """It is read again after either changes."""
    steps: list[Json] = [{"content": "Run the tests", "status": "in_progress"}]
    run = Contributing([todo()], calls(tool_use("todo", {"todos": steps})), says("done"))
    row = TodoPanel(run.agent, lambda: todo_list(run.agent.conversation))

    before = row()
    await run.prompt()
    written = row()
    run.agent.adopt(Conversation())

    assert (before, written, row()) == ((), [(False, "todo 0/1 · Run the tests")], ())
