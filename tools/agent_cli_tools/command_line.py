"""What is started for a command: a shell that watches over it, and the command beside the watch."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from agent_cli.sandbox import Confinement

OUTPUT_BYTES_MAX = 5_000_000_000
"""A command that prints more has run wild, and is killed."""

# Killed with SIGKILL, we can clean up nothing, and PR_SET_PDEATHSIG would reach only our direct
# child (and fire when the thread that started it ends). So every command runs beside a watcher:
# a member of its group that waits for our end of a socket to close, which the kernel does however
# we die, and then kills the group it is in. Being a member, it also keeps the group's number from
# being given to somebody else while we may still send signals to it. The shell that starts both
# reports the exit status through the socket and stays until we answer, so that nobody is left
# without a parent; an answer lets the watcher go without killing.
_WRAPPER = """
exec 3<&0 </dev/null 2>/dev/null
(trap '' HUP INT TERM; read -r _ <&3 || kill -KILL 0) >/dev/null &
trap : HUP INT TERM
"$@" 2>&1 3<&-
echo $? >&3
exec >/dev/null
wait
"""


# In a namespace of its own, where only what it started itself counts: a fork bomb ends here.
_PROCESSES_MAX = 4096
_LIMITED = f"""
ulimit -S -u {_PROCESSES_MAX} 2>/dev/null
exec "$BASH" --noprofile --norc -c "$1"
"""


@dataclass(frozen=True, slots=True)
class CommandLine:
    """What to run: a text for bash, the absolute path of bash, where, and with what environment.

    Attributes:
        confinement: The sandbox it is started in; released when the command is closed, or could
            not be started.
    """

    text: str
    bash: Path
    cwd: Path
    environment: Mapping[str, str]
    confinement: Confinement = field(default_factory=Confinement)
    output_bytes_max: int = OUTPUT_BYTES_MAX

    def arguments(self) -> list[str]:
        """Return the shell to start, which starts the watcher and, in the sandbox, the command."""
        bash = (str(self.bash), "--noprofile", "--norc", "-c")
        command = (
            (*bash, _LIMITED, "bash", self.text) if self.confinement.nested else (*bash, self.text)
        )
        return [*bash, _WRAPPER, "bash", *self.confinement.prefix, *command]
