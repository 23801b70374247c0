"""Signing in to an HTTP server that requires it; a plain HTTP request plays the browser."""

import asyncio
import json
import os
import socket
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import httpx2
import pytest

from agent_cli.contracts.errors import SettingsError, UsageError
from agent_cli.contracts.servers import ServerPhase
from agent_cli.mcp_client import McpServers, ServerConfig
from agent_cli.mcp_client.browsers import request_browser
from agent_cli.mcp_client.config import OAuth
from agent_cli.mcp_client.credentials import FileCredentials, MemoryCredentials
from agent_cli.mcp_client.host import Host
from tests.mcp_client.sign_in_server import SignInServer, sign_in_server

if TYPE_CHECKING:
    from tests.mcp_client.conftest import Call, HttpServer, RawServer

LIMIT_S = 40


@pytest.fixture
def web() -> Iterator[SignInServer]:
    with sign_in_server() as server:
        yield server


@asynccontextmanager
async def running(config: ServerConfig, host: Host) -> AsyncGenerator[McpServers]:
    """Start one server, and wait until it is ready or has failed."""
    async with McpServers(os.environ, host=host) as servers:
        servers.start([config])
        assert await servers.wait_started(LIMIT_S)
        yield servers


def config_of(web: SignInServer) -> ServerConfig:
    return ServerConfig(name="web", transport="http", url=web.url, protocol="legacy")


async def test_sign_in_page_is_never_opened_unasked(web: SignInServer, host: Host) -> None:
    """Nothing is registered either: the user may not want this server at all."""
    async with running(config_of(web), host) as servers:
        [state] = servers.states()

    assert (state.phase, state.needs_sign_in) == (ServerPhase.FAILED, True)
    assert state.reason.endswith(
        "set its headers, or sign in with /mcp login web (in a shell: agent-cli mcp login web)"
    )
    assert web.log == ["401"]


async def test_a_sign_in_is_kept_for_the_next_start(
    web: SignInServer, host: Host, tmp_path: Path, call: "Call"
) -> None:
    """Once signed in, later runs need no question; the file is the user's alone."""
    async with running(config_of(web), host) as servers:
        state = await servers.login("web", request_browser())
        result = await call(servers, "mcp__web__hello")
    first = web.log.copy()
    web.log.clear()
    async with running(config_of(web), host) as servers:
        again = servers.states()[0].phase

    assert (state.phase, again, result.text) == (ServerPhase.READY, ServerPhase.READY, "hello")
    assert first == [
        *("401", "401", "metadata", "register", "authorize", "token:authorization_code")
    ]
    assert web.log == []
    [file] = (tmp_path / "credentials").iterdir()
    assert file.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("lasts_s", [1, 1.5])
async def test_an_expired_token_is_refreshed_without_a_browser(
    web: SignInServer, host: Host, lasts_s: float
) -> None:
    """A later run can do so, too, when the SDK no longer knows its expiry and issuer.

    A server that subtracts two times states a fraction of a second.
    """
    web.lasts_s = lasts_s
    async with running(config_of(web), host) as servers:
        await servers.login("web", request_browser())
    web.expire()
    web.log.clear()
    async with running(config_of(web), host) as servers:
        assert servers.states()[0].phase is ServerPhase.READY

    assert set(web.log) == {"token:refresh_token"}


async def test_browser_redirect_to_the_listener_completes_the_sign_in(
    web: SignInServer, host: Host
) -> None:
    """The listener takes the code; a stranger's request changes nothing."""
    pages: list[int] = []

    async def visit(url: str) -> None:
        async with httpx2.AsyncClient(timeout=10, follow_redirects=False) as browser:
            back = (await browser.get(url)).headers["location"].replace("localhost", "127.0.0.1")
            for stranger in ("nothing=1", "error=access_denied", "code=theirs&state=guessed"):
                page = await browser.get(f"{back.partition('?')[0]}?{stranger}")
                pages.append(page.status_code)
            pages.append((await browser.get(back)).status_code)

    async with running(config_of(web), host) as servers:
        state = await servers.login("web", visit)

    assert state.phase is ServerPhase.READY
    assert pages == [404, 404, 404]
    assert web.redirects[0].startswith("http://localhost:")


