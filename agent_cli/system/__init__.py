"""The operating system: paths, child processes, imports; text that is safe to show."""
