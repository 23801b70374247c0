"""Money: whole micro-dollars inside the program, US dollars in settings, JSON and text."""

from typing import Final

_PER_DOLLAR: Final = 1_000_000


def in_usd(microdollars: int) -> float:
    """Return an amount in US dollars."""
    return microdollars / _PER_DOLLAR


def in_microdollars(usd: float) -> int:
    """Return an amount in micro-dollars, rounded to a whole number."""
    return round(usd * _PER_DOLLAR)
