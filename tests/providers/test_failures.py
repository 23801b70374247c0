"""Each error answer becomes a sentence for the user, with the facts that retries need."""

from dataclasses import dataclass, replace

import pytest

from agent_cli.contracts.errors import ContextOverflow, ModelError
from agent_cli.contracts.options import FailureKind
from agent_cli.providers.anthropic.platforms import ANTHROPIC
from agent_cli.providers.failures import (
    NO_CREDIT,
    OWN_SPEND_LIMIT,
    QUOTED_CHARS_MAX,
    CallFailed,
    Refusal,
    broken_off,
    not_the_api,
    quoted,
    refused,
)
from tests.tables import each_row


@dataclass(frozen=True)
class Row:
    """An answer, and its expected failure."""

    answer: Refusal
    sentence: str
    kind: FailureKind
    retryable: bool = False


def answer(status: int, message: str = "said.", kind: str | None = None, **headers: str) -> Refusal:
    return Refusal(
        status=status,
        message=message,
        remedies=ANTHROPIC.remedies,
        kind=kind,
        model_id="m-1",
        headers=headers,
    )


ROWS = [
    Row(answer(301, location="https://b"), "the server redirects to https://b; set"
        " ANTHROPIC_BASE_URL to it if you trust it", "5xx"),
    Row(answer(302), "the server redirects to another address; set ANTHROPIC_BASE_URL to it if you"
        " trust it", "5xx"),
    Row(answer(400), "the API refused the request (400: said); change it, or start over", "5xx"),
    Row(answer(401), "API key rejected (said); check ANTHROPIC_API_KEY", "5xx"),
    Row(answer(402), "no credit left (said); check the billing settings", "5xx"),
    Row(answer(403), "the API key has no permission for this (said); check its workspace and"
        " limits", "5xx"),
    Row(answer(404), "unknown model 'm-1' or wrong URL (said); check the model id and"
        " ANTHROPIC_BASE_URL", "5xx"),
    Row(answer(408), "the API refused the request (408: said); change it, or start over",
        "connection", retryable=True),
    Row(answer(409), "the API refused the request (409: said); change it, or start over", "5xx",
        retryable=True),
    Row(answer(429), "rate limit reached (said); wait a little and ask again", "429",
        retryable=True),
    Row(answer(499), "the API refused the request (499: said); change it, or start over", "5xx"),
    Row(answer(500), "API error (500: said); try again later", "5xx", retryable=True),
    Row(answer(503), "API error (503: said); try again later", "5xx", retryable=True),
    Row(answer(529), "API overloaded (529); try again later", "529", retryable=True),
    Row(answer(530), "API error (530: said); try again later", "5xx", retryable=True),
    Row(answer(200, kind="overloaded_error"), "API overloaded during the reply; try again later",
        "529", retryable=True),
    Row(answer(200, kind="rate_limit_error"), "the API broke the reply off (said); ask again",
        "429", retryable=True),
    Row(answer(200, kind="api_error"), "the API broke the reply off (said); ask again", "5xx",
        retryable=True),
    Row(answer(200, kind="timeout_error"), "the API broke the reply off (said); ask again", "5xx",
        retryable=True),
    Row(answer(200), "the API broke the reply off (said); ask again", "5xx", retryable=True),
    Row(answer(200, kind="invalid_request_error"), "the API broke the reply off (said); ask again",
        "5xx"),
    Row(answer(400, NO_CREDIT), f"no credit left ({NO_CREDIT}); check the billing settings", "5xx"),
    Row(answer(400, OWN_SPEND_LIMIT), f"spending limit reached ({OWN_SPEND_LIMIT}); raise it in the"
        " API's console", "5xx"),
    Row(answer(500, **{"x-should-retry": "false"}), "API error (500: said); try again later",
        "5xx"),
    Row(answer(400, **{"x-should-retry": "true"}), "the API refused the request (400: said); change"
        " it, or start over", "5xx", retryable=True),
]  # fmt: skip


@each_row(
    ("status", "trouble"),
    [
        *(
            (300, "network"),
            (399, "network"),
            (400, None),
            (401, "auth"),
            (402, "billing"),
            (403, "auth"),
        ),
        *((404, None), (408, "network"), (429, "rate_limit"), (500, "server"), (503, "server")),
        (529, "overloaded"),
    ],
)
def test_status_says_which_part_of_the_world_failed(status: int, trouble: str | None) -> None:
    assert refused(answer(status)).error.trouble == trouble


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.answer.status} {row.sentence[:30]}")
def test_each_error_answer_becomes_one_sentence_and_is_classified(row: Row) -> None:
    """S1-20, S1-46, C15: the cause, the next step, and whether a retry can help."""
    headers = {**row.answer.headers, "retry-after": "3"}
    failed = refused(replace(row.answer, headers=headers))

    assert str(failed) == str(failed.error) == row.sentence
    assert failed.reason == row.sentence.partition(";")[0]
    assert (failed.retryable, failed.kind) == (row.retryable, row.kind)
    assert failed.asked_delay_s == 3.0
    assert type(failed.error) is ModelError
    assert failed.error.may_have_cost is (row.answer.status == 200)


