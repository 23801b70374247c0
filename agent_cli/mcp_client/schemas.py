"""Make a server's input schema acceptable to the API, or report why that is impossible.

One schema that the API refuses makes every later request of a session fail, so schemas are checked
when tools are listed, not when they are sent.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, count

from jsonschema import Draft202012Validator, FormatChecker
from jsonschema.exceptions import SchemaError
from jsonschema.protocols import Validator
from jsonschema.validators import validator_for
from referencing import Registry
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012, specification_with

from agent_cli.contracts.timeline import Json
from agent_cli.contracts.wording import printable
from agent_cli.mcp_client.schema_drafts import (
    REFERENCES,
    in_current_draft,
    inner_schemas,
    mended,
    without_references,
)
from agent_cli.system.records import dataclass
from agent_cli.system.shapes import is_object

_DESCRIPTION_BYTES_MAX = 2048
_FAULT_CHARS_MAX = 200
_SCHEMA_BYTES_MAX = 64 * 1024
_DESCRIBING = ("description", "title")
_COMBINATORS = ("allOf", "anyOf", "oneOf")
_PROPERTY_NAME = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
"""Source: Messages API, which answers 400 to any other name of an argument."""
_REFUSED = re.compile(r"[^a-zA-Z0-9_.-]")
_NAME_CHARS = 60
_NAMING_ARGUMENTS = (
    *("if", "then", "else", "not", "propertyNames"),
    *("dependentSchemas", "dependentRequired", "dependencies"),
)
_TYPES = ("array", "boolean", "integer", "null", "number", "object", "string")
_OLD_DRAFTS = ("http://json-schema.org/draft-03", "http://json-schema.org/draft-04")
_BRANCHES_MAX = 1000
_LEVELS_MAX = 64
_NO_FORMATS = FormatChecker(())
"""Patterns are not checked as regular expressions of Python: most are JavaScript's."""


class UnusableSchema(ValueError):
    """A tool's input schema cannot be sent to the API."""


@dataclass(frozen=True, slots=True)
class ApiSchema:
    """An input schema for the API.

    Attributes:
        names: Name of an argument that the model sees → the server's, which the API refuses.
    """

    schema: dict[str, Json]
    names: Mapping[str, str]

    def theirs(self, arguments: Mapping[str, Json]) -> dict[str, Json]:
        """Return *arguments* of the model with the server's names."""
        return {self.names.get(name, name): value for name, value in arguments.items()}


def api_schema(schema: Mapping[str, Json]) -> ApiSchema:
    """Return *schema* with type "object", no combinator at its root, and descriptions cut short.

    A schema that is only valid in an older draft is rewritten for draft 2020-12. The properties of
    alternatives are merged; what the alternatives require becomes optional. The result accepts more
    than the server's schema; the server checks its input itself. An argument whose name the API
    refuses, such as `$filter`, gets another one.

    Raises:
        UnusableSchema: It is not a valid JSON schema, has a reference that leads outside or
            nowhere, cannot be written as JSON, or is longer than 64 KB after the cuts.

    Source: Messages API, `input_schema`: oneOf, anyOf and allOf are refused at the root, and so is
    all that is not valid in draft 2020-12.
    """
    try:
        return _api_schema(dict(schema))
    except RecursionError:
        raise UnusableSchema("its input schema is nested too deeply") from None


def _api_schema(schema: dict[str, Json]) -> ApiSchema:
    schema = {key: _without_long_texts(key, part) for key, part in schema.items()}
    # First, because the time and recursion depth of the other checks grow with the schema.
    _check_depth(schema)
    _check_size(schema)
    if not is_plain(schema):
        try:
            _check_valid(schema, validator_for(schema, Draft202012Validator))
        except UnusableSchema:
            schema = mended(schema)
            _check_valid(schema, validator_for(schema, Draft202012Validator))
        schema = _in_current_draft(schema)
        schema = _without_dead_references(schema)
    root = _Flattening(schema).flat(schema, depth=0)
    kinds = root.setdefault("type", "object")
    if isinstance(kinds, list) and "object" in kinds:
        root["type"] = "object"
    if root["type"] != "object":
        raise UnusableSchema(f"its input schema describes {root['type']}, not an object")
    _check_size(root)
    return _renamed(root)


