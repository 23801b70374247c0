"""Run one prompt without a REPL: `agent-cli -p`."""
