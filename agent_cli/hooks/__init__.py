"""Lifecycle hooks: programs and URLs of the user that are called during a run."""
