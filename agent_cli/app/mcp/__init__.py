"""The MCP servers of this program: found in settings and files, started, and answered."""
