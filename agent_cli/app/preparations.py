"""Start-up work for commands, logs and leftovers that the first request need not wait for."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from agent_cli.app import logs
from agent_cli.terminal.background import in_background

if TYPE_CHECKING:
    from agent_cli.sandbox import Sandbox
    from agent_cli.system.launching import Launcher


class Preparations:
    """Work done once in threads, begun by `started` in a REPL, else by `request_sent`."""

    def __init__(
        self,
        sandbox: "Sandbox",
        launcher: "Launcher",
        log: logs.EventLog,
        tell_left: Callable[[], None],
        *,
        one_shot: bool,
    ) -> None:
        """Begin nothing yet; a *one_shot* program waits for its request to be sent.

        *tell_left* looks for leftovers of killed programs in a thread.
        """
        self._sandbox = sandbox
        self._launcher = launcher
        self._log = log
        self._tell_left = tell_left
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
        in_background(logs.load).add_done_callback(lambda _loaded: self._log.release())
