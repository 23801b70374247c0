"""An MCP server (`agent-cli mcp serve`) that lets other agents run this one; their users decide.

Imports the MCP SDK, so no other package may import this one.
"""
