"""The setups of other agents: everything found, and what `agent-cli import` writes of it."""
