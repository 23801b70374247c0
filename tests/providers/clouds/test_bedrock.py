"""Amazon Bedrock: signatures that AWS accepts, Bedrock's model names, and AWS's remedies."""

import asyncio
import json
import stat
import sys
import threading
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from agent_cli.contracts.messages import AssistantMessage, UserMessage
from agent_cli.providers.anthropic.clouds import account
from agent_cli.providers.anthropic.clouds.account import CloudCredentials, signed_in
from agent_cli.providers.anthropic.clouds.aws import AwsAccount
from agent_cli.providers.anthropic.connection import Connection
from agent_cli.providers.anthropic.platforms import BEDROCK
from agent_cli.providers.failures import CallFailed
from tests.messages_api import FakeMessagesApi, raw, reply
from tests.messages_api.clouds import AwsKeys, bedrock
from tests.providers.asking import Asked, asker, request

KEYS = AwsKeys()
ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": KEYS.access_key,
    "AWS_SECRET_ACCESS_KEY": KEYS.secret_key,
    "AWS_REGION": KEYS.region,
}
FOREIGN = "sk-ant-for-anthropic-only"


def variables(api: FakeMessagesApi, more: Mapping[str, str] = ENVIRONMENT) -> dict[str, str]:
    return {"ANTHROPIC_BEDROCK_MANTLE_BASE_URL": f"{api.base_url}/anthropic", **more}


async def asked_of(api: FakeMessagesApi, more: Mapping[str, str] = ENVIRONMENT) -> Asked:
    async with asker(platform=BEDROCK, variables=variables(api, more)) as it:
        return await it.ask(request(system=("be brief",), session_id="s1"))


