"""Log sinks from settings: JSON lines in a rotating file, plain lines on stderr.

Never stdout, which carries answers only. Every record passes the redactor before it is written.
structlog is imported with the first record.
"""

import json
import logging
import os
import stat
import sys
from collections.abc import MutableMapping
from contextlib import nullcontext, suppress
from functools import cached_property
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any, Final

from agent_cli.contracts import events
from agent_cli.settings.schema import LoggingSettings, LogSink
from agent_cli.system import paths
from agent_cli.system.loading import without
from agent_cli.system.logger import logger, shared_processors
from agent_cli.system.redaction import Redactor
from agent_cli.system.sanitize import reveal

FILE_BYTES_MAX = 10 * 1024 * 1024
FILES = 3

# They log whole requests, or tracebacks for malformed server output: for the file only.
_NOISY = (
    *("anthropic", "httpx2", "mcp", "client", "uvicorn"),
    *("sse_starlette", "opentelemetry", "urllib3", "boto3", "botocore", "google", "azure", "msal"),
)
_LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}
SHOWN: Final = "agent_cli.shown"
"""The logger of what the terminal shows anyway; the console leaves it out."""
_log, _shown = logger(__name__), logger(SHOWN)


class LogSinks:
    """The open sinks; `close()` detaches them and closes their files.

    Attributes:
        notices: Sentences for the user about sinks that could not be opened.
    """

    def __init__(self) -> None:
        self.notices: list[str] = []
        self._attached: list[tuple[logging.Logger, logging.Handler]] = []
        self._before = [
            (log, log.level, log.propagate)
            for log in (logging.getLogger(name) for name in (None, *_NOISY))
        ]

    def attach(self, handler: logging.Handler, *, to_noisy: bool) -> None:
        """Send all records to *handler*; records of noisy libraries only if *to_noisy*."""
        for name in (None, *_NOISY) if to_noisy else (None,):
            log = logging.getLogger(name)
            log.addHandler(handler)
            self._attached.append((log, handler))

    def close(self) -> None:
        """Detach and close every sink, and give the loggers their levels back."""
        for log, handler in self._attached:
            log.removeHandler(handler)
            handler.close()
        self._attached.clear()
        for log, level, propagate in reversed(self._before):
            _set_level(log, level)
            log.propagate = propagate


def configure(
    settings: LoggingSettings,
    redactor: Redactor,
    *,
    verbose: bool = False,
    file_bytes_max: int = FILE_BYTES_MAX,
) -> LogSinks:
    """Open the sinks of *settings*.

    Args:
        settings: A file sink without a path writes to the state directory's `logs/agent.log`.
        redactor: Applied to every string of every record, tracebacks included.
        verbose: The console shows "info" and above, regardless of its sink's level.
        file_bytes_max: Size at which a file is rotated; `FILES` of them are kept.
    """
    sinks = LogSinks()
    # Without a sink the standard library would print warnings on the terminal.
    sinks.attach(logging.NullHandler(), to_noisy=True)
    levels: list[int] = []
    for sink in settings.sinks:
        level = _LEVELS[sink.level or settings.level]
        if verbose and sink.type == "console":
            level = min(level, logging.INFO)
        try:
            handler = _handler(sink, redactor, file_bytes_max)
        except (OSError, RuntimeError) as error:
            why = error.strerror if isinstance(error, OSError) else "there is no such user"
            sinks.notices.append(f"no log is written to {sink.path or paths.log_file()}: {why}")
            continue
        handler.setLevel(level)
        levels.append(level)
        sinks.attach(handler, to_noisy=sink.type == "file")
    _set_levels(min(levels, default=logging.CRITICAL))
    return sinks


def load(*, spare_rich: bool = False) -> None:
    """Import structlog ahead of the first record.

    structlog imports rich if it is installed: 80 modules and a fifteenth of a one-shot run, for a
    part that we do not use. With *spare_rich* it does not find rich, unless a host made the logs.
    """
    handlers = logging.getLogger().handlers
    is_ours = any(isinstance(handler, _Stderr | _PrivateFile) for handler in handlers)
    with without("rich") if spare_rich and is_ours else nullcontext():
        import structlog  # noqa: F401 # pyright: ignore[reportUnusedImport]


def _set_levels(lowest: int) -> None:
    for name in _NOISY:
        log = logging.getLogger(name)
        # At debug level these libraries log prompts in full, and AWS tokens as they sign. At info
        # they log a line for each request, which has one of ours.
        _set_level(log, logging.INFO if lowest < logging.INFO else max(lowest, logging.WARNING))
        log.propagate = False
    _set_level(logging.getLogger(), lowest)


def _set_level(log: logging.Logger, level: int) -> None:
    """Set the level of *log*; call it for the root last.

    `setLevel` clears the cached levels of all loggers, which takes long: once is enough.
    """
    if log.parent is None:
        log.setLevel(level)
    else:
        log.level = level


def _path(sink: LogSink) -> Path:
    return Path(sink.path).expanduser() if sink.path else paths.log_file()


def _handler(sink: LogSink, redactor: Redactor, file_bytes_max: int) -> logging.Handler:
    if sink.type == "console":
        handler: logging.Handler = _Stderr()
        handler.addFilter(lambda record: record.name != SHOWN)
    else:
        path = _path(sink)
        paths.private_dir(path.parent)
        handler = _PrivateFile(
            path, maxBytes=file_bytes_max, backupCount=FILES - 1, encoding="utf-8"
        )
    handler.setFormatter(_Formatter(redactor, as_json=sink.type == "file"))
    return handler


