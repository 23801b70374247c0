"""Completions that Enter takes when they are the only one."""

from prompt_toolkit.completion import Completion


class Certain(Completion):
    """Begins as typed; a path that only holds the typed characters is a plain `Completion`."""
