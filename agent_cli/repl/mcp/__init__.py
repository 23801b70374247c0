"""MCP servers in the REPL: their dialogs with the user, prompts, resources and sign-in."""
