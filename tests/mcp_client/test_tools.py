from typing import TYPE_CHECKING

from mcp_types import Tool, ToolAnnotations

from agent_cli.mcp_client import ServerConfig
from agent_cli.mcp_client.tools import wrap_tool

if TYPE_CHECKING:
    from mcp import Client


class NoServer:
    """A server nobody calls."""

    config = ServerConfig(name="srv", command="x")
    connected = False

    async def client(self) -> "Client":
        raise NotImplementedError

    def lose(self, client: "Client") -> None:
        raise NotImplementedError


def mcp_tool(
    description: str | None = None, *, title: str | None = None, read_only: bool | None = None
) -> Tool:
    return Tool(
        name="tool",
        title=title,
        description=description,
        input_schema={"type": "object"},
        annotations=ToolAnnotations(read_only_hint=read_only),
    )


def test_a_description_is_cut_at_two_kilobytes_of_whole_characters() -> None:
    """Every byte of it is sent with every request."""
    description = wrap_tool(NoServer(), mcp_tool("ä" * 3000)).description

    assert description.endswith("ä …")
    assert 2040 <= len(description.encode()) <= 2048
    assert "\ufffd" not in description


def test_hidden_characters_of_a_description_are_removed() -> None:
    """Escape codes, zero-width and direction marks, and the invisible tag alphabet."""
    text = "Reads\x1b[2J a\u200b\u202e file\x00\U000e0041\n\tline"

    assert wrap_tool(NoServer(), mcp_tool(text)).description == "Reads[2J a file\n\tline"


def test_a_tool_without_description_is_described_by_its_title() -> None:
    tool = wrap_tool(NoServer(), mcp_tool(title="Read a file"))

    assert (tool.label, tool.description) == ("srv: Read a file", "Read a file")


def test_a_tool_changes_things_unless_it_says_that_it_only_reads() -> None:
    """The hint is what the permission rules look at."""
    hints = (None, False, True)

    assert [wrap_tool(NoServer(), mcp_tool(read_only=h)).changes for h in hints] == [
        True,
        True,
        False,
    ]


def test_a_call_is_summarised_in_one_line() -> None:
    tool = wrap_tool(NoServer(), mcp_tool())

    assert tool.summary({}) == ""
    assert tool.summary({"path": "a.txt"}) == '{"path": "a.txt"}'
    assert len(tool.summary({"text": "x" * 500})) == 80