async def test_sign_in_is_asked_for_where_only_calls_need_one(
    web: SignInServer, host: Host, call: "Call"
) -> None:
    """The server answers everything else without one, and a sign-in that ended the same way."""
    web.lists_openly = True
    async with running(config_of(web), host) as servers:
        unsigned = await call(servers, "mcp__web__hello")
        await servers.login("web", request_browser())
        signed_in = await call(servers, "mcp__web__hello")
        web.expire()
        web.refresh_status = 400
        ended = await call(servers, "mcp__web__hello")
        await servers.login("web", request_browser())
        again = await call(servers, "mcp__web__hello")
        await servers.login("web", request_browser())

    assert unsigned.text.endswith("sign-in: the user can run /mcp login web.")
    assert "it needs a sign-in" in ended.text
    assert (signed_in.text, again.text, web.log.count("authorize")) == ("hello", "hello", 2)


@pytest.mark.parametrize("http_server", ["http", "sse"], indirect=True)
async def test_sign_in_that_nobody_needs_is_none(host: Host, http_server: "HttpServer") -> None:
    """A user tries it at a server that is open to all; the page of a sign-in would lead nowhere."""
    config = ServerConfig(name="web", transport=http_server.transport, url=http_server.url)
    async with running(config, host) as servers:
        state = await servers.login("web", request_browser())

    assert state.phase is ServerPhase.READY


async def test_sign_in_that_nobody_needs_opens_no_page_for_a_configured_client(
    web: SignInServer, host: Host
) -> None:
    """The server asks for none and names no page; one at a guessed address leads nowhere."""
    web.lists_openly, web.names_issuers, web.offers_metadata = True, False, False
    config = replace(config_of(web), oauth=OAuth(client_id="ours"))
    async with running(config, host) as servers:
        state = await servers.login("web", request_browser())

    assert state.phase is ServerPhase.READY
    assert web.log == []


@pytest.mark.parametrize("lasts_s", [0, -1, float("inf")])
async def test_token_that_is_said_to_last_no_time_is_used_until_it_is_refused(
    web: SignInServer, host: Host, call: "Call", lasts_s: float
) -> None:
    """Servers mean that it does not expire; it was renewed before each request."""
    web.lasts_s = lasts_s
    async with running(config_of(web), host) as servers:
        await servers.login("web", request_browser())
        result = await call(servers, "mcp__web__hello")

    assert result.text == "hello"
    assert web.log[-1] == "token:authorization_code"


@pytest.mark.parametrize("challenge", ["/.well-known/oauth-protected-resource/mcp", '""'])
async def test_metadata_at_a_path_alone_is_found(
    web: SignInServer, host: Host, challenge: str
) -> None:
    """Servers behind a proxy do not know their own address."""
    web.challenge = challenge
    async with running(config_of(web), host) as servers:
        state = await servers.login("web", request_browser())

    assert state.phase is ServerPhase.READY, state


async def test_refresh_without_a_token_leaves_the_sign_in(
    web: SignInServer, host: Host, call: "Call"
) -> None:
    """An empty token was stored in place of the old one: the user had to visit the page again."""
    async with running(config_of(web), host) as servers:
        await servers.login("web", request_browser())
        web.expire()
        web.token_answer = {"access_token": "", "token_type": "Bearer"}
        failed = await call(servers, "mcp__web__hello")
        web.token_answer = None
        state = await servers.login("web", request_browser())

    assert failed.is_error
    assert state.phase is ServerPhase.READY, state
    assert len(web.pages) == 1


