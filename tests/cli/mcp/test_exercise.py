"""The arguments with which `mcp exercise --call-all` calls the tools of a server."""

from agent_cli.cli.mcp.exercise import simplest
from agent_cli.contracts.timeline import Json
from tests.tables import each_row


@each_row(
    ("schema", "value"),
    [
        ({"default": 3, "const": 4}, 3),
        ({"type": "string", "const": "only"}, "only"),
        ({"type": "string", "enum": ["first", "second"]}, "first"),
        ({"anyOf": [{"type": "null"}, {"type": "string"}]}, None),
        ({"oneOf": [{"type": "integer"}]}, 1),
        ({"allOf": [{"type": "number", "minimum": 2.5}]}, 2.5),
        ({"type": ["boolean", "null"]}, True),
        ({"type": "array"}, []),
        ({"type": "array", "minItems": 2, "items": {"type": "boolean"}}, [True, True]),
        ({"type": "string", "format": "uri"}, "https://example.com/"),
        ({"type": "object", "properties": {"a": {}}, "required": ["a"]}, {"a": "text"}),
        ({"enum": []}, "text"),
        (True, "text"),
    ],
)
def test_required_arguments_get_the_simplest_value(schema: Json, value: Json) -> None:
    whole: dict[str, Json] = {
        "properties": {"given": schema, "optional": {"type": "string"}},
        "required": ["given"],
    }

    assert simplest(whole) == {"given": value}
