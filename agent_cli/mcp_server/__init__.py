"""This agent as an MCP server (`agent-cli mcp serve`): other agents ask it, their users decide.

Imports the SDK, so nothing else may import this.
"""
