"""Logs are kept for the test to look at; rendered, their tracebacks would take most of the time."""

from collections.abc import Iterator, MutableMapping
from typing import Any

import pytest
from structlog.testing import capture_logs


@pytest.fixture(autouse=True)
def logged() -> Iterator[list[MutableMapping[str, Any]]]:  # Any: as structlog has it
    with capture_logs() as entries:
        yield entries
