"""Credentials that only the SDK can find: profiles and workload identity."""

import asyncio
import json
from pathlib import Path

import pytest

from agent_cli.contracts.errors import ModelError
from agent_cli.providers.anthropic.connection import Connection
from agent_cli.providers.anthropic.sdk_client import MessageBatches, SdkClient
from agent_cli.providers.anthropic.wire import parameters
from agent_cli.providers.failures import CallFailed
from tests.messages_api import FakeMessagesApi, error, reply
from tests.messages_api.script import raw
from tests.providers.asking import asker, request

NOWHERE = "http://127.0.0.1:9"


@pytest.mark.parametrize(
    ("token", "reason", "retryable"),
    [
        (None, "not signed in (Identity token file not found", False),
        ("a.b.c", "not signed in (Failed to reach token endpoint", True),
    ],
)
async def test_credentials_that_cannot_be_had_fail_the_call(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    token: str | None,
    reason: str,
    retryable: bool,
) -> None:
    """With a sentence and a remedy; a token server that is out of reach is asked again."""
    file = tmp_path / "token"
    if token:
        file.write_text(token)
        file.chmod(0o600)
    monkeypatch.setenv("ANTHROPIC_FEDERATION_RULE_ID", "fdrl_1")
    monkeypatch.setenv("ANTHROPIC_ORGANIZATION_ID", "00000000-0000-0000-0000-000000000000")
    monkeypatch.setenv("ANTHROPIC_SERVICE_ACCOUNT_ID", "svac_1")
    monkeypatch.setenv("ANTHROPIC_IDENTITY_TOKEN_FILE", str(file))
    client = SdkClient(Connection(base_url=NOWHERE))

    with pytest.raises(CallFailed) as posted:
        async with client.post(parameters(request(), compat=False), api_key=None):
            pass
    with pytest.raises(CallFailed) as listed:
        await client.list_models()
    await client.aclose()

    for failed in (posted.value, listed.value):
        assert failed.reason.startswith(reason)
        assert str(failed).endswith("; sign in again, or set ANTHROPIC_API_KEY")
        assert (failed.retryable, failed.kind) == (retryable, "connection" if retryable else None)


@pytest.mark.parametrize(
    "body", ["<!doctype html><title>Sign in</title>", "null", "{}", '{"id": "msg'], ids=str
)
@pytest.mark.parametrize("kind", ["application/json", "text/html"])
async def test_sign_in_page_in_place_of_message_batches_is_an_outage(
    body: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch that waited for hours ended with an internal error, because of a train's network."""
    page = raw(200, body.encode(), content_type=kind)
    async with FakeMessagesApi() as api:
        monkeypatch.setattr(api.batches, "answer_to", lambda _request: page)
        batches = MessageBatches(Connection(base_url=api.base_url, api_key="k"))
        asked = (batches.create({"a": {}}, []), anext(batches.listed(0, 1), None))
        ended = await asyncio.gather(*asked, return_exceptions=True)
        await batches.aclose()

    for failure in ended:
        assert isinstance(failure, ModelError)
        assert (failure.trouble, failure.may_have_cost) == ("network", True)
        assert str(failure).startswith(
            f"{api.base_url} answered with something else than Message B"
        )


def write_profile(name: str, address: str) -> None:
    """Write a credentials profile as Anthropic's own tool does."""
    folder = Path.home() / ".config" / "anthropic"
    config = {"authentication": {"type": "user_oauth"}, "base_url": address}
    tokens = {"access_token": "of the profile", "expires_at": 4_000_000_000}
    for kind, content in (("configs", config), ("credentials", tokens)):
        file = folder / kind / f"{name}.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(content))
        file.chmod(0o600)


async def test_profile_and_headers_of_the_users_env_file_are_used() -> None:
    """C15: the SDK itself reads them only from the environment; the profile names the server."""
    variables = {"ANTHROPIC_PROFILE": "work", "ANTHROPIC_CUSTOM_HEADERS": "X-Team: tools"}
    revoked = error(401, "authentication_error", "invalid token")
    async with FakeMessagesApi(reply("ok"), *[revoked] * 3) as api:
        write_profile("work", api.base_url)
        async with asker(variables=variables) as it:
            asked = await it.ask()
            rejected = await it.ask()

    assert asked.text == "ok"
    assert str(rejected.error).startswith(
        "the sign-in was rejected (invalid token); sign in again, or set ANTHROPIC_API_KEY"
    )
    headers = api.requests[0].headers
    assert (headers["authorization"], headers["x-team"]) == ("Bearer of the profile", "tools")


def test_profile_that_does_not_exist_is_named_with_a_remedy() -> None:
    with pytest.raises(ModelError, match=r"not signed in \(.*work.*\); sign in again, or set"):
        SdkClient(Connection(variables={"ANTHROPIC_PROFILE": "work"}))
