"""Tell models which files that they have read were changed by hooks, as results of commands do."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakSet

from agent_cli.core.turn import Turn

if TYPE_CHECKING:
    from agent_cli.app.hooks.changed_files import EndedLogs
    from agent_cli_tools import Workspace
    from agent_cli_tools.seen import SeenFiles


class HookChanges:
    """The logs of a session's hooks, until each of its agents was told of the changes."""

    def __init__(self) -> None:
        """Wait for hooks."""
        self._tellers: WeakSet[HookChangesTeller] = WeakSet()

    def add(self, log: Path) -> None:
        """Tell of a hook that has ended, with its log in the folder *log*."""
        for teller in self._tellers:
            teller.add(log)

    def teller(self, workspace: "Workspace") -> "HookChangesTeller":
        """Return the teller for the agent in *workspace*, about hooks that end from now on."""
        teller = HookChangesTeller(workspace.seen)
        self._tellers.add(teller)
        return teller


class HookChangesTeller:
    """A `prepare` contributor of one agent."""

    def __init__(self, seen: "SeenFiles") -> None:
        """Tell of files in *seen*."""
        self._seen = seen
        self._logs: EndedLogs | None = None

    def add(self, log: Path) -> None:
        """Tell of a hook that has ended, with its log in the folder *log*."""
        from agent_cli.app.hooks.changed_files import EndedLogs  # with the first hook

        self._logs = self._logs or EndedLogs()
        self._logs.add(log)

    async def __call__(self, turn: Turn) -> None:
        """Tell the model in one message, unless results of its calls are due first."""
        if self._logs is None or turn.conversation.open_calls():
            return
        from agent_cli_tools.command_answers import changes_of_hooks  # with the first hook

        ended = self._logs.ended()
        if report := await asyncio.to_thread(changes_of_hooks, ended, self._seen):
            turn.tell_model(report)
