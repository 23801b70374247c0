"""The shell commands of `agent-cli`."""
