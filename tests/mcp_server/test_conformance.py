"""The public conformance suite's server mode; conformance.py lists its requirements."""

import shutil

import pytest

from tests.mcp_client.conformance import VERSIONS
from tests.mcp_server.conformance import run_suite


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("npm"), reason="the suite needs Node.js; npm is not installed")
@pytest.mark.parametrize("version", VERSIONS)
async def test_server_conformance_checks_end_as_in_the_baseline(version: str) -> None:
    """Every check passes except those of features not offered, each with the reason."""
    assert await run_suite(version, []) == []
