"""A test of a whole table fails with each of its rows."""

from pathlib import Path

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


@each_row("number", [1, 2])
@each_row("factor", [10, 20])
async def test_rows_of_two_tables_are_combined_and_share_the_fixtures_of_a_test(
    tmp_path: Path, factor: int, number: int
) -> None:
    """Also of an asynchronous test: each combination is judged, in the folder of the first."""
    with (tmp_path / "seen").open("a") as file:
        file.write(f"{number * factor} ")

    if (number, factor) == (2, 20):
        assert (tmp_path / "seen").read_text() == "10 20 20 40 "


def test_row_that_ends_in_an_error_is_named_too() -> None:
    """By its id, if it has one."""

    @each_row("number", [1, 0], ids=["one", "none"])
    def divides(number: int) -> None:
        assert 1 / number

    with pytest.raises(ExceptionGroup) as found:
        divides()

    [error] = found.value.exceptions
    assert (type(error), error.__notes__) == (ZeroDivisionError, ["row: none"])


def test_row_that_raises_nothing_is_named_and_hides_no_other() -> None:
    """What `pytest.raises` raises then is no `Exception`."""

    @each_row("divided", [3, 4])
    @each_row("number", [1, 0, 2])
    def fails(divided: int, number: int) -> None:
        with pytest.raises(ZeroDivisionError):
            assert divided / number

    with pytest.raises(BaseExceptionGroup) as found:
        fails()

    assert [each.__notes__ for each in found.value.exceptions] == [["row: 3"], ["row: 4"]]
    first = found.value.exceptions[0]
    assert isinstance(first, BaseExceptionGroup)
    assert [each.__notes__ for each in first.exceptions] == [["row: 1"], ["row: 2"]]


@pytest.mark.parametrize(
    ("largest", "outcome"),
    [(0, None), (1, ExceptionGroup), (-1, pytest.skip.Exception)],
    ids=["one is judged", "one fails", "none is judged"],
)
def test_row_that_is_skipped_skips_no_other(
    largest: int, outcome: type[BaseException] | None
) -> None:
    """A sandbox that does not hold here hid the failure of one that does."""

    @each_row("number", [2, 0, 1])
    def is_even(number: int) -> None:
        if number > largest:
            pytest.skip("too large")
        assert number % 2 == 0

    seen: BaseException | None = None
    try:
        is_even()
    except (Exception, pytest.skip.Exception) as error:  # or that skips this test
        seen = error

    assert (type(seen) if seen else None) is outcome
