"""What the check of JSON against a schema says about its faults."""

import pytest

from agent_cli.contracts.schema_check import UncheckableSchema, schema_faults
from agent_cli.contracts.timeline import Json
from tests.tables import each_row


def test_each_fault_names_its_path() -> None:
    """S2-21: the model corrects what a sentence points to."""
    name: Json = {"type": "object", "properties": {"name": {"type": "string"}}}
    schema: dict[str, Json] = {
        "type": "object",
        "properties": {"people": {"type": "array", "items": name}},
    }

    assert schema_faults(schema, {"people": [{}, {"name": 7}]}) == [
        "people.1.name: 7 is not of type 'string'"
    ]
    assert schema_faults(schema, []) == ["input: [] is not of type 'object'"]


def test_a_long_fault_is_cut_at_500_characters() -> None:
    schema = {"type": "string"}
    whole = len("input: [] is not of type 'string'")

    [longest] = schema_faults(schema, ["a" * (500 - whole - 2)])
    [cut] = schema_faults(schema, ["a" * (500 - whole - 1)])

    assert (len(longest), longest[-1], len(cut), cut[-1]) == (500, "'", 500, "…")


def test_a_check_of_more_than_50_000_steps_is_given_up() -> None:
    """S3-21: a keyword is a step, an alternative half of one; a server lists any number."""
    alternatives: list[Json] = [{"const": 1}] * 33_333

    assert schema_faults({"allOf": alternatives}, 1) == []
    with pytest.raises(UncheckableSchema, match="too many alternatives"):
        schema_faults({"allOf": [*alternatives, {"const": 1}]}, 1)


def test_step_that_takes_long_counts_as_several() -> None:
    """The event loop stands still meanwhile."""
    objects: list[Json] = [{"a": number} for number in range(5_000)]
    referring: dict[str, Json] = {"items": {"$ref": "#/$defs/a"}, "$defs": {"a": {}}}
    comparing: dict[str, Json] = {"items": {"enum": objects}}
    anything: list[Json] = [{}] * 5_000
    types: list[Json] = ["string"] * 5_000
    choosing: dict[str, Json] = {"items": {"allOf": anything}}
    typing: dict[str, Json] = {"items": {"type": [*types, "object"]}}

    checks: list[tuple[dict[str, Json], list[Json]]] = [(referring, objects)]
    checks += ((schema, objects[-100:]) for schema in (comparing, choosing, typing))
    for schema, items in checks:
        with pytest.raises(UncheckableSchema, match="too many alternatives"):
            schema_faults(schema, items)


@each_row(
    ("schema", "value", "faults"),
    [
        ({"enum": [1, {"a": [1]}]}, 1.0, []),
        ({"enum": [1, {"a": [1]}]}, {"a": [1]}, []),
        ({"enum": [1, {"a": [1]}]}, True, ["input: True is not one of [1, {'a': [1]}]"]),
        (
            {"enum": [{"a": [1]}]},
            {"a": [True]},
            ["input: {'a': [True]} is not one of [{'a': [1]}]"],
        ),
        ({"enum": [{"a": 1}, {"a": True}]}, {"a": True}, []),
        ({"type": ["string", "string", "null"]}, None, []),
        ({"type": ["string", "string", "null"]}, 7, ["input: 7 is not of type 'string', 'null'"]),
    ],
)
def test_one_of_several_values_or_types_is_accepted(
    schema: dict[str, Json], value: Json, faults: list[str]
) -> None:
    """JSON keeps true from 1; Python, which compares fast, does not."""
    assert schema_faults(schema, value) == faults


def test_items_are_not_compared_with_each_other() -> None:
    """3,000 objects took 8 s; the server finds out."""
    items: list[Json] = [{"a": 1}] * 3_000

    assert schema_faults({"uniqueItems": True}, items) == []
