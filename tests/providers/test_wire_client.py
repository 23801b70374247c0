"""The small client sends the same bytes as the SDK, so that a wire change in the SDK is noticed."""

import asyncio
import json
import math
import socket
from collections.abc import Mapping
from contextlib import closing, suppress
from typing import Any

import pytest

from agent_cli.contracts.messages import UserMessage
from agent_cli.contracts.timeline import Json
from agent_cli.contracts.tooling import ToolSpec
from agent_cli.providers.anthropic import messages
from agent_cli.providers.anthropic.connection import Connection
from agent_cli.providers.anthropic.loop_clients import Client
from agent_cli.providers.anthropic.messages import AnthropicMessages
from agent_cli.providers.anthropic.sdk_client import SdkClient
from agent_cli.providers.anthropic.wire import counted, parameters
from agent_cli.providers.anthropic.wire_client import WireClient
from agent_cli.providers.failures import CallFailed
from tests.fakes import LIMIT_S
from tests.messages_api import FakeMessagesApi, raw, reply
from tests.messages_api.received import ReceivedRequest
from tests.messages_api.script import RawAnswer
from tests.providers.asking import asker, request
from tests.tables import each_row

# They describe the SDK and its host, for statistics.
STATISTICS = "x-stainless-"
CODE = "enforced_spend_limit_reached"
TOOL = ToolSpec("read", "Read a file.", {"type": "object", "properties": {"path": {}}})


async def sent_by(
    client: Client, sent: dict[str, Any], api: FakeMessagesApi, api_key: str | None = None
) -> ReceivedRequest:
    """Return the request that *client* makes of *sent*, whatever the server's answer."""
    with suppress(CallFailed):
        async with client.post(sent, api_key=api_key) as opened:
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
    sent["betas"] = ["one-2026-01-01", "two-2026-01-01"]
    async with FakeMessagesApi(reply("a"), reply("b")) as api:
        connection = Connection(base_url=f"{api.base_url}/v1/", **options)
        credential = options.get("api_key") or options["auth_token"]

        theirs = await sent_by(SdkClient(connection), sent, api)
        ours = await sent_by(WireClient(connection, credential), sent, api)

    assert ours.raw == theirs.raw
    assert (ours.method, ours.path) == (theirs.method, theirs.path)
    assert that_matter(ours.headers) == that_matter(theirs.headers)


async def test_connection_that_is_being_opened_as_the_client_closes_is_closed_too() -> None:
    """The pool forgets it there; it stayed open until the garbage collector found it."""
    sent = parameters(request(), compat=False)

    async def ask(client: Client) -> None:
        async with client.post(sent, api_key=None) as opened:
            await opened.finish()

    async with FakeMessagesApi(answer=lambda _request: reply("yes")) as api:
        for ticks in range(30):
            client = WireClient(Connection(base_url=api.base_url, api_key="own"), "own")
            asking = asyncio.ensure_future(ask(client))
            for _ in range(ticks):
                await asyncio.sleep(0)
            await client.aclose()
            await asyncio.gather(asking, return_exceptions=True)
        async with asyncio.timeout(LIMIT_S):
            while api.connections_open:  # noqa: ASYNC110 - the server has no event for it
                await asyncio.sleep(0)


async def test_both_clients_count_tokens_alike() -> None:
    """The cost limit needs the count; whoever finds the credentials."""
    wanted = request(UserMessage.of("hi"), system=("be brief",), tools=(TOOL,), session_id="s1")
    sent = counted(parameters(wanted, compat=False))
    async with FakeMessagesApi(count=lambda _request: 321) as api:
        connection = Connection(base_url=api.base_url, api_key="own")
        clients = (SdkClient(connection), WireClient(connection, "own"))
        counts = [await client.count_tokens(sent, api_key=None) for client in clients]
        for client in clients:
            await client.aclose()
        theirs, ours = api.counted

    assert counts == [321, 321]
    assert api.refusals == []
    assert ours.body == theirs.body


@each_row(
    "answer", [None, raw(200, b"[]"), raw(200, b'{"input_tokens": "9"}'), raw(200, b"<html>")]
)
async def test_server_without_a_count_gives_none(answer: RawAnswer | None) -> None:
    """Then the bytes stay the bound; a server that is not Anthropic's is not asked."""
    async with FakeMessagesApi(count=lambda _request: answer) as api:
        for compat in (False, True):
            connection = Connection(base_url=api.base_url, api_key="own", compat=compat)
            provider = AnthropicMessages(connection)
            assert await provider.count_tokens(request()) is None
            await provider.aclose()

    assert len(api.counted) == 1


