"""Failures of a call, as sentences for users and facts for retries."""

import re
import time
from collections.abc import Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime

from agent_cli.contracts.errors import (
    ASK_AGAIN,
    CHANGE_IT,
    START_OVER,
    ContextOverflow,
    ModelError,
    Trouble,
)
from agent_cli.contracts.options import FailureKind
from agent_cli.system.loading import late_pattern
from agent_cli.system.records import dataclass, field

RETRIED_STATUSES = frozenset({408, 409, 429})
RETRIED_IN_STREAM = frozenset(
    {"overloaded_error", "api_error", "timeout_error", "rate_limit_error", "server_error"}
)
SPEND_LIMITS = frozenset({"enforced_spend_limit_reached", "contract_spend_limit_reached"})
OWN_SPEND_LIMIT = "You have reached your specified API usage limits"
NO_CREDIT = "credit balance is too low"
NO_STREAMS = ("text/html", "application/json")
"""Content types of answers that are no stream: a page, or an error."""
# A spent quota may have the status of a rate limit, and waiting does not help.
_NO_QUOTA = frozenset({"insufficient_quota", "billing_hard_limit_reached"})
QUOTED_CHARS_MAX = 300
_CUT = " ..."
# Phrases of the API, Bedrock, and compatible servers such as vLLM and llama.cpp.
_TOO_LONG = late_pattern(
    r"(prompt|input) is too long|context[_ ]?(limit|length|size|window)", re.IGNORECASE
)
# "messages.1.content.0: Invalid `signature` in `thinking` block" and its like.
_BAD_THINKING = late_pattern(r"\bmessages\.\d+\b.*\bthinking\b", re.DOTALL)
# Phrases of AWS, Google and Azure for an expired sign-in and an unknown model.
_EXPIRED = late_pattern(r"expired|security token|invalid_grant", re.IGNORECASE)
_ACCOUNT = late_pattern(r"(?<=//)[^/]*@")
_QUERY_VALUE = late_pattern(r"(?<==)[^&#]*")
_NO_MODEL = late_pattern(
    r"model identifier|model id|publisher model|deploymentnotfound|deployment .*not exist",
    re.IGNORECASE,
)


_PAGE = late_pattern(r"\s*<(!doctype html|html)\b", re.IGNORECASE)
_TITLE = late_pattern(r"<title[^>]*>(.*?)</title>", re.IGNORECASE | re.DOTALL)


class CallFailed(Exception):
    """One attempt failed.

    Attributes:
        error: The error for the caller if there is no retry: what happened and what to do.
        reason: The sentence without the advice.
        retryable: Whether a retry can help.
        kind: Its name in `retry.on`; None for a permanent failure.
        asked_delay_s: The wait the server asked for, or None.
        code: The server's own name of the error, or None.
    """

    def __init__(
        self,
        error: ModelError,
        *,
        reason: str = "",
        retryable: bool,
        kind: FailureKind | None = None,
        asked_delay_s: float | None = None,
        code: str | None = None,
    ) -> None:
        super().__init__(str(error))
        self.error = error
        self.reason = reason or str(error)
        self.retryable = retryable
        self.kind = kind
        self.asked_delay_s = asked_delay_s
        self.code = code


