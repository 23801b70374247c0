"""The REPL without a live screen: pipes, dumb terminals, screen readers."""
