"""The `agent-cli mcp` commands."""
