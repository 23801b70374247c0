import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from jsonschema import Draft7Validator, Draft202012Validator, FormatChecker

from agent_cli.contracts.timeline import Json
from agent_cli.mcp_client.schemas import UnusableSchema, api_schema, is_plain
from tests.tables import each_row

TEXT: Json = {"type": "string"}
WORDS = (
    *("type", "properties", "items", "required", "enum", "additionalProperties", "default"),
    *("description", "anyOf", "$schema", "pattern", "string", "object", "$ref", "minimum"),
)


def test_plain_schema_is_kept_unchanged() -> None:
    schema: dict[str, Json] = {
        "type": "object",
        "properties": {"a": {"anyOf": [TEXT, {"type": "null"}]}, "b": {"$ref": "#/$defs/B"}},
        "required": ["a"],
        "additionalProperties": False,
        "$defs": {"B": TEXT},
    }

    assert api_schema(schema).schema == schema


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3) | st.sampled_from(WORDS),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=4)
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(WORDS), _VALUES, max_size=5))
@example({"type": "object", "properties": {"a": {"anyOf": [TEXT, {"type": "null"}]}}})
@example({"required": ["a", "a"]})
@example({"anyOf": []})
def test_schema_that_is_taken_without_the_validator_is_valid_for_it(
    schema: dict[str, Json],
) -> None:
    """One that the API refuses makes every later request fail."""
    if is_plain(schema):
        for draft in (Draft202012Validator, Draft7Validator):
            draft.check_schema(schema, format_checker=FormatChecker(()))  # pyright: ignore[reportCallIssue]


def test_common_schemas_need_no_validator() -> None:
    """It took 17 ms of a tool with ten arguments, so a server with many was ready after seconds."""
    schema: dict[str, Json] = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "title": "issuesArguments",
        "properties": {
            "owner": {"type": "string", "description": "Who", "pattern": "^a", "default": None},
            "state": {"type": "string", "enum": ["open", "closed"], "format": "x"},
            "labels": {"type": "array", "items": {"type": "string", "const": "a"}},
            "since": {"anyOf": [TEXT, {"type": "null"}]},
        },
        "required": ["owner", "state"],
        "additionalProperties": False,
    }

    assert is_plain(schema)
    assert api_schema(schema).schema == schema


def test_common_slips_in_a_schema_are_mended() -> None:
    """The tool worked in other clients; nothing about its arguments is in doubt."""
    schema: dict[str, Json] = {
        "type": ["object", "null"],
        "description": None,
        "properties": {
            "a": {"type": "string", "required": True, "enum": ["x", None], "items": None},
            "examples": {"$ref": "#/$defs/A"},
            "b": {"type": "object", "properties": None, "examples": [{"$ref": "#/nowhere"}]},
            "c": {"type": "object", "properties": []},
        },
        "required": ["a", "a", 7],
        "$defs": {"A": TEXT},
    }

    assert api_schema(schema).schema == {
        "type": "object",
        "properties": {
            "a": {"type": "string", "enum": ["x", None]},
            "examples": {"$ref": "#/$defs/A"},
            "b": {"type": "object", "examples": [{"$ref": "#/nowhere"}]},
            "c": {"type": "object", "properties": {}},
        },
        "required": ["a"],
        "$defs": {"A": TEXT},
    }


def test_reference_to_a_missing_definition_constrains_nothing() -> None:
    """Servers forget their `$defs`; the tool can be called, and the server checks its input."""
    missing: dict[str, Json] = {"$ref": "#/$defs/Missing"}
    schema: dict[str, Json] = {
        "properties": {
            "a": {**missing, "description": "Which block"},
            "default": missing,
            "b": {"type": "array", "items": missing, "default": [missing]},
            "c": {"anyOf": [TEXT, missing, {"$ref": "#/$defs/Chained"}]},
            "d": {"oneOf": [TEXT, {"$ref": "#/$defs/Chained"}], "not": missing},
            "e": {"if": missing, "then": {"type": "null"}},
            "f": {**missing, "unevaluatedProperties": False},
        },
        "$defs": {"Chained": missing},
    }

    assert api_schema(schema).schema == {
        "type": "object",
        "properties": {
            "a": {"description": "Which block"},
            "default": {},
            "b": {"type": "array", "items": {}, "default": [missing]},
            "c": {"anyOf": [TEXT, {}, {"$ref": "#/$defs/Chained"}]},
            "d": {"anyOf": [TEXT, {"$ref": "#/$defs/Chained"}]},
            "e": {"then": {"type": "null"}},
            "f": {},
        },
        "$defs": {"Chained": {}},
    }


def test_missing_type_at_the_schema_root_is_added() -> None:
    assert api_schema({}).schema == {"type": "object"}


def test_alternatives_at_the_schema_root_are_merged() -> None:
    """The API refuses them there; a field that only one alternative requires becomes optional."""
    schema: dict[str, Json] = {
        "type": "object",
        "properties": {"id": TEXT},
        "required": ["id"],
        "oneOf": [
            {"properties": {"path": TEXT}, "required": ["path"], "additionalProperties": False},
            {"anyOf": [{"properties": {"url": TEXT}}]},
            True,
        ],
        "allOf": [{"properties": {"mode": TEXT}, "required": ["mode", "id"]}],
    }

    assert api_schema(schema).schema == {
        "type": "object",
        "properties": {"url": TEXT, "path": TEXT, "mode": TEXT, "id": TEXT},
        "required": ["id", "mode"],
    }


