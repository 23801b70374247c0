"""Start-up work for commands, logs and leftovers that the first request need not wait for."""

from functools import partial

from agent_cli.app import logs
from agent_cli.app.event_log import EventLog
from agent_cli.app.left_worktrees import tell_left_worktrees
from agent_cli.app.working_place import WorkingPlace
from agent_cli.terminal.background import in_background


class Preparations:
    """Work done once in threads, begun by `started` in a REPL, else by `request_sent`.

    Attributes:
        log: A listener that logs events; it holds them back until the logs are loaded.
    """

    def __init__(self, place: WorkingPlace, *, one_shot: bool) -> None:
        """Begin nothing yet; a *one_shot* program waits for its request to be sent."""
        self.log = EventLog()
        self._sandbox = place.sandbox
        self._launcher = place.workspace.launcher
        self._tell_left = partial(tell_left_worktrees, place.workspace.root, place.warn)
        self._one_shot = one_shot
        self._begun = False

    def started(self) -> None:
        """Begin the work, unless the program is one-shot."""
        if not self._one_shot:
            self._begin()

    def request_sent(self) -> None:
        """Begin the work if it has not begun: the program now waits for a reply."""
        if not self._begun:
            self._begin()

    def _begin(self) -> None:
        self._begun = True
        self._sandbox.start()
        # Ahead of the first command, which would have to wait for it.
        in_background(self._launcher.start)
        self._tell_left()
        in_background(logs.load).add_done_callback(lambda _loaded: self.log.release())