class BrokenReply(Exception):
    """The stream violates the API; str() says where."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedies:
    """The words for a refusal: the reason, and the remedy with this server.

    Attributes:
        rejected: The words for credentials that were not accepted; `sign_in` is the remedy.
        forbidden: The words for a missing permission; `permission` is the remedy.
        unknown_model: The remedy for an unknown model.
        address: The variable that holds the server's URL.
        is_cloud: The server is a cloud's, whose text says more than its status.
    """

    rejected: str
    sign_in: str
    forbidden: str
    permission: str
    unknown_model: str
    address: str
    is_cloud: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """An error response, by status or by an `error` event in a stream (status 200)."""

    status: int
    message: str
    remedies: Remedies
    kind: str | None = None
    code: str | None = None
    request_id: str | None = None
    model_id: str = ""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


def refused(refusal: Refusal) -> CallFailed:
    """Return the failure for *refusal*."""
    error_type = ContextOverflow if _too_long(refusal) else ModelError
    reason, advice = _reason_and_advice(refusal)
    error = error_type(
        f"{reason}; {advice}",
        status=refusal.status,
        request_id=refusal.request_id,
        kind=refusal.kind,
        may_have_cost=refusal.status == 200,
        trouble=_trouble(refusal),
    )
    return CallFailed(
        error,
        reason=reason,
        retryable=_retryable(refusal),
        kind=_kind(refusal),
        asked_delay_s=server_delay_s(refusal.headers, now_s=time.time()),
        code=refusal.code,
    )


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
        date = parsedate_to_datetime(text)
        # Not in our zone: a date of HTTP is in GMT, also in the form that names none.
        return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None


def _number(text: str | None) -> float | None:
    try:
        number = float(text) if text is not None else -1.0
    except ValueError:
        return None
    # Not `number < 0`, because a header may also say "nan".
    return number if number >= 0 else None


def broken_off(
    what: str,
    request_id: str | None = None,
    *,
    is_sent: bool = True,
    suspect: str = "the network",
) -> CallFailed:
    """Return the failure for a broken reply or connection; *what* describes it.

    *is_sent* is False if the server cannot have received the request; the user is to check
    *suspect*.
    """
    error = ModelError(
        f"{what}; check {suspect} and ask again",
        request_id=request_id,
        may_have_cost=is_sent,
        trouble="network",
    )
    return CallFailed(error, reason=what, retryable=True, kind="connection")


def not_the_api(
    base_url: str, found: str, variable: str, api: str, *, error: str = ""
) -> CallFailed:
    """Return the failure for a 200 that is not a stream of *api*, such as "the Messages API".

    The advice names *variable*, which holds the address; *error* is the error's text or the web
    page that a gateway sent.
    """
    shown, advice = f"{found} instead of a stream of {api}", "the base URL is probably wrong, check"
    if is_page(error):
        shown = f"a web page instead of a stream of {api} ({quoted(error)})"
        advice = "sign in with a browser if it is a network's sign-in page, else check"
    elif error:
        shown, advice = (
            f"an error and status 200 ({quoted(error)})",
            "look into that server, or change",
        )
    sentence = f"{base_url} answered with {shown}; {advice} {variable}"
    return CallFailed(ModelError(sentence, status=200, trouble="network"), retryable=False)


def checked_key(key: str, name: str = "the API key") -> str:
    """Return *key* in a form valid in a header: copied text often has blanks around it.

    Raises:
        CallFailed: It is not. The HTTP library's own error would print the key.
    """
    key = key.strip()
    if key and key.isascii() and key.isprintable():
        return key
    fault = "holds a line break or a character that is not ASCII" if key else "is blank"
    raise CallFailed(ModelError(f"{name} {fault}; copy it again"), retryable=False)


def quoted(text: str) -> str:
    """Return *text* as one line without its last full stop, cut if it is long.

    A proxy may answer with a whole page, which its title stands for, or with JSON in which there
    is no space to cut at.
    """
    if is_page(text):
        title = _TITLE.search(text)
        text = title[1] if title and title[1].strip() else "a web page without a title"
    line = " ".join(text.split()).rstrip(".")
    if len(line) <= QUOTED_CHARS_MAX:
        return line
    whole = line[: QUOTED_CHARS_MAX - len(_CUT)]
    words = whole.rpartition(" ")[0]
    return f"{words if len(words) > len(whole) // 2 else whole}{_CUT}"


def is_page(text: str) -> bool:
    """Return whether *text* is a web page, such as that of a proxy or of a network's sign-in."""
    return _PAGE.match(text) is not None


def without_password(address: str) -> str:
    """Return *address* for display; user and password before its host, and its query, masked."""
    address, mark, query = address.partition("?")
    return f"{_ACCOUNT.sub('***@', address)}{mark}{_QUERY_VALUE.sub('***', query)}"


def rejects_thinking(failed: CallFailed) -> bool:
    """Return whether the server rejected the thinking of an earlier reply."""
    return failed.error.status == 400 and _BAD_THINKING.search(str(failed)) is not None


def rejects_size(failed: CallFailed) -> bool:
    """Return whether the body of the request has too many bytes, not the prompt too many tokens."""
    return failed.error.status == 413 and not _TOO_LONG.search(str(failed))


def _retryable(refusal: Refusal) -> bool:
    if _spent(refusal) or _is_unpaid(refusal) or _too_long(refusal):
        return False
    asked = refusal.headers.get("x-should-retry")
    if asked in ("true", "false"):
        return asked == "true"
    if refusal.status == 200:
        return refusal.kind in RETRIED_IN_STREAM or refusal.kind is None
    return refusal.status in RETRIED_STATUSES or refusal.status >= 500


