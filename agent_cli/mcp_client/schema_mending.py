"""Mend common slips in a server's schema that make it invalid, but leave no doubt what it means."""

from collections.abc import Iterator, Mapping
from typing import Final

from agent_cli.contracts.timeline import Json

OF_SCHEMAS: Final = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
"""Keywords whose value maps names to schemas."""

DATA: Final = ("const", "default", "enum", "example", "examples")
"""Keywords whose value is data: nothing in it is a keyword."""


def mended(schema: Mapping[str, Json]) -> dict[str, Json]:
    """Return *schema* without null for absent keywords, and with each required name once.

    Generators write null for what was not given; `"required": true` beside a property is draft 3.
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
            written[key] = {name: _part(each) for name, each in value.items() if each is not None}
        elif isinstance(value, list):
            written[key] = [_part(each) for each in value]
        elif value is not None:
            written[key] = _part(value)
    return written


def _part(value: Json) -> Json:
    return mended(value) if isinstance(value, dict) else value


def inner_schemas(schema: Mapping[str, Json]) -> Iterator[Json]:
    """Yield the values of *schema* that are schemas or hold some; data is left out."""
    for key, value in schema.items():
        if key in OF_SCHEMAS and isinstance(value, dict):
            yield from value.values()
        elif key not in DATA:
            yield value
