"""Loggers that import structlog with their first record: with rich, the import takes 50 ms.

    _log = logger(__name__)
    _log.info("model replied", request_id="req_1")

Records go to the standard library's `logging` as structlog event dicts. structlog's own global
configuration is left to the program that uses this package as a library.
"""

import logging
import traceback
from collections.abc import Generator, MutableMapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from structlog.stdlib import BoundLogger
    from structlog.typing import Processor

# Without a handler, the standard library would print warnings on the terminal.
for _name in ("agent_cli", "agent_cli_tools"):
    logging.getLogger(_name).addHandler(logging.NullHandler())


def logger(name: str) -> "BoundLogger":
    """Return a structlog logger for the module *name*."""
    return cast("BoundLogger", _Lazy(name))


def shared_processors() -> "list[Processor]":
    """Return the processors of all records, ours and libraries': context, level, name, time."""
    import structlog  # with the first record

    return [
        structlog.contextvars.merge_contextvars,
        _name_session,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="at_utc"),
    ]


def traceback_of(error: BaseException) -> str:
    """Return the traceback of *error* as the value of a record's `exception`.

    Not `exc_info`: a host's own structlog renderer may print all local variables with it, among
    them keys and file contents.
    """
    return "".join(traceback.format_exception(error)).rstrip()


class _Lazy:
    """A proxy that creates its structlog logger on first use."""

    def __init__(self, name: str) -> None:
        self._name = name

    # Any: a method of the structlog logger.
    def __getattr__(self, method: str) -> Any:
        return getattr(self._bound, method)

    @cached_property
    def _bound(self) -> "BoundLogger":
        import structlog  # with the first record

        bound: BoundLogger = structlog.wrap_logger(
            logging.getLogger(self._name),
            processors=[
                structlog.stdlib.filter_by_level,
                *shared_processors(),
                structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
            ],
            wrapper_class=structlog.stdlib.BoundLogger,
        )
        return bound


@contextmanager
def for_session(session_id: str | None) -> Generator[None]:
    """Add the session's ID to every record logged in the body."""
    before = _session_id.set(session_id)
    try:
        yield
    finally:
        with suppress(ValueError):  # the body is thrown away from elsewhere, with its context
            _session_id.reset(before)


# structlog's own bound_contextvars would import structlog before the first record.
_session_id: ContextVar[str | None] = ContextVar("session_id", default=None)


def _name_session(
    _logger: object, _method: str, record: "MutableMapping[str, Any]"
) -> "MutableMapping[str, Any]":
    if session_id := _session_id.get():
        record.setdefault("session_id", session_id)
    return record