async def test_server_whose_count_hangs_is_not_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each call near the cost limit would wait ten seconds more, in every agent."""
    monkeypatch.setattr(messages, "COUNT_LIMIT_S", 0.2)
    asked: list[bytes] = []

    async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with closing(writer):
            asked.append(await reader.readuntil(b"\r\n"))
            await reader.read()  # until the client gives up

    server = await asyncio.start_server(hang, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    provider = AnthropicMessages(Connection(base_url=f"http://{host}:{port}", api_key="own"))
    async with server:
        counts = [await provider.count_tokens(request()) for _ in range(3)]
        await provider.aclose()

    assert counts == [None] * 3
    assert len(asked) <= 1  # none where this machine needs longer than the limit to connect


async def test_both_clients_send_a_lone_surrogate_as_the_replacement_character() -> None:
    """S0-25: one name of a file that is not UTF-8 must not make every further request fail."""
    wanted = request(UserMessage.of("caf\udce9.txt, \ud83d\ude00"), system=("in /caf\udce9",))
    sent = parameters(wanted, compat=False)
    async with FakeMessagesApi(reply("a"), reply("b")) as api:
        connection = Connection(base_url=api.base_url, api_key="own")
        bodies = [
            json.loads((await sent_by(client, sent, api)).raw)
            for client in (SdkClient(connection), WireClient(connection, "own"))
        ]

    assert bodies[0] == bodies[1]
    assert bodies[0]["system"][0]["text"] == "in /caf\ufffd"
    assert bodies[0]["messages"][0]["content"][0]["text"] == "caf\ufffd.txt, \U0001f600"


async def test_both_clients_send_an_infinite_number_as_null() -> None:
    """A tool of an MCP server may hold one, and so may a call that an older version recorded."""
    schema: dict[str, Json] = {"type": "object", "properties": {"at": {"default": math.inf}}}
    wanted = request(UserMessage.of("hi"), tools=(ToolSpec("wait", "Wait.", schema),))
    sent = parameters(wanted, compat=False)
    async with FakeMessagesApi(reply("a"), reply("b")) as api:
        connection = Connection(base_url=api.base_url, api_key="own")
        for client in (SdkClient(connection), WireClient(connection, "own")):
            got = await sent_by(client, sent, api)
            assert got.body["tools"][0]["input_schema"]["properties"] == {"at": {"default": None}}


async def test_both_clients_use_the_api_key_of_a_request_once() -> None:
    """S0-25: the next request uses the connection's key again."""
    sent = parameters(request(), compat=False)
    async with FakeMessagesApi(*[reply("a")] * 4) as api:
        connection = Connection(base_url=api.base_url, api_key="own")
        for new in (lambda: WireClient(connection, "own"), lambda: SdkClient(connection)):
            for key in ("another", None):
                await sent_by(new(), sent, api, key)

    keys = [each.headers["authorization"] for each in api.requests]
    assert keys == ["Bearer another", "Bearer own"] * 2


SPENT = {"type": "rate_limit_error", "message": "no more", "details": {"error_code": CODE}}
REFUSALS: list[tuple[int, str, dict[str, str]]] = [
    (400, json.dumps({"error": {"type": "invalid_request_error", "message": "CANARY"}}), {}),
    (429, json.dumps({"type": "error", "error": SPENT}), {"request-id": "req_1"}),
    (
        529,
        json.dumps({"error": {"type": "overloaded_error", "message": "x"}}),
        {"retry-after": "7"},
    ),
    (503, "down: CANARY", {"retry-after-ms": "1500", "x-should-retry": "false"}),
    (502, "<html>", {}),
]


@each_row(("status", "body", "headers"), REFUSALS)
async def test_both_clients_report_a_refusal_with_the_same_facts(
    status: int, body: str, headers: dict[str, str]
) -> None:
    """S1-46, C15: the facts shown, logged, and used by retries; no secret among them."""
    sent, told = parameters(request(), compat=False), []
    answer = raw(status, body.encode(), content_type="application/json", headers=headers)
    async with FakeMessagesApi(answer, answer) as api:
        connection = Connection(
            base_url=api.base_url, api_key="k", redact=lambda text: text.replace("CANARY", "***")
        )
        for client in (WireClient(connection, "k"), SdkClient(connection)):
            with pytest.raises(CallFailed) as refused:
                async with client.post(sent, api_key=None):
                    pass
            await client.aclose()
            told.append(facts_of(refused.value))

    ours, theirs = told
    assert ours == theirs
    assert "CANARY" not in str(ours)
    assert ours["request_id"] == headers.get("request-id")


