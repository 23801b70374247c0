"""Completions from MCP servers at the cursor."""

import asyncio
from collections.abc import Sequence

import pytest
from prompt_toolkit.completion import Completion

from agent_cli.contracts.servers import ServerResource
from agent_cli.repl.live.input import completion
from agent_cli.repl.live.input.completion import Ask, PromptChoices, ResourceChoices, asking
from tests.repl.scripted_servers import DAYS, GREET, TODAY, Servers

PAGE = ServerResource(server="docs", uri="page://{lang}/{day}/end", name="Page", is_template=True)
SPACED = ServerResource(server="docs", uri="note://two words", name="Two")


def texts(found: Sequence[Completion]) -> list[str]:
    return [choice.text for choice in found]


async def resources(before: str, *known: ServerResource) -> list[Completion]:
    choices = ResourceChoices(Servers(known=known), asking(asyncio.get_running_loop()))
    return await asyncio.to_thread(lambda: [*choices(before)])


async def arguments(before: str) -> list[Completion]:
    choices = PromptChoices(Servers(offered=[GREET]), asking(asyncio.get_running_loop()))
    return await asyncio.to_thread(lambda: [*choices(before)])


async def test_at_sign_offers_servers_and_a_server_name_offers_its_resources() -> None:
    """Another source offers files; a quoted name is one word."""
    known = (TODAY, DAYS, SPACED)

    assert texts(await resources("see @", *known)) == ["docs:"]
    assert texts(await resources("see @x", *known)) == []
    assert texts(await resources("see @docs:", *known)) == [
        "docs:note://today",
        "docs:note://",
        '"docs:note://two words"',
    ]
    [today] = await resources("see @docs:toda", TODAY)
    assert (today.start_position, today.display_text) == (-9, "note://today")
    assert today.display_meta_text == "A note"


async def test_server_suggests_values_for_a_resource_template() -> None:
    """Variable by variable, from the left."""
    assert texts(await resources("@docs:note://m", DAYS)) == ["docs:note://monday"]
    assert texts(await resources("@docs:page://en/t", PAGE)) == ["docs:page://en/tuesday/end"]
    assert texts(await resources("@docs:page://e", PAGE)) == []


async def test_template_of_many_variables_is_matched_in_no_time() -> None:
    """A hostile one used to stop the program for hours."""
    uri = "x:" + "".join(f"{{v{number}}}" for number in range(20)) + "!{day}"
    hostile = ServerResource(server="docs", uri=uri, name="Many", is_template=True)
    endless = ServerResource(server="docs", uri="x:" + "{v" * 50_000, name="No", is_template=True)

    assert texts(await resources(f"@docs:x:{'a' * 200}", hostile, endless)) == []
    assert texts(await resources(f"@docs:x:{'a' * 200}!tu", hostile)) == [
        f"docs:x:{'a' * 200}!tuesday"
    ]


async def test_server_suggests_prompt_arguments_one_by_one() -> None:
    """Quoted text before the cursor is one argument."""
    assert texts(await arguments("/mcp__docs__greet Anna ")) == ["warm", "cold"]
    [warm] = await arguments("/mcp__docs__greet Anna 'war'")
    assert (warm.text, warm.start_position) == ("warm", -5)
    [cold] = await arguments('/mcp__docs__greet "Anna B" "c')
    assert (cold.text, cold.start_position, cold.display_meta_text) == ("cold", -2, "style")
    for before in ("/mcp__docs__greet An", "/mcp__docs__greet a b ", "/other a ", "x /mcp__docs__"):
        assert texts(await arguments(before)) == []


async def test_missing_or_silent_server_suggests_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Typing continues, whatever a server does."""
    monkeypatch.setattr(completion, "_LIMIT_S", 0.01)
    given_up = asyncio.Event()

    async def silence() -> Sequence[str]:
        try:
            await asyncio.Event().wait()
        finally:
            given_up.set()
        return ()

    none: Ask = asking(asyncio.get_running_loop())
    servers = Servers(listed=(), known=[DAYS])

    assert (
        await asyncio.to_thread(lambda: [*ResourceChoices(servers, none)("@docs:note://m")]) == []
    )
    assert await asyncio.to_thread(none, silence()) == ()
    await given_up.wait()


async def test_completion_after_the_end_of_the_session_suggests_nothing() -> None:
    """Its thread outlives the event loop; the question must not be reported as never awaited."""
    ended = asyncio.new_event_loop()
    ended.close()
    choices = ResourceChoices(Servers(known=(DAYS,)), asking(ended))

    assert await asyncio.to_thread(lambda: [*choices("@docs:note://m")]) == []
