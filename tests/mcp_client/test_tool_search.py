"""Which tools fit a query: word forms, accents, exact names, parameters."""

from collections.abc import Mapping
from dataclasses import replace
from typing import cast

import pytest

from agent_cli.contracts.timeline import Json
from agent_cli.contracts.tooling import Tool
from agent_cli.mcp_client.declared_tools import Deferral
from agent_cli.mcp_client.pool import McpServers
from agent_cli.mcp_client.resource_tools import resource_tools
from agent_cli.mcp_client.tool_index import ToolIndex
from tests.tables import each_row
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


@each_row(
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


def test_a_word_counts_most_in_a_name_and_least_in_the_text_of_a_parameter() -> None:
    """A tool is called what it is for; texts mention much else."""
    # Of equals the first by name would come first: each is behind the one that it must win against.
    tools = [
        replace(tool("zzz", "name_zeppelin_pilot", "x"), label="zzz: x"),
        replace(tool("zz", "title", "x"), label="zz: about a zeppelin"),
        tool("zeppelin", "server", "x"),
        tool("c", "description", "x zeppelin", {"y": "x"}),
        tool("b", "parameter", "x", {"zeppelin": "x"}),
        tool("a", "text", "x", {"y": "About a zeppelin"}),
    ]

    best = ToolIndex([*tools, *TOOLS]).best("zeppelin", 9)

    assert [each.name.split("__")[2].partition("_")[0] for each in best] == [
        *("name", "title", "server", "description", "parameter", "text")
    ]


def test_a_word_of_a_short_name_counts_more() -> None:
    """The name "list_issues" is all about listing issues, however much is said about it."""
    short = tool("b", "list_issues", "xylophone " * 18)
    long = tool("a", "list_closed_issues_having_labels", "")
    tools = [replace(each, label="x: x") for each in (short, long)]

    [first, *_] = ToolIndex([*tools, *TOOLS]).best("list issues", 5)

    assert first.name == "mcp__b__list_issues"


def test_the_word_itself_counts_more_than_one_like_it() -> None:
    """A synonym in a name must not win against the word in another name."""
    tools = [tool("a", "remove_page", "x"), tool("b", "delete_page", "x"), *TOOLS]

    found = [ToolIndex(tools).best(query, 2) for query in ("remove page", "delete page")]

    assert [[each.name for each in best] for best in found] == [
        ["mcp__a__remove_page", "mcp__b__delete_page"],
        ["mcp__b__delete_page", "mcp__a__remove_page"],
    ]


@pytest.mark.parametrize(("before", "is_found"), [(79, True), (80, False)])
def test_a_description_is_read_for_eighty_words(before: int, *, is_found: bool) -> None:
    """Some are whole manuals, whose examples would fit any query."""
    long = tool("a", "long", f"{'xylophone ' * before}zeppelin")

    assert ToolIndex([long, *TOOLS]).best("zeppelin", 1) == ([long] if is_found else [])


@each_row("query", ["", "the of", "zebra", "\ud800", "*" * 500])
def test_query_without_known_words_finds_nothing(query: str) -> None:
    assert ToolIndex(TOOLS).best(query, 5) == []
    assert ToolIndex([]).best(query, 5) == []


def test_tools_about_servers_only_read() -> None:
    """The search writes the session's state, and reading has the limit of its server."""
    no_server = cast("McpServers", None)
    tools = [Deferral(0)._search_tool(), *resource_tools(no_server, ())]

    assert [traits(tool) for tool in tools] == [
        {"label": "Find tools", "parallel_safe": False, "changes": False, "finds_tools": True},
        {"label": "resources: List MCP resources", "changes": False},
        {"label": "resources: Read an MCP resource", "changes": False, "timeout_s": 0},
    ]