def facts_of(failed: CallFailed) -> dict[str, object]:
    error = failed.error
    return {
        "said": str(error),
        "status": error.status,
        "type": error.kind,
        "request_id": error.request_id,
        "retryable": failed.retryable,
        "kind": failed.kind,
        "asked_delay_s": failed.asked_delay_s,
    }


@each_row(
    ("body", "said"),
    [
        (b"", "status 400"),
        (b"[1]", "[1]"),
        (b'{"error": "no"}', '{"error": "no"}'),
        (b'{"error": {"type": 5, "details": "x", "message": ""}}', "{"),
        (b'{"error": {"message": "odd", "details": {"error_code": 7}}}', "odd"),
    ],
)
async def test_refusal_in_an_unknown_format_is_shown_as_received(body: bytes, said: str) -> None:
    """C15: servers of other makers have their own formats."""
    async with FakeMessagesApi(raw(400, body)) as api, asker(api) as it:
        asked = await it.ask()

    assert str(asked.error).startswith(f"the API refused the request (400: {said}")
    assert asked.error is not None
    assert asked.error.kind is None


@pytest.mark.parametrize("is_small", [True, False])
async def test_request_that_was_never_sent_cannot_have_cost(*, is_small: bool) -> None:
    """S1-46: both clients name the address, without the SDK's own words."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        connection = Connection(base_url=f"http://127.0.0.1:{taken.getsockname()[1]}", api_key="k")
    client: Client = WireClient(connection, "k") if is_small else SdkClient(connection)

    with pytest.raises(CallFailed) as failed:
        async with client.post(parameters(request(), compat=False), api_key=None):
            pass
    await client.aclose()

    assert failed.value.reason == f"cannot reach {connection.base_url} (connection refused)"
    assert failed.value.error.may_have_cost is False


@pytest.mark.parametrize("environment", ["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"])
async def test_credential_from_the_environment_is_used_without_the_sdk(
    environment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(environment, "from-outside")
    async with FakeMessagesApi(reply("a")) as api, asker(api, api_key=None) as it:
        asked = await it.ask()

    assert asked.text == "a"
    assert api.requests[0].headers["authorization"] == "Bearer from-outside"
    assert "x-stainless-lang" not in api.requests[0].headers


async def test_a_redirect_is_refused_and_the_conversation_stays_here() -> None:
    """Another host would get the whole conversation; the message names it."""
    elsewhere = raw(307, b"", headers={"location": "http://127.0.0.1:9/v1/messages"})
    async with FakeMessagesApi(elsewhere) as api, asker(api) as it:
        asked = await it.ask()

    assert "redirects to http://127.0.0.1:9/v1/messages" in str(asked.error)
    assert len(api.requests) == 1


@pytest.mark.parametrize("credential", ["key", None])
async def test_a_password_in_the_address_is_not_shown(
    credential: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Threat 9: the password would be in logs and screenshots; both clients name the address."""
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    address = "http://me:CANARY-pw@127.0.0.1:1/?api_key=CANARY-key&x=CANARY"
    async with asker(base_url=address, api_key=credential) as it:
        asked = await it.ask()

    assert "CANARY" not in str(asked.error)


async def test_both_clients_show_the_same_server_address() -> None:
    """Messages show it, without a password and without the clients' suffixes."""
    connection = Connection(base_url="http://me:CANARY@x/v1/", api_key="k")
    clients: list[Client] = [WireClient(connection, "k"), SdkClient(connection)]

    assert [client.base_url for client in clients] == ["http://***@x"] * 2
    for client in clients:
        await client.aclose()


@each_row("is_small", [True, False])
@each_row("content_type", ["text/event-stream; charset=utf-8", "text/html"])
async def test_both_clients_report_the_content_type_of_the_answer(
    content_type: str, *, is_small: bool
) -> None:
    """C15: this identifies a page in place of a stream."""
    async with FakeMessagesApi(raw(200, b"x", content_type=content_type)) as api:
        connection = Connection(base_url=api.base_url, api_key="k")
        one: Client = WireClient(connection, "k") if is_small else SdkClient(connection)
        async with one.post(parameters(request(), compat=False), api_key=None) as opened:
            await opened.finish()
        await one.aclose()

    assert opened.content_type == content_type
