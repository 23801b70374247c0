"""Facts about a server known before it is started."""

from pathlib import Path

from agent_cli.mcp_client import ServerConfig


def test_stdio_servers_use_the_legacy_handshake_by_default() -> None:
    """Many stdio servers hang or die on a request of the newest revision."""
    assert ServerConfig(name="a", command="x").negotiation == "legacy"
    assert ServerConfig(name="a", command="x", protocol="auto").negotiation == "auto"
    assert ServerConfig(name="a", transport="http", url="http://x").negotiation == "auto"


def test_secrets_do_not_show_in_a_printed_configuration() -> None:
    config = ServerConfig(name="a", env={"KEY": "s3cret"}, headers={"Authorization": "s3cret"})

    assert "s3cret" not in repr(config)


def test_program_without_the_execute_bit_is_named_as_such(tmp_path: Path) -> None:
    """ "Was not found" was untrue, and "install it" no help."""
    (tmp_path / "server.sh").write_text("#!/bin/sh\n")
    config = ServerConfig(name="a", command="./server.sh", cwd=str(tmp_path))

    assert config.missing({}, Path("/")) == [
        "the command './server.sh' is not executable; run `chmod +x` on it, or write what runs it"
        ' there, and the file in "args"'
    ]
    (tmp_path / "server.sh").chmod(0o755)
    assert config.missing({}, Path("/")) == []
