from pathlib import Path
from typing import TYPE_CHECKING

from mcp_types import Tool, ToolAnnotations

from agent_cli.contracts.servers import public_name
from agent_cli.mcp_client import ServerConfig
from agent_cli.mcp_client.host import Host, Pins
from agent_cli.mcp_client.limits import SilenceLimits, Uses
from agent_cli.mcp_client.offering import Offering, definition, wrap_tool, wrap_tools

if TYPE_CHECKING:
    from mcp import Client


class NoServer:
    """A server that is never called."""

    config = ServerConfig(name="srv", command="x")
    host = Host()
    silence_limits = SilenceLimits()
    uses = Uses()
    connected = False
    fault = ""
    stderr_quote = ""

    async def client(self) -> "Client":
        raise NotImplementedError

    def lose(self, client: "Client") -> None:
        raise NotImplementedError

    def doubt(self, client: "Client", *, is_cancelled: bool) -> None:
        raise NotImplementedError

    def note_end(
        self, client: "Client", *, needs_sign_in: bool | None = None, fault: str = ""
    ) -> None:
        raise NotImplementedError


OFFERING = Offering(NoServer())


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


def test_tool_description_is_cut_at_two_kilobytes() -> None:
    """Every byte of it is sent with every request."""
    description = wrap_tool(OFFERING, mcp_tool("ä" * 3000)).description

    assert description.endswith("ä …")
    assert 2040 <= len(description.encode()) <= 2048
    assert "\ufffd" not in description


def test_hidden_characters_of_a_description_are_removed() -> None:
    """These are escape codes, zero-width and direction marks, and invisible tag characters."""
    text = "Reads\x1b[2J a\u200b\u202e file\x00\U000e0041\n\tline"

    assert wrap_tool(OFFERING, mcp_tool(text)).description == "Reads[2J a file\n\tline"


def test_a_tool_without_description_is_described_by_its_title() -> None:
    tool = wrap_tool(OFFERING, mcp_tool(title="Read a file"))

    assert (tool.label, tool.description) == ("srv: Read a file", "Read a file")


def test_tool_without_a_read_only_hint_counts_as_changing() -> None:
    """The permission rules rely on the hint."""
    hints = (None, False, True)

    assert [wrap_tool(OFFERING, mcp_tool(read_only=h)).changes for h in hints] == [
        True,
        True,
        False,
    ]


def test_mcp_call_is_summarised_in_one_line() -> None:
    tool = wrap_tool(OFFERING, mcp_tool())

    assert tool.summary({}) == ""
    assert tool.summary({"path": "a.txt"}) == '{"path": "a.txt"}'
    assert len(tool.summary({"text": "x" * 500})) == 80


def test_tool_lists_of_a_server_choose_which_tools_are_offered(tmp_path: Path) -> None:
    """Every tool costs tokens in every request; tools left out on purpose need no report."""
    tools = [mcp_tool().model_copy(update={"name": name}) for name in ("read_a", "read_b", "drop")]

    def offered(*, enabled: tuple[str, ...] = (), disabled: tuple[str, ...] = ()) -> list[str]:
        server = NoServer()
        server.config = ServerConfig(
            name="srv", command="x", enabled_tools=enabled, disabled_tools=disabled
        )
        server.host = Host(pins=Pins(tmp_path / "pins.json"))
        wrapped = wrap_tools(Offering(server), tools)
        assert wrapped.absent == {}
        return [tool.name.removeprefix("mcp__srv__") for tool in wrapped.tools]

    assert offered() == ["read_a", "read_b", "drop"]
    assert offered(enabled=("read_*",)) == ["read_a", "read_b"]
    assert offered(enabled=("read_*",), disabled=("read_b",)) == ["read_a"]
    assert offered(disabled=("*",)) == []


def test_everything_the_model_reads_of_a_tool_is_pinned() -> None:
    """Of a long text, only the part that is sent counts; hidden characters count, too."""

    def pinned(description: str | None, title: str | None = None) -> str:
        tool = mcp_tool(description, title=title)
        return definition(tool, wrap_tool(OFFERING, tool))

    expected = 'tool\n\n{}\n\n{{\n  "type": "object"\n}}\n'
    assert pinned("a\u200b") == expected.format("a\u200b")
    assert pinned("a\u200b" + "x" * 5000) == expected.format("a" + "x" * 2043 + " …")
    assert pinned(None, "A title") == expected.format("A title")


def test_read_only_hint_added_later_changes_the_pinned_definition() -> None:
    """Threat 6: read-only tools run unasked."""
    before = mcp_tool()
    after = before.model_copy(update={"annotations": ToolAnnotations(read_only_hint=True)})

    pinned, now = (definition(tool, wrap_tool(OFFERING, tool)) for tool in (before, after))

    assert now == f"{pinned}\nIt says that it only reads: it runs unasked.\n"


def test_destructive_hint_overrides_the_read_only_hint() -> None:
    """A server may contradict itself; the cautious reading counts."""
    hints = ToolAnnotations(read_only_hint=True, destructive_hint=True)

    assert wrap_tool(OFFERING, mcp_tool().model_copy(update={"annotations": hints})).changes


def test_no_server_can_take_the_name_of_a_built_in_tool() -> None:
    """S1c-7: whatever the names of server and tool, the full name marks it as a server's."""
    for server, tool in (("", "bash"), ("bash", ""), ("read", "read"), ("__", "__"), ("", "")):
        assert public_name(server, tool).startswith("mcp__")
