import re
from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from agent_cli.contracts.servers import is_of_server, public_name
from tests.tables import each_row

ANY_NAME = st.text(max_size=90)


def test_ordinary_tool_names_are_kept() -> None:
    assert public_name("github", "create_issue") == "mcp__github__create_issue"
    longest = "mcp__github__".ljust(64, "t")
    assert public_name("github", longest.removeprefix("mcp__github__")) == longest


def test_changed_tool_name_ends_in_a_hash() -> None:
    """S1c-7: spaces, dots and other scripts do not reach the API; neither do 65 characters."""
    assert public_name("my server", "a.b") == "mcp__my_server__a_b_9528fd57"
    assert public_name("日本", "検索") == "mcp_________73b2f554"
    assert len(public_name("s" * 30, "t" * 40)) == 64


@given(ANY_NAME, ANY_NAME)
def test_every_public_tool_name_is_valid_for_the_api(server: str, tool: str) -> None:
    """S1c-7: one invalid name would make every request of the session fail."""
    assert re.fullmatch(r"mcp__[a-zA-Z0-9_-]{1,59}", public_name(server, tool))


@given(st.lists(st.tuples(ANY_NAME, ANY_NAME), unique=True, max_size=8))
def test_different_tools_have_different_public_names(pairs: list[tuple[str, str]]) -> None:
    """S1c-7: this holds for any characters and lengths."""
    assert len({public_name(*pair) for pair in pairs}) == len(pairs)


def test_names_that_are_no_valid_text_have_public_names_too() -> None:
    """S1c-7: JSON can hold half of a surrogate pair; the texts of the other tests never do."""
    names = [public_name("server", "\ud800"), public_name("server", "\udfff")]

    assert all(re.fullmatch(r"mcp__server____[0-9a-f]{8}", each) for each in names)
    assert names[0] != names[1]


def test_underscores_never_make_two_public_names_equal() -> None:
    """S1c-7: "a__b" + "c" and "a" + "b__c" look alike once joined; every short pair is tried."""
    parts = ["".join(letters) for size in range(5) for letters in product("a_", repeat=size)]
    pairs = list(product(parts, parts))

    assert len({public_name(*pair) for pair in pairs}) == len(pairs)


@given(ANY_NAME, ANY_NAME)
def test_public_name_matches_its_own_server(server: str, tool: str) -> None:
    """A definition names servers as the user wrote them, however long and in any characters."""
    assert is_of_server(public_name(server, tool), server)


@each_row("server", ["git", "github2", "hub", ""])
def test_public_name_does_not_match_another_server(server: str) -> None:
    assert not is_of_server("mcp__github__issues", server)
