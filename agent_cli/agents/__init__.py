"""Agents that work for an agent: what defines them, and the tool that starts them."""