def test_reference_at_the_schema_root_is_resolved() -> None:
    schema: dict[str, Json] = {
        "$ref": "#/$defs/a~1b",
        "$defs": {"a/b": {"type": "object", "properties": {"x": TEXT}, "required": ["x"]}},
    }

    assert api_schema(schema).schema == {
        "$defs": schema["$defs"],
        "type": "object",
        "properties": {"x": TEXT},
        "required": ["x"],
    }


def test_schema_of_an_older_draft_is_rewritten_if_the_api_would_refuse_it() -> None:
    """One tool of a server, tuples in its input: the API refused every request."""
    pair: Json = {"items": [TEXT, {"type": "number"}], "additionalItems": False}
    above: Json = {"minimum": 0, "exclusiveMinimum": True, "maximum": 9, "exclusiveMaximum": False}
    schema: dict[str, Json] = {
        "$schema": "http://json-schema.org/draft-04/schema#",
        "type": "object",
        "properties": {"items": pair, "id": above, "some": {"anyOf": [pair]}},
        "definitions": {"all": {"items": pair}},
    }

    rewritten: Json = {"prefixItems": [TEXT, {"type": "number"}], "items": False}
    assert api_schema(schema).schema == {
        "type": "object",
        "properties": {
            "items": rewritten,
            "id": {"minimum": 0, "exclusiveMinimum": 0, "maximum": 9},
            "some": {"anyOf": [rewritten]},
        },
        "definitions": {"all": {"items": rewritten}},
    }


def test_schema_of_an_older_draft_stays_as_it_is_if_the_api_accepts_it() -> None:
    """A changed definition would have to be approved again."""
    schema: dict[str, Json] = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": {"a": {"items": TEXT, "default": [1]}},
    }

    assert api_schema(schema).schema == schema


@each_row(
    ("schema", "reason"),
    [
        ({"properties": {"a": {"type": "strin"}}}, "is not valid: 'strin' is not valid under"),
        ({"properties": {"a": {"$ref": "https://x.example/a"}}}, "refers to https://x.example/a"),
        ({"oneOf": [{"items": [{"$ref": "other.json"}]}]}, "is not valid"),
        (
            {
                "$schema": "http://json-schema.org/draft-03/schema#",
                "properties": {"a": {"type": "any"}},
            },
            "is not valid: 'any' is not valid under",
        ),
        ({"$ref": "#/$defs/none"}, "refers to #/$defs/none, which is not there"),
        ({"$ref": "#"}, "refers to # in a circle"),
        ({"anyOf": [{"type": "array"}]}, "describes array, not an object"),
    ],
)
def test_schema_that_the_api_would_refuse_is_unusable(schema: dict[str, Json], reason: str) -> None:
    """The check comes when tools are listed, costs one tool, and fetches nothing."""
    with pytest.raises(UnusableSchema, match="its input schema") as caught:
        api_schema(schema)

    assert reason in str(caught.value)


def test_nested_descriptions_are_truncated_and_sanitized() -> None:
    """They are untrusted like the tool's own; a property may be named `description`."""
    hostile = "a\u200b\x1b[2J" + "x" * 5000

    def nested(description: str) -> dict[str, Json]:
        told: Json = {"type": "string", "description": description, "default": "\u200b"}
        return {"type": "object", "properties": {"title": {"items": {"anyOf": [told]}}}}

    assert api_schema(nested(hostile)).schema == nested("a[2J" + "x" * 2040 + " …")


def test_oversized_schema_is_refused() -> None:
    """A megabyte of choices would be paid for with every request."""
    with pytest.raises(UnusableSchema, match="its input schema is longer than 64 KB"):
        api_schema({"properties": {"a": {"enum": ["x" * 1_000_000]}}})


def test_argument_whose_name_the_api_refuses_has_another_name() -> None:
    """OData has `$filter`; the whole tool was left out. A name that is taken gets a number."""
    schema: dict[str, Json] = {
        "type": "object",
        "properties": {
            "$filter": {"type": "string", "description": "which rows"},
            "_filter": TEXT,
            "größe in cm": {"type": "integer"},
            "x" * 70: TEXT,
            "": TEXT,
        },
        "required": ["$filter", "_filter"],
        "dependentRequired": {"$filter": ["_filter"]},
        "additionalProperties": False,
    }

    accepted = api_schema(schema)

    assert accepted.schema == {
        "type": "object",
        "properties": {
            "_filter_2": {"type": "string", "description": "$filter: which rows"},
            "_filter": TEXT,
            "gr__e_in_cm": {"type": "integer", "description": "größe in cm"},
            "x" * 60: {"type": "string", "description": "x" * 70},
            "_": {"type": "string", "description": ""},
        },
        "required": ["_filter_2", "_filter"],
        "additionalProperties": False,
    }
    assert accepted.theirs({"_filter_2": "a", "_filter": "b", "_": "c", "other": 1}) == {
        "$filter": "a",
        "_filter": "b",
        "": "c",
        "other": 1,
    }


def test_schema_that_refers_to_an_argument_of_a_refused_name_is_unusable() -> None:
    schema: dict[str, Json] = {"properties": {"$a": TEXT, "b": {"$ref": "#/properties/$a"}}}

    with pytest.raises(UnusableSchema, match=r"refuses the name of its argument '\$a'"):
        api_schema(schema)
