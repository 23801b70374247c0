"""What commands and logs need and the first request does not, so that it does not wait for it."""

from agent_cli.app import logs
from agent_cli.sandbox import Sandbox
from agent_cli.system.launching import Launcher
from agent_cli.terminal.background import in_background


class Preparations:
    """Begun once, in threads: by `started` where a person types first, else by `request_sent`."""

    def __init__(
        self, sandbox: Sandbox, launcher: Launcher, log: logs.EventLog, *, one_shot: bool
    ) -> None:
        """Begin nothing; a *one_shot* sends its request at once."""
        self._sandbox = sandbox
        self._launcher = launcher
        self._log = log
        self._one_shot = one_shot
        self._begun = False

    def started(self) -> None:
        """Hear that the program is up."""
        if not self._one_shot:
            self._begin()

    def request_sent(self) -> None:
        """Hear that a request is out, and its reply awaited."""
        if not self._begun:
            self._begin()

    def _begin(self) -> None:
        self._begun = True
        self._sandbox.start()
        # Early, so that the first command does not wait for it.
        in_background(self._launcher.start)
        in_background(logs.load).add_done_callback(lambda _loaded: self._log.release())
