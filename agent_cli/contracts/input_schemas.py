"""The schema of a tool's parameters for the model, kept short: every request pays for it."""

import contextlib
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from agent_cli.contracts.late_models import kept_schema
from agent_cli.contracts.timeline import Json

if TYPE_CHECKING:
    from pydantic import BaseModel

# Text that is too long is refused; no model counts characters in advance.
_SAYS_NOTHING: Final = frozenset({"title", "minLength", "maxLength"})
# Of our own tools: a value out of bounds is refused with a sentence that names the bound, and a
# default that matters stands in a description.
_BOUNDS: Final = frozenset(
    {"minimum", "maximum", "exclusiveMinimum", "minItems", "maxItems", "default"}
)
_OWN: Final = ("agent_cli", "agent_cli_tools")
_OF_USERS: Final = "agent_cli.library"
_USUAL: Final = ("", False)


def input_schema(parameters: "type[BaseModel] | dict[str, Json]") -> dict[str, Json]:
    """Return the schema of *parameters* without keywords that only cost tokens."""
    if isinstance(parameters, dict):
        return parameters
    return kept_schema(parameters) or schema_of(parameters)


@lru_cache
def schema_of(parameters: "type[BaseModel]") -> dict[str, Json]:
    """Return the schema of *parameters*, made by pydantic."""
    # Cached: rebuilding it for six tools takes a third of a turn's CPU time.
    schema = parameters.model_json_schema()
    with contextlib.suppress(_RefersToItself):
        schema = _written_out(schema, schema.get("$defs", {}))
    module = parameters.__module__
    is_own = module.partition(".")[0] in _OWN and not module.startswith(_OF_USERS)
    gone = _SAYS_NOTHING | _BOUNDS if is_own else _SAYS_NOTHING
    return _without_titles(schema, gone, is_root=True)


class _RefersToItself(Exception):
    """A definition refers to itself, so that references must stay."""


def _written_out(
    schema: dict[str, Json],
    definitions: Mapping[str, dict[str, Json]],
    inside: tuple[str, ...] = (),
) -> dict[str, Json]:
    """Return *schema* with each reference replaced by its definition."""

    def written(value: Json) -> Json:
        match value:
            case dict() if isinstance(reference := value.get("$ref"), str):
                name = reference.removeprefix("#/$defs/")
                if name in inside:
                    raise _RefersToItself
                definition = {**definitions[name], **value}
                del definition["$ref"]
                return _written_out(definition, definitions, (*inside, name))
            case dict():
                return {key: written(part) for key, part in value.items()}
            case list():
                return [written(part) for part in value]
            case _:
                return value

    if "$ref" in schema:  # the root is written out only if it refers to itself
        raise _RefersToItself
    return {key: written(part) for key, part in schema.items() if key != "$defs"}


def _is_typed(schema: dict[str, Json], *, is_root: bool) -> bool:
    """Return whether other keywords say the type; a schema itself must name it."""
    return "enum" in schema or ("properties" in schema and not is_root)


def _without_titles(
    schema: dict[str, Json], gone: frozenset[str], *, is_root: bool = False
) -> dict[str, Json]:
    kept: dict[str, Json] = {}
    for key, value in schema.items():
        if key == "properties" and isinstance(value, dict):
            # Below `properties` a key is a parameter's name, and one may be called "title".
            kept[key] = {
                name: _without_titles(part, gone) if isinstance(part, dict) else part
                for name, part in value.items()
            }
        elif key == "type" and gone >= _BOUNDS and _is_typed(schema, is_root=is_root):
            continue
        elif not _is_understood(key, value, gone):
            kept[key] = _clean(value, gone)
    return kept


def _is_understood(key: str, value: Json, gone: frozenset[str]) -> bool:
    """Return whether a model can do without this keyword; unknown fields are refused anyway."""
    is_usual = any(value == each and type(value) is type(each) for each in _USUAL)
    return key in gone or (key in ("default", "additionalProperties") and is_usual)


def _clean(value: Json, gone: frozenset[str]) -> Json:
    if isinstance(value, dict):
        return _without_titles(value, gone)
    if isinstance(value, list):
        return [_clean(item, gone) for item in value]
    return value
