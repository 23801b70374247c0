"""The slash commands and the `!` shell escape."""
