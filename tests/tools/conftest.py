"""A workspace with the built-in tools."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.tools.calling import Tools, tools_in


@pytest.fixture
async def tools(tmp_path: Path) -> AsyncIterator[Tools]:
    with tools_in(tmp_path) as made:
        yield made
