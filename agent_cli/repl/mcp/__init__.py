"""MCP servers at the prompt: what they ask of the person, and what the person does with them."""
