"""Make a server's input schema acceptable to the API, or say why it cannot be.

One schema the API refuses makes every later request of a session fail, so the check is done when
tools are listed, never when they are sent.
"""

from collections.abc import Iterator, Mapping

from jsonschema.exceptions import SchemaError
from jsonschema.validators import validator_for

from agent_cli.timeline import Json

_COMBINATORS = ("allOf", "anyOf", "oneOf")


class UnusableSchema(ValueError):
    """A tool's input schema cannot be sent to the API."""


def api_schema(schema: Mapping[str, Json]) -> dict[str, Json]:
    """Return *schema* with type "object" and no combinator at its root.

    The alternatives' properties are merged, and only what all of them require stays required:
    looser than what the server wants, which checks its input itself.

    Raises:
        UnusableSchema: It is not a valid JSON schema, or refers to something outside itself.

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
    return root


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