def is_plain(schema: Json) -> bool:
    """Return whether *schema* is surely valid, in any draft since 6: it has only common words.

    The validator takes 1 ms for each argument of a tool, so that a server with many tools was ready
    after seconds.
    """
    return isinstance(schema, dict) and all(map(_is_plain_word, schema.items()))


def _is_plain_word(item: tuple[str, Json]) -> bool:
    match item:
        case "type", str(value):
            return value in _TYPES
        case "properties", dict(value):
            return all(map(is_plain, value.values()))
        case "items", dict(value):
            return is_plain(value)
        case "anyOf" | "oneOf" | "allOf", [_, *_] as value:
            return all(map(is_plain, value))
        case "required", list(value):
            names = [each for each in value if isinstance(each, str)]
            return len(set(names)) == len(value)
        case "additionalProperties", value:
            return isinstance(value, bool) or is_plain(value)
        case "$schema", str(value):
            return not value.startswith(_OLD_DRAFTS)
        case (("description" | "title" | "format" | "pattern"), str()) | ("enum", list()):
            return True
        case word, _:
            return word in ("default", "const")


def _renamed(root: dict[str, Json]) -> ApiSchema:
    """Return *root* with another name for each argument whose name the API refuses."""
    properties = root.get("properties")
    if not isinstance(properties, dict) or all(map(_PROPERTY_NAME.fullmatch, properties)):
        return ApiSchema(root, {})
    ours: dict[str, str] = {}
    for name in properties:
        if not _PROPERTY_NAME.fullmatch(name):
            wished = _REFUSED.sub("_", name)[:_NAME_CHARS] or "_"
            numbered = (f"{wished}_{number}" for number in count(2))
            taken = {*properties, *ours.values()}
            ours[name] = next(each for each in chain((wished,), numbered) if each not in taken)
    # What else names arguments would name the old ones; the server checks its input itself.
    kept = {key: value for key, value in root.items() if key not in _NAMING_ARGUMENTS}
    kept["properties"] = {
        ours.get(name, name): _naming_original(part, name) if name in ours else part
        for name, part in properties.items()
    }
    if isinstance(required := root.get("required"), list):
        kept["required"] = [
            ours.get(name, name) if isinstance(name, str) else name for name in required
        ]
    if any(each.startswith("#/properties/") for each in _references(kept)):
        shown = ", ".join(map(repr, map(printable, ours)))[:_FAULT_CHARS_MAX]
        raise UnusableSchema(f"the model's API refuses the name of its argument {shown}")
    return ApiSchema(kept, {new: old for old, new in ours.items()})


def _naming_original(part: Json, name: str) -> Json:
    """Return the schema *part* of an argument, whose description says that its *name* differs."""
    if not isinstance(part, dict):
        return part
    known = part.get("description")
    return {**part, "description": description(f"{name}: {known}" if known else name)}


def _check_valid(schema: Mapping[str, Json], draft: type[Validator]) -> None:
    try:
        # The parameter is newer than the type stubs that pyright brings along.
        draft.check_schema(schema, format_checker=_NO_FORMATS)  # pyright: ignore[reportCallIssue]
    except SchemaError as error:
        reason = error.message[:_FAULT_CHARS_MAX]
        raise UnusableSchema(f"its input schema is not valid: {reason}") from error


def _in_current_draft(schema: dict[str, Json]) -> dict[str, Json]:
    """Return *schema*, rewritten only if needed: a changed definition has to be approved again."""
    try:
        _check_valid(schema, Draft202012Validator)
    except UnusableSchema:
        rewritten = in_current_draft(schema)
        _check_valid(rewritten, Draft202012Validator)
        return rewritten
    return schema


def _check_depth(schema: Mapping[str, Json]) -> None:
    level: list[Json] = [dict(schema)]
    for _ in range(_LEVELS_MAX):
        if not level:
            return
        level = [inner for part in level for inner in _parts(part)]
    raise UnusableSchema("its input schema is nested too deeply")


