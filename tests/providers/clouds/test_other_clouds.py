"""Vertex AI, Microsoft Foundry and Claude Platform on AWS, simulated with their own checks."""

import json
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from agent_cli.providers.anthropic.platforms import AWS, FOUNDRY, VERTEX, Platform, plain_model_id
from tests.e2e.program import agent_cli
from tests.messages_api import FakeMessagesApi, raw, reply, serve_in_thread
from tests.messages_api.clouds import AwsKeys, claude_platform, foundry, vertex
from tests.providers.asking import asker, request
from tests.tables import each_row

FOREIGN = "sk-ant-for-anthropic-only"
PLACE = {"CLOUD_ML_REGION": "europe-west1"}


@contextmanager
def token_server(answer: Callable[[str], Any]) -> Generator[str]:
    """Serve *answer*'s result for each path, as JSON or text, like a metadata server."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = answer(self.path)
            text = found if isinstance(found, str) else json.dumps(found)
            self.send_response(200)
            self.send_header("Metadata-Flavor", "Google")
            self.send_header("Content-Type", f"application/{'text' if found is text else 'json'}")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, format: str, *args: object) -> None:
            return

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join(20)


def metadata(path: str) -> Any:
    if "/token" in path:
        return {"access_token": "google-token", "expires_in": 3600, "token_type": "Bearer"}
    if "/service-accounts/" in path:
        return {"email": "me@example.com", "scopes": ["a"], "aliases": ["default"]}
    return "my-project" if "project-id" in path else "googleapis.com"


def test_run_on_vertex_uses_the_token_of_the_metadata_server() -> None:
    """The whole program: library, project and token come from the machine."""
    door = vertex("google-token", project="my-project", region="europe-west1")
    with token_server(metadata) as host, serve_in_thread(reply("done"), door=door) as api:
        run = agent_cli(
            *("-p", "go"),
            CLAUDE_CODE_USE_VERTEX="1",
            CLOUD_ML_REGION="europe-west1",
            ANTHROPIC_VERTEX_BASE_URL=f"{api.base_url}/v1",
            GCE_METADATA_HOST=host,
            GCE_METADATA_IP=host,
        )

    assert (run.code, run.stdout, api.refusals) == (0, "done\n", [])


async def test_dated_model_id_is_written_in_vertex_form() -> None:
    variables = {**PLACE, "ANTHROPIC_VERTEX_PROJECT_ID": "p"}
    door = vertex("of-the-host", project="p", region="europe-west1")
    async with FakeMessagesApi(reply("hi"), door=door) as api:
        variables["ANTHROPIC_VERTEX_BASE_URL"] = f"{api.base_url}/v1"
        async with asker(platform=VERTEX, variables=variables) as it:
            asked = await it.ask(request(model="claude-haiku-4-5-20251001", api_key="of-the-host"))

    assert (asked.text, api.refusals) == ("hi", [])
    assert "claude-haiku-4-5@20251001:" in api.requests[0].path.replace("%40", "@")
    assert "cache_control" not in api.requests[0].body


async def test_missing_google_sign_in_names_the_gcloud_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Not NO_GCE_CHECK: only newer versions of google-auth have it, and read it when imported.
    monkeypatch.setattr("google.auth.compute_engine._metadata.is_on_gce", lambda **_: False)
    async with asker(platform=VERTEX, variables=PLACE) as it:
        asked = await it.ask()

    assert "run: gcloud auth application-default login" in str(asked.error)


async def test_error_in_googles_format_is_shown_with_the_remedy() -> None:
    said = "Publisher Model `claude-x` was not found or your project does not have access to it."
    body = [{"error": {"code": 404, "message": said, "status": "NOT_FOUND"}}]
    answer = raw(404, json.dumps(body).encode(), content_type="application/json")
    async with FakeMessagesApi(answer, door=vertex("k", project="p", region="europe-west1")) as api:
        variables = {
            **PLACE,
            "ANTHROPIC_VERTEX_PROJECT_ID": "p",
            "ANTHROPIC_VERTEX_BASE_URL": f"{api.base_url}/v1",
        }
        async with asker(platform=VERTEX, variables=variables) as it:
            asked = await it.ask(request(api_key="k"))

    assert "Publisher Model `claude-x`" in str(asked.error)
    assert "enabled in Model Garden" in str(asked.error)


async def test_foundry_request_carries_the_foundry_key_and_not_anthropics(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", FOREIGN)
    async with FakeMessagesApi(reply("hi"), door=foundry(key="azure-key")) as api:
        variables = {
            "ANTHROPIC_FOUNDRY_BASE_URL": f"{api.base_url}/anthropic",
            "ANTHROPIC_FOUNDRY_API_KEY": "azure-key",
        }
        async with asker(platform=FOUNDRY, variables=variables) as it:
            asked = await it.ask()

    assert (asked.text, api.refusals) == ("hi", [])
    assert FOREIGN not in str(api.requests[0].headers)
    assert "cache_control" not in api.requests[0].body


async def test_foundry_without_a_key_uses_the_managed_identity_of_the_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The library asks the identity endpoint of an Azure machine."""
    monkeypatch.setenv("IDENTITY_HEADER", "h")
    monkeypatch.setenv("AZURE_TOKEN_CREDENTIALS", "ManagedIdentityCredential")

    def identity(_path: str) -> Any:
        ends = "4102444800"
        return {"access_token": "azure-token", "expires_on": ends, "token_type": "Bearer"}

    with token_server(identity) as host:
        monkeypatch.setenv("IDENTITY_ENDPOINT", f"http://{host}/msi/token")
        async with FakeMessagesApi(reply("hi"), door=foundry(token="azure-token")) as api:
            variables = {"ANTHROPIC_FOUNDRY_BASE_URL": f"{api.base_url}/anthropic"}
            async with asker(platform=FOUNDRY, variables=variables) as it:
                asked = await it.ask()

    assert (asked.text, api.refusals, str(asked.error)) == ("hi", [], "None")


