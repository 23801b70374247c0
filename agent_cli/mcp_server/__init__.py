"""This agent as an MCP server (`agent-cli mcp serve`) for other agents; their users decide.

Imports the MCP SDK, so no other package may import this one.
"""
