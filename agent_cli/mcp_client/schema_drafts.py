"""Rewrite a server's schema to be valid in draft 2020-12, the only one the API accepts; pure.

Most servers are written with libraries that produce draft 7. Few of its schemas mean something else
in draft 2020-12, but one that is not valid there makes every request fail. Common slips that leave
no doubt what a schema means are mended.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Final

from agent_cli.contracts.timeline import Json

OF_SCHEMAS: Final = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
"""Keywords whose value maps names to schemas."""

DATA: Final = ("const", "default", "enum", "example", "examples")
"""Keywords whose value is data: nothing in it is a keyword."""

REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")
_REFUSING: Final = ("if", "not", "unevaluatedItems", "unevaluatedProperties")
_LISTS: Final = ("allOf", "anyOf", "oneOf", "prefixItems")
_SINGLE: Final = (
    "additionalProperties",
    "contains",
    "else",
    "if",
    "items",
    "not",
    "propertyNames",
    "then",
)
_BOUNDS: Final = {"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"}
# They have no meaning for a single schema without references to other documents.
_DROPPED: Final = ("$schema", "$recursiveAnchor", "id", "additionalItems")


def in_current_draft(schema: Mapping[str, Json]) -> dict[str, Json]:
    """Return *schema* with the keywords of draft 2020-12; other keywords stay as they are."""
    written: dict[str, Json] = {}
    for key, value in schema.items():
        if key == "items" and isinstance(value, list):
            written["prefixItems"] = [_part(each) for each in value]
            if "additionalItems" in schema:
                written["items"] = _part(schema["additionalItems"])
        elif key in _BOUNDS and isinstance(value, bool):
            if value and (bound := schema.get(_BOUNDS[key])) is not None:
                written[key] = bound
        elif key in OF_SCHEMAS and isinstance(value, dict):
            written[key] = {name: _part(each) for name, each in value.items()}
        elif key in _LISTS and isinstance(value, list):
            written[key] = [_part(each) for each in value]
        elif key in _SINGLE:
            written[key] = _part(value)
        elif key not in _DROPPED:
            written[key] = value
    return written


def _part(value: Json) -> Json:
    return in_current_draft(value) if isinstance(value, dict) else value


def mended(schema: Mapping[str, Json]) -> dict[str, Json]:
    """Return *schema* without null for absent keywords, and with each required name once.

    Generators write null for what was not given, and PHP [] for {}; `"required": true` beside a
    property is draft 3.
    """
    written: dict[str, Json] = {}
    for key, value in schema.items():
        if key in DATA:
            written[key] = value
        elif key == "required":
            if isinstance(value, list):
                names = [name for name in value if isinstance(name, str)]
                written[key] = list(dict.fromkeys(names))
        elif key in OF_SCHEMAS and isinstance(value, dict):
            written[key] = {
                name: _mended_part(each) for name, each in value.items() if each is not None
            }
        elif key in OF_SCHEMAS and value == []:
            written[key] = {}
        elif isinstance(value, list):
            written[key] = [_mended_part(each) for each in value]
        elif value is not None:
            written[key] = _mended_part(value)
    return written


def _mended_part(value: Json) -> Json:
    return mended(value) if isinstance(value, dict) else value


def inner_schemas(schema: Mapping[str, Json]) -> Iterator[Json]:
    """Yield the values of *schema* that are schemas or hold some; data is left out."""
    for key, value in schema.items():
        if key in OF_SCHEMAS and isinstance(value, dict):
            yield from value.values()
        elif key not in DATA:
            yield value


def without_references(schema: Mapping[str, Json], dead: Collection[str]) -> dict[str, Json]:
    """Return *schema* without the references in *dead*: what they stood for may be anything.

    What refuses more where less is known, such as `not`, is left out too, and `oneOf` is `anyOf`.
    """
    written: dict[str, Json] = {}
    for key, value in schema.items():
        if key in DATA:
            written[key] = value
        elif key in OF_SCHEMAS and isinstance(value, dict):
            written[key] = {name: _living(each, dead) for name, each in value.items()}
        elif key == "oneOf":
            written.setdefault("anyOf", _living(value, dead))
        elif key not in _REFUSING and not (
            key in REFERENCES and isinstance(value, str) and value in dead
        ):
            written[key] = _living(value, dead)
    return written


def _living(value: Json, dead: Collection[str]) -> Json:
    if isinstance(value, list):
        return [_living(each, dead) for each in value]
    return without_references(value, dead) if isinstance(value, dict) else value