async def test_sign_in_asks_for_the_scope_that_a_call_lacked(
    web: SignInServer, host: Host, call: "Call"
) -> None:
    """In another process too; what the sign-in allows already is asked for as well."""
    web.needed_scope = "files:write"
    config = replace(config_of(web), oauth=OAuth(scopes=("files:read",)))
    async with running(config, host) as servers:
        await servers.login("web", request_browser())
        refused = await call(servers, "mcp__web__hello")
    async with running(config, host) as servers:
        await servers.login("web", request_browser())
        allowed = await call(servers, "mcp__web__hello")
        await servers.login("web", request_browser())

    assert refused.text == (
        "MCP server 'web' was not asked (the sign-in does not cover the scope files:write);"
        " the user can run /mcp login web"
    )
    assert allowed.text == "hello"
    assert [page["scope"] for page in web.pages] == ["files:read", "files:read all files:write"]


@pytest.mark.parametrize("named", ["", "f\xfcr alle"])
async def test_sign_in_goes_on_where_the_lacking_scope_is_not_named(
    web: SignInServer, host: Host, call: "Call", named: str
) -> None:
    """The server lists its tools to anyone, so the connection alone asks for no sign-in."""
    web.needed_scope, web.named_scope, web.lists_openly = "files:write", named, True
    async with running(config_of(web), host) as servers:
        await servers.login("web", request_browser())
        refused = await call(servers, "mcp__web__hello")
        await servers.login("web", request_browser())

    assert "the sign-in does not cover a scope of this call" in refused.text
    assert len(web.pages) == 2


async def test_refusal_of_a_code_does_not_show_the_code(web: SignInServer, host: Host) -> None:
    """Many servers repeat the request in the page of an error, with the code and its verifier."""
    web.token_status = 400
    web.token_answer = "{code} {code_verifier}"
    async with running(config_of(web), host) as servers:
        state = await servers.login("web", request_browser())

    assert state.reason.partition(": its ")[2] == (
        "authorization server gave no token: HTTP 400 (Bad Request); sign in with /mcp login web"
        " (in a shell: agent-cli mcp login web)"
    )


async def test_token_that_http_cannot_carry_is_not_shown(web: SignInServer, host: Host) -> None:
    """The text of the HTTP library quotes the whole header."""
    web.token_answer = {"access_token": "s3cret\r\nX: y", "token_type": "Bearer"}
    async with running(config_of(web), host) as servers:
        state = await servers.login("web", request_browser())

    assert state.reason == (
        f"MCP server 'web' did not start: {web.url}: a header has a line break or another character"
        " that HTTP forbids"
    )


async def test_refused_sign_in_is_reported_with_the_servers_reason(
    web: SignInServer, host: Host
) -> None:
    """The page opens once, and the server's reason is shown."""
    web.refuses = True
    async with running(config_of(web), host) as servers:
        state = await servers.login("web", request_browser())

    assert state.phase is ServerPhase.FAILED
    assert "the sign-in was refused: access_denied" in state.reason
    assert web.log.count("authorize") == 1


async def test_lost_sign_in_fails_the_call_and_opens_no_browser(
    web: SignInServer, host: Host, call: "Call"
) -> None:
    """No sign-in was requested during a run, so no browser opens; /mcp shows what is missing."""
    web.refresh_status = 400
    shown: list[tuple[ServerPhase, bool]] = []
    async with running(config_of(web), host) as servers:

        def show() -> None:
            shown.extend((each.phase, each.needs_sign_in) for each in servers.states())

        await servers.login("web", request_browser())
        show()
        web.expire()
        web.log.clear()
        result = await call(servers, "mcp__web__hello")
        show()
        assert "authorize" not in web.log
        await servers.login("web", request_browser())
        show()

    assert result.is_error
    assert "the user can run /mcp login web" in result.text
    ready = ServerPhase.READY
    assert shown == [(ready, False), (ready, True), (ready, False)]


async def test_a_logout_forgets_the_sign_in(web: SignInServer, host: Host, tmp_path: Path) -> None:
    async with running(config_of(web), host) as servers:
        await servers.login("web", request_browser())
        known = await servers.logout("web")
        again = await servers.logout("web")
        state = servers.states()[0]

    assert (known, again, state.needs_sign_in) == (True, False, True)
    assert list((tmp_path / "credentials").iterdir()) == []


