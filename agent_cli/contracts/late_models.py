"""Pydantic models that are built when they are first used, and their schemas for the model.

They are inputs of our tools and states of plugins. pydantic and thirty models take 80 ms, and an
answer without a call uses none: a request takes the schemas in `schemas.json`, kept short because
every request pays for them. Import the names from here as from pydantic; type checkers see its own.
"""

import contextlib
import json
from collections.abc import Iterator, Mapping
from functools import cache, lru_cache, partial
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from agent_cli.contracts.errors import AgentCliError
from agent_cli.contracts.timeline import Json
from agent_cli.system.loading import alone, load
from agent_cli.system.shapes import is_mapping

if TYPE_CHECKING:
    from pydantic import BaseModel

__all__ = [
    "SCHEMAS",
    "AliasChoices",
    "BaseModel",
    "ConfigDict",
    "Field",
    "SkipJsonSchema",
    "building",
    "check_schema",
    "input_schema",
    "kept_schema",
    "schema_of",
]

SCHEMAS: Final = Path(__file__).with_name("schemas.json")
"""What `input_schema` makes of each model, by `name_of`; a test compares them."""


# Since Python 3.14 a function makes the annotations, which finds names of the class by a cell.
_MAKES_ANNOTATIONS: Final = ("__annotate_func__", "__annotate__")
_OF_THE_CLASS: Final = (
    *("__module__", "__qualname__", "__doc__", "__annotations__", "__classdictcell__"),
    *_MAKES_ANNOTATIONS,
)
_MODULES: Final = ("pydantic", "pydantic.main", "pydantic.fields", "pydantic.json_schema")
_SCHEMA_OF: Final = "model_json_schema"
_BUILT: Final = dict[type[Any], type[Any]]()


class _Written:
    """A call of a function of pydantic, as it was written."""

    # Any: what pydantic's functions take.
    def __init__(self, function: str, *args: Any, **named: Any) -> None:
        self._call = function, args, named

    def made(self) -> Any:
        """Return what pydantic's function returns for the call."""
        import pydantic

        function, args, named = self._call
        named = {name: _made(value) for name, value in named.items()}
        return attrgetter(function)(pydantic)(*map(_made, args), **named)


class _Late(type):
    """The class of a model that is not built yet; the first use builds the model."""

    body: dict[str, Any]

    def __new__(cls, name: str, bases: tuple[type, ...], body: dict[str, Any]) -> "_Late":
        kept: dict[str, Any] = {each: body[each] for each in _OF_THE_CLASS if each in body}
        made = super().__new__(cls, name, bases, kept)
        made.body = body
        return made

    def __call__(cls, *args: Any, **named: Any) -> Any:
        return built(cls)(*args, **named)

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)  # looked for by typing, copy and others
        return getattr(built(cls), name)

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, built(cls))

    def __get_pydantic_core_schema__(cls, _source: object, handler: Any) -> Any:
        return handler(built(cls))


class _LateModel(metaclass=_Late):
    """Stands for pydantic's `BaseModel`."""


class _Skipped:
    """Stands for pydantic's `SkipJsonSchema`."""

    def __class_getitem__(cls, annotation: Any) -> Any:
        return Annotated[annotation, _Written("json_schema.SkipJsonSchema")]


if TYPE_CHECKING:
    from pydantic import AliasChoices, BaseModel, ConfigDict, Field
    from pydantic.json_schema import SkipJsonSchema
else:
    SkipJsonSchema = _Skipped
    AliasChoices, Field = partial(_Written, "AliasChoices"), partial(_Written, "Field")
    BaseModel, ConfigDict = _LateModel, dict


def built(model: type[Any]) -> type[Any]:
    """Return the class that pydantic makes of the late *model*; the same one in every thread."""
    with alone():  # it imports parts of pydantic, perhaps while mcp does in another thread
        if model not in _BUILT:
            _BUILT[model] = _build(model)
        return _BUILT[model]


