"""What the plugins' tools say about their calls: beside others, in plan mode, for how long."""

from typing import cast

from agent_cli.contracts.tooling import Tool
from agent_cli.core.conversation import Conversation
from agent_cli.plugins import recall, skills
from agent_cli.plugins.api import Plugin
from agent_cli.plugins.ask_user import Person, ask_user, present_plan
from agent_cli.plugins.reminders import reminders
from agent_cli.plugins.todo import todo
from tests.plugins.test_recall import matching
from tests.tool_traits import traits


def _only(plugin: Plugin) -> Tool:
    [tool] = plugin.tools
    return tool


def test_tools_of_plugins_run_alone_where_they_write_state_or_ask() -> None:
    """The session's state has one writer, the terminal one dialog; only `remind` acts later."""
    person = cast("Person", None)  # nobody is asked
    shelf = skills._Shelf([], [], warn=print)
    tools = [
        *map(_only, (todo(), reminders(), ask_user(person), present_plan(person))),
        shelf._tool(),
        recall._tool(Conversation(), matching),
    ]
    asks = {"takes_slot": False, "asks_person": True, "timeout_s": 0}

    assert {tool.name: traits(tool) for tool in tools} == {
        "todo": {"label": "Todo", "parallel_safe": False, "changes": False},
        "remind": {"label": "Remind", "parallel_safe": False},
        "ask_user": {"label": "Ask", "parallel_safe": False, "changes": False, **asks},
        "present_plan": {"label": "Plan", "parallel_safe": False, "changes": False, **asks},
        "skill": {"label": "Skill", "parallel_safe": False, "changes": False},
        "recall": {"label": "Recall", "changes": False},
    }