async def test_configured_authorization_header_is_never_replaced_by_a_sign_in(
    web: SignInServer, host: Host
) -> None:
    """A wrong token is the user's to correct; no page opens instead."""
    config = ServerConfig(
        name="web", transport="http", url=web.url, headers={"authorization": "Bearer wrong"}
    )

    async def visit(_url: str) -> None:
        raise AssertionError

    async with running(config, host) as servers:
        state = await servers.login("web", visit)

    assert state.phase is ServerPhase.FAILED
    assert set(web.log) == {"401"}


async def test_a_local_server_has_no_sign_in(raw_server: "RawServer", host: Host) -> None:
    async with running(raw_server(), host) as servers:
        with pytest.raises(UsageError, match="runs on this machine"):
            await servers.logout("raw")
        with pytest.raises(UsageError, match="no MCP server 'web' is running; there are: raw"):
            await servers.logout("web")


async def test_damaged_credentials_count_as_no_sign_in(web: SignInServer, tmp_path: Path) -> None:
    credentials = FileCredentials(tmp_path)
    await asyncio.to_thread(credentials.write, web.url, json.dumps({"tokens": 7}))
    async with running(config_of(web), Host(credentials=credentials)) as servers:
        assert servers.states()[0].needs_sign_in


async def test_locked_keyring_counts_as_no_sign_in(web: SignInServer) -> None:
    """The program goes on: a server may need no sign-in, and one that does says so."""

    class Locked(MemoryCredentials):
        def read(self, url: str) -> str | None:
            raise SettingsError(f"no key for {url}")

    async with running(config_of(web), Host(credentials=Locked())) as servers:
        assert servers.states()[0].needs_sign_in


async def test_token_of_unknown_lifetime_is_refreshed_during_a_run(
    web: SignInServer, host: Host, call: "Call"
) -> None:
    """Its server sends no `expires_in`, but a refresh token."""
    web.lasts_s = None
    async with running(config_of(web), host) as servers:
        await servers.login("web", request_browser())
        web.expire()
        web.log.clear()
        result = await call(servers, "mcp__web__hello")

    assert result.text == "hello"
    assert web.log == ["401", "token:refresh_token"]


async def test_tokens_refreshed_by_another_session_are_used(
    web: SignInServer, host: Host, call: "Call"
) -> None:
    """A refresh token is valid once: the second session must not use it as well."""
    web.lasts_s = None
    async with running(config_of(web), host) as one, running(config_of(web), host) as other:
        await one.login("web", request_browser())
        await other.reconnect("web")
        web.expire()
        web.log.clear()
        first = await call(one, "mcp__web__hello")
        second = await call(other, "mcp__web__hello")

    assert (first.text, second.text) == ("hello", "hello")
    assert web.log == ["401", "token:refresh_token", "401"]


@pytest.mark.parametrize(
    ("scopes", "allows_scope", "refreshes"),
    [
        ((), True, [None]),
        (("read", "offline_access"), True, ["read offline_access"]),
        (("read", "offline_access"), False, ["read offline_access", None]),
    ],
)
async def test_configured_scopes_are_asked_for_at_the_sign_in_and_at_each_refresh(
    scopes: tuple[str, ...],
    allows_scope: bool,
    refreshes: list[str | None],
    web: SignInServer,
    host: Host,
    call: "Call",
) -> None:
    """Microsoft Entra ID needs them at both; another server may not allow them at a refresh."""
    web.allows_scope = allows_scope
    config = replace(config_of(web), oauth=OAuth(scopes=scopes))
    async with running(config, host) as servers:
        await servers.login("web", request_browser())
        web.expire()
        web.forms.clear()
        result = await call(servers, "mcp__web__hello")

    assert result.text == "hello"
    assert [page.get("scope", "") for page in web.pages] == [" ".join(scopes)]
    assert [form.get("scope") for form in web.forms] == refreshes


