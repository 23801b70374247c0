"""Tokens bound to a key: each request with one proves possession of the key (DPoP).

A stolen token is useless without the key, which never leaves this machine. Used if the
authorization server supports it; other tokens pass through unchanged.

Source: RFC 9449 sections 4 (proofs), 5 (token request), 7.1 (scheme), 8 and 9 (nonces); SEP-1932.
"""

import base64
import json
import time
import uuid
from collections.abc import AsyncGenerator
from hashlib import sha256
from typing import Protocol

import httpx2
from mcp.client.auth import OAuthFlowError

from agent_cli.system.json_text import json_object

_ALGORITHM = "ES256"
_FORM = "application/x-www-form-urlencoded"
_METADATA = ("/.well-known/oauth-authorization-server", "/.well-known/openid-configuration")
_NONCE_REQUIRED = "use_dpop_nonce"


class KeyStore(Protocol):
    """Port to the storage of the key, next to the tokens bound to it."""

    proof_key: str
    """The private key as PEM text; "" before it is created."""

    is_bound: bool
    """Whether the tokens are bound to the key."""


class BoundTokens(httpx2.Auth):
    """Wraps a flow, binding its token requests and tokens to a key if the server supports it."""

    requires_response_body = True

    def __init__(self, flow: httpx2.Auth, keys: KeyStore) -> None:
        """Bind the tokens of *flow* to the key in *keys*, which is created when first needed."""
        self._flow = flow
        self._keys = keys
        self._is_offered = bool(keys.proof_key)
        self._nonces: dict[str, str] = {}

    async def async_auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Drive the flow; add a new proof to each request, and repeat it with a nonce if asked."""
        flow = self._flow.async_auth_flow(request)
        try:
            outgoing = await flow.__anext__()
            while True:
                is_proven = self._prove(outgoing)
                response = yield outgoing
                if is_proven and await self._wants_nonce(response):
                    self._prove(outgoing)
                    response = yield outgoing
                outgoing = await flow.asend(await self._read(outgoing, response))
        except StopAsyncIteration:
            return
        finally:
            await flow.aclose()

    def _prove(self, request: httpx2.Request) -> bool:
        """Add a proof to a request for tokens, or with one; return whether it did."""
        if request.headers.get("content-type", "").startswith(_FORM):
            if self._is_offered:
                request.headers["DPoP"] = self._proof(request)
            return self._is_offered
        _, _, token = request.headers.get("authorization", "").partition(" ")
        if not token or not self._keys.is_bound:
            return False
        request.headers["authorization"] = f"DPoP {token}"
        request.headers["DPoP"] = self._proof(request, token)
        return True

    def _proof(self, request: httpx2.Request, token: str = "") -> str:
        # Imported late: slow to load, and few servers bind their tokens.
        import jwt
        from cryptography.hazmat.primitives.asymmetric import ec
        from jwt.algorithms import ECAlgorithm

        key = ECAlgorithm(ECAlgorithm.SHA256).prepare_key(self._key())
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise OAuthFlowError("the key that was kept for this server is not a private one")
        url = request.url.copy_with(query=None, fragment=None)
        claims: dict[str, object] = {
            "jti": str(uuid.uuid4()),
            "htm": request.method,
            "htu": str(url),
            "iat": int(time.time()),
        }
        if token:
            digest = sha256(token.encode()).digest()
            claims["ath"] = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        if nonce := self._nonces.get(_origin(request.url)):
            claims["nonce"] = nonce
        public = ECAlgorithm.to_jwk(key.public_key(), as_dict=True)
        headers = {"typ": "dpop+jwt", "jwk": public}
        return jwt.encode(claims, key, algorithm=_ALGORITHM, headers=headers)

    def _key(self) -> str:
        if not self._keys.proof_key:
            from cryptography.hazmat.primitives import serialization
            from cryptography.hazmat.primitives.asymmetric import ec

            made = ec.generate_private_key(ec.SECP256R1()).private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
            self._keys.proof_key = made.decode()
        return self._keys.proof_key

    async def _wants_nonce(self, response: httpx2.Response) -> bool:
        """Remember the nonce of *response*; return whether to repeat the request with it."""
        nonce = response.headers.get("dpop-nonce")
        if not nonce:
            return False
        self._nonces[_origin(response.request.url)] = nonce
        if response.status_code not in (400, 401):
            return False
        challenge = response.headers.get("www-authenticate", "")
        answer = json_object(await response.aread())
        return _NONCE_REQUIRED in challenge or _NONCE_REQUIRED in str(answer)

    async def _read(self, request: httpx2.Request, response: httpx2.Response) -> httpx2.Response:
        """Note the server's DPoP support in *response*; return it in a form the SDK understands."""
        if response.status_code not in (200, 201):
            return response
        if request.method == "GET" and any(part in request.url.path for part in _METADATA):
            metadata = json_object(await response.aread()) or {}
            offered = metadata.get("dpop_signing_alg_values_supported")
            self._is_offered = isinstance(offered, list) and _ALGORITHM in offered
        elif "DPoP" in request.headers and request.headers.get("content-type") == _FORM:
            token = json_object(await response.aread()) or {}
            kind = token.get("token_type")
            self._keys.is_bound = isinstance(kind, str) and kind.lower() == "dpop"
            if self._keys.is_bound:
                # The SDK knows only one token type.
                body = json.dumps({**token, "token_type": "Bearer"}).encode()
                return httpx2.Response(response.status_code, content=body, request=request)
        return response


def _origin(url: httpx2.URL) -> str:
    return f"{url.scheme}://{url.netloc.decode()}"
