"""A test of a whole table fails with each of its rows."""

import pytest

from tests.tables import each_row


def test_every_row_is_judged_and_each_that_fails_is_named() -> None:
    """Or the first wrong row would hide the others, and nobody would know which it was."""
    judged: list[int] = []

    @each_row(("number", "double"), [(1, 2), (2, 5), (3, 6), (4, 9)])
    def doubles(number: int, *, double: int) -> None:
        judged.append(number)
        assert double == 2 * number

    with pytest.raises(ExceptionGroup) as found:
        doubles()

    assert judged == [1, 2, 3, 4]
    assert [each.__notes__ for each in found.value.exceptions] == [["row: (2, 5)"], ["row: (4, 9)"]]


def test_row_of_one_value_is_that_value() -> None:
    @each_row("words", [("a", "b"), ()])
    def is_tuple(words: tuple[str, ...]) -> None:
        assert isinstance(words, tuple)

    is_tuple()
