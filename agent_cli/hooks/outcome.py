"""The result of running a hook, of whatever kind, and the variables it sets for commands.

A SessionStart hook appends lines such as `export NAME=value` to the file in `CLAUDE_ENV_FILE`. The
shell that starts the hook then reads the file where the hook ran, in the sandbox if it ran there.
"""

import secrets
from collections.abc import Mapping, Sequence
from typing import Final

from agent_cli.system.records import dataclass, field

ENV_FILE: Final = "CLAUDE_ENV_FILE"
# No limit of a kernel for the arguments of a program is lower.
CHARS_MAX: Final = 65_536

_SCRIPT: Final = """
mark=$1
shift
CLAUDE_ENV_FILE=$(mktemp) || exec "$@"
export CLAUDE_ENV_FILE
"$@"
code=$?
if [ -s "$CLAUDE_ENV_FILE" ]; then
    (
        . "$CLAUDE_ENV_FILE" >/dev/null 2>&1 </dev/null
        printf %s "$mark"
        command -p env -0
    )
fi
rm -f "$CLAUDE_ENV_FILE"
exit $code
"""
# Set by every shell, or of no use to another one.
_NOT_EXPORTED: Final = frozenset(
    {ENV_FILE, "_", "SHLVL", "PWD", "OLDPWD", "UID", "EUID", "PPID", "BASHOPTS", "SHELLOPTS"}
)


@dataclass(frozen=True, slots=True)
class Exports:
    """Variables for commands, and whether the hook that set them ran in the sandbox.

    It may have run what the model wrote, so these are for commands in the sandbox only.
    """

    variables: Mapping[str, str]
    is_confined: bool
    fault: str = ""


@dataclass(frozen=True, slots=True)
class ExportsReader:
    """Wraps the command line of a hook, and reads from its output what it exports."""

    mark: str = field(default_factory=lambda: secrets.token_hex(16))

    def around(self, command: Sequence[str]) -> list[str]:
        """Return the command line that runs *command* and reports its exported variables."""
        return ["/bin/sh", "-c", _SCRIPT, "sh", self.mark, *command]

    def read(
        self, stdout: str, before: Mapping[str, str], *, is_confined: bool
    ) -> tuple[str, Exports]:
        """Return the output of the hook itself, and its variables that differ from *before*."""
        own, _, reported = stdout.partition(self.mark)
        found = dict(each.split("=", 1) for each in reported.split("\0") if "=" in each)
        changed = {
            name: value
            for name, value in found.items()
            if name.isidentifier() and name.isascii() and name not in _NOT_EXPORTED
            if before.get(name) != value
        }
        if sum(map(len, changed.values())) > CHARS_MAX:
            fault = f"it sets variables of more than {CHARS_MAX} characters; commands get none"
            return own, Exports({}, is_confined, fault)
        return own, Exports(changed, is_confined)


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
