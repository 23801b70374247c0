"""Translate the schema of an answer into `output_config.format`, by which the API generates; pure.

What only narrows a value, such as a least number, is left out: the answer is checked against the
whole schema anyway, which the prompt holds too. A schema that the rest does not describe is not
sent at all.
"""

from collections.abc import Mapping
from typing import Final

from agent_cli.contracts.timeline import Json

_KEPT: Final = frozenset({"type", "enum", "const", "$ref", "description", "title"})
# Source: platform.claude.com, "Structured outputs", JSON Schema limitations.
_FORMATS: Final = frozenset(
    {
        *("date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6"),
        "uuid",
    }
)
_DROPPED: Final = frozenset(
    {
        *("$schema", "$id", "$comment", "default", "examples", "deprecated", "readOnly"),
        *("writeOnly", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
        *("minLength", "maxLength", "pattern", "minItems", "maxItems", "uniqueItems"),
        *("minProperties", "maxProperties"),
    }
)
_OPTIONAL_MAX: Final = 24
_UNIONS_MAX: Final = 16


class _NotSent(ValueError):
    """The API has no words for this schema."""


class _Translation:
    """A schema that is being rewritten; counts everything that the API limits."""

    def __init__(self) -> None:
        self.optional = 0
        self.unions = 0

    def schema(self, schema: Json) -> dict[str, Json]:
        """Return *schema* as the API takes it."""
        if not isinstance(schema, dict):
            raise _NotSent
        made: dict[str, Json] = {}
        for key, value in schema.items():
            match key, value:
                case (("$defs" | "definitions"), dict()):
                    made[key] = {name: self.schema(each) for name, each in value.items()}
                case "properties", dict():
                    made[key] = {name: self.schema(each) for name, each in value.items()}
                case "items", dict():
                    made[key] = self.schema(value)
                case "anyOf", list():
                    self.unions += 1
                    made[key] = [self.schema(each) for each in value]
                case "required", list():
                    made[key] = [*value]
                case "additionalProperties", bool() if not value:
                    pass
                case "format", str():
                    made |= {key: value} if value in _FORMATS else {}
                case _ if key in _KEPT:
                    made[key] = value
                case _ if key in _DROPPED:
                    pass
                case _:
                    raise _NotSent
        self._count(made)
        return made

    def _count(self, made: dict[str, Json]) -> None:
        if isinstance(made.get("type"), list):
            self.unions += 1
        if made.get("type") != "object" and "properties" not in made:
            return
        properties, required = made.get("properties"), made.get("required", [])
        if not (isinstance(properties, dict) and properties and isinstance(required, list)):
            raise _NotSent  # an object of any properties
        if any(name not in properties for name in required):
            raise _NotSent
        self.optional += len(properties) - len(required)
        made["additionalProperties"] = False


def output_format(schema: Mapping[str, Json]) -> Json:
    """Return `output_config.format` for answers that fit *schema*; None if the API has none."""
    translation = _Translation()
    try:
        made = translation.schema(dict(schema))
    except _NotSent:
        return None
    if translation.optional > _OPTIONAL_MAX or translation.unions > _UNIONS_MAX:
        return None
    if not made.get("type") or _refers_to_itself(made):
        return None
    return {"type": "json_schema", "schema": made}


def _refers_to_itself(schema: Mapping[str, Json]) -> bool:
    """Return whether a definition may contain itself, which the API refuses."""
    uses: dict[str, set[str]] = {}
    for group in ("$defs", "definitions"):
        named = schema.get(group)
        for name, each in named.items() if isinstance(named, dict) else ():
            uses[f"#/{group}/{name}"] = _references(each)
    if "#" in _references(dict(schema)):
        return True
    for begin in uses:
        seen, left = set[str](), [begin]
        while left:
            for used in uses.get(left.pop(), ()):
                if used == begin:
                    return True
                if used not in seen:
                    seen.add(used)
                    left.append(used)
    return False


def _references(value: Json) -> set[str]:
    match value:
        case {"$ref": str(target)}:
            return {target}
        case dict():
            return set[str]().union(*(_references(each) for each in value.values()))
        case list():
            return set[str]().union(*(_references(each) for each in value))
        case _:
            return set()
