"""Lifecycle hooks: the user's programs and URLs that are called during a run."""
