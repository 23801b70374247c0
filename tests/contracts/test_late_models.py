"""Models that are built late behave as pydantic's, and their kept schemas are the right ones."""

import json
from typing import Annotated

import pydantic
import pytest

from agent_cli.contracts.cancel import CancelToken
from agent_cli.contracts.errors import ToolError
from agent_cli.contracts.late_models import (
    SCHEMAS,
    AliasChoices,
    BaseModel,
    ConfigDict,
    Field,
    building,
    built,
    input_schema,
    kept_schema,
    schema_of,
)
from agent_cli.contracts.tooling import Parameters, Tool, ToolContext, check_input
from tests.contracts.late_schemas import schemas


class Inner(BaseModel):
    size: int = Field(1, ge=1)


class Outer(Parameters):
    name: str = Field(validation_alias=AliasChoices("name", "title"))
    inner: list[Inner] = Field(default_factory=list)
    words: Annotated[tuple[str, ...], Field(max_length=2)] = ()


class Wider(Outer):
    model_config = ConfigDict(str_max_length=3)

    more: bool = False


def test_kept_schemas_are_those_that_pydantic_makes() -> None:
    """After a change of a tool's parameters run `python -m tests.contracts.late_schemas`."""
    made = json.dumps(schemas(), indent=1)  # in order: the prompt cache holds for the same bytes

    assert SCHEMAS.read_text() == f"{made}\n"


def test_late_model_validates_as_the_same_model_of_pydantic() -> None:
    read = Outer.model_validate({"title": "a", "inner": [{"size": 2}]})

    assert isinstance(read, Outer)
    assert isinstance(read, pydantic.BaseModel)
    assert read.model_dump() == {"name": "a", "inner": [{"size": 2}], "words": ()}
    assert Wider(name="a", more=True).more
    with pytest.raises(pydantic.ValidationError, match="greater than or equal to 1"):
        Outer.model_validate({"name": "a", "inner": [{"size": 0}]})
    with pytest.raises(pydantic.ValidationError, match="at most 2 items"):
        Outer.model_validate({"name": "a", "words": ["a", "b", "c"]})
    with pytest.raises(pydantic.ValidationError, match="at most 3 characters"):
        Wider.model_validate({"name": "long"})
    with pytest.raises(pydantic.ValidationError, match="Extra inputs"):
        Wider.model_validate({"name": "a", "other": 1})


def test_model_of_someone_else_is_not_looked_up() -> None:
    """Only ours have kept schemas; a plugin's model is asked for its own."""

    class Theirs(pydantic.BaseModel):
        size: int

    assert (kept_schema(Theirs), kept_schema(Outer)) == (None, None)
    assert input_schema(Theirs) == schema_of(Theirs)
    assert list(input_schema(Outer)["properties"]) == ["name", "inner", "words"]  # type: ignore[arg-type]


def test_all_models_are_built_one_with_each_step() -> None:
    """It is done while a model thinks; a key typed meanwhile waits for one model at most."""
    steps = [*building()]

    assert {built(Inner), built(Outer), built(Wider)} <= {*steps}


async def test_tool_checks_its_input_by_a_late_model() -> None:
    async def run(_id: str, params: Outer, _cancel: CancelToken, _context: ToolContext) -> str:
        return params.name

    tool = Tool(name="a", label="A", description="", parameters=Outer, execute=run)

    assert check_input(tool, {"name": "x"}).name == "x"
    with pytest.raises(ToolError, match="Invalid input for a: name: Field required"):
        check_input(tool, {})
