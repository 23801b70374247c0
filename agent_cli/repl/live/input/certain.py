"""Completions that Enter takes if there is only one."""

from prompt_toolkit.completion import Completion


class Certain(Completion):
    """A completion that begins as typed; fuzzy path matches are plain `Completion`s."""
