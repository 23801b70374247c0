"""The small client sends what the SDK would, so that an SDK that changes the wire is noticed."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import pytest

from agent_cli.contracts.messages import UserMessage
from agent_cli.contracts.tooling import ToolSpec
from agent_cli.providers.connection import Connection
from agent_cli.providers.failures import CallFailed
from agent_cli.providers.sdk_client import SdkClient
from agent_cli.providers.transport import Client
from agent_cli.providers.wire import parameters
from agent_cli.providers.wire_client import WireClient
from tests.messages_api import FakeMessagesApi, raw, reply
from tests.messages_api.received import ReceivedRequest
from tests.providers.asking import asker, request

# They describe the SDK and its host, and serve its statistics.
STATISTICS = "x-stainless-"
TOOL = ToolSpec("read", "Read a file.", {"type": "object", "properties": {"path": {}}})


async def sent_by(client: Client, sent: dict[str, Any], api: FakeMessagesApi) -> ReceivedRequest:
    """Return the request that *client* makes of *sent*, whatever the server thinks of it."""
    with suppress(CallFailed):
        async with client.post(sent, api_key=None) as opened:
            await opened.finish()
    await client.aclose()
    return api.requests[-1]


def that_matter(headers: Mapping[str, str]) -> dict[str, str]:
    return {k: v for k, v in headers.items() if not k.lower().startswith(STATISTICS)}


@pytest.mark.parametrize(
    "options",
    [
        {"api_key": "secret"},
        {"auth_token": "token"},
        {"api_key": "secret", "auth_token": "token"},
        {"api_key": "secret", "compat": True},
    ],
    ids=["key", "token", "both", "compatible"],
)
@pytest.mark.parametrize("level", [None, "high"])
@pytest.mark.parametrize("temperature", [None, 0.5])
async def test_both_clients_send_the_same_request(
    options: dict[str, Any],
    level: str | None,
    temperature: float | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Method, address, headers and body, byte for byte, for each form of authentication."""
    monkeypatch.setenv("ANTHROPIC_CUSTOM_HEADERS", "X-Team: tools\nUser-Agent: other\nbroken")
    wanted = request(
        UserMessage.of("naïve \u2028 “quotes” \U0001f600 </script>"),
        system=("be brief", "today"),
        tools=(TOOL,),
        session_id="s1",
        temperature=temperature,
        **({"thinking_level": level} if level else {}),
    )
    sent = parameters(wanted, compat=bool(options.get("compat")))
    async with FakeMessagesApi(reply("a"), reply("b")) as api:
        connection = Connection(base_url=f"{api.base_url}/v1/", **options)
        credential = options.get("api_key") or options["auth_token"]

        theirs = await sent_by(SdkClient(connection), sent, api)
        ours = await sent_by(WireClient(connection, credential), sent, api)

    assert ours.raw == theirs.raw
    assert (ours.method, ours.path) == (theirs.method, theirs.path)
    assert that_matter(ours.headers) == that_matter(theirs.headers)


@pytest.mark.parametrize("environment", ["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"])
async def test_a_credential_of_the_environment_needs_no_sdk(
    environment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(environment, "from-outside")
    async with FakeMessagesApi(reply("a")) as api, asker(api, api_key=None) as it:
        asked = await it.ask()

    assert asked.text == "a"
    assert api.requests[0].headers["authorization"] == "Bearer from-outside"
    assert "x-stainless-lang" not in api.requests[0].headers


async def test_a_redirect_is_refused_and_the_conversation_stays_here() -> None:
    """Another host would get the whole conversation; the sentence names it."""
    elsewhere = raw(307, b"", headers={"location": "http://127.0.0.1:9/v1/messages"})
    async with FakeMessagesApi(elsewhere) as api, asker(api) as it:
        asked = await it.ask()

    assert "redirects to http://127.0.0.1:9/v1/messages" in str(asked.error)
    assert len(api.requests) == 1


@pytest.mark.parametrize("credential", ["key", None])
async def test_a_password_in_the_address_is_not_shown(
    credential: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Threat 9: it ends up in a log or a screenshot; both clients say where they asked."""
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    async with asker(base_url="http://me:CANARY-pw@127.0.0.1:1", api_key=credential) as it:
        asked = await it.ask()

    assert "CANARY" not in str(asked.error)


@pytest.mark.parametrize("is_small", [True, False])
@pytest.mark.parametrize("content_type", ["text/event-stream; charset=utf-8", "text/html"])
async def test_both_clients_say_what_kind_of_answer_it_is(
    content_type: str, *, is_small: bool
) -> None:
    """C15: a page in place of a stream is told apart by it."""
    async with FakeMessagesApi(raw(200, b"x", content_type=content_type)) as api:
        connection = Connection(base_url=api.base_url, api_key="k")
        one: Client = WireClient(connection, "k") if is_small else SdkClient(connection)
        async with one.post(parameters(request(), compat=False), api_key=None) as opened:
            await opened.finish()
        await one.aclose()

    assert opened.content_type == content_type
