"""Keep logs for the test to inspect; rendering their tracebacks would take most of the time."""

from collections.abc import Iterator, MutableMapping
from typing import Any

import pytest

from tests.records import captured_records


@pytest.fixture(autouse=True)
def logged() -> Iterator[list[MutableMapping[str, Any]]]:  # Any: as structlog has it
    with captured_records() as entries:
        yield entries
