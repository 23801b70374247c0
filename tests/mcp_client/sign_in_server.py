"""An MCP server over HTTP that requires a sign-in, and its authorization server, in one process."""

import base64
import json
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any  # JSON
from urllib.parse import parse_qs, urlencode, urlsplit

import jwt

LIMIT_S = 60.0
NONCE = 'DPoP error="use_dpop_nonce"'


class SignInServer:
    """Tokens are valid until `expire()`, refresh tokens once; `log` has the requests in order.

    Attributes:
        refuses: The user refuses at the sign-in page.
        lasts_s: The lifetime stated for a token; None states none.
        scope: What a token is said to allow.
        refresh_status: The status of the answer to a refresh token.
        token_status: The status of an answer with tokens.
        allows_scope: Whether a refresh may name a scope.
        pages: The queries with which the sign-in page was asked for.
        names_issuers: Whether the server names any: whether there is metadata of it.
        challenge: The address of that metadata, as refusals name it; "" is the whole one.
        offers_metadata: Whether there is metadata of the authorization server.
        offers_pkce: Whether it says so.
        registers: Whether clients can register themselves.
        issuer: The path of the authorization server.
        issuers: The authorization servers that the server names, if not this one alone.
        metadata: Members of the metadata in place of the usual ones.
        binds: Tokens are bound to the key of the proof in their request (DPoP).
        nonce: The nonce that each proof must hold, if any.
        proofs: The claims of the valid proofs.
        revokes: The second use of a refresh token ends the sign-in, as at a rotating server.
        lists_openly: Only calls need a token: anyone may connect and list the tools.
        needed_scope: The scope that calls need.
        named_scope: What the refusal of a call names instead of it; None for the scope itself.
        token_answer: The answer in place of one with tokens; a text may repeat what was sent.
        together: A call with `{"wait": "together"}` is answered when so many are there.
        released: Set to answer the calls with `{"wait": "released"}`.
        holds_stream: A GET gets no answer until `released`, as behind some proxies.
        holds_refresh: A refresh gets its answer only when `refreshed` is set.
    """

    def __init__(self, port: int) -> None:
        self.base = f"http://127.0.0.1:{port}"
        self.url = f"{self.base}/mcp"
        self.log: list[str] = []
        self.redirects: list[str] = []
        self.refuses = False
        self.lasts_s: float | None = 3600
        self.named_scope: str | None = None
        self.scope: Any = "all"
        self.refresh_status = 200
        self.token_status = 200
        self.allows_scope = True
        self.pages: list[dict[str, str]] = []
        self.names_issuers = True
        self.challenge = ""
        self.offers_metadata = True
        self.offers_pkce = True
        self.registers = True
        self.issuer = ""
        self.issuers: list[str] = []
        self.metadata: dict[str, Any] = {}
        self.binds = False
        self.nonce = ""
        self.proofs: list[dict[str, Any]] = []
        self.forms: list[dict[str, str]] = []
        self.revokes = False
        self.lists_openly = False
        self.needed_scope = ""
        self.token_answer: Any = None
        self.together = threading.Barrier(1)
        self.released = threading.Event()
        self.holds_stream = False
        self.holds_refresh = False
        self.refreshed = threading.Event()
        self._bound_to = ""
        self._issued = 0
        self._valid = ""
        self._allowed: list[str] = []
        self._issuing = threading.Lock()

    def expire(self) -> None:
        """Reject all tokens issued so far."""
        self._valid = ""

    def answer(
        self, method: str, target: str, body: str, authorization: str, proof: str = ""
    ) -> tuple[int, dict[str, str], Any]:
        """Return status, headers and JSON."""
        parts = urlsplit(target)
        if self.binds and parts.path in ("/mcp", "/access") and (authorization or body):
            token = authorization.removeprefix("DPoP ") if parts.path == "/mcp" else ""
            is_proven = not (token or parts.path == "/access") or self._is_proven(
                proof, method, self.base + parts.path, token
            )
            if not is_proven and self.nonce:
                self.log.append("nonce")
                challenge = {"DPoP-Nonce": self.nonce, "WWW-Authenticate": NONCE}
                return 401 if token else 400, challenge, {"error": "use_dpop_nonce"}
            if not is_proven:
                return 400, {}, {"error": "invalid_dpop_proof"}
        match parts.path:
            case "/mcp":
                return self._mcp(method, body, authorization)
            case "/.well-known/oauth-protected-resource/mcp" if self.names_issuers:
                issuers = self.issuers or [self.base + self.issuer]
                return 200, {}, {"resource": self.url, "authorization_servers": issuers}
            case path if path == self._metadata_path and self.offers_metadata:
                self.log.append("metadata")
                return 200, {}, self._metadata()
            case "/register" if self.registers:
                self.log.append("register")
                given = json.loads(body)
                self.redirects += given["redirect_uris"]
                return 201, {}, given | {"client_id": f"client-{self.log.count('register')}"}
            case "/authorize":
                self.log.append("authorize")
                query = {key: values[0] for key, values in parse_qs(parts.query).items()}
                self.pages.append(query)
                result = {"error": "access_denied"} if self.refuses else {"code": "code-1"}
                issuer = self._metadata()["issuer"]
                back = urlencode(result | {"state": query["state"], "iss": issuer})
                return 302, {"Location": f"{query['redirect_uri']}?{back}"}, {}
            case "/idp":
                form = {key: values[0] for key, values in parse_qs(body).items()}
                self.forms.append(form)
                kind = "urn:ietf:params:oauth:token-type:id-jag"
                return (
                    200,
                    {},
                    {"access_token": f"jag for {form['audience']}"}
                    | {
                        "issued_token_type": kind,
                        "token_type": "N_A",
                    },
                )
            case "/access" | "/token" if self.offers_metadata == (parts.path == "/access"):
                return self._token({key: v[0] for key, v in parse_qs(body).items()})
            case _:
                return 404, {}, {}

    @property
    def _metadata_path(self) -> str:
        return "/.well-known/oauth-authorization-server" + self.issuer.rstrip("/")

    def _metadata(self) -> dict[str, Any]:
        return {
            "issuer": self.base,
            "authorization_endpoint": f"{self.base}/authorize",
            # Not /token, which a client uses that has forgotten this page.
            "token_endpoint": f"{self.base}/access",
            "registration_endpoint": f"{self.base}/register",
            "token_endpoint_auth_methods_supported": ["none"],
            **({"code_challenge_methods_supported": ["S256"]} if self.offers_pkce else {}),
            **({"dpop_signing_alg_values_supported": ["ES256"]} if self.binds else {}),
            **self.metadata,
        }

    def _is_proven(self, proof: str, method: str, url: str, token: str) -> bool:
        """Return whether *proof* is fresh, for this request, and by the token's key."""
        try:
            header = jwt.get_unverified_header(proof)
            key = jwt.PyJWK(header["jwk"], algorithm="ES256")
            claims = jwt.decode(proof, key, algorithms=["ES256"])
        except (jwt.PyJWTError, KeyError):
            return False
        digest = base64.urlsafe_b64encode(sha256(token.encode()).digest()).decode().rstrip("=")
        good = (
            header["typ"] == "dpop+jwt"
            and "d" not in header["jwk"]
            and (claims["htm"], claims["htu"]) == (method, url)
            and claims.get("ath") == (digest if token else None)
            and claims["jti"] not in [proof["jti"] for proof in self.proofs]
            and claims.get("nonce", "") == self.nonce
            and self._bound_to in ("", header["jwk"]["x"])
        )
        if good:
            self.proofs.append(claims)
            self._bound_to = header["jwk"]["x"]
        return good

    def _token(self, form: dict[str, str]) -> tuple[int, dict[str, str], Any]:
        self.log.append(f"token:{form['grant_type'].rpartition(':')[2]}")
        self.forms.append(form)
        if (text := self.token_answer) is not None:
            return self.token_status, {}, text.format(**form) if isinstance(text, str) else text
        with self._issuing:
            if form["grant_type"] == "refresh_token":
                if "scope" in form and not self.allows_scope:
                    return 400, {}, {"error": "invalid_scope"}
                if self.refresh_status != 200:
                    return self.refresh_status, {}, {"error": "invalid_grant"}
                if form["refresh_token"] != f"again-{self._issued}":
                    if self.revokes:
                        self._valid = ""
                        self._issued += 1
                    return 400, {}, {"error": "invalid_grant"}
            self._issued += 1
            self._valid = f"token-{self._issued}"
            self._allowed = (self.pages[-1].get("scope", "") if self.pages else "").split()
        if form["grant_type"] == "refresh_token" and self.holds_refresh:
            self.refreshed.wait(LIMIT_S)
        kind = "DPoP" if self.binds else "Bearer"
        again = f"again-{self._issued}"
        answer: dict[str, Any] = {"access_token": self._valid, "token_type": kind}
        answer |= {"refresh_token": again, "scope": self.scope}
        return (
            self.token_status,
            {},
            answer | ({} if self.lasts_s is None else {"expires_in": self.lasts_s}),
        )

    def _mcp(self, method: str, body: str, authorization: str) -> tuple[int, dict[str, str], Any]:
        kind = "DPoP" if self.binds else "Bearer"
        message = json.loads(body) if method == "POST" else {}
        is_call = message.get("method") == "tools/call"
        is_open = self.lists_openly and not is_call
        if not is_open and (not self._valid or authorization != f"{kind} {self._valid}"):
            self.log.append("401")
            where = self.challenge or f"{self.base}/.well-known/oauth-protected-resource/mcp"
            return 401, {"WWW-Authenticate": f'Bearer resource_metadata="{where}"'}, {}
        if is_call and self.needed_scope and self.needed_scope not in self._allowed:
            self.log.append("403")
            scope = self.needed_scope if self.named_scope is None else self.named_scope
            challenge = f'Bearer error="insufficient_scope", scope="{scope}"'
            return 403, {"WWW-Authenticate": challenge}, {}
        if method == "GET" and self.holds_stream:
            self.log.append("GET")
            self.released.wait(LIMIT_S)
        if "id" not in message:
            return (202 if method == "POST" else 405), {}, None
        reply = {"jsonrpc": "2.0", "id": message["id"]}
        match message["method"]:
            case "initialize":
                version = message["params"]["protocolVersion"]
                info = {"name": "web", "version": "1"}
                result: Any = {
                    "protocolVersion": version,
                    "capabilities": {"tools": {}},
                    "serverInfo": info,
                }
            case "tools/list":
                result = {"tools": [{"name": "hello", "inputSchema": {"type": "object"}}]}
            case "tools/call":
                self._hold(message["params"].get("arguments", {}).get("wait"))
                result = {"content": [{"type": "text", "text": "hello"}]}
            case _:
                return 200, {}, reply | {"error": {"code": -32601, "message": "no such method"}}
        return 200, {}, reply | {"result": result}

    def _hold(self, wait: str | None) -> None:
        if wait == "together":
            self.together.wait(LIMIT_S)
        if wait == "released":
            self.log.append("held")
            self.released.wait(LIMIT_S)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    # Twenty calls connect at once; the kernel resets what a queue of five has no room for.
    request_queue_size = 64


@contextmanager
def sign_in_server() -> Generator[SignInServer]:
    """Serve on a free port of this machine while the body runs."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _do(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
            authorization = self.headers.get("Authorization", "")
            proof = self.headers.get("DPoP", "")
            status, headers, value = server.answer(
                self.command, self.path, body, authorization, proof
            )
            data = b"" if value is None else json.dumps(value).encode()
            self.send_response(status)
            for name, text in headers.items():
                self.send_header(name, text)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            with suppress(BrokenPipeError):
                self.wfile.write(data)

        do_GET = do_POST = do_DELETE = _do

        def log_message(self, format: str, *args: object) -> None:
            """Log nothing."""

    with _Server(("127.0.0.1", 0), Handler) as web:
        server = SignInServer(web.server_address[1])
        thread = threading.Thread(target=web.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.released.set()
            server.refreshed.set()
            web.shutdown()
            thread.join()
