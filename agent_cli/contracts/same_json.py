"""Exact comparison of JSON values: for Python's `==`, `True`, `1` and `1.0` are one value."""

from agent_cli.system.shapes import is_array, is_object


def same_json(one: object, other: object) -> bool:
    """Return whether *one* and *other* are the same JSON value; the order of keys does not count.

    Anything that is not JSON is the same as an equal value of its type.
    """
    if is_object(one) and is_object(other):
        return one.keys() == other.keys() and all(same_json(one[key], other[key]) for key in one)
    if is_array(one) and is_array(other):
        return len(one) == len(other) and all(map(same_json, one, other))
    return one is other or (type(one) is type(other) and one == other)