@pytest.mark.parametrize("resource", [None, "", "api://ours"])
async def test_configured_resource_is_named_in_each_request_for_tokens(
    resource: str | None, web: SignInServer, host: Host, call: "Call"
) -> None:
    """Microsoft Entra ID refuses the server's address beside the scopes of another resource."""
    config = replace(config_of(web), oauth=OAuth(resource=resource))
    async with running(config, host) as servers:
        await servers.login("web", request_browser())
        web.expire()
        result = await call(servers, "mcp__web__hello")

    named = [request.get("resource") for request in (*web.pages, *web.forms)]
    assert result.text == "hello"
    assert named == [web.url if resource is None else resource or None] * 3


async def test_configured_scopes_are_asked_for_by_a_program(web: SignInServer, host: Host) -> None:
    """The server's own list, here in its metadata, is for those who configure none."""
    web.metadata = {"scopes_supported": ["admin"]}
    oauth = OAuth(
        grant="client_credentials", client_id="me", client_secret="s", scopes=("read", "write")
    )
    async with running(replace(config_of(web), oauth=oauth), host) as servers:
        state = servers.states()[0]

    assert state.phase is ServerPhase.READY, state
    assert [form["scope"] for form in web.forms] == ["read write"]


async def test_configured_port_that_is_taken_is_named(web: SignInServer, host: Host) -> None:
    """The client is registered with it: the page would refuse another, far from this terminal."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        config = replace(config_of(web), oauth=OAuth(client_id="ours", callback_port=port))
        async with running(config, host) as servers:
            state = await servers.login("web", request_browser())

    assert state.reason == (
        f"MCP server 'web' did not start: {web.url}: port {port}, its oauth.callback_port, cannot"
        " be listened on (Address already in use): end the program that uses it, and sign in again"
    )
    assert web.pages == []


async def test_tokens_in_an_answer_of_another_status_are_used(
    web: SignInServer, host: Host, call: "Call"
) -> None:
    """Servers written with NestJS answer 201 to every POST."""
    web.token_status = 201
    async with running(config_of(web), host) as servers:
        await servers.login("web", request_browser())
        web.expire()
        result = await call(servers, "mcp__web__hello")

    assert result.text == "hello"


async def test_sign_in_without_metadata_takes_the_issuer_for_the_servers_own(
    web: SignInServer, host: Host
) -> None:
    """The redirect names one (RFC 9207), and it is the address that was asked."""
    web.offers_metadata = False
    async with running(config_of(web), host) as servers:
        state = await servers.login("web", request_browser())

    assert state.phase is ServerPhase.READY, state


async def test_server_that_registers_no_clients_asks_for_a_configured_one(
    web: SignInServer, host: Host
) -> None:
    """GitHub and Microsoft Entra ID do not; the same sign-in again would fail again."""
    web.registers = False
    async with running(config_of(web), host) as servers:
        refused = await servers.login("web", request_browser())
    config = replace(config_of(web), oauth=OAuth(client_id="ours"))
    async with running(config, host) as servers:
        state = await servers.login("web", request_browser())

    assert refused.reason == (
        f"MCP server 'web' did not start: {web.url}: its authorization server registered no client:"
        " HTTP 404 (Not Found); register a client with that service yourself, and set the server's"
        " oauth.client_id to its id"
    )
    assert state.phase is ServerPhase.READY, state


async def test_refused_second_sign_in_leaves_the_client_of_the_stored_tokens(
    web: SignInServer, host: Host, call: "Call"
) -> None:
    """The port of its redirect is taken, so that another client is registered."""
    async with running(config_of(web), host) as servers:
        await servers.login("web", request_browser())
        port = urlsplit(web.redirects[0]).port
        with socket.create_server(("127.0.0.1", port or 0)):
            web.expire()
            web.refuses = True
            refused = await servers.login("web", request_browser())
        await servers.reconnect("web")
        result = await call(servers, "mcp__web__hello")

    assert "the sign-in was refused: access_denied" in refused.reason
    assert result.text == "hello"
    assert web.log.count("register") == 2
    assert [form["client_id"] for form in web.forms] == ["client-1", "client-1"]


async def test_failed_token_refresh_does_not_lose_the_sign_in(
    web: SignInServer, host: Host, call: "Call"
) -> None:
    """Another sign-in would fail as well, and the refresh token is still valid."""
    async with running(config_of(web), host) as servers:
        await servers.login("web", request_browser())
        web.expire()
        web.refresh_status = 503
        failed = await call(servers, "mcp__web__hello")
        later = await servers.reconnect("web")
        web.refresh_status = 200
        again = await servers.reconnect("web")

    assert "HTTP 503 when the token was to be renewed; try again later" in failed.text
    assert "was not asked" in failed.text
    assert "sign-in" not in failed.text
    assert (later.phase, later.needs_sign_in) == (ServerPhase.FAILED, False)
    assert "HTTP 503 when the token was to be renewed; try again later" in later.reason
    assert again.phase is ServerPhase.READY


async def test_metadata_with_nulls_and_another_slash_is_used(
    web: SignInServer, host: Host, call: "Call"
) -> None:
    """The server names its issuer without the slash; the page comes back without it, too."""
    web.metadata = {"issuer": f"{web.base}/", "scopes_supported": None, "service_documentation": ""}
    async with running(config_of(web), host) as servers:
        state = await servers.login("web", request_browser())

        assert state.phase is ServerPhase.READY, state.reason
        assert (await call(servers, "mcp__web__hello")).text == "hello"


@pytest.mark.parametrize(("listed", "stated"), [("/realm", "/realm/"), ("/realm/", "/realm")])
async def test_issuer_with_a_path_is_used_with_or_without_a_slash_at_its_end(
    web: SignInServer, host: Host, listed: str, stated: str
) -> None:
    """Some identity providers state one, and users who set up a server leave it out."""
    web.issuer = listed
    web.metadata = {"issuer": f"{web.base}{stated}"}
    async with running(config_of(web), host) as servers:
        state = await servers.login("web", request_browser())

    assert (state.phase, web.log.count("authorize")) == (ServerPhase.READY, 1)


async def test_configured_issuer_is_used_of_those_that_the_server_names(
    web: SignInServer, host: Host
) -> None:
    """Only the first is used without, and it may be out of order, or not the user's."""
    web.issuers = ["http://127.0.0.1:9", web.base]
    async with running(config_of(web), host) as servers:
        first = await servers.login("web", request_browser())
    config = replace(config_of(web), oauth=OAuth(issuer=web.base))
    async with running(config, host) as servers:
        configured = await servers.login("web", request_browser())

    assert first.reason == (
        f"MCP server 'web' did not start: {web.url} leads elsewhere: cannot reach"
        " http://127.0.0.1:9/.well-known/oauth-authorization-server (connection refused);"
        f" set the server's oauth.issuer to another one that it names: {web.base}"
    )
    assert configured.phase is ServerPhase.READY


