import re
from contextlib import nullcontext
from dataclasses import replace

import pytest

from agent_cli.contracts.cancel import CancelToken
from agent_cli.contracts.errors import ToolError
from agent_cli.contracts.found_tools import added_by, change_of, definition_in, reference_to
from agent_cli.contracts.messages import UserMessage
from agent_cli.contracts.servers import public_name, tool_tokens
from agent_cli.contracts.timeline import Json, text_block
from agent_cli.contracts.tooling import Tool, ToolContext, ToolResult, check_input
from agent_cli.mcp_client.declared_tools import SEARCH_TOOL, Deferral, Withdrawals, gone_of


async def nothing(
    _id: str, _params: dict[str, Json], _cancel: CancelToken, _context: ToolContext
) -> str:
    return ""


def tool(name: str, description: str) -> Tool:
    return Tool(
        name=f"mcp__{name}",
        label=f"{name.partition('__')[0]}: {name}",
        description=description,
        parameters={"type": "object"},
        execute=nothing,
    )


TOOLS = (
    tool("git__commit", "Record changes in the repository"),
    tool("git__log", "Show the commits of a branch"),
    tool("mail__send", "Send a message to somebody"),
)


def names(tools: tuple[Tool, ...]) -> list[str]:
    return [each.name for each in tools]


async def find(offered: tuple[Tool, ...], query: str, state: dict[str, Json]) -> str:
    [search] = [each for each in offered if each.name == SEARCH_TOOL]
    params = check_input(search, {"query": query})
    result = await search.execute("1", params, CancelToken(), ToolContext(state=state))
    assert isinstance(result, ToolResult)
    return result.text


def test_all_tools_are_offered_within_the_token_budget() -> None:
    """Without a budget, all are offered, too."""
    enough = sum(map(tool_tokens, TOOLS))

    assert Deferral(enough).offered(TOOLS, {}) == TOOLS
    assert Deferral(0).offered(TOOLS, {}) == TOOLS


async def test_tools_over_the_token_budget_are_offered_once_a_search_finds_them() -> None:
    """They come with the full schema, so that the model does not guess; the state is kept."""
    state: dict[str, Json] = {}
    deferral = Deferral(1)
    first = deferral.offered(TOOLS, state)
    said = await find(first, "send a mail message", state)
    second = deferral.offered(TOOLS, state)

    assert names(first) == [SEARCH_TOOL]
    assert first[0].description.endswith("git: commit, log; mail: send")
    assert said == ("These can be called now:\nmcp__mail__send: Send a message to somebody")
    assert names(second) == [SEARCH_TOOL, "mcp__mail__send"]
    assert names(Deferral(1).offered(TOOLS, state)) == names(second)


def test_always_loaded_tools_are_neither_deferred_nor_counted() -> None:
    deferral = Deferral(sum(map(tool_tokens, TOOLS[:2])))
    mail = TOOLS[2].name

    assert names(deferral.offered(TOOLS, {})) == [SEARCH_TOOL]
    assert deferral.offered(TOOLS, {}, always={mail}) == TOOLS
    assert names(Deferral(1).offered(TOOLS, {}, always={mail})) == [SEARCH_TOOL, mail]


async def test_tool_search_ranks_best_matches_first_and_finds_them_again() -> None:
    """What referred to them may be summarised by now."""
    state: dict[str, Json] = {}
    deferral = Deferral(1)
    said = await find(deferral.offered(TOOLS, state), "commits", state)
    again = await find(deferral.offered(TOOLS, state), "commits", state)

    assert said.splitlines()[1].startswith("mcp__git__commit:")
    assert names(deferral.offered(TOOLS, state)) == [
        SEARCH_TOOL,
        "mcp__git__commit",
        "mcp__git__log",
    ]
    assert again == said


async def test_a_search_finds_five_tools_and_says_each_in_one_short_line() -> None:
    """Each costs its definition from then on; the line only says why it was found."""
    tools = tuple(tool(f"git__list_{n}", f"List\nthings {'x' * 200}") for n in range(9))
    state: dict[str, Json] = {}
    deferral = Deferral(1)

    said = await find(deferral.offered(tools, state), "list things", state)

    shown = f"List things {'x' * 148}"
    assert said.splitlines()[1:] == [f"mcp__git__list_{n}: {shown}" for n in range(5)]
    assert len(deferral.offered(tools, state)) == 1 + 5


@pytest.mark.parametrize(("chars", "is_taken"), [(500, True), (501, False)])
async def test_a_query_has_at_most_500_characters(chars: int, *, is_taken: bool) -> None:
    """A model that pastes a file there is told so."""
    offered = Deferral(1).offered(TOOLS, {})

    with nullcontext() if is_taken else pytest.raises(ToolError, match="at most 500 characters"):
        await find(offered, "q" * chars, {})


def test_search_tool_keeps_its_position_when_tools_are_found() -> None:
    """Prompt caches need a stable order."""
    state: dict[str, Json] = {"mcp_found_tools": ["mcp__mail__send", "gone", 7]}

    assert names(Deferral(1).offered(TOOLS, state)) == [SEARCH_TOOL, "mcp__mail__send"]