class _Formatter(logging.Formatter):
    """Formats with structlog, imported with the first record."""

    def __init__(self, redactor: Redactor, *, as_json: bool) -> None:
        super().__init__()
        self._redactor = redactor
        self._as_json = as_json

    def format(self, record: logging.LogRecord) -> str:
        return self._structured.format(record)

    @cached_property
    def _structured(self) -> logging.Formatter:
        import structlog  # with the first record

        json_line = structlog.processors.JSONRenderer(sort_keys=False, ensure_ascii=False)
        return structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared_processors(),
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.format_exc_info,
                _Redact(self._redactor),
                json_line if self._as_json else _console_line,
            ],
        )


class _Redact:
    """A processor that redacts secrets in the event and in every nested value."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor

    # Any: structlog's own type for logged values
    def __call__(
        self, _logger: object, _method: str, record: MutableMapping[str, Any]
    ) -> MutableMapping[str, Any]:
        return dict(self._redactor.value(record))


def _console_line(_logger: object, _method: str, record: MutableMapping[str, Any]) -> str:
    """Return `level: event key=value …`, or `level: sentence`; tracebacks go to the file only."""
    hidden = ("at_utc", "logger", "level", "event", "exception", "stack")
    pairs = [
        f"{key}={value if isinstance(value, int | float) else json.dumps(value)}"
        for key, value in record.items()
        if key not in hidden
    ]
    stack = str(record.get("exception", "")).strip().rpartition("\n")[2]
    fields = " ".join(filter(None, [str(record.get("event", "")), *pairs]))
    text = str(record.get("sentence") or fields)
    # An exception may quote text from outside, which must not repaint the terminal.
    return reveal(f"{record.get('level', 'info')}: {text}" + (f" ({stack})" if stack else ""))


def _left_out(error: BaseException | None) -> str:
    """Return the line about a record that cannot be formatted, which may hold secrets."""
    return f"warning: a log record was left out: {type(error).__name__}"


class _Stderr(logging.Handler):
    """Writes to the current `sys.stderr`, which a live screen shows above the prompt."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            text = self.format(record)
        except (TypeError, ValueError, LookupError, RecursionError) as error:
            text = _left_out(error)
        with suppress(OSError, ValueError):  # the terminal is gone: no one can be informed
            sys.stderr.write(f"{text}\n")
            sys.stderr.flush()


class _PrivateFile(RotatingFileHandler):
    """A rotating file only the user can read; a full disk is reported once and ends logging."""

    _formatted: tuple[logging.LogRecord, str] | None = None

    def format(self, record: logging.LogRecord) -> str:
        # The library asks twice for each record: for the size of the file, and to write it.
        kept, self._formatted = self._formatted, None
        if kept and kept[0] is record:
            return kept[1]
        text = super().format(record)
        self._formatted = (record, text)
        return text

    def _open(self) -> TextIOWrapper:
        descriptor = os.open(self.baseFilename, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        return os.fdopen(descriptor, "a", encoding="utf-8", errors="backslashreplace")

    def shouldRollover(self, record: logging.LogRecord) -> bool:
        # Another process may have rotated our file; rotating again would discard its new one.
        if self.stream and not _is_at(self.baseFilename, self.stream):
            self.stream.close()
            self.stream = None
        self.stream = self.stream or self._open()
        file = os.fstat(self.stream.fileno())
        # The library's own check asks five times for what this one call tells.
        is_full = file.st_size + len(self.format(record)) >= self.maxBytes > 0
        return is_full and stat.S_ISREG(file.st_mode)

    def close(self) -> None:
        # `handleError` has already reported the full disk.
        with suppress(OSError):
            super().close()

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: ARG002 - named by the library
        error = sys.exc_info()[1]
        if isinstance(error, OSError):
            self.setLevel(logging.CRITICAL + 1)
            sys.stderr.write(f"warning: logging stopped: {error.strerror}\n")
        else:
            sys.stderr.write(f"{_left_out(error)}\n")


def _is_at(path: str, stream: TextIOWrapper) -> bool:
    with suppress(FileNotFoundError):
        return os.path.samestat(os.stat(path), os.fstat(stream.fileno()))  # noqa: PTH116
    return False


def log_event(event: events.Event) -> None:
    """Log *event*, if the user sees it during a run; at level info, even warnings.

    The first record imports structlog, which would delay the first request by 50 ms.
    """
    match event:
        case events.SessionOpened():
            _log.info("session opened", session_id=event.session_id, resumed=event.resumed)
        case events.Notice():
            _shown.info("notice", notice_level=event.level, text=event.text)
        case events.ErrorShown():
            _shown.info("error shown", text=event.text)
        case events.Retry():
            _shown.info("retry", attempt=event.attempt, wait_s=event.wait_s, reason=event.reason)
        case events.Compacted():
            _shown.info(
                "compacted",
                removed_messages=event.removed_messages,
                tokens_before=event.tokens_before,
                tokens_after=event.tokens_after,
            )
        case events.AgentEnd():
            _log.info("run ended", stop_reason=event.stop_reason, error=event.error)
        case _:
            pass
