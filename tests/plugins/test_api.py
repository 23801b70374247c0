"""What an author without a type checker is told about a plugin's fields."""

import pytest
from pydantic import BaseModel

from agent_cli.contracts.errors import PluginError
from agent_cli.plugins.api import Plugin, PluginState


class State(BaseModel):
    count: int = 0


def test_state_of_another_plugin_is_refused() -> None:
    """It was read as the other one's, and the first call said that it does not fit."""
    with pytest.raises(PluginError, match="plugin 'mail': its state is that of a plugin 'skills'"):
        Plugin(name="mail", state=PluginState("skills", State))


@pytest.mark.parametrize(
    ("field", "value", "told"),
    [
        ("name", 7, "its `name` cannot be of type int"),
        ("version", None, "its `version` cannot be of type NoneType"),
        ("prepare", "text", "its `prepare` cannot be of type str"),
        ("tools", 7, "its `tools` cannot be of type int"),
        ("tools", [print], "one of its `tools` cannot be of type builtin_function_or_method"),
        ("state", {}, "its `state` cannot be of type dict"),
        ("services", [], "its `services` cannot be of type list"),
        ("secrets", "KEY", "its `secrets` cannot be of type str"),
        ("secrets", [7], "one of its `secrets` cannot be of type int"),
        ("watch", 7, "its `watch` cannot be of type int"),
        ("agents", "folder", "its `agents` cannot be of type str"),
    ],
)
def test_a_field_of_another_type_is_refused(field: str, value: object, told: str) -> None:
    """The sentence names the field, and whether it is one part of a sequence."""
    given: dict[str, object] = {"name": "mine", field: value}

    with pytest.raises(TypeError) as refused:
        Plugin(**given)  # type: ignore[arg-type]  # the point of the test

    assert str(refused.value) == told
