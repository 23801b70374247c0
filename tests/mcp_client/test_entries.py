import json
from dataclasses import replace
from pathlib import Path

import pytest

from agent_cli.contracts.errors import SettingsError
from agent_cli.mcp_client import (
    ConfigFile,
    ServerConfig,
    ServerProblem,
    read_config_file,
    server_config,
)
from agent_cli.mcp_client.config import Expansion, OAuth
from agent_cli.system.asked_program import child_environment
from tests.tables import each_row


def write(path: Path, servers: object) -> Path:
    path.write_text(json.dumps({"mcpServers": servers}))
    return path


@pytest.mark.parametrize(
    ("directory", "expected"),
    [("/mnt/tools", "/mnt/tools:/t:ro"), ("", "/home/me/.tools:/t:ro")],
)
def test_default_of_a_variable_may_hold_another_one(directory: str, expected: str) -> None:
    """The first } used to end it: a path ending in "}" was mounted."""
    environment = {"DIR": directory, "HOME": "/home/me"}

    assert Expansion(environment).of("args", "${DIR:-${HOME}/.tools}:/t:ro") == expected


@each_row(
    ("written", "expected"),
    [
        ("${X:-${Y:-${Z:-${HOME}}/a}/b}/c", "/home/me/a/b/c"),
        ("${X:-${HOME}}${HOME:-${X}}}", "/home/me/home/me}"),
        ("${X:-${HOME}", "${X:-/home/me"),
        ("${ ${HOME} } ${X-1} $HOME }", "${ /home/me } ${X-1} $HOME }"),
        ('${X:-{"a":1}}', '{"a":1}'),
        ("${SET:-${X}}", "${HOME}"),
    ],
)
def test_defaults_end_where_those_in_them_have_ended(written: str, expected: str) -> None:
    """And a value is never expanded."""
    environment = {"HOME": "/home/me", "SET": "${HOME}"}

    assert Expansion(environment).of("args", written) == expected


@pytest.mark.parametrize("begin", ["${A:-", "${", "${A:-${"])
def test_defaults_without_an_end_are_read_in_linear_time(begin: str) -> None:
    """A file of 6 KB of a repository held the program for a minute."""
    text = begin * 5_000

    assert Expansion({}).of("args", text) == text


def test_defaults_nested_too_deeply_are_an_error() -> None:
    with pytest.raises(SettingsError, match='"args" nests more than 50 variables'):
        Expansion({}).of("args", "${A:-" * 51 + "}" * 51)


def test_claude_code_server_file_is_read_with_all_its_keys(tmp_path: Path) -> None:
    """S1-42: the file has all keys and transports, and variables with and without a default."""
    path = write(
        tmp_path / ".mcp.json",
        {
            "local": {
                "command": "${BIN}/server",
                "args": ["--root", "${ROOT:-/srv}", "$PLAIN", "${EMPTY:-full}"],
                "env": {"TOKEN": "${TOKEN}"},
                "cwd": "${ROOT:-/srv}/work",
                "timeout": 5000,
            },
            "remote": {
                "type": "http",
                "url": "https://${HOST}/mcp",
                "headers": {"Authorization": "Bearer ${TOKEN}"},
            },
            "old": {"type": "sse", "url": "https://example.com/sse", "disabled": True},
            "guessed": {"url": "https://example.com/mcp"},
            "alias": {"type": "streamable-http", "url": "https://example.com/mcp", "timeout": 5},
            "other": {"type": "remote", "url": "https://example.com/mcp"},
        },
    )
    environment = {"BIN": "/opt", "TOKEN": "t0ken", "HOST": "example.com", "EMPTY": ""}

    found = read_config_file(path, environment, startup_timeout_s=7, call_timeout_s=70)

    base = ServerConfig(name="", source=str(path), startup_timeout_s=7, call_timeout_s=70)
    remote = replace(base, transport="http", url="https://example.com/mcp")
    assert found.problems == ()
    assert found.servers == (
        replace(
            base,
            name="local",
            command="/opt/server",
            args=("--root", "/srv", "$PLAIN", "full"),
            env={"TOKEN": "t0ken"},
            cwd="/srv/work",
            call_timeout_s=5,
        ),
        replace(remote, name="remote", headers={"Authorization": "Bearer t0ken"}),
        replace(base, name="old", transport="sse", url="https://example.com/sse", enabled=False),
        replace(remote, name="guessed"),
        replace(remote, name="alias"),
        replace(remote, name="other"),
    )


