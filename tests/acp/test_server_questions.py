"""Elicitation by MCP servers that came with a session, forwarded to the editor's user."""

import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from acp import schema

from tests.acp.editor import Editor, editor
from tests.e2e.program import results_in, text_of
from tests.forked import arguments_of
from tests.messages_api import Answer, FakeMessagesApi, reply, tool_use

FULL_SERVER = Path(__file__).parents[1] / "mcp_client" / "full_server.py"
ALL = schema.ClientCapabilities(
    elicitation=schema.ElicitationCapabilities(
        form=schema.ElicitationFormCapabilities(), url=schema.ElicitationUrlCapabilities()
    )
)


async def result_of(
    tool: str,
    *,
    capabilities: schema.ClientCapabilities | None = None,
    forms: tuple[dict[str, Any], ...] = (),
) -> tuple[str, Editor]:
    """Return the result of a server's tool while its user answers so."""
    call = reply(tool_use(f"mcp__full__{tool}", {}))
    async with opened(call, reply("ok"), capabilities=capabilities) as (
        api,
        client,
        id,
    ):
        client.forms.extend(forms)
        await client.say(id, "go")
        return text_of(results_in(api.requests[-1].body)[0]), client


async def results_of(
    tool: str, *, capabilities: schema.ClientCapabilities, forms: tuple[dict[str, Any], ...]
) -> list[str]:
    """Return the results of one call for each of *forms*, with which the user answers."""
    call = reply(tool_use(f"mcp__full__{tool}", {}))
    calls = [call] * len(forms)
    async with opened(*calls, reply("ok"), capabilities=capabilities) as (api, client, id):
        client.forms.extend(forms)
        await client.say(id, "go")
        return [text_of(results_in(request.body)[0]) for request in api.requests[1:]]


@asynccontextmanager
async def opened(
    *script: Answer, capabilities: schema.ClientCapabilities | None
) -> AsyncGenerator[tuple[FakeMessagesApi, Editor, str]]:
    """Yield the API, an editor, and the id of a session with the server."""
    async with (
        FakeMessagesApi(*script) as api,
        editor(api, "--allow", "mcp__full__*", AGENT_CLI_MCP__FIRST_PROMPT_WAIT_S="60") as client,
    ):
        await client.agent.initialize(protocol_version=1, client_capabilities=capabilities)
        server = schema.McpServerStdio(
            name="full",
            command=sys.executable,
            args=arguments_of(str(FULL_SERVER), "stdio"),
            env=[],
        )
        session = await client.agent.new_session(cwd=str(Path.cwd()), mcp_servers=[server])
        yield api, client, session.session_id


async def test_form_of_an_mcp_server_is_filled_in_by_the_user() -> None:
    answer = {"action": "accept", "content": {"colour": "blue", "count": 2}}

    result, client = await result_of("ask", capabilities=ALL, forms=(answer,))

    assert result == "accept: {'colour': 'blue', 'count': 2}"
    [question] = client.questions
    assert "Which colour?" in question["message"]
    asked = question["requestedSchema"]
    assert asked["required"] == ["count"]
    assert asked["properties"]["colour"] == {
        "type": "string",
        "title": "Colour",
        "default": "green",
    }


async def test_invalid_form_value_is_asked_for_again() -> None:
    wrong = {"action": "accept", "content": {"count": "two"}}
    right = {"action": "accept", "content": {"count": 2}}

    result, client = await result_of("ask", capabilities=ALL, forms=(wrong, right))

    assert result == "accept: {'colour': 'green', 'count': 2}"
    assert "count" in client.questions[1]["message"]


async def test_declined_or_cancelled_form_is_reported_to_the_server() -> None:
    forms = ({"action": "decline"}, {"action": "cancel"})

    results = await results_of("ask", capabilities=ALL, forms=forms)

    assert results == ["decline: None", "cancel: None"]


async def test_url_request_of_a_server_is_shown_if_the_client_supports_urls() -> None:
    result, client = await result_of(
        "ask_to_visit", capabilities=ALL, forms=({"action": "accept"},)
    )

    assert result == "accept"
    assert client.questions[0]["url"] == "https://pay.example/1"


async def test_url_request_that_the_user_refuses_is_reported_to_the_server() -> None:
    """A server must not think that the user has paid."""
    forms = ({"action": "decline"}, {"action": "cancel"}, {"action": "sure"})

    results = await results_of("ask_to_visit", capabilities=ALL, forms=forms)

    assert results == ["decline", "cancel", "cancel"]


async def test_questions_of_a_server_are_declined_if_the_client_has_no_forms() -> None:
    calls = [reply(tool_use(f"mcp__full__{tool}", {})) for tool in ("ask", "ask_to_visit")]
    async with opened(*calls, reply("ok"), capabilities=None) as (api, client, id):
        await client.say(id, "go")

        results = [text_of(results_in(request.body)[0]) for request in api.requests[1:]]
        assert [each.partition(":")[0] for each in results] == ["decline", "decline"]
        assert "has a question, declined" in client.text()
        assert "wants you to visit a page, declined" in client.text()


async def test_sampling_by_a_server_needs_the_users_permission() -> None:
    call = reply(tool_use("mcp__full__think", {}))
    async with opened(call, reply("4"), call, reply("ok"), capabilities=None) as (api, client, id):
        client.permissions += ["once", "no"]
        await client.say(id, "go")

        shown = [str(question["toolCall"]["content"][0]) for question in client.asked]
        allowed, refused = (text_of(results_in(each.body)[0]) for each in api.requests[2:])
        assert ["2 + 2?" in each for each in shown] == [True, True]
        assert (": 4" in allowed, ": 4" in refused) == (True, False)
