"""What is started for a command: a shell that watches over it, and the command beside the watch."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from agent_cli.sandbox import Confinement
from agent_cli.system.supervisor import gathered
from agent_cli_tools.process_groups import threads_of_user

OUTPUT_BYTES_MAX = 5_000_000_000
"""A command that prints more has run wild, and is killed."""

_COMMAND_GONE_S = 0.3

# Killed with SIGKILL, we can clean up nothing, and PR_SET_PDEATHSIG would reach only our direct
# child (and fire when the thread that started it ends). So every command runs beside a watcher:
# a member of its group that waits for our end of a socket to close, which the kernel does however
# we die, and then kills the group it is in. Being a member, it also keeps the group's number from
# being given to somebody else while we may still send signals to it. The shell that starts both
# reports the exit status through the socket and stays until we answer, so that nobody is left
# without a parent; an answer lets the watcher go without killing.
# Before it kills, it leaves somebody behind in a group of his own (`set -m`), who removes the
# directories the sandbox put into the workspace: once the command is gone, which was mounted on
# them, and unless another session has a lock on them.
# All of it begins with a line from us: what is set from outside must be before anything is forked.
_WRAPPER = f"""
exec 3<&0 </dev/null 2>/dev/null
read -r _ <&3 || exit
placeholders=("${{@:2:$1}}"); shift $(($1 + 1))
(
    trap '' HUP INT TERM
    read -r _ <&3 && exit
    set -m
    (
        PATH={os.defpath}
        sleep {_COMMAND_GONE_S}
        for each in "${{placeholders[@]}}"; do flock -nx "$each" rmdir "$each"; done
    ) &
    kill -KILL 0
) >/dev/null &
trap : HUP INT TERM
"$@" 2>&1 3<&-
echo $? >&3
exec >/dev/null
wait
"""


# A fork bomb ends at the limit, which for us and for other programs of the user is another one.
_LIMITED = """
ulimit -S -u "$1" 2>/dev/null
exec "$BASH" --noprofile --norc -c "$2"
"""
_OWN_PROCESSES_MAX = 4096
_MORE_PROCESSES_MAX = 512


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
        placeholders = [str(path) for path in self.confinement.placeholders]
        wrapper = [*bash, _WRAPPER, "bash", str(len(placeholders)), *placeholders]
        command = [*bash, _LIMITED, "bash", self._processes_max(), self.text]
        if not self.confinement.nested:
            # Without a process namespace, what starts a session of its own would outlive the group.
            command = gathered(command)
        return [*wrapper, *self.confinement.prefix, *command]

    def _processes_max(self) -> str:
        """Return the limit as `ulimit` takes it."""
        # In a namespace of its own, only what the command started itself counts.
        if self.confinement.nested:
            return str(_OWN_PROCESSES_MAX)
        others = threads_of_user()
        return str(others + _MORE_PROCESSES_MAX) if others else "unlimited"
