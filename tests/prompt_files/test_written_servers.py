"""The field `mcpServers` of an agent definition, in all its forms."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_cli.prompt_files.written_servers import WrittenServers, written_servers
from agent_cli.trust.effects import effects_of
from tests.tables import each_row

NPX = {"command": "npx", "args": ["-y", "x@1.10"]}
BLOCK = """
  - github
  - web:
      command: npx
      args: [-y, "x@1.10"]
"""


def of(written: str, *, key: str = "mcpServers") -> WrittenServers | None:
    text = f"---\nname: x\n{key}:{written}\ndescription: d\n---\nmcpServers: later"
    return written_servers(text)


@each_row(
    "written",
    [
        BLOCK,
        BLOCK.replace("\n  ", "\n").replace("\n-", "\n- ").replace("-  ", "- "),
        ' [github, {web: {command: npx, args: ["-y", x@1.10]}}]',
        ' [github, {"web": {"command": "npx", "args": ["-y", "x@1.10"]}}]',
        "\n  github:\n  web:\n    command: npx\n    args:\n      - -y\n      - x@1.10",
    ],
)
def test_mcp_servers_field_accepts_names_and_tables_in_any_yaml_form(written: str) -> None:
    assert of(written) == WrittenServers(("github", "web"), {"web": NPX})


@each_row(
    ("written", "names"), [(" a, b", ("a", "b")), (" [a, b]", ("a", "b")), ("", ()), (" []", ())]
)
def test_mcp_servers_field_accepts_names_separated_by_commas(
    written: str, names: tuple[str, ...]
) -> None:
    assert of(written) == WrittenServers(names)


def test_definition_without_the_mcp_servers_field_has_no_servers() -> None:
    """The text after the front matter does not count; the field's name may be in any case."""
    assert written_servers("---\nname: x\n---\nmcpServers: a") is None
    assert of(" a", key="McpServers") == WrittenServers(("a",))


def test_mcp_server_values_are_kept_as_text() -> None:
    """YAML would read numbers and booleans here, but a program needs the text as written."""
    servers = of("\n  a:\n    args: [1.10, no, 0o17]")

    assert servers
    assert servers.entries == {"a": {"args": ["1.10", "no", "0o17"]}}


@each_row(
    ("written", "said"),
    [
        (" {a: &x {b: c}, d: *x}", "its mcpServers must not have aliases (*name)"),
        (" {a: b}", "its mcpServers must be names of servers, or names with a table each"),
        (" [a", "its mcpServers cannot be read as YAML: "),
        (" \x01", "its mcpServers cannot be read as YAML: "),
        (f" {'[' * 60_000}", "its mcpServers must not have more than 500 opening brackets"),
        (" " * 65_000 + "a", "its mcpServers must not have more than 64000 characters"),
        (f" {'[' * 400}{']' * 400}", "its mcpServers is nested too deeply"),
    ],
)
def test_invalid_mcp_servers_field_is_an_error_that_names_the_field(
    written: str, said: str
) -> None:
    with pytest.raises(ValueError, match=r"^its mcpServers ") as wrong:
        of(written)

    assert str(wrong.value).startswith(said)


@settings(deadline=None, derandomize=True)
@given(st.text(alphabet="-: []{}&*#'\"\n\tab\\!|>", max_size=60))
def test_arbitrary_text_is_parsed_as_servers_or_refused_with_a_sentence(written: str) -> None:
    try:
        servers = of(written)
    except ValueError as error:
        assert str(error).startswith("its mcpServers ")
    else:
        assert servers
        assert {*servers.entries} <= {*servers.names}


def test_trust_question_shows_the_servers_an_agent_definition_starts() -> None:
    """A server in a definition starts a program, so the user must see it first."""
    path = Path.cwd() / ".claude/agents/helped.md"
    path.parent.mkdir(parents=True)
    env = "      env: {LD_PRELOAD: ./x.so}\n"
    path.write_text(f"---\nname: helped\ndescription: d\nmcpServers:{BLOCK}{env}---\nDo.")

    assert [*effects_of([path], Path.cwd())] == [
        (
            "tells an agent called helped what to do, when the model starts it",
            "starts npx -y x@1.10 with LD_PRELOAD=./x.so (MCP server web), for that agent",
        )
    ]
    path.write_text("---\nname: helped\ndescription: d\nmcpServers: [a\n---\nDo.")
    (effects,) = effects_of([path], Path.cwd())
    assert effects[1].startswith("cannot be used as it is: its mcpServers ")
