"""Which tools fit a query: word forms, accents, exact names, parameters."""

from collections.abc import Mapping
from typing import cast

import pytest

from agent_cli.contracts.timeline import Json
from agent_cli.contracts.tooling import Tool
from agent_cli.mcp_client.deferral import Deferral, ToolIndex
from agent_cli.mcp_client.resource_tools import Resources, resource_tools
from tests.tool_traits import traits


async def nothing(*_given: object) -> str:
    return ""


def tool(server: str, name: str, description: str, parameters: Mapping[str, str] = {}) -> Tool:
    properties: dict[str, Json] = {
        each: {"type": "string", "description": said} for each, said in parameters.items()
    }
    return Tool(
        name=f"mcp__{server}__{name}",
        label=f"{server}: {name}",
        description=description,
        parameters={"type": "object", "properties": properties},
        execute=nothing,
    )


TOOLS = [
    *(tool("many", f"tool_number_{n}", "Does something") for n in range(1, 120)),
    tool("sql", "list_databases", "Returns the names of all databases"),
    tool("sql", "list_tables", "Returns the tables of a database"),
    tool("sql", "run_query", "Executes a statement", {"sql": "The statement"}),
    tool("notes", "createComment", "Adds a remark to a page"),
    tool("notes", "API-retrieve-page", "Retrieve a page"),
    tool("notes", "archive", "Moves pages out of sight, with their comments"),
    tool("jobs", "parse_resume", "Reads the CV of an applicant"),
    tool("jobs", "go", "Starts"),
    tool("git", "getPR", "Fetches a pull request"),
    tool("web", "load", "Loads something", {"url": "The address of the page"}),
    tool("wetter", "vorhersage", "天気予報を取得する"),
]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("tool_number_77", "mcp__many__tool_number_77"),
        ("mcp__many__tool_number_77", "mcp__many__tool_number_77"),
        ("list databases", "mcp__sql__list_databases"),
        ("listing every database", "mcp__sql__list_databases"),
        ("comment on a page", "mcp__notes__createComment"),
        ("résumé", "mcp__jobs__parse_resume"),
        ("go", "mcp__jobs__go"),
        ("pr", "mcp__git__getPR"),
        ("executing statements", "mcp__sql__run_query"),
        ("url", "mcp__web__load"),
        ("天気", "mcp__wetter__vorhersage"),
    ],
)
def test_best_tool_for_a_query_comes_first(query: str, found: str) -> None:
    """Issue reports: forms of words, names without their prefix, short and accented words."""
    assert [each.name for each in ToolIndex(TOOLS).best(query, 3)][:1] == [found]


def test_all_tools_named_in_a_query_are_found() -> None:
    best = ToolIndex(TOOLS).best("list_tables, run_query and tool_number_5", 3)

    assert {each.name for each in best} == {
        *("mcp__sql__list_tables", "mcp__sql__run_query", "mcp__many__tool_number_5")
    }


@pytest.mark.parametrize("query", ["", "the of", "zebra", "\ud800", "*" * 500])
def test_query_without_known_words_finds_nothing(query: str) -> None:
    assert ToolIndex(TOOLS).best(query, 5) == []
    assert ToolIndex([]).best(query, 5) == []


def test_tools_about_servers_only_read() -> None:
    """The search writes the session's state, and reading has the limit of its server."""
    no_server = cast("Resources", None)
    tools = [Deferral(0)._search_tool(), *resource_tools(no_server, ())]

    assert [traits(tool) for tool in tools] == [
        {"label": "Find tools", "parallel_safe": False, "changes": False, "finds_tools": True},
        {"label": "resources: List MCP resources", "changes": False},
        {"label": "resources: Read an MCP resource", "changes": False, "timeout_s": 0},
    ]
