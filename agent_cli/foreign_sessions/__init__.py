"""Sessions of other agents, read only: `~/.claude/projects` and `~/.codex/sessions`."""
