"""The form of an elicitation: read its fields, fill in its defaults, validate the answer."""

from collections.abc import Iterator, Mapping

from agent_cli.contracts.servers import FieldKind, FormField
from agent_cli.contracts.timeline import Json
from agent_cli.contracts.wording import printable

_LABEL_MAX = 200


def form_fields(schema: Mapping[str, Json]) -> tuple[FormField, ...]:
    """Return the fields of a form in the server's order; unknown types become text fields."""
    required = schema.get("required")
    names = required if isinstance(required, list) else []
    return tuple(
        FormField(
            name=name,
            label=_text(field.get("title")) or name,
            kind=_kind(field),
            description=_text(field.get("description")),
            required=name in names,
            default=field.get("default"),
            options=tuple(_options(field)),
            format=_text(field.get("format")),
        )
        for name, field in _properties(schema)
    )


def with_defaults(schema: Mapping[str, Json], content: Mapping[str, Json]) -> dict[str, Json]:
    """Return *content* with the form's defaults for missing fields."""
    defaults = {name: field["default"] for name, field in _properties(schema) if "default" in field}
    return defaults | dict(content)


def form_fault(schema: Mapping[str, Json], content: Mapping[str, Json]) -> str:
    """Return the fault of an answer, "" if it is valid."""
    from agent_cli.contracts.schema_check import (  # jsonschema costs 40 ms
        UncheckableSchema,
        schema_faults,
    )

    try:
        faults = schema_faults(schema, dict(content))
    except UncheckableSchema as error:
        return f"the form itself is not valid: {error}"
    return faults[0].removeprefix("input: ") if faults else ""


def _properties(schema: Mapping[str, Json]) -> Iterator[tuple[str, dict[str, Json]]]:
    properties = schema.get("properties")
    for name, field in (properties if isinstance(properties, dict) else {}).items():
        if isinstance(field, dict):
            yield name, field


def _kind(field: Mapping[str, Json]) -> FieldKind:
    match field.get("type"):
        case "array":
            return "choices"
        case "number":
            return "number"
        case "integer":
            return "integer"
        case "boolean":
            return "boolean"
        case _:
            return "choice" if "enum" in field or "oneOf" in field else "text"


def _options(field: Mapping[str, Json]) -> Iterator[tuple[str, str]]:
    """Yield the values of a choice: bare, titled, or in the older format with `enumNames`."""
    items = field.get("items")
    where = items if field.get("type") == "array" and isinstance(items, dict) else field
    titled = where.get("oneOf") or where.get("anyOf")
    for option in titled if isinstance(titled, list) else []:
        if isinstance(option, dict) and isinstance(value := option.get("const"), str):
            yield value, _text(option.get("title")) or value
    values, labels = where.get("enum"), where.get("enumNames")
    for index, value in enumerate(values if isinstance(values, list) else []):
        label = labels[index] if isinstance(labels, list) and index < len(labels) else value
        yield str(value), _text(label)


def _text(value: Json) -> str:
    return printable(value)[:_LABEL_MAX] if isinstance(value, str) else ""
