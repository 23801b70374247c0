"""Facts about a server known before it is started."""

from agent_cli.mcp_client import ServerConfig


def test_stdio_servers_use_the_legacy_handshake_by_default() -> None:
    """Many stdio servers hang or die on a request of the newest revision."""
    assert ServerConfig(name="a", command="x").negotiation == "legacy"
    assert ServerConfig(name="a", command="x", protocol="auto").negotiation == "auto"
    assert ServerConfig(name="a", transport="http", url="http://x").negotiation == "auto"


def test_secrets_do_not_show_in_a_printed_configuration() -> None:
    config = ServerConfig(name="a", env={"KEY": "s3cret"}, headers={"Authorization": "s3cret"})

    assert "s3cret" not in repr(config)