@pytest.fixture(autouse=True)
def _no_machine_role(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


@pytest.mark.parametrize("token", [None, "a-session-token/+=="])
async def test_bedrock_request_has_a_valid_aws_signature(
    token: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The key for Anthropic's own API must not be sent."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", FOREIGN)
    keys = AwsKeys(session_token=token)
    given = {**ENVIRONMENT, **({"AWS_SESSION_TOKEN": token} if token else {})}
    async with FakeMessagesApi(reply("hi"), door=bedrock(keys)) as api:
        asked = await asked_of(api, given)

    assert (asked.text, api.refusals) == ("hi", [])
    assert api.requests[0].path == "/anthropic/v1/messages"
    assert FOREIGN not in str(api.requests[0].headers)


async def test_bedrock_request_signed_with_a_wrong_secret_is_refused() -> None:
    """Guards the test above: the test server can tell signatures apart."""
    async with FakeMessagesApi(door=bedrock(AwsKeys(secret_key="another"))) as api:
        asked = await asked_of(api)

    assert "signature we calculated does not match" in str(asked.error)
    assert len(api.requests) == 1


async def test_bedrock_key_is_sent_as_a_bearer_token() -> None:
    """The key has precedence over AWS keys, as in AWS's own tools."""
    given = {**ENVIRONMENT, "AWS_BEARER_TOKEN_BEDROCK": "bedrock-key"}
    async with FakeMessagesApi(reply("hi"), door=bedrock(bearer="bedrock-key")) as api:
        asked = await asked_of(api, given)

    assert asked.text == "hi"


async def test_api_key_of_a_request_replaces_the_bedrock_credentials() -> None:
    async with (
        FakeMessagesApi(reply("hi"), door=bedrock(bearer="of-the-host")) as api,
        asker(platform=BEDROCK, variables=variables(api)) as it,
    ):
        asked = await it.ask(request(api_key="of-the-host"))

    assert asked.text == "hi"


async def test_bedrock_request_marks_the_last_block_for_caching() -> None:
    """Bedrock refuses a cache marker for the whole request."""
    said = AssistantMessage(content=({"type": "text", "text": "hello"},))
    history = (UserMessage.of("hi"), said, UserMessage.of("go on"))
    async with (
        FakeMessagesApi(reply("a"), door=bedrock(KEYS)) as api,
        asker(platform=BEDROCK, variables=variables(api)) as it,
    ):
        await it.ask(request(*history, system=("be brief",)))

    body = api.requests[0].body
    assert api.refusals == []
    assert body["model"] == "anthropic.claude-sonnet-5-5"
    assert "cache_control" not in body
    assert [m["content"][-1].get("cache_control") for m in body["messages"]] == [
        {"type": "ephemeral"},
        None,
        {"type": "ephemeral"},
    ]


async def test_aws_keys_and_region_come_from_a_profile_and_are_renewed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A credential program whose keys last a minute runs again for the next request."""
    ends = datetime.now(UTC) + timedelta(minutes=1)
    given = {
        "Version": 1,
        "AccessKeyId": KEYS.access_key,
        "SecretAccessKey": KEYS.secret_key,
        "SessionToken": "t",
        "Expiration": ends.strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    program, calls = Path("give-keys").absolute(), Path("calls").absolute()
    program.write_text(f"#!/bin/sh\necho x >> {calls}\necho '{json.dumps(given)}'\n")
    program.chmod(stat.S_IRWXU)
    configure(
        f"[profile team]\nregion = {KEYS.region}\ncredential_process = {program}\n", monkeypatch
    )
    async with (
        FakeMessagesApi(reply("a"), reply("b"), door=bedrock(AwsKeys(session_token="t"))) as api,
        asker(platform=BEDROCK, variables=variables(api, {"AWS_PROFILE": "team"})) as it,
    ):
        first = (await it.ask()).text
        calls_before = len(calls.read_text())
        second = (await it.ask()).text

    assert (first, second) == ("a", "b")
    assert len(calls.read_text()) > calls_before


def configure(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write `~/.aws/config`."""
    path = Path("aws-config")
    path.write_text(text)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(path.absolute()))


SSO = """
[profile team]
region = eu-west-3
sso_session = s
sso_account_id = 123456789012
sso_role_name = r
[sso-session s]
sso_region = eu-west-3
sso_start_url = https://example.com/start
"""


@pytest.mark.parametrize(
    ("config", "given", "sentence"),
    [
        (SSO, {"AWS_PROFILE": "team"}, "has expired; run: aws sso login --profile team"),
        ("", {"AWS_PROFILE": "gone", "AWS_REGION": "x"}, "AWS has no profile 'gone'; check"),
        ("", {"AWS_REGION": "x"}, "no AWS credentials were found; sign in with `aws sso login`"),
        ("", {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}, "export AWS_REGION="),
    ],
    ids=["sign-in expired", "no profile", "nothing", "no region"],
)
async def test_error_about_missing_aws_credentials_or_region_names_the_remedy(
    config: str, given: dict[str, str], sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(config, monkeypatch)
    async with asker(platform=BEDROCK, variables=given) as it:
        asked = await it.ask()

    assert sentence in str(asked.error)
    assert it.waits_s == []


@pytest.mark.parametrize(
    ("status", "message", "advice"),
    [
        (403, "The security token included in the request is expired", "aws sso login"),
        (400, "The provided model identifier is invalid.", "that AWS_REGION has the model"),
        (404, "The model does not exist", "that AWS_REGION has the model"),
        (403, "You don't have access to the model", "request access to the model"),
        (401, "Invalid bearer token", "renew the AWS keys or AWS_BEARER_TOKEN_BEDROCK"),
    ],
)
async def test_error_from_aws_is_shown_with_the_remedy(
    status: int, message: str, advice: str
) -> None:
    """AWS's errors have their own form and request id."""
    answer = raw(
        status,
        json.dumps({"message": message}).encode(),
        content_type="application/json",
        headers={"x-amzn-requestid": "aws-1"},
    )
    async with FakeMessagesApi(answer, door=bedrock(KEYS)) as api:
        asked = await asked_of(api)

    assert message.rstrip(".") in str(asked.error)
    assert advice in str(asked.error)
    assert "{" not in str(asked.error)
    assert asked.error is not None
    assert asked.error.request_id == "aws-1"
    assert "ANTHROPIC_API_KEY" not in str(asked.error)


async def test_aws_sign_in_that_hangs_times_out_and_can_be_cancelled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A credential program may wait for a code that no one types."""
    released = threading.Event()
    hanging = AwsAccount(BEDROCK, {"AWS_REGION": "x"})
    monkeypatch.setattr(hanging, "credentials", released.wait)
    monkeypatch.setattr(account, "CREDENTIALS_LIMIT_S", 0.05)
    with pytest.raises(CallFailed, match=r"no credentials within 0\.05 s; sign in again"):
        await signed_in(hanging, BEDROCK)

    monkeypatch.setattr(account, "CREDENTIALS_LIMIT_S", 600)
    waiting = asyncio.ensure_future(signed_in(hanging, BEDROCK))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    released.set()


async def test_error_about_missing_boto3_names_the_remedies(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "botocore", None)
    monkeypatch.setitem(sys.modules, "botocore.session", None)
    async with asker(platform=BEDROCK, variables={"AWS_REGION": "x"}) as it:
        asked = await it.ask()

    assert "pip install 'boto3'" in str(asked.error)
    assert "or set AWS_BEARER_TOKEN_BEDROCK" in str(asked.error)


async def test_replaying_a_bedrock_recording_needs_no_account(tmp_path: Path) -> None:
    """A replay needs neither credentials nor a region."""
    tape = tmp_path / "tape.jsonl"
    async with (
        FakeMessagesApi(reply("hi"), door=bedrock(KEYS)) as api,
        asker(platform=BEDROCK, variables=variables(api), record=tape) as it,
    ):
        await it.ask()
    async with asker(platform=BEDROCK, variables={}, replay=tape) as it:
        asked = await it.ask()

    assert asked.text == "hi"
    assert KEYS.secret_key not in tape.read_text()


def test_repr_of_connection_and_credentials_shows_no_secret() -> None:
    connection = Connection(platform=BEDROCK, variables={"AWS_SECRET_ACCESS_KEY": "CANARY"})
    credentials = CloudCredentials(key="CANARY", token="CANARY", secret_key="CANARY")

    assert "CANARY" not in repr(connection) + repr(credentials)
