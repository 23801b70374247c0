"""The contract of the public API under random programs; `make soak`."""

from typing import Final

import pytest

from tests.e2e.public_api.programs import live
from tests.e2e.public_api.watched import KINDS
from tests.e2e.public_api.wrong import WRONG

_OPERATIONS: Final = 10_000


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 11))
def test_random_programs_break_no_contract(seed: int) -> None:
    """Nothing hangs, every run ends, each call runs once as it may, each message arrives once."""
    found = live(seed, _OPERATIONS)

    assert found.violations == []
    assert found.operations.total() >= _OPERATIONS
    assert len(found.operations) == 29
    assert found.refused.total() < _OPERATIONS // 5
    assert found.facts["runs"] > _OPERATIONS // 5
    assert all(found.ran[kind] > 100 for kind in ("as written", "approved", "edited"))
    assert {kind for kind, _ in found.reactions} == set(KINDS)
    assert {name for name in WRONG if not found.facts[f"wrong {name}"]} == set()


def test_a_few_random_programs_break_no_contract() -> None:
    """The fast sibling."""
    found = live(11, 200)

    assert found.violations == []
