"""Amounts of money as text."""

import pytest

from agent_cli.contracts.money import dollars, in_microdollars


@pytest.mark.parametrize(
    ("amount", "shown"),
    [
        *((1_000_000, "$1"), (10_000_000, "$10"), (1_500_000, "$1.50"), (12_345, "$0.0123")),
        *((0, "$0"), (250_000, "$0.25"), (40_000, "$0.04")),
    ],
)
def test_amounts_have_no_more_decimals_than_needed(amount: int, shown: str) -> None:
    assert dollars(amount) == shown


def test_limit_below_a_microdollar_is_not_no_limit() -> None:
    assert [in_microdollars(usd) for usd in (0, 1e-9, 4e-7, 1.6e-6, 1)] == [0, 1, 1, 2, 1_000_000]


def test_amounts_in_a_column_have_the_same_number_of_decimals() -> None:
    shown = [dollars(amount, decimals=2) for amount in (0, 1_000_000, 12_345)]

    assert shown == ["$0.00", "$1.00", "$0.01"]
