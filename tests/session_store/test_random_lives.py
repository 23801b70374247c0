"""Invariants of every session, whatever the user, the model and the machine do to it."""

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, given, settings

from tests.session_store.random_lives import Life, Played, lives

_SLOW = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example)
_COMMON = settings(deadline=None, print_blob=False, suppress_health_check=_SLOW)


def _live(life: Life) -> None:
    with TemporaryDirectory() as folder:
        asyncio.run(Played(life, Path(folder)).play())


@settings(_COMMON, derandomize=True, max_examples=10)
@given(lives)
def test_invariants_hold_for_every_random_session(life: Life) -> None:
    """S0-15, S0-46, S2-31, S2-43: requests valid, nothing twice, nothing lost, no hang."""
    _live(life)


@pytest.mark.slow
@settings(_COMMON, max_examples=4_000)
@given(lives)
def test_invariants_hold_for_thousands_of_random_sessions(life: Life) -> None:
    """The same test, with another sample for each seed."""
    _live(life)
