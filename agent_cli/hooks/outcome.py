"""The result of running a hook, of whatever kind."""

from agent_cli.hooks.exports import Exports
from agent_cli.system.records import dataclass


@dataclass(frozen=True, slots=True)
class HookOutcome:
    """The result of running a hook.

    Attributes:
        code: Its exit code; 0 for a URL that answered with success.
        fault: Why it could not run to its end, and how to fix it; "" if it did.
        is_broken: Whether it did not even run, so that another attempt would fail alike.
        exports: The variables it set for commands; None where it may set none.
    """

    code: int = 0
    stdout: str = ""
    stderr: str = ""
    fault: str = ""
    elapsed_s: float = 0.0
    is_broken: bool = False
    exports: Exports | None = None
