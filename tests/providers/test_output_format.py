"""Schemas of answers, as the API generates by them; one that it has no words for is not sent."""

from typing import Any

import pytest
from jsonschema import Draft202012Validator

from agent_cli.providers.anthropic.output_format import output_format
from tests.tables import each_row

N = {"type": "integer"}


def test_bounds_are_left_out_and_objects_are_closed() -> None:
    """The answer is checked against the whole schema afterwards."""
    schema: dict[str, Any] = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {
            "n": {"type": "integer", "minimum": 1},
            "at": {"type": "string", "format": "date"},
            "id": {"type": "string", "format": "regex", "pattern": "^a"},
            "list": {"type": "array", "items": {"$ref": "#/$defs/one"}, "minItems": 3},
        },
        "required": ["n"],
        "$defs": {"one": {"type": "object", "properties": {"a": N}, "required": ["a"]}},
    }

    assert output_format(schema) == {
        "type": "json_schema",
        "schema": {
            "type": "object",
            "properties": {
                "n": N,
                "at": {"type": "string", "format": "date"},
                "id": {"type": "string"},
                "list": {"type": "array", "items": {"$ref": "#/$defs/one"}},
            },
            "required": ["n"],
            "$defs": {
                "one": {
                    "type": "object",
                    "properties": {"a": N},
                    "required": ["a"],
                    "additionalProperties": False,
                }
            },
            "additionalProperties": False,
        },
    }


@each_row(
    "schema",
    [
        {},
        {"type": "object"},
        {"type": "object", "additionalProperties": N},
        {"type": "object", "properties": {"a": N}, "additionalProperties": True},
        {"type": "object", "properties": {"a": N}, "required": ["b"]},
        {"type": "object", "properties": {"a": True}},
        {"type": "array", "prefixItems": [N]},
        {"oneOf": [N, {"type": "string"}]},
        {"type": "object", "properties": {f"p{n}": N for n in range(25)}},
        {"type": "object", "properties": {"a": {"$ref": "#"}}},
        {
            "type": "object",
            "properties": {"a": {"$ref": "#/$defs/x"}},
            "$defs": {"x": {"type": "array", "items": {"$ref": "#/$defs/x"}}},
        },
    ],
)
def test_schema_that_the_api_cannot_generate_by_is_not_sent(schema: dict[str, Any]) -> None:
    Draft202012Validator.check_schema(schema)

    assert output_format(schema) is None


def _object(count: int, each: Any, *, required: bool) -> dict[str, Any]:
    names = [f"p{number}" for number in range(count)]
    made: dict[str, Any] = {"type": "object", "properties": dict.fromkeys(names, each)}
    return {**made, "required": names} if required else made


@pytest.mark.parametrize(("count", "is_sent"), [(24, True), (25, False)])
def test_schema_with_more_optional_fields_than_the_api_takes_is_not_sent(
    count: int, *, is_sent: bool
) -> None:
    assert (output_format(_object(count, N, required=False)) is not None) is is_sent


@each_row(("count", "is_sent"), [(16, True), (17, False)])
@each_row("union", [{"type": ["integer", "null"]}, {"anyOf": [N, N]}])
def test_schema_with_more_unions_than_the_api_takes_is_not_sent(
    count: int, union: dict[str, Any], *, is_sent: bool
) -> None:
    assert (output_format(_object(count, union, required=True)) is not None) is is_sent
