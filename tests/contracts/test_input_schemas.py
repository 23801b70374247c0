"""The input schemas of tools, as the model reads them."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from agent_cli.contracts.late_models import input_schema


class Part(BaseModel):
    """A part."""

    model_config = ConfigDict(extra="forbid")

    name: Annotated[str, Field(min_length=1)] = ""


class Tree(BaseModel):
    """A part that holds parts of its kind."""

    below: "list[Tree]"


def test_input_schema_has_no_redundant_parts_and_inlines_definitions() -> None:
    """A schema is part of every request, and paid for each time."""

    class Parts(BaseModel):
        parts: list[Part]

    assert input_schema(Parts) == {
        "properties": {
            "parts": {
                "items": {
                    "description": "A part.",
                    "properties": {"name": {"type": "string"}},
                    "type": "object",
                },
                "type": "array",
            }
        },
        "required": ["parts"],
        "type": "object",
    }


def test_recursive_definition_is_not_inlined() -> None:
    assert "$defs" in input_schema(Tree)
