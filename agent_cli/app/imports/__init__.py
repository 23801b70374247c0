"""The setups of other agents: everything found, and the files that `agent-cli import` writes."""
