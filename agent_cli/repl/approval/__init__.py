"""Ask a person to approve tool calls."""
