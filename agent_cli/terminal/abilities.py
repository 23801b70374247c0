"""Capabilities of the terminal, as far as the environment tells."""

from collections.abc import Mapping
from typing import Final

_DUMB: Final = ("dumb", "unknown", "")


def is_dumb(environment: Mapping[str, str]) -> bool:
    """Return whether the terminal can only print: no cursor movement, no colours."""
    return environment.get("TERM", "dumb") in _DUMB


def may_color(environment: Mapping[str, str]) -> bool:
    """Return whether text may have colours: NO_COLOR is unset, and the terminal has colours."""
    return not environment.get("NO_COLOR") and not is_dumb(environment)
