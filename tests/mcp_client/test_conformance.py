"""The public conformance suite; conformance.py lists its requirements, and runs it by hand."""

import shutil

import pytest

from tests.mcp_client.conformance import VERSIONS, run_suite


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("npm"), reason="the suite needs Node.js; npm is not installed")
@pytest.mark.parametrize("version", VERSIONS)
def test_conformance_scenarios_end_as_in_the_baseline(version: str) -> None:
    """25 of 26 scenarios of 0.1.16 pass, and 48 of 48 of 0.2.0-alpha.12; one has a reason."""
    assert run_suite(version, []) == []
