"""Narrow a value to a container whose parts have a type: JSON, TOML, groups of exceptions.

After `isinstance(value, dict)` a strict type checker calls keys and values unknown; after these
guards they are `Any`.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import TypeIs


def is_object(value: object) -> "TypeIs[dict[Any, Any]]":
    """Return whether *value* is a dict, as JSON objects and TOML tables are read."""
    return isinstance(value, dict)


def is_array(value: object) -> "TypeIs[list[Any]]":
    """Return whether *value* is a list, as JSON and TOML arrays are read."""
    return isinstance(value, list)


def objects_in(value: object) -> list[dict[Any, Any]]:
    """Return the objects in *value* if it is an array; none of anything else."""
    return [each for each in value if is_object(each)] if is_array(value) else []


def is_mapping(value: object) -> "TypeIs[Mapping[Any, Any]]":
    """Return whether *value* is a mapping: an object as it was read, or frozen."""
    return isinstance(value, Mapping)


def is_sequence(value: object) -> "TypeIs[list[Any] | tuple[Any, ...]]":
    """Return whether *value* is a list or a tuple: an array as it was read, or frozen."""
    return isinstance(value, list | tuple)


def is_group(error: BaseException | None) -> "TypeIs[BaseExceptionGroup[BaseException]]":
    """Return whether *error* is a group of exceptions."""
    return isinstance(error, BaseExceptionGroup)
