"""The Messages API: Anthropic's own server, the clouds that serve Claude, and compatible ones."""
