"""Money: whole micro-dollars inside the program, US dollars in settings, JSON and text."""

from typing import Final

_PER_DOLLAR: Final = 1_000_000

USD_MAX: Final = 1_000_000
"""The highest limit of cost that can be set."""


def in_usd(microdollars: int) -> float:
    """Return an amount in US dollars."""
    return microdollars / _PER_DOLLAR


def in_microdollars(usd: float) -> int:
    """Return an amount in whole micro-dollars; 0, which is no limit to many, for 0 only."""
    return round(usd * _PER_DOLLAR) or int(usd > 0)


def dollars(microdollars: int, *, decimals: int | None = None) -> str:
    """Return an amount in dollars as text: `$1`, `$1.50`, `$0.0123`.

    Args:
        decimals: Their number, for amounts in columns or that change in place; by default two to
            four, as needed, and none for whole dollars.
    """
    if decimals is not None:
        return f"${in_usd(microdollars):.{decimals}f}"
    whole, _, cents = f"{in_usd(microdollars):.4f}".rstrip("0").partition(".")
    return f"${whole}.{cents:0<2}" if cents else f"${whole}"
