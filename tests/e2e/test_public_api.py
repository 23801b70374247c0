"""The contract of the public API under random programs; `make soak`."""

import pytest

from tests.e2e.public_api import live


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 6))
def test_random_programs_break_no_contract(seed: int) -> None:
    """Nothing hangs, every run that began ends, every request is valid, errors are documented."""
    found = live(seed, 2_000)

    assert found.violations == []
    assert found.operations.total() >= 2_000
    assert found.runs > 200
    assert len(found.operations) == 24
