"""Lifecycle hooks of a session: read, confined, run and listed."""
