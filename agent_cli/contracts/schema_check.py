"""Check a tool's input against an untrusted JSON schema.

A schema comes from a server: it may refer to a missing part or to itself, or branch without end. A
check always ends soon, and a failure is one sentence.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from functools import lru_cache
from typing import Any, cast

from jsonschema import Draft202012Validator, SchemaError, ValidationError, validators
from jsonschema.protocols import Validator
from jsonschema.validators import validator_for
from referencing import Registry
from referencing.exceptions import Unresolvable

from agent_cli.contracts.timeline import Json
from agent_cli.system.records import dataclass, field
from agent_cli.system.shapes import is_array

_STEPS_MAX = 50_000
"""Of about 3 µs: in 0.15 s a person who types notices nothing."""
_STEPS_OF_A_REFERENCE = 10
_VALUES_A_STEP = 10
_SCHEMAS_A_STEP = 2
_OF_SCHEMAS = ("allOf", "anyOf", "oneOf")
# Below Python's recursion limit: libraries in other languages crash before they raise.
_REFERENCES_MAX = 50
_FAULTS_MAX = 20
_FAULT_CHARS_MAX = 500
# Left to the server. Python reads JavaScript patterns differently, and one can run forever; the
# "unevaluated" keywords cannot be decided without patterns. 3,000 objects are compared for 8 s.
_NOT_CHECKED = (
    *("pattern", "patternProperties", "unevaluatedProperties", "unevaluatedItems"),
    "uniqueItems",
)

_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
Check = Callable[[Any, Any, Any, Any], Iterable[ValidationError] | None]
_progress: ContextVar["_Progress"] = ContextVar("_progress")


class UncheckableSchema(Exception):
    """The schema itself does not allow a check; the message is half a sentence with the reason."""


@dataclass(slots=True)
class _Progress:
    """The progress of one check; `followed` holds the open references, each with its value."""

    steps_left: int = _STEPS_MAX
    followed: set[tuple[int, int]] = field(default_factory=set[tuple[int, int]])


def schema_faults(schema: Mapping[str, Json], value: Json) -> list[str]:
    """Return the faults of *value*, each with its path; at most 20, of 500 characters at most.

    Regular expressions and whether items are unique are not checked, and nothing is fetched.

    Raises:
        UncheckableSchema: A reference leads nowhere or in a circle, or the check takes too long.
    """
    _progress.set(_Progress())
    try:
        dialect = validator_for(dict(schema), Draft202012Validator)
        validator = _checker_of(dialect)(dict(schema), registry=Registry())
        found = itertools.islice(validator.iter_errors(value), _FAULTS_MAX)
        return [_sentence(error) for error in found]
    except UncheckableSchema:
        raise
    except RecursionError:
        raise UncheckableSchema("its schema is nested too deeply") from None
    except Unresolvable:
        raise UncheckableSchema("its schema refers to a part that is not there") from None
    except Exception as error:
        reason = " ".join(str(error).split())[:_FAULT_CHARS_MAX] or type(error).__name__
        raise UncheckableSchema(f"its schema is not valid ({reason})") from error


def require_valid_schema(schema: Mapping[str, Json]) -> None:
    """Check that *schema* is valid by the rules of the dialect it names.

    Raises:
        UncheckableSchema: It is not valid; the message names the part.
    """
    try:
        validator_for(dict(schema), Draft202012Validator).check_schema(dict(schema))
    except SchemaError as error:
        where = ".".join(map(str, error.absolute_path)) or "the schema"
        raise UncheckableSchema(f"{where}: {error.message}"[:_FAULT_CHARS_MAX]) from error
    except RecursionError:
        raise UncheckableSchema("its schema is nested too deeply") from None


@lru_cache
def _checker_of(base: type[Validator]) -> type[Validator]:
    """Return a validator class like *base* that counts steps and skips the unchecked keywords."""
    faster = {"enum": _comparing_equals, "type": _without_repeats}
    checks: dict[str, Check] = {
        name: _counted(name, faster[name](check) if name in faster else check)
        for name, check in _keywords(base)
    }
    checks |= {name: _followed(checks[name]) for name in _REFERENCES if name in checks}
    checks |= dict.fromkeys(_NOT_CHECKED, _no_check)
    if "additionalProperties" in checks:
        checks["additionalProperties"] = _without_patterns(checks["additionalProperties"])
    extend: Callable[..., type[Validator]] = cast("Any", validators).extend  # it has no types
    return extend(base, checks)


def _keywords(base: type[Validator]) -> Iterator[tuple[str, Check]]:
    yield from base.VALIDATORS.items()


def _counted(name: str, check: Check) -> Check:
    def counted(
        validator: Any, value: Any, instance: Any, schema: Any
    ) -> Iterable[ValidationError] | None:
        progress = _progress.get()
        progress.steps_left -= _steps(name, value)
        if progress.steps_left < 0:
            raise UncheckableSchema("its schema has too many alternatives")
        return check(validator, value, instance, schema)

    return counted


def _steps(keyword: str, value: Any) -> int:
    if is_array(value):
        return 1 + len(value) // (_SCHEMAS_A_STEP if keyword in _OF_SCHEMAS else _VALUES_A_STEP)
    return _STEPS_OF_A_REFERENCE if keyword in _REFERENCES else 1


def _followed(check: Check) -> Check:
    def followed(
        validator: Any, value: Any, instance: Any, schema: Any
    ) -> Iterator[ValidationError]:
        inside = _progress.get().followed
        here = (id(schema), id(instance))
        if here in inside:
            raise UncheckableSchema("its schema refers to itself without an end")
        if len(inside) >= _REFERENCES_MAX:
            raise UncheckableSchema("its schema is nested too deeply")
        inside.add(here)
        try:
            yield from check(validator, value, instance, schema) or ()
        finally:
            inside.discard(here)

    return followed


def _comparing_equals(check: Check) -> Check:
    def compared(
        validator: Any, value: Any, instance: Any, schema: Any
    ) -> Iterator[ValidationError]:
        # Python compares 20 times as fast as jsonschema, but takes True for 1.
        equals = [each for each in value if each == instance]
        if any(True for _ in check(validator, equals, instance, schema) or ()):
            yield ValidationError(f"{instance!r} is not one of {value!r}")

    return compared


def _without_repeats(check: Check) -> Check:
    def unrepeated(
        validator: Any, value: Any, instance: Any, schema: Any
    ) -> Iterable[ValidationError] | None:
        is_named = is_array(value) and all(isinstance(each, str) for each in value)
        return check(validator, [*dict.fromkeys(value)] if is_named else value, instance, schema)

    return unrepeated


def _no_check(_validator: Any, _value: Any, _instance: Any, _schema: Any) -> None:
    """Accept everything."""


def _without_patterns(check: Check) -> Check:
    def unless_patterns(
        validator: Any, value: Any, instance: Any, schema: Any
    ) -> Iterable[ValidationError] | None:
        # Without the patterns it is unknown which properties are additional.
        if "patternProperties" in schema:
            return None
        return check(validator, value, instance, schema)

    return unless_patterns


def _sentence(error: ValidationError) -> str:
    where = ".".join(map(str, error.absolute_path)) or "input"
    text = f"{where}: {error.message}"
    return text if len(text) <= _FAULT_CHARS_MAX else f"{text[: _FAULT_CHARS_MAX - 1]}…"
