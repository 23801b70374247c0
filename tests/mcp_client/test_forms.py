from agent_cli.contracts.servers import FormField
from agent_cli.contracts.timeline import Json
from agent_cli.mcp_client.forms import form_fault, form_fields, with_defaults

FORM: dict[str, Json] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "title": "Na\u202eme", "format": "email"},
        "age": {"type": "integer", "default": 30, "description": "In years"},
        "size": {"type": "string", "enum": ["s", "l"], "enumNames": ["Small", "Large"]},
        "tone": {"type": "string", "oneOf": [{"const": "a", "title": "Soft"}]},
        "tags": {"type": "array", "items": {"enum": ["x", "y"]}},
        "sure": {"type": "boolean"},
    },
    "required": ["name"],
}


def test_every_kind_of_form_field_is_read() -> None:
    """Front ends show the fields; titles lose characters that hide or reorder text."""
    assert form_fields(FORM) == (
        FormField(name="name", label="Name", kind="text", required=True, format="email"),
        FormField(name="age", label="age", kind="integer", description="In years", default=30),
        FormField(
            name="size", label="size", kind="choice", options=(("s", "Small"), ("l", "Large"))
        ),
        FormField(name="tone", label="tone", kind="choice", options=(("a", "Soft"),)),
        FormField(name="tags", label="tags", kind="choices", options=(("x", "x"), ("y", "y"))),
        FormField(name="sure", label="sure", kind="boolean"),
    )


def test_form_defaults_fill_omitted_fields() -> None:
    assert with_defaults(FORM, {"name": "a@b"}) == {"name": "a@b", "age": 30}
    assert with_defaults(FORM, {"age": 3}) == {"age": 3}


def test_form_answer_is_checked_against_the_form() -> None:
    """The sentence names the field."""
    assert form_fault(FORM, {"name": "a", "tags": ["x"]}) == ""
    assert form_fault(FORM, {"name": "a", "tags": ["z"]}).startswith("tags.0: ")
    assert "required" in form_fault(FORM, {})


def test_malformed_form_has_no_fields() -> None:
    assert form_fields({"properties": [], "required": 1}) == ()
    assert form_fields({"properties": {"a": 1}}) == ()