@pytest.mark.parametrize("oauth", [OAuth(), OAuth(client_id="known")])
async def test_authorization_server_without_metadata_is_not_replaced_by_the_server_itself(
    web: SignInServer, host: Host, oauth: OAuth
) -> None:
    """Where the server names several: the sign-in went on at the wrong one, and "iss" failed."""
    web.issuers = [f"{web.base}/gone", web.base]
    async with running(replace(config_of(web), oauth=oauth), host) as servers:
        state = await servers.login("web", request_browser())

    assert state.reason == (
        f"MCP server 'web' did not start: {web.url}: its authorization server {web.base}/gone"
        f" offers no metadata; set the server's oauth.issuer to another one that it names:"
        f" {web.base}"
    )
    assert "authorize" not in web.log


async def test_metadata_of_another_issuer_is_refused(web: SignInServer, host: Host) -> None:
    web.metadata = {"issuer": "https://other.example"}
    async with running(config_of(web), host) as servers:
        state = await servers.login("web", request_browser())

    assert "issuer mismatch" in state.reason
    assert "authorize" not in web.log


async def test_token_of_another_form_is_reported_without_the_text_of_a_library(
    web: SignInServer, host: Host
) -> None:
    web.scope = ["read", "write"]
    async with running(config_of(web), host) as servers:
        state = await servers.login("web", request_browser())

    assert "the authorization server's answer is not valid (scope must be text)" in state.reason
    assert "pydantic" not in state.reason