def test_invalid_server_entry_does_not_affect_the_others(tmp_path: Path) -> None:
    """Each problem names the file, the server, the key and the remedy."""
    path = write(
        tmp_path / ".mcp.json",
        {
            "unset": {"command": "x", "env": {"KEY": "${NOT_SET}"}},
            "empty": {},
            "nowhere": {"type": "http"},
            "odd": {"type": "carrier pigeon", "command": "x"},
            "text": "npx server",
            "args": {"command": "x", "args": "--flag"},
            "helper": {"command": "x", "headersHelper": "./token.sh"},
            "socket": {"type": "ws", "url": "wss://x/mcp"},
            "plain socket": {"url": "WSS://x/mcp"},
            "header": {"url": "https://x/mcp", "headers": {"X-Name": "Zoë"}},
            "lines": {"url": "https://x/mcp", "headers": {"X-Key": "s3cret\nX-B: y"}},
            "space": {"url": "https://x/mcp", "headers": {"X Key": "s3cret"}},
            "bracket": {"url": "http://[::1"},
            "port": {"url": "http://127.0.0.1:99999/mcp"},
            "issuer": {"url": "https://x/mcp", "oauth": {"issuer": "http://[::1"}},
            "long": {"command": "x", "timeout": 10**400},
            "good": {"command": "x"},
        },
    )

    found = read_config_file(path, {})
    no_socket = (
        "servers over WebSocket cannot be used: MCP has no such transport; ask its author for the"
        ' address of streamable HTTP, and write "type": "http"'
    )
    no_header = (
        'is no header of HTTP: its name has no space, ":" or other separator, and its text is'
    )

    assert [server.name for server in found.servers] == ["good"]
    assert found.problems == tuple(
        ServerProblem(name, f"{path}: mcpServers.{name}: {reason}")
        for name, reason in {
            "unset": (
                '"env.KEY" uses ${NOT_SET}, which is not set; set it or write ${NOT_SET:-default}'
            ),
            "empty": '"command" is missing, the program that is the server, or "url", its address',
            "nowhere": '"url" is missing, which a server of type "http" needs',
            "odd": "\"type\" must be 'stdio', 'http' or 'sse'",
            "text": "a server is an object, {...}",
            "args": '"args" must be a list',
            "helper": '"headersHelper" makes headers, which only a server with a "url" gets',
            "socket": no_socket,
            "plain socket": no_socket,
            "header": f'"headers.X-Name" {no_header} one line of ASCII',
            "lines": f'"headers.X-Key" {no_header} one line of ASCII',
            "space": f'"headers.X Key" {no_header} one line of ASCII',
            "bracket": '"url" is not a web address; write it like https://example.com/mcp',
            "port": '"url" is not a web address; write it like https://example.com/mcp',
            "issuer": '"oauth.issuer" is not a web address; write it like https://example.com/mcp',
            "long": '"timeout" must be at most 1000000000000',
        }.items()
    )


def test_line_break_behind_a_secret_is_left_out(tmp_path: Path) -> None:
    """Files with secrets end with one, and so do the variables that are read from them."""
    headers = {"Authorization": "Bearer ${TOKEN}"}
    path = write(tmp_path / ".mcp.json", {"web": {"url": "https://x/mcp", "headers": headers}})

    [server] = read_config_file(path, {"TOKEN": "s3cret\n"}).servers

    assert server.headers == {"Authorization": "Bearer s3cret"}


def test_missing_server_file_has_no_servers(tmp_path: Path) -> None:
    assert read_config_file(tmp_path / ".mcp.json", {}) == ConfigFile()


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b'{"mcpServers": {\n  "a": {;}}', "mcp.json:2 is not valid JSON: "),
        (b"[]", 'must hold {"mcpServers": {name: {...}, ...}}'),
        (b'{"mcpServers": []}', 'must hold {"mcpServers": {name: {...}, ...}}'),
        (b'{"servers": {"a": {}}}', 'must hold {"mcpServers": {name: {...}, ...}}'),
        (b'{"a": {"command": "x"}}', 'must hold {"mcpServers": {name: {...}, ...}}'),
        (b'{"a": "\xff"}', "is not UTF-8 at byte 7"),
        (b" " * 4_000_001, "has more than 4 million characters; move it away"),
        (b"[" * 100_000, "is nested too deeply"),
        (b"[%b]" % (b"1" * 5_000), "holds a number that is too long"),
    ],
    ids=["semicolon", "list", "no table", "other key", "bare", "bytes", "long", "nested", "digits"],
)
def test_malformed_server_file_error_says_where(
    tmp_path: Path, content: bytes, complaint: str
) -> None:
    path = tmp_path / ".mcp.json"
    path.write_bytes(content)

    with pytest.raises(SettingsError) as caught:
        read_config_file(path, {})

    assert str(caught.value).startswith(str(path))
    assert complaint in str(caught.value)


