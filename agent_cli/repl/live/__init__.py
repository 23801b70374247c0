"""The REPL on a real terminal: one input line for the whole session, everything else above it."""
