"""Immutable JSON and its equality: code that gets a piece of the record cannot rewrite it.

The frozen types are dicts and lists, so they compare, print, iterate and serialise as such; methods
that would change them in place raise. A deep copy is plain and may be changed.
"""

import operator
from copy import deepcopy
from math import isfinite
from typing import Any, ClassVar, NoReturn, TypeAlias, cast

from agent_cli.system.shapes import is_array, is_object, is_sequence

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"


def _refuse(_self: object, *_args: object, **_named: object) -> NoReturn:
    raise TypeError("the record of a conversation cannot be changed: change a copy.deepcopy of it")


# The assignments below replace every method that changes the object, whatever its signature.
class FrozenDict(dict[str, "Json"]):
    """A dict that refuses changes; made by `frozen`, so its values are frozen too."""

    __setitem__ = __delitem__ = __ior__ = _refuse
    # A type checker does not accept methods that only raise as overrides.
    clear = pop = popitem = setdefault = update = _refuse  # pyright: ignore[reportAssignmentType]

    def __copy__(self) -> "dict[str, Json]":
        return dict(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> "dict[str, Json]":
        return {key: deepcopy(value, memo) for key, value in self.items()}

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (dict(self),)


class FrozenList(list["Json"]):
    """A list that refuses changes; made by `frozen`, so its items are frozen too."""

    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse
    append = clear = extend = insert = _refuse  # pyright: ignore[reportAssignmentType]
    pop = remove = reverse = sort = _refuse  # pyright: ignore[reportAssignmentType]

    def __copy__(self) -> "list[Json]":
        return list(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> "list[Json]":
        return [deepcopy(value, memo) for value in self]

    def __reduce__(self) -> tuple[Any, ...]:
        return list, (list(self),)


def frozen(value: "Json") -> "Json":
    """Return *value* with every dict and list in it frozen; frozen parts are not copied."""
    if isinstance(value, FrozenDict | FrozenList):
        return value
    if isinstance(value, dict):
        return FrozenDict({key: frozen(part) for key, part in value.items()})
    if isinstance(value, list):
        return FrozenList(map(frozen, value))
    return value


def is_frozen(value: "Json") -> bool:
    """Return whether *value* can never change."""
    return isinstance(value, FrozenDict | FrozenList) or not isinstance(value, dict | list)


class Frozen:
    """Base of frozen dataclasses whose JSON is frozen too, in tuples as well."""

    __slots__ = ()
    __dataclass_fields__: ClassVar[dict[str, Any]]

    def __post_init__(self) -> None:
        for name in self.__dataclass_fields__:
            value = getattr(self, name)
            if isinstance(value, dict | list):
                object.__setattr__(self, name, frozen(cast("Json", value)))
            elif isinstance(value, tuple):
                before = cast("tuple[Json, ...]", value)
                kept = tuple(map(frozen, before))
                if any(map(operator.is_not, kept, before)):  # unchanged, keep the same tuple
                    object.__setattr__(self, name, kept)


def is_json(value: object) -> bool:
    """Return whether *value* is JSON, its numbers finite; a tuple counts as an array."""
    try:
        return _is_json(value)
    except RecursionError:  # it holds itself, or is beyond all limits
        return False


def _is_json(value: object) -> bool:
    if is_object(value):
        return all(isinstance(key, str) and _is_json(part) for key, part in value.items())
    if is_sequence(value):
        return all(map(_is_json, value))
    if isinstance(value, float):
        return isfinite(value)
    return value is None or isinstance(value, str | int)


def same_json(one: object, other: object) -> bool:
    """Return whether *one* and *other* are the same JSON value; the order of keys does not count.

    Anything that is not JSON is the same as an equal value of its type.
    """
    if is_object(one) and is_object(other):
        return one.keys() == other.keys() and all(same_json(one[key], other[key]) for key in one)
    if is_array(one) and is_array(other):
        return len(one) == len(other) and all(map(same_json, one, other))
    return one is other or (type(one) is type(other) and one == other)
