"""Which sandbox is in force, said in one sentence."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from agent_cli.contracts.errors import AgentCliError

State: TypeAlias = Literal["bwrap", "landlock", "sandbox-exec", "none", "off"]

_NAMES = {"bwrap": "bubblewrap", "landlock": "Landlock", "sandbox-exec": "sandbox-exec"}


@dataclass(frozen=True, slots=True)
class Report:
    """The state of the sandbox; `reason` is why it is not a better one, "" when it is the best."""

    state: State
    network: bool = False
    reason: str = ""

    @property
    def holds(self) -> bool:
        """Whether commands run in a sandbox at all."""
        return self.state in _NAMES

    @property
    def word(self) -> str:
        """For a line that has no room for the sentence."""
        return _NAMES.get(self.state, "no sandbox")

    @property
    def sentence(self) -> str:
        """For the status line and `doctor`."""
        if self.state == "off":
            return "off: commands run with all of the user's rights (sandbox.mode)"
        if self.state == "none":
            return f"none works here, so every command that may change something asks{self._why()}"
        network = "network allowed" if self.network else "no network"
        limits = "" if self.state != "landlock" else ", .env files in the workspace readable"
        return f"{_NAMES[self.state]}, {network}{limits}{self._why()}"

    def _why(self) -> str:
        return f" ({self.reason})" if self.reason else ""


class SandboxMissing(AgentCliError):
    """`sandbox.mode` is "required" and no sandbox works; says why."""
