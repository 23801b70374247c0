"""Counts as text."""

from agent_cli.contracts.wording import (
    byte_size,
    counted,
    dollars,
    first_named,
    in_microdollars,
    once,
    requested_duration,
    short_count,
)
from tests.tables import each_row


@each_row(
    ("words", "shown"),
    [
        (counted(0, "file"), "0 files"),
        (counted(1, "file"), "1 file"),
        (counted(2, "file"), "2 files"),
        (counted(1234, "more line"), "1,234 more lines"),
        (counted(1, "entry", "entries"), "1 entry"),
        (counted(3, "entry", "entries"), "3 entries"),
    ],
)
def test_count_is_shown_with_the_singular_or_plural_noun(words: str, shown: str) -> None:
    assert words == shown


@each_row(
    ("count", "shown"),
    [(999, "999"), (1_000, "1.0k"), (999_949, "999.9k"), (999_950, "1.0M"), (1_234_567, "1.2M")],
)
def test_large_count_is_shortened_to_thousands_or_millions(count: int, shown: str) -> None:
    assert short_count(count) == shown


@each_row(
    ("count", "shown"),
    [
        (0, "0 bytes"),
        (1, "1 byte"),
        (999, "999 bytes"),
        (1_000, "1.0 kB"),
        (999_949, "999.9 kB"),
        (999_950, "1.0 MB"),
        (3_204_000, "3.2 MB"),
        (999_950_000, "1.0 GB"),
    ],
)
def test_sizes_have_the_unit_in_which_they_are_short(count: int, shown: str) -> None:
    """No size reads `1000.0 kB`."""
    assert byte_size(count) == shown


@each_row(
    ("amount", "shown"),
    [
        *((1_000_000, "$1"), (10_000_000, "$10"), (1_500_000, "$1.50"), (12_345, "$0.0123")),
        *((0, "$0"), (250_000, "$0.25"), (40_000, "$0.04"), (10, "$0.00001"), (876, "$0.000876")),
    ],
)
def test_amounts_have_no_more_decimals_than_needed(amount: int, shown: str) -> None:
    assert dollars(amount) == shown


def test_limit_below_a_microdollar_is_not_no_limit() -> None:
    assert [in_microdollars(usd) for usd in (0, 1e-9, 4e-7, 1.6e-6, 1)] == [0, 1, 1, 2, 1_000_000]


def test_amounts_in_a_column_have_the_same_number_of_decimals() -> None:
    shown = [dollars(amount, decimals=2) for amount in (0, 1_000_000, 12_345)]

    assert shown == ["$0.00", "$1.00", "$0.01"]


@each_row(
    ("names", "shown"),
    [("", ""), ("a", "a"), ("abc", "a, b, c"), ("abcd", "a, b, c and 1 more")],
)
def test_first_names_are_shown_and_the_others_counted(names: str, shown: str) -> None:
    assert first_named([*names], 3) == shown


@each_row(
    ("duration_s", "shown"),
    [
        (0.01, "0.01 s"),
        (20.3827, "20.4 s"),
        (59, "59 s"),
        (61, "1 min 1 s"),
        (3000, "50 min"),
        (5400.0, "1 h 30 min"),
        (7201.5, "2 h 2 s"),
        (float("inf"), "277777 h 46 min 40 s"),
    ],
)
def test_wait_that_was_asked_for_is_shown_without_zeros(duration_s: float, shown: str) -> None:
    assert requested_duration(duration_s) == shown


def test_same_sentence_is_told_once() -> None:
    told: list[str] = []
    tell = once(told.append)
    for text in ("one", "two", "one"):
        tell(text)
    assert told == ["one", "two"]
