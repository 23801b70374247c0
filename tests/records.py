"""The log records of the program, kept for a test to inspect instead of being written."""

import logging
from collections.abc import Generator, MutableMapping
from contextlib import contextmanager
from typing import Any


class _Keep(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.kept: list[MutableMapping[str, Any]] = []  # Any: as structlog has it

    def emit(self, record: logging.LogRecord) -> None:
        if isinstance(record.msg, dict):
            self.kept.append(record.msg)


@contextmanager
def captured_records() -> Generator[list[MutableMapping[str, Any]]]:
    """Yield the records logged in the body, of every level, as structlog's event dicts."""
    log, handler = logging.getLogger("agent_cli"), _Keep()
    before = (log.level, log.propagate)
    log.addHandler(handler)
    log.setLevel(logging.DEBUG)
    log.propagate = False
    try:
        yield handler.kept
    finally:
        log.removeHandler(handler)
        log.setLevel(before[0])
        log.propagate = before[1]
