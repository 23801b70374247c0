"""Subagents: their definitions, and the tool that starts them."""