def _kind(refusal: Refusal) -> FailureKind:
    """Return the kind of *refusal*; for an error in a stream, its type decides."""
    if refusal.status == 429 or refusal.kind == "rate_limit_error":
        return "429"
    if refusal.status == 529 or refusal.kind == "overloaded_error":
        return "529"
    # 408: the server did not receive the request in time.
    return "connection" if refusal.status == 408 else "5xx"


def _trouble(refusal: Refusal) -> Trouble | None:
    """Return the part of the world that failed; None if the request was at fault."""
    if _too_long(refusal):
        return None
    if _spent(refusal) or _is_unpaid(refusal) or refusal.status == 402:
        return "billing"
    is_expired = refusal.remedies.is_cloud and _EXPIRED.search(refusal.message)
    if _is_page(refusal):
        return "network"
    if refusal.status in (401, 403) or is_expired:
        return "auth"
    if 300 <= refusal.status < 400 or refusal.status == 408:
        return "network"
    if refusal.status != 200 and refusal.status < 429:
        return None
    by_kind: Mapping[FailureKind, Trouble] = {"429": "rate_limit", "529": "overloaded"}
    return by_kind.get(_kind(refusal), "server")


def _is_page(refusal: Refusal) -> bool:
    """Return whether a proxy or firewall refused the request, which answers with a web page."""
    return refusal.status in (401, 403, 404, 405, 407) and is_page(refusal.message)


def _spent(refusal: Refusal) -> bool:
    return refusal.code in SPEND_LIMITS or refusal.message.startswith(OWN_SPEND_LIMIT)


def _is_unpaid(refusal: Refusal) -> bool:
    return NO_CREDIT in refusal.message or refusal.code in _NO_QUOTA


def _too_long(refusal: Refusal) -> bool:
    if refusal.status == 413:
        return True
    return refusal.status not in (401, 403, 404, 429, 529) and bool(
        _TOO_LONG.search(refusal.message)
    )


def _reason_and_advice(refusal: Refusal) -> tuple[str, str]:
    quote = quoted(refusal.message)
    if _too_long(refusal):
        return f"the conversation is too large for the model ({quote})", START_OVER
    if _spent(refusal):
        return f"spending limit reached ({quote})", "raise it in the API's console"
    if _is_unpaid(refusal):
        return f"no credit left ({quote})", "check the billing settings"
    if _is_page(refusal):
        return (
            f"a web page came in place of the API's answer ({refusal.status}: {quote})",
            f"check what stands between, such as a proxy, and {refusal.remedies.address}",
        )
    return _of_cloud(refusal, quote) or _of_status(refusal, quote)


def _of_cloud(refusal: Refusal, quote: str) -> tuple[str, str] | None:
    """Return a known failure for a cloud's error text: the clouds' statuses are not uniform."""
    remedies = refusal.remedies
    if not remedies.is_cloud or not 400 <= refusal.status < 500:
        return None
    if _EXPIRED.search(refusal.message):
        return f"{remedies.rejected} ({quote})", remedies.sign_in
    if _NO_MODEL.search(refusal.message):
        return f"unknown model {refusal.model_id!r} ({quote})", remedies.unknown_model
    return None


def _of_status(refusal: Refusal, quote: str) -> tuple[str, str]:
    remedies = refusal.remedies
    match refusal.status:
        case 200 if refusal.kind == "overloaded_error":
            return "API overloaded during the reply", "try again later"
        case 200:
            return f"the API broke the reply off ({quote})", "ask again"
        case status if 300 <= status < 400:
            target = quoted(refusal.headers.get("location", "another address"))
            return (
                f"the server redirects to {target}",
                f"set {remedies.address} to it if you trust it",
            )
        case 401:
            return f"{remedies.rejected} ({quote})", remedies.sign_in
        case 402:
            return f"no credit left ({quote})", "check the billing settings"
        case 403:
            return f"{remedies.forbidden} ({quote})", remedies.permission
        case 404:
            what = f"unknown model {refusal.model_id!r} or wrong URL ({quote})"
            return what, remedies.unknown_model
        case 429:
            return f"rate limit reached ({quote})", ASK_AGAIN
        case 529:
            return "API overloaded (529)", "try again later"
        case status if status >= 500:
            return f"API error ({status}: {quote})", "try again later"
        case status:
            return f"the API refused the request ({status}: {quote})", CHANGE_IT
