"""Rewrite schemas of older JSON Schema drafts in draft 2020-12, the only one the API accepts; pure.

Most servers are written with libraries that produce draft 7. Few of its schemas mean something else
in draft 2020-12, but one that is not valid there makes every request fail.
"""

from collections.abc import Mapping
from typing import Final

from agent_cli.contracts.timeline import Json
from agent_cli.mcp_client.schema_mending import OF_SCHEMAS

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