def test_tools_once_offered_stay_when_later_ones_exceed_the_budget() -> None:
    """The cached prefix loses nothing; what came later is told in a message, once."""
    state: dict[str, Json] = {}
    deferral = Deferral(sum(map(tool_tokens, TOOLS[:2])))
    before = deferral.offered(TOOLS[:2], state)
    after = deferral.offered(TOOLS, state)
    more = tool("mail__read", "Read a message")
    later = deferral.offered((*TOOLS[:2], more, TOOLS[2]), state)

    assert names(before) == names(TOOLS[:2])
    assert names(after) == [SEARCH_TOOL, *names(TOOLS[:2])]
    assert [each.spec for each in later] == [each.spec for each in after]
    assert deferral.news() == ("[agent-cli: find_tools finds more tools now: mail: read]", ())
    assert deferral.news() == ("", ())


def test_tools_that_come_after_the_first_request_are_added_until_a_message_says_so() -> None:
    """After a summary no message does, and they are said again; so is what a server redefines."""
    deferral = Deferral(0)
    first = deferral.offered(TOOLS[:1], {}, added={})
    later = deferral.offered(TOOLS, {}, added={})
    text, unsaid = deferral.news()
    said = {each.name: definition_in(reference_to(each.spec)) or {} for each in unsaid}
    deferral.offered(TOOLS, {}, added=said)

    assert [each.is_deferred for each in first] == [False]
    assert [each.is_deferred for each in later] == [False, True, True]
    assert text == "[agent-cli: these tools can be called from now on: git: log; mail: send]"
    assert list(unsaid) == list(later[1:])
    assert deferral.news() == ("", ())

    deferral.offered((*TOOLS[:2], replace(TOOLS[2], description="Send mail")), {}, added=said)
    assert names(tuple(deferral.news()[1])) == ["mcp__mail__send"]
    deferral.offered(TOOLS, {}, added={})
    assert names(tuple(deferral.news()[1])) == ["mcp__git__log", "mcp__mail__send"]


def test_resumed_session_declares_what_it_declared_before() -> None:
    """What its messages add stays there: the server may still have the rest in its cache."""
    said = {TOOLS[1].name: definition_in(reference_to(TOOLS[1].spec)) or {}}
    resumed = Deferral(0)
    offered = resumed.offered(TOOLS, {}, added=said)

    assert [each.is_deferred for each in offered] == [False, True, False]
    assert resumed.news() == ("", ())


async def test_search_tool_is_added_when_late_tools_exceed_the_budget() -> None:
    """The tools before keep their place; what the search finds is referred to by its result."""
    state: dict[str, Json] = {}
    deferral = Deferral(sum(map(tool_tokens, TOOLS[:2])))
    deferral.offered(TOOLS[:2], state, added={})
    offered = deferral.offered(TOOLS, state, added={})
    _, unsaid = deferral.news()
    said = {each.name: definition_in(reference_to(each.spec)) or {} for each in unsaid}
    await find(offered, "send mail", state)
    after = deferral.offered(TOOLS, state, added=said)

    assert names(tuple(unsaid)) == [SEARCH_TOOL]
    assert [each.name for each in after if not each.is_deferred] == names(TOOLS[:2])
    assert names(tuple(each for each in after if each.is_deferred)) == [
        SEARCH_TOOL,
        "mcp__mail__send",
    ]
    assert deferral.news() == ("", ())


def test_names_of_many_tools_share_a_budget_by_server() -> None:
    """A server with hundreds of tools must not push the names of another one out."""
    many = tuple(tool(f"big__operation_number_{n}", "Does it") for n in range(900))

    [search] = Deferral(1).offered((*many, *TOOLS), {})

    assert 3_900 < len(search.description) < 4_200
    assert "git: commit, log; mail: send" in search.description
    assert "operation_number_9" in search.description
    assert re.search(r"operation_number_\d+, \d+ more; git", search.description)


async def test_names_of_many_tools_in_a_message_take_half_of_that() -> None:
    """It stays in the history, and a search finds the rest."""
    many = tuple(tool(f"big__operation_number_{n}", "Does it") for n in range(900))
    deferral = Deferral(1)
    offered = deferral.offered(TOOLS, {})
    later = deferral.offered((*TOOLS, *many), {})

    news, _ = deferral.news()
    nothing_fits = await find(later, "zebra", {})

    assert names(offered) == names(later) == [SEARCH_TOOL]
    assert 1_950 < len(news) < 2_100
    assert 1_950 < len(nothing_fits) < 2_100


def test_tool_of_an_earlier_process_that_its_server_lists_no_more_is_withdrawn_once() -> None:
    """The model still knew it, and called it. A server that is not there yet says nothing."""
    old, kept = tool("docs__old", "Old"), tool("docs__kept", "Kept")
    context = [UserMessage(tuple(reference_to(each.spec) for each in (old, kept)))]
    withdrawals = Withdrawals()

    missing = gone_of(added_by(context), [], ["web"])
    others = [UserMessage((reference_to(replace(old, name=public_name("docs__old", "a")).spec),))]
    missing += gone_of(added_by(others), [], ["docs"], ["docs__old"])
    gone = gone_of(added_by(context), [kept], ["docs", "web"])
    offered = withdrawals.declared([replace(kept, is_deferred=True)], is_new=False, gone=gone)
    text, blocks = withdrawals.news(context)
    told = [*context, UserMessage((text_block(text), *blocks))]
    withdrawals.declared([replace(kept, is_deferred=True)], is_new=False, gone=gone)
    again = withdrawals.news(told)

    assert missing == []
    assert [(each.name, each.is_withdrawn) for each in offered] == [
        ("mcp__docs__kept", False),
        ("mcp__docs__old", True),
    ]
    assert text == "[agent-cli: these tools cannot be called for now: docs: old]"
    assert blocks == [change_of("mcp__docs__old", there=False)]
    assert again == ("", [])