def _parts(value: Json) -> Iterable[Json]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _check_size(schema: Mapping[str, Json]) -> None:
    """Check that *schema* can be sent.

    Raises:
        UnusableSchema: It cannot be written as JSON, or is too long.
    """
    try:
        size = len(json.dumps(schema, allow_nan=False, ensure_ascii=False).encode())
    except ValueError:
        raise UnusableSchema(
            "its input schema holds what JSON cannot carry, such as NaN or Infinity"
        ) from None
    if size > _SCHEMA_BYTES_MAX:
        raise UnusableSchema(f"its input schema is longer than {_SCHEMA_BYTES_MAX // 1024} KB")


def _without_dead_references(schema: dict[str, Json]) -> dict[str, Json]:
    """Return *schema* without references below its root to what it does not have.

    Servers forget to list the definitions; they check the input themselves.

    Raises:
        UnusableSchema: A reference leads outside, or in a circle, or that of the root nowhere.
    """
    dialect = specification_with(str(schema.get("$schema")), default=DRAFT202012)
    resource = dialect.create_resource(schema)
    registry: Registry[Json] = Registry()
    resolver = registry.with_resource("", resource).resolver()
    dead: set[str] = set()
    for reference in set(_references(schema)):
        # Resolving it would take a network request whenever a call's input is checked.
        if not reference.startswith("#"):
            raise UnusableSchema(f"its input schema refers to {reference}, outside of itself")
        passed: list[str] = []
        step: Json = reference
        while isinstance(step, str):
            if step in passed:
                raise UnusableSchema(f"its input schema refers to {step} in a circle")
            passed.append(step)
            try:
                target = resolver.lookup(step).contents
            except (Unresolvable, ValueError, TypeError, LookupError):
                dead.add(step)
                break
            step = target.get("$ref") if is_object(target) else None
    if (root := schema.get("$ref")) in dead:
        raise UnusableSchema(f"its input schema refers to {root}, which is not there")
    return without_references(schema, dead) if dead else schema


def description(text: str) -> str:
    """Return *text* without hidden characters, at most 2 KB of UTF-8."""
    data = printable(text, keep="\n\t").encode()
    if len(data) <= _DESCRIPTION_BYTES_MAX:
        return data.decode()
    mark = " …"
    cut = data[: _DESCRIPTION_BYTES_MAX - len(mark.encode())]
    return cut.decode(errors="ignore") + mark


def _without_long_texts(key: str, part: Json) -> Json:
    """Return *part*, the value of *key*, with `description()` applied to all descriptions."""
    if isinstance(part, str):
        return description(part) if key in _DESCRIBING else part
    if isinstance(part, list):
        return [_without_long_texts("", each) for each in part]
    if isinstance(part, dict):
        return {name: _without_long_texts(name, each) for name, each in part.items()}
    return part


class _Flattening:
    """Merges references and combinators at the root of one schema into it."""

    def __init__(self, root: dict[str, Json]) -> None:
        self._root = root
        self._branches_left = _BRANCHES_MAX

    def flat(self, part: dict[str, Json], *, depth: int) -> dict[str, Json]:
        """Return *part* with its own reference and combinators merged into it."""
        self._branches_left -= 1
        if depth > 8 or self._branches_left < 0:
            raise UnusableSchema("its input schema is nested too deeply at the root")
        merged = {k: v for k, v in part.items() if k not in (*_COMBINATORS, "$ref")}
        if isinstance(reference := part.get("$ref"), str):
            target = _resolve(reference, self._root)
            _merge(merged, self.flat(target, depth=depth + 1), require=True)
        for combinator in _COMBINATORS:
            branches = part.get(combinator)
            for branch in branches if isinstance(branches, list) else []:
                if isinstance(branch, dict):
                    flat = self.flat(branch, depth=depth + 1)
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
            # A branch forbids properties that others allow; merged, it would forbid too many.
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
            if key in REFERENCES and isinstance(part, str):
                yield part
        for part in inner_schemas(value):
            yield from _references(part)
    elif isinstance(value, list):
        for part in value:
            yield from _references(part)