@pytest.mark.parametrize("code", ["enforced_spend_limit_reached", "contract_spend_limit_reached"])
def test_spending_limit_is_not_retryable(code: str) -> None:
    """S1-20: the status may be that of a rate limit."""
    failed = refused(Refusal(status=429, message="no more", remedies=ANTHROPIC.remedies, code=code))

    assert str(failed) == "spending limit reached (no more); raise it in the API's console"
    assert not failed.retryable


@each_row(
    ("status", "said"),
    [
        (413, "big"),
        (400, "prompt is too long: 9 > 8"),
        (400, "Input is too long for requested model"),
        (400, "input length and `max_tokens` exceed context limit: 8 + 2 > 9"),
        (400, "This model's maximum context length is 32768 tokens"),
        (500, "the request exceeds the available context size, try increasing it"),
    ],
)
def test_too_large_conversation_becomes_context_overflow(status: int, said: str) -> None:
    """S1-39: compaction handles this error."""
    failed = refused(
        Refusal(status=status, message=said, remedies=ANTHROPIC.remedies, request_id="req_1")
    )

    assert isinstance(failed.error, ContextOverflow)
    assert failed.reason == f"the conversation is too large for the model ({said})"
    assert (failed.error.request_id, failed.retryable) == ("req_1", False)


def test_error_without_spaces_is_cut_not_left_out() -> None:
    """Gateways answer with JSON on one line, in which there is no space to cut at."""
    failed = refused(answer(502, '{"error":{"code":"upstream_gone","trace":"' + "x" * 900))

    assert failed.reason.startswith('API error (502: {"error":{"code":"upstream_gone"')
    assert len(failed.reason) <= QUOTED_CHARS_MAX + len("API error (502: )")


def test_html_error_page_is_shortened_to_one_line() -> None:
    """S1-46: a proxy's page is too long to show."""
    failed = refused(answer(502, "<p>no\n" * 500))

    assert "\n" not in failed.reason
    assert failed.reason.endswith(" ...)")
    assert len(failed.reason) <= QUOTED_CHARS_MAX + len("API error (502: )")


@each_row("status", [400, 413, 429, 502, 529])
def test_markup_of_a_proxys_page_is_not_shown(status: int) -> None:
    """Its title says what the page says."""
    page = "<html>\n<head><title>502 Bad\nGateway.</title></head><body><h1>502</h1></body></html>"

    failed = refused(answer(status, page))

    assert "<" not in str(failed)
    assert status == 529 or "502 Bad Gateway)" in failed.reason


@each_row(
    ("page", "shown"),
    [
        ("<html><head><title>\nAccess Denied</title></head>policy 7</html>", "Access Denied"),
        ("\n<!DOCTYPE html><p>Blocked", "a web page without a title"),
    ],
)
@each_row("status", [401, 403, 404, 407])
def test_page_of_a_firewall_is_not_taken_for_an_answer_of_the_api(
    status: int, page: str, shown: str
) -> None:
    """The key and the model were blamed, and the markup shown."""
    failed = refused(answer(status, page))

    assert str(failed) == (
        f"a web page came in place of the API's answer ({status}: {shown});"
        " check what stands between, such as a proxy, and ANTHROPIC_BASE_URL"
    )
    assert (failed.error.trouble, failed.retryable) == ("network", False)


def test_failure_without_a_reason_uses_the_text_of_its_error() -> None:
    failed = CallFailed(ModelError("it broke"), retryable=True)

    assert (failed.reason, failed.kind, failed.asked_delay_s) == ("it broke", None, None)


def test_broken_connection_may_have_cost_only_if_the_request_was_sent() -> None:
    """S1-46: either way the failure is transient."""
    sent, unsent = broken_off("lost", "req_1"), broken_off("lost", is_sent=False)

    assert str(sent) == "lost; check the network and ask again (request req_1)"
    assert (sent.reason, sent.kind, sent.retryable) == ("lost", "connection", True)
    assert (sent.error.request_id, unsent.error.request_id) == ("req_1", None)
    assert (sent.error.may_have_cost, unsent.error.may_have_cost) == (True, False)


def test_web_page_in_place_of_a_stream_names_the_base_url() -> None:
    """C15: a retry brings the same page."""
    failed = not_the_api("https://x", "a web page", "ANTHROPIC_BASE_URL", "the Messages API")

    assert str(failed) == (
        "https://x answered with a web page instead of a stream of the Messages API; the base URL"
        " is probably wrong, check ANTHROPIC_BASE_URL"
    )
    assert (failed.error.status, failed.retryable) == (200, False)


def test_sign_in_page_of_a_network_is_named() -> None:
    """In a session that worked until now, the address is not what is wrong."""
    page = "<!DOCTYPE html><html><head><title>HotelNet: sign in</title></head></html>"

    failed = not_the_api(
        "https://x", "text/html", "ANTHROPIC_BASE_URL", "the Messages API", error=page
    )

    assert str(failed) == (
        "https://x answered with a web page instead of a stream of the Messages API"
        " (HotelNet: sign in); sign in with a browser if it is a network's sign-in page, else"
        " check ANTHROPIC_BASE_URL"
    )


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("x" * 300, "x" * 300),
        ("x" * 301, "x" * 296 + " ..."),
        ("word " * 61, "word " * 59 + "..."),
    ],
)
def test_long_words_of_a_server_are_cut_at_300_characters(written: str, shown: str) -> None:
    """At a space, if there is one in the second half."""
    assert quoted(written) == shown
