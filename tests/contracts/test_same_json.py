"""Exact comparison of JSON values."""

from agent_cli.contracts.frozen import frozen, same_json
from agent_cli.contracts.timeline import Json
from tests.tables import each_row

NAN = float("nan")


@each_row(
    ("one", "other"),
    [
        (1, True),
        (0, False),
        (1, 1.0),
        (None, False),
        ("1", 1),
        ([], {}),
        ({"a": 1}, {"a": 1, "b": 2}),
    ],
)
@each_row("depth", range(3))
def test_values_that_python_calls_equal_may_differ_as_json(
    one: Json, other: Json, depth: int
) -> None:
    for _ in range(depth):
        one, other = {"in": [one]}, {"in": [other]}

    assert not same_json(one, other)
    assert not same_json(other, one)


@each_row("value", [None, True, 1, 1.5, NAN, "a", [1, [2]], {"b": [], "a": {"c": 1}}])
def test_a_value_is_the_same_as_its_frozen_copy(value: Json) -> None:
    assert same_json(value, frozen(value))


def test_the_order_of_keys_does_not_count_and_that_of_items_does() -> None:
    assert same_json({"a": 1, "b": 2}, {"b": 2, "a": 1})
    assert not same_json([1, 2], [2, 1])
    assert not same_json([1], [1, 2])
