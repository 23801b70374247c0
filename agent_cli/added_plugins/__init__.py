"""Plugins in Claude Code's format that the user added: fetched, shown, pinned by content."""