# Any: the class of pydantic's models, whose arguments no type checker knows.
def _build(model: Any) -> Any:
    for module in _MODULES:
        load(module)
    import pydantic

    if model is _LateModel:
        return pydantic.BaseModel
    body: dict[str, Any] = {
        name: _made(value) for name, value in model.body.items() if name not in _MAKES_ANNOTATIONS
    }
    # Not `model.__annotations__`: where it has none, that would be its class's own.
    annotations: Mapping[str, Any] = vars(type)["__annotations__"].__get__(model)
    body["__annotations__"] = {name: _annotated(each) for name, each in annotations.items()}
    of_models: Any = type(pydantic.BaseModel)
    return of_models(model.__name__, tuple(map(built, model.__bases__)), body)


def check_schema(name: str, parameters: object) -> None:
    """Refuse *parameters* of the tool *name* with which the API would refuse each request.

    Raises:
        AgentCliError: They are neither a class of models nor the schema of an object.
    """
    if is_mapping(parameters):
        fits = parameters.get("type") == "object"
    else:  # a class of ours is not built for it
        is_class = isinstance(parameters, type)
        fits = isinstance(parameters, _Late) or (is_class and hasattr(parameters, _SCHEMA_OF))
    if not fits:
        what = 'a pydantic model, or a JSON schema of "type": "object"'
        raise AgentCliError(f"parameters of the tool {name!r} must be {what}")


def building() -> Iterator[object]:
    """Load pydantic and build each late model that is defined by now; a part with each step."""
    for module in _MODULES:
        load(module)
        yield module
    yield from map(built, late_models())


def late_models(base: type[Any] = _LateModel) -> Iterator[type[Any]]:
    """Yield each late model below *base*."""
    for model in type.__subclasses__(base):
        yield model
        yield from late_models(model)


def name_of(model: type[Any]) -> str:
    """Return the key of *model* in `SCHEMAS`."""
    return f"{model.__module__}.{model.__qualname__}"


def kept_schema(model: type[Any]) -> dict[str, Json] | None:
    """Return the schema of *model* for the API; None if it is not a late model of ours."""
    return _kept().get(name_of(model)) if isinstance(model, _Late) else None


@cache
def _kept() -> dict[str, dict[str, Json]]:
    kept: dict[str, dict[str, Json]] = json.loads(SCHEMAS.read_bytes())
    return kept


def _made(value: Any) -> Any:
    return value.made() if isinstance(value, _Written) else value


def _annotated(annotation: Any) -> Any:
    """Return *annotation* with what pydantic makes of its metadata."""
    metadata: tuple[Any, ...] | None = getattr(annotation, "__metadata__", None)
    if metadata is None:
        return annotation
    return Annotated[(annotation.__origin__, *map(_made, metadata))]


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
    return _shortened(schema, gone, is_root=True)


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


def _shortened(
    schema: dict[str, Json], gone: frozenset[str], *, is_root: bool = False
) -> dict[str, Json]:
    kept: dict[str, Json] = {}
    for key, value in schema.items():
        if key == "properties" and isinstance(value, dict):
            # Below `properties` a key is a parameter's name, and one may be called "title".
            kept[key] = {
                name: _shortened(part, gone) if isinstance(part, dict) else part
                for name, part in value.items()
            }
        elif key == "type" and gone >= _BOUNDS and _is_typed(schema, is_root=is_root):
            continue
        elif not _is_dispensable(key, value, gone):
            kept[key] = _clean(value, gone)
    return kept


def _is_dispensable(key: str, value: Json, gone: frozenset[str]) -> bool:
    """Return whether a model can do without this keyword; unknown fields are refused anyway."""
    is_usual = any(value == each and type(value) is type(each) for each in _USUAL)
    return key in gone or (key in ("default", "additionalProperties") and is_usual)


def _clean(value: Json, gone: frozenset[str]) -> Json:
    if isinstance(value, dict):
        return _shortened(value, gone)
    if isinstance(value, list):
        return [_clean(item, gone) for item in value]
    return value
