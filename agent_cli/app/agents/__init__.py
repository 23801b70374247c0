"""Subagents: their definitions, workspaces, servers and runs, with one builder for all."""
