import json
from pathlib import Path

import pytest

from agent_cli.contracts.timeline import Json
from agent_cli.mcp_client.foreign import PROGRAMS, foreign_files, read_foreign


def test_vs_code_file_with_comments_variables_and_inputs_is_read(tmp_path: Path) -> None:
    """Entries with inputs that VS Code asks the user for are left out, with a message."""
    file = tmp_path / "mcp.json"
    file.write_text(
        """{
        // ours
        "servers": {
            "fs": {"command": "npx", "args": ["-y", "// no comment", "${workspaceFolder}"],},
            "key": {"url": "https://x/mcp", "headers": {"A": "Bearer ${input:token}"}},
            "env": {"command": "a", "env": {"T": "${env:TOKEN}", "H": "${userHome}"}},
            "own": {"command": "a", "env": {"T": "${TOKEN:-none}"}},
        }, /* end */
    }"""
    )

    found = read_foreign(file, workspace=Path("/w"))

    assert found.entries == {
        "fs": {"command": "npx", "args": ["-y", "// no comment", "/w"]},
        "env": {"command": "a", "env": {"T": "${TOKEN}", "H": "${HOME}"}},
        "own": {"command": "a", "env": {"T": "${TOKEN:-none}"}},
    }
    assert found.problems == (f"key is left out: ${{input:token}} is not supported; {file}",)


def test_command_of_opencode_is_a_list_and_of_zed_a_table(tmp_path: Path) -> None:
    """Theirs limits the listing of tools, and ours a call, so that limit is left out."""
    opencode, zed = tmp_path / "opencode.json", tmp_path / "settings.json"
    local = {"type": "local", "command": ["npx", "-y"], "environment": {"A": "{env:B}"}}
    remote = {"type": "remote", "url": "https://x/mcp", "timeout": 5000, "enabled": False}
    opencode.write_text(json.dumps({"mcp": {"local": local, "remote": remote}}))
    old = {"command": {"path": "npx", "args": ["-y"], "env": {"A": "b"}}, "settings": {}}
    new = {"source": "custom", "command": "npx", "args": ["-y"]}
    zed.write_text(json.dumps({"context_servers": {"old": old, "new": new}}))

    assert read_foreign(opencode, workspace=tmp_path).entries == {
        "local": {"type": "local", "command": "npx", "args": ["-y"], "env": {"A": "${B}"}},
        "remote": {"type": "remote", "url": "https://x/mcp", "disabled": True},
    }
    assert read_foreign(zed, workspace=tmp_path).entries == {
        "old": {"command": "npx", "args": ["-y"], "env": {"A": "b"}},
        "new": {"command": "npx", "args": ["-y"]},
    }


def test_unsupported_keys_of_a_foreign_file_are_reported(tmp_path: Path) -> None:
    """Otherwise the server may start and fail much later."""
    file = tmp_path / ".claude.json"
    server = {"url": "https://x/mcp", "headersHelper": "./token", "oauth": {"clientId": "me"}}
    file.write_text(
        json.dumps({"mcpServers": {"a": server, "b": {"command": "x", "envFile": "e"}}})
    )

    found = read_foreign(file, workspace=tmp_path)

    oauth = {"clientId": "me"}
    assert found.entries == {
        "a": {"url": "https://x/mcp", "headersHelper": "./token", "oauth": oauth},
        "b": {"command": "x"},
    }
    assert found.problems == (f"b: envFile is lost: write its variables into env; {file}",)


def test_codex_spellings_of_headers_and_limits_are_translated(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text(
        """
        [mcp_servers.docs]
        url = "https://x/mcp"
        bearer_token_env_var = "DOCS_TOKEN"
        env_http_headers = { "X-Team" = "TEAM" }
        startup_timeout_sec = 5
        enabled_tools = ["read"]
        enabled = false
        scopes = ["read"]
        oauth_resource = "api://docs"
        oauth = { client_id = "me" }

        [mcp_servers.slow]
        command = "x"
        startup_timeout_ms = 90000
        """
    )

    assert read_foreign(file, workspace=tmp_path).entries == {
        "docs": {
            "url": "https://x/mcp",
            "headers": {"X-Team": "${TEAM}", "Authorization": "Bearer ${DOCS_TOKEN}"},
            "disabled": True,
            "enabled_tools": ["read"],
            "startup_timeout_s": 5,
            "oauth": {"client_id": "me", "scopes": ["read"], "resource": "api://docs"},
        },
        "slow": {"command": "x", "startup_timeout_s": 90},
    }


def test_claude_code_servers_of_a_directory_are_not_those_of_all(tmp_path: Path) -> None:
    """One file has the user's servers and those of each directory; an import keeps them apart."""
    here: Json = {"mcpServers": {"a": {"command": "here"}, "b": {"command": "b"}}}
    content: Json = {
        "mcpServers": {"a": {"command": "everywhere"}, "c": {"command": "c"}},
        "projects": {"/w": here, "/other": {"mcpServers": {"d": {"command": "d"}}}},
    }
    (tmp_path / ".claude.json").write_text(json.dumps(content))

    found = read_foreign(tmp_path / ".claude.json", workspace=Path("/w"))

    assert found.entries == {"a": {"command": "everywhere"}, "c": {"command": "c"}}
    assert found.local == {"a": {"command": "here"}, "b": {"command": "b"}}
    assert found.elsewhere == {"/other": ["d"]}


@pytest.mark.parametrize("content", ["{", "\\", '{"a": 1} x'])
def test_broken_foreign_file_is_reported_in_one_sentence(tmp_path: Path, content: str) -> None:
    file = tmp_path / "mcp.json"
    file.write_text(content)

    [problem] = read_foreign(file, workspace=tmp_path).problems

    assert problem.startswith(f"{file} cannot be read: ")


@pytest.mark.parametrize("content", ['{"mcpServers": {"x": 1}}', "[]", '{"projects": {"/w": 1}}'])
def test_foreign_file_without_servers_has_no_entries(tmp_path: Path, content: str) -> None:
    (tmp_path / "a.json").write_text(content)

    assert read_foreign(tmp_path / "a.json", workspace=tmp_path).entries == {}


def test_every_foreign_program_has_known_config_paths(tmp_path: Path) -> None:
    places = {
        program: foreign_files(program, home=tmp_path, workspace=tmp_path / "w", environment={})
        for program in PROGRAMS
    }

    assert places["cursor"] == (
        tmp_path / "w" / ".cursor" / "mcp.json",
        tmp_path / ".cursor" / "mcp.json",
    )
    assert places["claude-desktop"][-1] == (
        tmp_path / ".config" / "Claude" / "claude_desktop_config.json"
    )
    assert all(places.values())
