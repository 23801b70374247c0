"""The clouds' guards and changes of the Messages API; `FakeMessagesApi(door=...)` simulates one.

A door checks a request as its cloud does and returns it in the form Anthropic's API would get.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from urllib.parse import unquote

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from tests.messages_api.received import ReceivedRequest
from tests.messages_api.refusals import Refusal
from tests.messages_api.script import Payload
from tests.messages_api.server import Door

_SIGNED = re.compile(
    r"AWS4-HMAC-SHA256 Credential=(?P<key>\w+)/(?P<scope>[\w/-]+)/aws4_request,"
    r" SignedHeaders=(?P<headers>[\w;-]+), Signature=(?P<signature>[0-9a-f]{64})"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AwsKeys:
    """The credentials that an AWS door accepts."""

    access_key: str = "AKIDEXAMPLE00"
    secret_key: str = "wJalrXUtnFEMI/K7MDENG"
    session_token: str | None = None
    region: str = "eu-west-3"


def bedrock(keys: AwsKeys | None = None, *, bearer: str = "") -> Door:
    """Return Amazon Bedrock's door: a signature, or a key as bearer; Bedrock's own model ids."""

    def door(request: ReceivedRequest) -> ReceivedRequest | Refusal:
        refusal = _signed_by(request, keys, bearer, service="bedrock-mantle")
        if refusal is not None:
            return refusal
        body = dict(request.body)
        if not str(body.get("model")).startswith("anthropic."):
            return _bad("The provided model identifier is invalid.")
        if "cache_control" in body:
            return _bad("cache_control: Extra inputs are not permitted")
        body["model"] = body["model"].removeprefix("anthropic.")
        path = request.path.removeprefix("/anthropic")
        return passed(request, path.removesuffix("?beta=true"), body)

    return door


def claude_platform(keys: AwsKeys, *, workspace: str) -> Door:
    """Return the door of Claude Platform on AWS: signed, for a workspace."""

    def door(request: ReceivedRequest) -> ReceivedRequest | Refusal:
        refusal = _signed_by(request, keys, "", service="aws-external-anthropic")
        if refusal is not None:
            return refusal
        if request.headers.get("anthropic-workspace-id") != workspace:
            return _forbidden("no such workspace")
        return passed(request, request.path.removesuffix("?beta=true"), request.body)

    return door


def vertex(token: str, *, project: str, region: str) -> Door:
    """Return Vertex AI's door: the model is in the path, the version in the body."""

    def door(request: ReceivedRequest) -> ReceivedRequest | Refusal:
        if request.headers.get("authorization") != f"Bearer {token}":
            return _forbidden("Request had invalid authentication credentials.")
        where = f"/v1/projects/{project}/locations/{region}/publishers/anthropic/models/"
        model, _, call = request.path.removeprefix(where).partition(":")
        body = dict(request.body)
        if not request.path.startswith(where) or call != "streamRawPredict" or "model" in body:
            return Refusal("door", 404, "not_found_error", "Publisher Model was not found.")
        if "cache_control" in body or not body.pop("anthropic_version", ""):
            return _bad("cache_control: Extra inputs are not permitted")
        body["model"] = unquote(model).replace("@", "-")
        return passed(request, "/v1/messages", body)

    return door


def foundry(*, key: str = "", token: str = "") -> Door:
    """Return Microsoft Foundry's door: a key in Foundry's own header, or a token."""

    def door(request: ReceivedRequest) -> ReceivedRequest | Refusal:
        given = request.headers.get("x-api-key"), request.headers.get("authorization")
        if given != ((key, None) if key else (None, f"Bearer {token}")):
            return Refusal("door", 401, "authentication_error", "Access denied due to invalid key")
        if "cache_control" in request.body:
            return _bad("cache_control: Extra inputs are not permitted")
        path = request.path.removeprefix("/anthropic").removesuffix("?beta=true")
        return passed(request, path, request.body)

    return door


def passed(request: ReceivedRequest, path: str, body: Payload) -> ReceivedRequest:
    """Return *request* as the API behind the door receives it."""
    version = {"anthropic-version": "2026-10-21"}
    headers = {**version, **request.headers, "authorization": "Bearer let-in"}
    return replace(request, path=path, headers=headers, body=body, raw=json.dumps(body).encode())


def _signed_by(
    request: ReceivedRequest, keys: AwsKeys | None, bearer: str, *, service: str
) -> Refusal | None:
    given = request.headers.get("authorization", "")
    if bearer:
        return None if given == f"Bearer {bearer}" else _forbidden("Invalid API key format")
    signed = _SIGNED.fullmatch(given)
    if keys is None or signed is None or signed["key"] != keys.access_key:
        return _forbidden("The security token included in the request is invalid.")
    if request.headers.get("x-amz-security-token") != keys.session_token:
        return _forbidden("The security token included in the request is expired")
    if signed["scope"].split("/")[1:] != [keys.region, service]:
        return _forbidden("Credential should be scoped to a valid region and service.")
    names = signed["headers"].split(";")
    needed = {"host", "x-amz-date", *(["x-amz-security-token"] if keys.session_token else [])}
    if not needed <= {*names} or signed["signature"] != _signature(request, names, keys, service):
        return _forbidden("The request signature we calculated does not match.")
    return None


def _signature(request: ReceivedRequest, names: list[str], keys: AwsKeys, service: str) -> str:
    """Return botocore's signature of the request as it arrived."""
    headers: Mapping[str, str] = request.headers
    aws = AWSRequest(
        method=request.method,
        url=f"http://{headers['host']}{request.path}",
        data=request.raw,
        headers={name: headers[name] for name in names},
    )
    aws.context["timestamp"] = headers["x-amz-date"]
    signer = SigV4Auth(Credentials(keys.access_key, keys.secret_key), service, keys.region)
    text = signer.string_to_sign(aws, signer.canonical_request(aws))
    return str(signer.signature(text, aws))


def _bad(message: str) -> Refusal:
    return Refusal("door", 400, "invalid_request_error", message)


def _forbidden(message: str) -> Refusal:
    return Refusal("door", 403, "permission_error", message)