async def test_claude_platform_on_aws_gets_signed_requests_without_anthropics_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two requests: the SDK's copy of its client would send ANTHROPIC_API_KEY as a bearer token."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", FOREIGN)
    keys = AwsKeys()
    door = claude_platform(keys, workspace="wrkspc_1")
    async with FakeMessagesApi(reply("a"), reply("b"), door=door) as api:
        variables = {
            "ANTHROPIC_AWS_BASE_URL": api.base_url,
            "ANTHROPIC_AWS_WORKSPACE_ID": "wrkspc_1",
            "AWS_ACCESS_KEY_ID": keys.access_key,
            "AWS_SECRET_ACCESS_KEY": keys.secret_key,
            "AWS_REGION": keys.region,
        }
        async with asker(platform=AWS, variables=variables) as it:
            texts = [(await it.ask()).text, (await it.ask()).text]

    assert (texts, api.refusals) == (["a", "b"], [])
    assert FOREIGN not in str([each.headers for each in api.requests])
    assert "cache_control" in api.requests[0].body


@each_row(
    ("platform", "named", "known"),
    [
        (VERTEX, "claude-sonnet-5-5", "claude-sonnet-5-5"),
        (FOUNDRY, "my-deployment", "my-deployment"),
        (AWS, "claude-opus-5-5", "claude-opus-5-5"),
        (VERTEX, "claude-haiku-4-5@20251001", "claude-haiku-4-5"),
        (AWS, "us.anthropic.claude-opus-5-5", "claude-opus-5-5"),
    ],
)
def test_cloud_specific_model_ids_map_to_the_plain_model_id(
    platform: Platform, named: str, known: str
) -> None:
    assert platform.model_id(named) == named
    assert plain_model_id(named) == known
