"""Loggers for code that a host program imports: silent until the host asks, and without secrets."""

import logging
import traceback

import structlog

# Without a handler the standard library prints warnings to the host's stderr.
logging.getLogger("agent_cli").addHandler(logging.NullHandler())


def logger(name: str) -> structlog.typing.FilteringBoundLogger:
    """Return the logger of the module *name*."""
    bound: structlog.typing.FilteringBoundLogger = structlog.wrap_logger(logging.getLogger(name))
    return bound


def traceback_of(error: BaseException) -> str:
    """Return the traceback of *error* as the value of a log entry's `exception`.

    Not `exc_info`: structlog's default for a host that configured nothing prints every local
    variable with it, and those hold keys and file contents.
    """
    return "".join(traceback.format_exception(error)).rstrip()
