"""The operating system: paths, child processes, imports, secrets in text."""
