"""What the plugins' tools say about their calls: beside others, in plan mode, for how long."""

from typing import cast

from agent_cli.contracts.timeline import Json
from agent_cli.contracts.tooling import Tool, check_input
from agent_cli.core.conversation import Conversation
from agent_cli.plugins import recall, skills
from agent_cli.plugins.api import Plugin
from agent_cli.plugins.ask_user import Person, ask_user, present_plan
from agent_cli.plugins.reminders import reminders
from agent_cli.plugins.todo import todo
from tests.plugins.test_recall import matching
from tests.tables import each_row
from tests.tool_traits import traits

ASKED: dict[str, Json] = {"question": "Which?", "options": [{"label": "a"}, {"label": "b"}]}


def _only(plugin: Plugin) -> Tool:
    [tool] = plugin.tools
    return tool


@each_row(
    ("name", "given", "shown"),
    [
        ("remind", {"text": "check the oven", "after_s": 60}, "check the oven"),
        ("ask_user", {"questions": [ASKED, {**ASKED, "question": "Why?"}]}, "Which?"),
        ("present_plan", {"plan": "\n# Plan\n\n## Move the parser\nThen test."}, "Move the parser"),
        ("present_plan", {"plan": "# Plan\n\n1. Do **this** in `a_b.py`"}, "Do this in a_b.py"),
        ("present_plan", {"plan": "# \n"}, ""),
        ("recall", {"words": "two words", "regex": "a+"}, "two words a+"),
        ("recall", {"words": "two", "entry": 12}, "entry 12"),
    ],
)
def test_call_of_a_plugin_is_shown_by_what_it_is_about(name: str, given: Json, shown: str) -> None:
    """One line of the screen and of a log."""
    person = cast("Person", None)  # nobody is asked
    plugins = reminders(), ask_user(person), present_plan(person)
    tools = [*map(_only, plugins), recall._tool(Conversation(), matching)]
    tool = {each.name: each for each in tools}[name]

    assert tool.summary(check_input(tool, given)) == shown


def test_tools_of_plugins_run_alone_where_they_write_state_or_ask() -> None:
    """The session's state has one writer, the terminal one dialog; only `remind` acts later."""
    person = cast("Person", None)  # nobody is asked
    shelf = skills._Shelf([], warn=print)
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
