"""Report the active sandbox in one sentence, and what keeps it from being made."""

import errno
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Literal, TypeAlias

from agent_cli.contracts.errors import AgentCliError
from agent_cli.system.records import dataclass

State: TypeAlias = Literal["bwrap", "landlock", "sandbox-exec", "none", "off"]

_NAMES: Final = {"bwrap": "bubblewrap", "landlock": "Landlock", "sandbox-exec": "sandbox-exec"}
_WORDS: Final = {
    **_NAMES,
    "landlock": "Landlock, .env readable",
    "off": "sandbox off",
    "none": "no sandbox",
}


@dataclass(frozen=True, slots=True)
class Report:
    """The state of the sandbox.

    Attributes:
        reason: Why no better sandbox is used, "" if it is the best.
        program: The program that builds it, if any.
        is_complete: Whether all paths that it has to hide are known.
        exposed: The folder of our own installation that commands can change, if there is one.
        by_host: The network is to be open by host; only bubblewrap can hold that.
        is_untested: Nothing could be tried, so it is used without proof that it holds.
    """

    state: State
    network: bool = False
    reason: str = ""
    program: Path | None = None
    is_complete: bool = True
    exposed: Path | None = None
    by_host: bool = False
    is_untested: bool = False

    @property
    def holds(self) -> bool:
        """Whether commands run in a sandbox at all."""
        return self.state in _NAMES

    @property
    def hides_secrets(self) -> bool:
        """Whether commands can read no secret in the workspace and change no git settings."""
        # Landlock cannot hide files in a writable folder.
        return self.holds and self.state != "landlock" and self.is_complete

    @property
    def can_be_read_only(self) -> bool:
        """Whether a command can run so that it changes nothing and reads no secret."""
        return self.state in ("bwrap", "landlock") and self.is_complete

    @property
    def word(self) -> str:
        """The state in one word, for a line without room for the sentence."""
        return _WORDS[self.state]

    @property
    def sentence(self) -> str:
        """The state in a sentence with the path of the program, for `doctor`."""
        return self._sentence(f" ({self.program})" if self.program else "")

    @property
    def summary(self) -> str:
        """The state in a sentence, for the approval of a command."""
        return self._sentence("")

    def _sentence(self, program: str) -> str:
        if self.state == "off":
            return "off (sandbox.mode): commands run with all your rights"
        if self.state == "none":
            return f"none available: every command that may change something asks{self._why()}"
        network = "network allowed" if self.network else "no network"
        if self.by_host:
            is_held = self.state == "bwrap"
            network = "network by host" if is_held else "no network: by host takes bubblewrap"
        limits = "" if self.state != "landlock" else ", .env files in the workspace readable"
        if self.exposed:
            limits += (
                f", {self.exposed}, which agent-cli runs from, writable: so commands ask."
                " Install bubblewrap, or agent-cli outside of the workspace"
            )
        return f"{_NAMES[self.state]}{program}, {network}{limits}{self._why()}"

    def _why(self) -> str:
        return f" ({self.reason})" if self.reason else ""


class SandboxMissing(AgentCliError):
    """`sandbox.mode` is "required" but no sandbox works; the message says why."""


_SHORTAGES: Final = frozenset(
    {
        *(errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.ENOSPC, errno.EDQUOT),
        *(errno.EADDRINUSE, errno.EADDRNOTAVAIL, errno.ENOBUFS),
    }
)


def is_shortage(error: OSError) -> bool:
    """Return whether *error* tells of a lack of resources, which others can cause.

    It says nothing about a sandbox, nor about a file: that one may be there, and hold secrets.
    """
    return error.errno in _SHORTAGES


def raise_shortage(error: OSError) -> None:
    """Raise *error* if it is a shortage, so that no command runs with a part of its rules."""
    if is_shortage(error):
        raise error


@contextmanager
def if_there() -> Generator[None]:
    """Suppress that what the body opens is not there, or closed to us; no shortage."""
    try:
        yield
    except OSError as error:
        raise_shortage(error)
