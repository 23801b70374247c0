"""The input schemas of tools, as the model reads them."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from agent_cli.contracts.input_schemas import input_schema


class Part(BaseModel):
    """A part."""

    model_config = ConfigDict(extra="forbid")

    name: Annotated[str, Field(min_length=1)] = ""


class Tree(BaseModel):
    """A part that holds parts of its kind."""

    below: "list[Tree]"


def test_the_model_reads_a_schema_without_what_says_nothing() -> None:
    """It is paid for in every request; a definition is inlined where it is used."""

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


def test_a_definition_that_holds_itself_stays_one() -> None:
    assert "$defs" in input_schema(Tree)
