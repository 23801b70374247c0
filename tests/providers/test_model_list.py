"""The server's list of models: read page by page, shown, chosen from and checked."""

import json
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path

import pytest

from agent_cli.app.arguments import Arguments
from agent_cli.app.checks.outside import check_models
from agent_cli.app.startup import start
from agent_cli.contracts.errors import ModelError
from agent_cli.providers.anthropic.connection import Connection
from agent_cli.providers.anthropic.model_list import offered_models
from agent_cli.providers.anthropic.models import model_by_id
from agent_cli.providers.anthropic.sdk_client import SdkClient
from tests.e2e.program import AGENT_CLI, agent_cli, environment
from tests.messages_api import FakeMessagesApi, serve_in_thread
from tests.messages_api.script import Payload
from tests.repl.terminal import Terminal

DATED = f"{'claude-haiku-5-5'}-20261001"
SOON = (date.today() + timedelta(days=20)).isoformat()


def model(id: str, **more: object) -> Payload:
    return {"type": "model", "id": id, "display_name": id.title(), **more}


def offers(api: FakeMessagesApi) -> None:
    """Make *api* serve three models, on two pages."""
    api.models = [
        model("claude-opus-5-5", lifecycle="active", max_input_tokens=1_000_000, max_tokens=64_000),
        model("claude-sonnet-5-5", lifecycle="deprecated", retires_at=f"{SOON}T00:00:00Z"),
        model(DATED, lifecycle="active"),
    ]


def test_models_command_lists_models_with_aliases_and_retirement_dates() -> None:
    """One line each on a pipe, all fields as JSON; the key is needed."""
    with serve_in_thread() as api:
        offers(api)
        shown = agent_cli("models", api=api)
        as_json = json.loads(agent_cli("models", "--json", api=api).stdout)
        without = agent_cli("models", api=api, ANTHROPIC_API_KEY=None)

    lines = [line.split() for line in shown.stdout.splitlines()]
    assert [each["id"] for each in as_json] == [each["id"] for each in api.models]
    assert as_json[1]["aliases"] == ["normal"]
    assert as_json[1]["retires_on"] == SOON
    assert any(line[0] == "claude-opus-5-5" and "1,000,000" in line for line in lines)
    assert any(line[0] == "claude-sonnet-5-5" and line[-2:] == ["retires", SOON] for line in lines)
    assert without.code == 2


async def test_doctor_warns_of_a_model_that_retires_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only of models in use; a dated id counts as the id without the date."""
    with serve_in_thread() as api:
        monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", api.base_url)
        startup = start(Arguments(), may_ask=False)
        none = await check_models(startup, model_by_id("claude-opus-5-5"))
        offers(api)
        (fault,) = await check_models(startup, model_by_id("claude-opus-5-5"))
        api.models[1]["retires_at"] = None
        (fine,) = await check_models(startup, model_by_id("claude-opus-5-5"))
        (unknown,) = await check_models(startup, model_by_id("gpt-oss"))

    assert [(check.ok, check.text) for check in none] == [(None, "the server lists none")]
    assert (fault.ok, fault.text) == (
        False,
        f"claude-sonnet-5-5 retires {SOON}: name another in models.normal; agent-cli models lists"
        " them",
    )
    assert (fine.ok, fine.text) == (True, "3 offered, those in use among them")
    assert (unknown.ok, unknown.text) == (None, "gpt-oss is not in the list of the server (model)")


@pytest.mark.parametrize("answer", ["<html>", '{"data": 1}', '{"models": []}'])
async def test_invalid_answer_instead_of_a_model_list_is_an_error(answer: str) -> None:
    """Servers of other makers give all kinds of answers."""
    with serve_in_thread() as api:
        api.model_list = answer
        with pytest.raises(ModelError, match="something that is not a list of models"):
            await offered_models(Connection(base_url=api.base_url, api_key="k"))


async def test_sdk_client_lists_the_same_models() -> None:
    """Some credentials are found only by the SDK."""
    with serve_in_thread() as api:
        offers(api)
        connection = Connection(base_url=api.base_url, api_key="k")
        client = SdkClient(connection)
        listed = [each["id"] for each in await client.list_models()]
        await client.aclose()

        assert listed == [each.id for each in await offered_models(connection)]


async def test_model_list_neither_reads_nor_writes_a_recording(tmp_path: Path) -> None:
    """A recording holds replies of the model only."""
    with serve_in_thread() as api:
        offers(api)
        connection = Connection(base_url=api.base_url, api_key="k", record=tmp_path / "said")
        assert len(await offered_models(connection)) == 3
        with pytest.raises(ModelError, match="a recording lists no models"):
            await offered_models(replace(connection, replay=tmp_path / "said", record=None))

    assert not (tmp_path / "said").exists()


@pytest.mark.parametrize(("served", "listed"), [(20, 20), (22, 20)])
async def test_model_list_ends_at_the_tenth_page(served: int, listed: int) -> None:
    """The fake serves two a page; a server whose pages never end would hold the command."""
    with serve_in_thread() as api:
        api.models = [model(f"model-{n}") for n in range(served)]
        offered = await offered_models(Connection(base_url=api.base_url, api_key="k"))

    assert len(offered) == listed


async def test_server_without_a_model_list_or_unreachable_is_an_error() -> None:
    """404 from a server that only answers messages; no server listens on port 9."""
    with serve_in_thread() as api, pytest.raises(ModelError, match="status 404"):
        await offered_models(Connection(base_url=f"{api.base_url}/elsewhere", api_key="k"))
    with pytest.raises(ModelError, match="cannot reach"):
        await offered_models(Connection(base_url="http://127.0.0.1:9", api_key="k"))


def test_slash_model_offers_the_models_of_the_server(tmp_path: Path) -> None:
    """They follow the aliases, with their retirement dates."""
    with (
        serve_in_thread() as api,
        Terminal(AGENT_CLI, "--no-mcp", **environment(api, {})) as terminal,
    ):
        offers(api)
        terminal.until_prompt()
        terminal.send("/model\r")
        terminal.until(DATED)
        assert f"normal = claude-sonnet-5-5 · retires {SOON}" in terminal.text
        terminal.send("20261001")
        terminal.until("1 of ")
        terminal.send("\r")
        terminal.until(f"model: {DATED}")
