"""An MCP server over HTTP that wants a sign-in, with its authorization server, in one process."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any  # JSON
from urllib.parse import parse_qs, urlencode, urlsplit


class SignInServer:
    """Tokens are valid until `expire()`; `log` says what was asked for, in order.

    Attributes:
        refuses: The user refuses at the sign-in page.
        lasts_s: What is said about how long a token is good for.
    """

    def __init__(self, port: int) -> None:
        self.base = f"http://127.0.0.1:{port}"
        self.url = f"{self.base}/mcp"
        self.log: list[str] = []
        self.redirects: list[str] = []
        self.refuses = False
        self.lasts_s = 3600
        self._issued = 0
        self._valid = ""

    def expire(self) -> None:
        """Accept no token given so far."""
        self._valid = ""

    def answer(
        self, method: str, target: str, body: str, authorization: str
    ) -> tuple[int, dict[str, str], Any]:
        """Return status, headers and JSON."""
        parts = urlsplit(target)
        match parts.path:
            case "/mcp":
                return self._mcp(method, body, authorization)
            case "/.well-known/oauth-protected-resource/mcp":
                return 200, {}, {"resource": self.url, "authorization_servers": [self.base]}
            case "/.well-known/oauth-authorization-server":
                self.log.append("metadata")
                return 200, {}, self._metadata()
            case "/register":
                self.log.append("register")
                given = json.loads(body)
                self.redirects += given["redirect_uris"]
                return 201, {}, given | {"client_id": "client-1"}
            case "/authorize":
                self.log.append("authorize")
                query = {key: values[0] for key, values in parse_qs(parts.query).items()}
                result = {"error": "access_denied"} if self.refuses else {"code": "code-1"}
                back = urlencode(result | {"state": query["state"], "iss": self.base})
                return 302, {"Location": f"{query['redirect_uri']}?{back}"}, {}
            case "/access":
                return self._token({key: v[0] for key, v in parse_qs(body).items()})
        return 404, {}, {}

    def _metadata(self) -> dict[str, Any]:
        return {
            "issuer": self.base,
            "authorization_endpoint": f"{self.base}/authorize",
            # Not /token, which is where a client goes that has forgotten this page.
            "token_endpoint": f"{self.base}/access",
            "registration_endpoint": f"{self.base}/register",
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": ["none"],
        }

    def _token(self, form: dict[str, str]) -> tuple[int, dict[str, str], Any]:
        self.log.append(f"token:{form['grant_type']}")
        self._issued += 1
        self._valid = f"token-{self._issued}"
        answer = {"access_token": self._valid, "token_type": "Bearer", "refresh_token": "again"}
        return 200, {}, answer | {"expires_in": self.lasts_s}

    def _mcp(self, method: str, body: str, authorization: str) -> tuple[int, dict[str, str], Any]:
        if not self._valid or authorization != f"Bearer {self._valid}":
            self.log.append("401")
            where = f"{self.base}/.well-known/oauth-protected-resource/mcp"
            return 401, {"WWW-Authenticate": f'Bearer resource_metadata="{where}"'}, {}
        message = json.loads(body) if method == "POST" else {}
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
                result = {"content": [{"type": "text", "text": "hello"}]}
            case _:
                return 200, {}, reply | {"error": {"code": -32601, "message": "no such method"}}
        return 200, {}, reply | {"result": result}


@contextmanager
def sign_in_server() -> Iterator[SignInServer]:
    """Serve on a free port of this machine while the body runs."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _do(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
            authorization = self.headers.get("Authorization", "")
            status, headers, value = server.answer(self.command, self.path, body, authorization)
            data = b"" if value is None else json.dumps(value).encode()
            self.send_response(status)
            for name, text in headers.items():
                self.send_header(name, text)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_DELETE = _do

        def log_message(self, *_arguments: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as web:
        web.daemon_threads = True
        server = SignInServer(web.server_address[1])
        thread = threading.Thread(target=web.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            web.shutdown()
            thread.join()
