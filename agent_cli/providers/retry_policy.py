"""The number of retries and the waits before them; pure, without a clock."""

from collections.abc import Mapping
from dataclasses import replace
from email.utils import parsedate_to_datetime
from typing import Self, TypeAlias, get_args

from agent_cli.contracts import options
from agent_cli.system.records import dataclass

FailureKind: TypeAlias = options.FailureKind


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """The section [retry] of the settings; see `appsettings.example.toml`.

    Attributes:
        max: Retries after the first call; 0 means none.
        base_s: First wait after a 429; 10, 20, 40, 80, 160 with the defaults.
        other_base_s: First wait after anything else (overload, connection, broken stream).
        factor: Each wait is this multiple of the previous one.
        jitter: "full" draws each wait between 0 and its value in the table.
        on: The failures after which a call is retried.
        respect_retry_after: Wait as long as the server asks instead of the computed wait.
        max_server_delay_s: The longest wait a server may ask for, unless the request sets another.
    """

    max: int = options.RETRIES
    base_s: float = options.RETRY_BASE_S
    other_base_s: float = options.RETRY_OTHER_BASE_S
    factor: float = options.RETRY_FACTOR
    jitter: options.Jitter = options.RETRY_JITTER
    on: tuple[FailureKind, ...] = get_args(FailureKind)
    respect_retry_after: bool = True
    max_server_delay_s: float = options.MAX_SERVER_DELAY_S

    def within(self, max_retry_delay_ms: int | None) -> Self:
        """Return the policy of a request with its own limit of the wait a server may ask for."""
        if max_retry_delay_ms is None:
            return self
        return replace(self, max_server_delay_s=max_retry_delay_ms / 1000)

    def wait_s(self, retry: int, *, rate_limited: bool, random_share: float) -> float:
        """Return the wait before retry number *retry*, from 1; *random_share* is in [0, 1)."""
        base_s = self.base_s if rate_limited else self.other_base_s
        wait_s = base_s * float(self.factor ** (retry - 1))
        return wait_s * random_share if self.jitter == "full" else wait_s


def server_delay_s(headers: Mapping[str, str], *, now_s: float) -> float | None:
    """Return the wait a response asks for, or None.

    `retry-after-ms` is more exact and wins over `retry-after` (seconds or an HTTP date). A date is
    held against the server's own `date`, because our clock may differ, or else against *now_s*.
    """
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    after = headers.get("retry-after")
    seconds = _number(after)
    if seconds is not None or after is None:
        return seconds
    until_s, server_now_s = _date_s(after), _date_s(headers.get("date", ""))
    if until_s is None:
        return None
    return max(0.0, until_s - (now_s if server_now_s is None else server_now_s))


def _date_s(text: str) -> float | None:
    try:
        return parsedate_to_datetime(text).timestamp()
    except ValueError:
        return None


def _number(text: str | None) -> float | None:
    try:
        number = float(text) if text is not None else -1.0
    except ValueError:
        return None
    # Not `number < 0`, because a header may also say "nan".
    return number if number >= 0 else None