async def test_authorization_server_without_pkce_is_refused(web: SignInServer, host: Host) -> None:
    """The specification requires this: a code stolen on its way back could be used."""
    web.offers_pkce = False
    async with running(config_of(web), host) as servers:
        state = await servers.login("web", request_browser())

    assert state.phase is ServerPhase.FAILED
    assert f"its authorization server {web.base} does not offer PKCE (S256)" in state.reason
    assert "authorize" not in web.log


@pytest.mark.parametrize("nonce", ["", "nonce-1"])
async def test_tokens_are_bound_to_a_key_if_the_server_offers_dpop(
    web: SignInServer, host: Host, call: "Call", nonce: str
) -> None:
    """RFC 9449: each request has a new proof with the server's nonce; the key is kept."""
    web.binds, web.nonce = True, nonce
    async with running(config_of(web), host) as servers:
        state = await servers.login("web", request_browser())
        result = await call(servers, "mcp__web__hello")
    web.expire()
    async with running(config_of(web), host) as servers:
        later = await call(servers, "mcp__web__hello")

    assert (state.phase, result.text, later.text) == (ServerPhase.READY, "hello", "hello")
    assert len(web.proofs) > 5
    assert ("nonce" in web.log) == bool(nonce)


async def test_jwt_bearer_grant_sends_the_token_of_the_platform(
    web: SignInServer, host: Host, tmp_path: Path
) -> None:
    """RFC 7523: the file is read again for each token, because the platform renews it."""
    token = tmp_path / "token"
    oauth = OAuth(grant="jwt_bearer", client_id="me", issuer=web.base, assertion_file=str(token))
    config = replace(config_of(web), oauth=oauth)
    async with running(config, host) as servers:
        missing = servers.states()[0]
        token.write_text("workload-jwt\n")
        ready = await servers.reconnect("web")

    assert "oauth.assertion_file: " in missing.reason
    assert (missing.phase, missing.needs_sign_in) == (ServerPhase.FAILED, False)
    assert ready.phase is ServerPhase.READY
    [form] = web.forms
    assert form["grant_type"] == "urn:ietf:params:oauth:grant-type:jwt-bearer"
    assert (form["assertion"], form["client_id"], form["resource"]) == (
        *("workload-jwt", "me", web.url),
    )


async def test_token_exchange_signs_in_through_the_identity_provider(
    web: SignInServer, host: Host, tmp_path: Path
) -> None:
    """SEP-990: the identity token goes to the provider only, its answer to one server."""
    token = tmp_path / "id"
    token.write_text("id-token")
    oauth = OAuth(
        grant="token_exchange",
        client_id="me",
        client_secret="s",
        issuer=web.base,
        id_token_file=str(token),
        idp_token_endpoint=f"{web.base}/idp",
        idp_client_id="us",
    )
    async with running(replace(config_of(web), oauth=oauth), host) as servers:
        state = servers.states()[0]

    exchange, grant = web.forms
    assert state.phase is ServerPhase.READY, state
    assert (exchange["subject_token"], exchange["audience"]) == ("id-token", web.base)
    assert (exchange["resource"], exchange["client_id"]) == (web.url, "us")
    assert grant["assertion"] == f"jag for {web.base}"
    assert "id-token" not in grant.values()


async def test_assertion_is_sent_to_the_configured_issuer_only(
    web: SignInServer, host: Host, tmp_path: Path
) -> None:
    """An MCP server must not choose who gets the assertion."""
    token = tmp_path / "token"
    token.write_text("workload-jwt")
    oauth = OAuth(
        grant="jwt_bearer",
        client_id="me",
        issuer="https://elsewhere.invalid",
        assertion_file=str(token),
    )
    async with running(replace(config_of(web), oauth=oauth), host) as servers:
        state = servers.states()[0]

    assert state.phase is ServerPhase.FAILED
    assert web.forms == []
