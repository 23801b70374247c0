"""What an author without a type checker is told about a plugin's fields."""

import pytest
from pydantic import BaseModel

from agent_cli.contracts.errors import AgentCliError, PluginError
from agent_cli.plugins.api import Plugin, PluginState
from tests.tables import each_row


class State(BaseModel):
    count: int = 0


def test_state_of_another_plugin_is_refused() -> None:
    """It was read as the other one's, and the first call said that it does not fit."""
    with pytest.raises(PluginError, match="plugin 'mail': its state is that of a plugin 'skills'"):
        Plugin(name="mail", state=PluginState("skills", State))


@each_row(
    ("field", "value", "told"),
    [
        ("name", 7, "name of the plugin 7 must be str, not int"),
        ("version", None, "version of the plugin 'mine' must be str, not NoneType"),
        ("prepare", "text", "prepare of the plugin 'mine' must be a function or None, not str"),
        ("tools", 7, "tools of the plugin 'mine' must be a sequence, not int"),
        (
            "tools",
            [print],
            "each of tools of the plugin 'mine' must be Tool, not builtin_function_or_method",
        ),
        ("state", {}, "state of the plugin 'mine' must be PluginState or None, not dict"),
        ("services", [], "services of the plugin 'mine' must be Mapping, not list"),
        ("secrets", "KEY", "secrets of the plugin 'mine' must be a sequence, not str"),
        ("secrets", [7], "each of secrets of the plugin 'mine' must be str, not int"),
        ("watch", 7, "watch of the plugin 'mine' must be a function or None, not int"),
        ("agents", "folder", "agents of the plugin 'mine' must be Path or None, not str"),
    ],
)
def test_a_field_of_another_type_is_refused(field: str, value: object, told: str) -> None:
    """As a `Tool` does, it names the field; it was a TypeError, which no program expected."""
    given: dict[str, object] = {"name": "mine", field: value}

    with pytest.raises(AgentCliError) as refused:
        Plugin(**given)  # type: ignore[arg-type]  # the point of the test

    assert str(refused.value) == told
