"""The address of the API, and which of several credentials is used."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent_cli.contracts.errors import AgentCliError
from agent_cli.providers.anthropic.connection import (
    Connection,
    base_url,
    custom_headers,
    known_credential,
)
from agent_cli.providers.anthropic.messages import AnthropicMessages
from agent_cli.providers.failures import CallFailed, checked_key, without_password
from tests.fakes import wrong
from tests.tables import each_row

DOORS: dict[str, Callable[[], object]] = {
    "base_url of a Connection must be str or None, not int": lambda: Connection(base_url=wrong(5)),
    "api_key of a Connection must be str or None, not bytes": lambda: Connection(
        api_key=wrong(b"k")
    ),
    "read_timeout_s of a Connection must be a number from 0, not str": lambda: Connection(
        read_timeout_s=wrong("5")
    ),
    "connection must be Connection or None, not str": lambda: AnthropicMessages(wrong("CANARY")),
    "retry must be RetryPolicy or None, not int": lambda: AnthropicMessages(retry=wrong(3)),
}
KEYS = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")


@each_row("sentence", DOORS)
def test_value_of_another_type_is_refused(sentence: str) -> None:
    """It was a traceback of the thread that loads the client; a key is not quoted."""
    with pytest.raises(AgentCliError) as refused:
        DOORS[sentence]()

    assert str(refused.value) == sentence


@each_row(
    ("given", "address"),
    [
        ("https://x", "https://x"),
        ("https://x/v1", "https://x"),
        (" https://x/v1\n", "https://x"),
        ("https://x//v1//", "https://x"),
        ("https://x/api/", "https://x/api"),
    ],
)
def test_base_url_is_normalized_to_the_server_address(given: str, address: str) -> None:
    """C15: other clients expect `/v1`, and users copy it from there."""
    assert base_url(Connection(base_url=given)) == address


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("https://me:CANARY@host/v1", "https://***@host/v1"),
        ("https://CANARY@host", "https://***@host"),
        ("https://host/~me@home", "https://host/~me@home"),
    ],
)
def test_password_in_an_address_is_masked_and_the_path_is_not(address: str, shown: str) -> None:
    """Threat 9: addresses are shown in messages and logs."""
    assert without_password(address) == shown


@pytest.mark.parametrize(
    ("options", "environment", "credential"),
    [
        ({"api_key": "key", "auth_token": "token"}, ("env key", "env token"), "key"),
        ({"auth_token": "token"}, ("env key", "env token"), "token"),
        ({}, ("env key", "env token"), "env key"),
        ({}, ("", "env token"), "env token"),
        ({}, ("", ""), None),
        ({"api_key": "", "auth_token": ""}, ("", ""), None),
        ({"compat": True}, ("", "env token"), "none"),
        ({"compat": True}, ("env key", ""), "env key"),
        ({"replay": Path("tape")}, ("", "env token"), "none"),
    ],
)
def test_first_available_credential_is_used(
    options: dict[str, Any],
    environment: tuple[str, str],
    credential: str | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """C15: the order is the SDK's; a local server and a recording need none."""
    for name, value in zip(KEYS, environment, strict=True):
        monkeypatch.setenv(name, value)

    assert known_credential(Connection(**options)) == credential


def test_api_key_is_checked_to_be_valid_in_a_header() -> None:
    """An invalid key is refused without being shown; blanks around it were copied with it."""
    assert checked_key(" sk-1 2\r\n") == "sk-1 2"
    with pytest.raises(CallFailed, match="the API key is blank; copy it again"):
        checked_key(" ")
    for key in ("CANARY\nCANARY", "CANARY\u043a"):
        with pytest.raises(CallFailed, match="holds a line break or a character") as refused:
            checked_key(key)
        assert not refused.value.retryable
        assert "CANARY" not in str(refused.value)


def test_custom_headers_are_read_one_per_line() -> None:
    """C15: the SDK reads them in the same way; an invalid line is skipped."""
    assert custom_headers({}) == {}

    given = {"ANTHROPIC_CUSTOM_HEADERS": "X-Team:  tools \nno header\nX-At: 10:30"}

    assert custom_headers(given) == {"X-Team": "tools", "X-At": "10:30"}
    for invalid, complaint in (
        ("X-User: Zo\u00eb", "'X-User' is not ASCII"),
        ("X Team: tools", "'X Team' is not valid as a header; correct it"),
        ("X-Team: to\rols", "'X-Team' is not valid as a header"),
        ("Content-Length: 5", "'Content-Length' cannot be set; remove it"),
    ):
        with pytest.raises(CallFailed, match=f"^ANTHROPIC_CUSTOM_HEADERS: {complaint}"):
            custom_headers({"ANTHROPIC_CUSTOM_HEADERS": invalid})


def test_repr_of_a_connection_shows_no_credential() -> None:
    """Threat 9: tracebacks show the repr. Unset options do nothing."""
    connection = Connection(api_key="CANARY", auth_token="CANARY")

    assert "CANARY" not in repr(connection)
    connection.on_sent()
    assert connection.redact("as it is") == "as it is"
