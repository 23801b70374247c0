"""The schema of `--output-format stream-json`, made from the types of the events.

    python -m docs.stream_json > docs/stream-json.schema.json

Every line of that output is one object that fits it.
"""

import dataclasses
import json
import types
import typing
from collections.abc import Callable, Mapping, Sequence

import agent_cli.session_store.codec  # noqa: F401 # pyright: ignore[reportUnusedImport] - entries of a kind nobody registered
from agent_cli.contracts.errors import Trouble
from agent_cli.contracts.events import Event, MessageUpdate
from agent_cli.contracts.provider import StreamEvent
from agent_cli.contracts.timeline import Json, Usage

_SIMPLE: Mapping[object, str] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    types.NoneType: "null",
}
_NAMES = ("type", "kind", "role", "state")
_RESULT_TYPE = "app.result"


class Definitions:
    """The schemas of classes, each made once and referred to by its name."""

    def __init__(self) -> None:
        self.made: dict[str, Json] = {}

    def of(self, annotation: object) -> dict[str, Json]:
        """Return the schema of a type."""
        if simple := _SIMPLE.get(annotation):
            return {"type": simple}
        origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
        if origin is typing.Literal:
            return {"enum": list(arguments)}
        if origin in {typing.Union, types.UnionType}:
            return {"anyOf": [self.of(part) for part in arguments]}
        if origin in {tuple, list, Sequence}:
            return {"type": "array", "items": self.of(arguments[0])}
        if origin in {dict, Mapping}:
            return {"type": "object", "additionalProperties": self.of(arguments[1])}
        if isinstance(annotation, type) and dataclasses.is_dataclass(annotation):
            kinds = _kinds(annotation)
            if kinds == [annotation]:
                return self._reference(annotation)
            return {"anyOf": [self._reference(kind) for kind in kinds]}
        return {}  # Any JSON.

    def _reference(self, cls: type) -> dict[str, Json]:
        if cls.__name__ not in self.made:
            self.made[cls.__name__] = None  # It may hold itself.
            self.made[cls.__name__] = self._object(cls)
        return {"$ref": f"#/$defs/{cls.__name__}"}

    def _object(self, cls: type) -> dict[str, Json]:
        hints = typing.get_type_hints(cls, localns={"Json": Json, "Event": Event})
        properties: dict[str, Json] = {}
        for name in _NAMES:
            constant = getattr(cls, name, None)
            if isinstance(constant, str):
                properties[name] = {"const": constant}
            elif isinstance(constant, property):
                properties[name] = {}
        for field in dataclasses.fields(cls):
            if cls is MessageUpdate and typing.get_origin(hints[field.name]) is Callable:
                continue
            properties[field.name] = self.of(hints[field.name])
        return {
            "type": "object",
            "description": (cls.__doc__ or "").strip().partition("\n")[0],
            "properties": properties,
            "required": list(properties),
        }


def _kinds(cls: type) -> list[type]:
    """Return *cls* or our classes below it, without those that only group others."""
    subclasses: list[type] = cls.__subclasses__()
    ours = [sub for sub in subclasses if sub.__module__.startswith("agent_cli.")]
    kinds = [kind for sub in ours for kind in _kinds(sub)]
    constants = [vars(cls).get(name) for name in _NAMES]
    if not ours or any(isinstance(constant, str) and constant for constant in constants):
        kinds.insert(0, cls)
    # Before Python 3.14, the class that a decorator with slots was given is still around.
    return list({kind.__name__: kind for kind in kinds}.values())


def schema() -> dict[str, Json]:
    """Return the schema of a line."""
    definitions = Definitions()
    lines = [definitions.of(event) for event in typing.get_args(Event)]
    update = definitions.made["MessageUpdate"]
    assert isinstance(update, dict)
    update["properties"] = {
        "type": {"const": MessageUpdate.type},
        "event": {"anyOf": [definitions.of(piece) for piece in typing.get_args(StreamEvent)]},
    }
    update["required"] = ["type", "event"]
    definitions.made["Result"] = _result()
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A line of agent-cli --output-format stream-json",
        "anyOf": [*lines, {"$ref": "#/$defs/Result"}],
        "$defs": dict(sorted(definitions.made.items())),
    }


def _result() -> dict[str, Json]:
    tokens = [field.name for field in dataclasses.fields(Usage) if field.name.endswith("_tokens")]
    properties: dict[str, Json] = {
        "type": {"const": _RESULT_TYPE},
        "text": {"type": "string"},
        "stop_reason": {"type": "string"},
        "rounds": {"type": "integer"},
        "usage": {
            "type": "object",
            "properties": {name: {"type": "integer"} for name in tokens},
            "required": list[Json](tokens),
        },
        "cost_usd": {"anyOf": [{"type": "number"}, {"type": "null"}]},
        "session_id": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "exit_code": {"type": "integer"},
    }
    required = list[Json](properties)
    properties["output"] = {}  # Any JSON: the answer that --json-schema asks for.
    properties["held_usd"] = {"type": "number"}
    properties["check"] = {"type": "object"}
    properties["checks"] = {"type": "array", "items": {"type": "object"}}
    properties["declined_calls"] = {"type": "array", "items": {"type": "object"}}
    properties["denied_calls"] = {"type": "array", "items": {"type": "object"}}
    properties["refused_commands"] = {"type": "array", "items": {"type": "string"}}
    properties["refused_hosts"] = {"type": "array", "items": {"type": "string"}}
    properties["undecided_files"] = {"type": "array", "items": {"type": "string"}}
    properties["error"] = {"type": "string"}
    properties["trouble"] = {"enum": [*typing.get_args(Trouble)]}
    return {
        "type": "object",
        "description": "The last line, whatever happened; --output-format json prints it alone.",
        "properties": properties,
        "required": required,
    }


if __name__ == "__main__":
    print(json.dumps(schema(), indent=2, ensure_ascii=False))