def test_directory_in_place_of_the_server_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="cannot be read: Is a directory"):
        read_config_file(tmp_path, {})


def test_server_entry_in_our_settings_follows_the_same_rules() -> None:
    """A problem in it names only the server, as there is no file."""
    entry = {"transport": "stdio", "command": "x", "protocol": "auto", "startup_timeout_s": 3}

    assert server_config("mine", entry, {}) == ServerConfig(
        name="mine", command="x", protocol="auto", startup_timeout_s=3
    )
    assert server_config("mine", {}, {}) == ServerProblem(
        "mine",
        "MCP server 'mine': \"command\" is missing, the program that is the server, or"
        ' "url", its address',
    )


def test_server_environment_has_our_credentials_only_if_named() -> None:
    inherited = {
        "PATH": "/bin",
        "HTTPS_PROXY": "http://proxy",
        "ANTHROPIC_API_KEY": "ours",
        "ANTHROPIC_AUTH_TOKEN": "ours",
        "AGENT_CLI_MODEL": "ours",
    }

    environment = child_environment(inherited, {"ANTHROPIC_API_KEY": "named", "PATH": "/opt"})

    assert environment == {
        "PATH": "/opt",
        "HTTPS_PROXY": "http://proxy",
        "ANTHROPIC_API_KEY": "named",
    }


def test_oauth_and_tool_lists_are_read_in_both_spellings(tmp_path: Path) -> None:
    """Claude Code's and Gemini's keys, and ours; variables are expanded, the key file is read."""
    (tmp_path / "key.pem").write_text("PEM")
    entry: dict[str, object] = {
        "url": "https://x/mcp",
        "includeTools": ["a*"],
        "disabled_tools": ["ab"],
        "alwaysLoad": True,
        "oauth": {
            "grant": "client_credentials",
            "clientId": "${ID}",
            "client_key_file": str(tmp_path / "key.pem"),
            "callbackPort": 8123,
            "scopes": "read write",
            "resource": "",
        },
    }

    found = server_config("web", entry, {"ID": "me"})

    assert isinstance(found, ServerConfig)
    assert (found.enabled_tools, found.disabled_tools) == (("a*",), ("ab",))
    assert found.always_load
    assert found.oauth == OAuth(
        grant="client_credentials",
        client_id="me",
        client_key="PEM",
        callback_port=8123,
        scopes=("read", "write"),
        resource="",
    )


def test_unreadable_client_key_is_a_problem_of_that_server() -> None:
    entry = {"url": "https://x/mcp", "oauth": {"client_key_file": "/nowhere.pem"}}

    found = server_config("web", entry, {})

    assert isinstance(found, ServerProblem)
    assert "the client's key /nowhere.pem cannot be read" in found.reason


def test_disabled_server_may_use_unset_variables() -> None:
    """Its variables are needed once it is switched on, not at every start."""
    entry = {"command": "x", "env": {"T": "${NOT_SET}"}, "disabled": True}

    off = server_config("off", entry, {})

    assert isinstance(off, ServerConfig)
    assert not off.enabled
    assert "${NOT_SET}, which is not set" in off.problem


def test_numbers_booleans_and_null_are_accepted_as_strings() -> None:
    """Other programs accept a number for a port, a boolean for a flag, and null for nothing."""
    entry = {
        "command": "x",
        "args": ["--port", 8080],
        "env": {"PORT": 8080, "RATE": 0.5, "DEBUG": True, "NONE": None},
        "headers": None,
    }

    config = server_config("x", entry, {})

    assert isinstance(config, ServerConfig), config
    assert config.args == ("--port", "8080")
    assert config.env == {"PORT": "8080", "RATE": "0.5", "DEBUG": "true"}


def test_comments_in_a_server_file_are_ignored(tmp_path: Path) -> None:
    file = tmp_path / ".mcp.json"
    file.write_text('{// mine\n"mcpServers": {"a": {"command": "x"},}}')

    assert [server.name for server in read_config_file(file, {}).servers] == ["a"]
