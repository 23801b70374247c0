"""Import what a first reply and its tool calls need, while the program waits for that reply.

A model takes about half a second until its first token. A module that is imported only by the call
that needs it makes that call wait: 90 modules and a third of a second for one call of each tool.
"""

import asyncio
from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Final

from agent_cli.system.importing import without_collections

REPLY: Final = (
    "agent_cli.providers.anthropic.reply_builder",
    "agent_cli.providers.events",
    "agent_cli_tools.excerpts",
)
"""For every reply, and for read, the most frequent call."""

TOOLS: Final = (
    "agent_cli.policies.shell.syntax",
    "agent_cli.policies.shell.read_only",
    "agent_cli.policies.shell.judgement",
    "agent_cli.policies.receipts",
    "tree_sitter_bash",
    "tree_sitter",
    "agent_cli.sandbox.undecided",
    "agent_cli_tools.command_run",
    "agent_cli_tools.grep_run",
    "agent_cli_tools.glob_run",
    "agent_cli_tools.matching.edits",
    "agent_cli_tools.diffs",
    "agent_cli_tools.misfits",
    "agent_cli_tools.atomic_write",
    "agent_cli_tools.snapshots.journal",
    "agent_cli_tools.snapshots.kept_versions",
    "agent_cli_tools.snapshots.taking_back",
    "agent_cli.system.path_patterns",
)


class EarlyImports:
    """Imports modules in the running event loop, one each time the loop is idle.

    In a thread, an import could meet one of the loop's own thread halfway (see
    `system.importing.load`), and would compete with the loop for the interpreter all the same.
    """

    def __init__(self) -> None:
        self._is_stopped = False

    def begin(self, modules: Sequence[str]) -> None:
        """Begin to import *modules*."""
        self._import_next(iter(modules))

    def stop(self) -> None:
        """Import nothing more."""
        self._is_stopped = True

    def _import_next(self, modules: Iterator[str]) -> None:
        if not self._is_stopped and (module := next(modules, None)):
            with without_collections():
                import_module(module)
            asyncio.get_running_loop().call_soon(self._import_next, modules)
