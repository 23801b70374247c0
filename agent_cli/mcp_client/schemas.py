"""Make a server's input schema acceptable to the API, or say why it cannot be.

One schema the API refuses makes every later request of a session fail, so the check is done when
tools are listed, never when they are sent.
"""

import json
from collections.abc import Iterator, Mapping

from jsonschema.exceptions import SchemaError
from jsonschema.validators import validator_for

from agent_cli.contracts.timeline import Json
from agent_cli.mcp_client.stderr_tail import printable

_DESCRIPTION_BYTES_MAX = 2048
_SCHEMA_CHARS_MAX = 64 * 1024
_DESCRIBING = ("description", "title")
_COMBINATORS = ("allOf", "anyOf", "oneOf")


class UnusableSchema(ValueError):
    """A tool's input schema cannot be sent to the API."""


def api_schema(schema: Mapping[str, Json]) -> dict[str, Json]:
    """Return *schema* with type "object", no combinator at its root, and descriptions cut short.

    The alternatives' properties are merged, and only what all of them require stays required:
    looser than what the server wants, which checks its input itself.

    Raises:
        UnusableSchema: It is not a valid JSON schema, refers to something outside itself, or is
            longer than 64 KB even so.

    Source: Messages API, `input_schema`: oneOf, anyOf and allOf are refused at the root.
    """
    root = dict(schema)
    try:
        validator_for(root).check_schema(root)
    except SchemaError as error:
        raise UnusableSchema(f"its input schema is not valid: {error.message}") from error
    # Following it would mean a network request while a call's input is being checked.
    outside = [ref for ref in _references(root) if not ref.startswith("#")]
    if outside:
        raise UnusableSchema(f"its input schema refers to {outside[0]}, outside of itself")
    root = _flat(root, root, depth=0)
    if root.setdefault("type", "object") != "object":
        raise UnusableSchema(f"its input schema describes {root['type']}, not an object")
    root = {key: _without_long_texts(key, part) for key, part in root.items()}
    if len(json.dumps(root)) > _SCHEMA_CHARS_MAX:
        raise UnusableSchema(f"its input schema is longer than {_SCHEMA_CHARS_MAX // 1024} KB")
    return root


def description(text: str) -> str:
    """Return *text* without hidden characters, at most 2 KB of UTF-8."""
    data = printable(text, keep="\n\t").encode()
    if len(data) <= _DESCRIPTION_BYTES_MAX:
        return data.decode()
    mark = " …"
    cut = data[: _DESCRIPTION_BYTES_MAX - len(mark.encode())]
    return cut.decode(errors="ignore") + mark


def _without_long_texts(key: str, part: Json) -> Json:
    """Return what stands under *key* with its descriptions, at any depth, as `description()`."""
    if isinstance(part, str):
        return description(part) if key in _DESCRIBING else part
    if isinstance(part, list):
        return [_without_long_texts("", each) for each in part]
    if isinstance(part, dict):
        return {name: _without_long_texts(name, each) for name, each in part.items()}
    return part


def _flat(part: dict[str, Json], root: dict[str, Json], *, depth: int) -> dict[str, Json]:
    """Return *part* with its own reference and combinators merged into it."""
    if depth > 8:
        raise UnusableSchema("its input schema is nested too deeply at the root")
    merged = {k: v for k, v in part.items() if k not in (*_COMBINATORS, "$ref")}
    if isinstance(reference := part.get("$ref"), str):
        _merge(merged, _flat(_resolve(reference, root), root, depth=depth + 1), require=True)
    for combinator in _COMBINATORS:
        branches = part.get(combinator)
        for branch in branches if isinstance(branches, list) else []:
            if isinstance(branch, dict):
                flat = _flat(branch, root, depth=depth + 1)
                _merge(merged, flat, require=combinator == "allOf")
    return merged


def _merge(into: dict[str, Json], part: dict[str, Json], *, require: bool) -> None:
    for key, value in part.items():
        known = into.get(key)
        if key in ("properties", "$defs", "definitions") and isinstance(value, dict):
            into[key] = value | known if isinstance(known, dict) else value
        elif key == "required" and isinstance(value, list):
            names = [*known, *value] if isinstance(known, list) else value
            if require:
                into[key] = [name for i, name in enumerate(names) if name not in names[:i]]
        elif key == "additionalProperties":
            # A branch forbids what the other branches allow; merged, it would forbid too much.
            continue
        else:
            into.setdefault(key, value)


def _resolve(reference: str, root: dict[str, Json]) -> dict[str, Json]:
    target: Json = root
    for step in reference.removeprefix("#").split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        target = target.get(name) if isinstance(target, dict) else None
    if not isinstance(target, dict):
        raise UnusableSchema(f"its input schema refers to {reference}, which is not there")
    return target


def _references(value: Json) -> Iterator[str]:
    if isinstance(value, dict):
        for key, part in value.items():
            if key == "$ref" and isinstance(part, str):
                yield part
            yield from _references(part)
    elif isinstance(value, list):
        for part in value:
            yield from _references(part)
