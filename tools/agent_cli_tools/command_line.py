"""The process started for a command: a shell that sets a limit, then the command itself."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from agent_cli.sandbox import Confinement
from agent_cli.system.keeper import LEFT_DESCRIPTOR
from agent_cli.system.launching import Order, Watched
from agent_cli.system.records import dataclass, field
from agent_cli_tools.process_groups import threads_of_user

OUTPUT_BYTES_MAX = 5_000_000_000
"""A command that prints more is out of control, and is killed."""

# The limit stops a fork bomb; the limits of this program and others of the user are unchanged.
_LIMITED = """
ulimit -S -u "$1" 2>/dev/null
(($# > 2)) && export "${@:3}"
exec "$BASH" --noprofile --norc -c "$2"
"""

# In a process namespace, processes that a command leaves running end with the first shell. So that
# shell says with an empty line that it runs, stays, reports shortly after the command's end which
# processes are left, and only then lets the kernel end them. It survives signals that a command may
# send to its own group, and exits with the command's exit code. It is /bin/sh, which often starts
# sooner than bash; some know `ulimit -u` as `-p`. `env` sets the variables, because `export` could
# set one that this shell uses itself. Its own entry in /proc and that of process 1 are not read:
# `read` takes a system call a character, which was half a millisecond for each command.
_NESTED = f"""
trap : HUP INT TERM
echo >&{LEFT_DESCRIPTOR}
{{ ulimit -S -u "$2" || ulimit -S -p "$2"; }} 2>/dev/null
bash=$1 text=$3
shift 3
[ $# = 0 ] || set -- env "$@"
"$@" "$bash" --noprofile --norc -c "$text" {LEFT_DESCRIPTOR}>&-
code=$?
exec 2>/dev/null
left() {{
    names=
    for each in /proc/[0-9]*/stat; do
        case $each in "/proc/1/stat" | "/proc/$$/stat") continue ;; esac
        read -r stat <"$each" || continue
        state=${{stat##*) }} name=${{stat#*(}}
        case $state in
        Z*) ;;
        *) names="$names${{name%)*}}
" ;;
        esac
    done
    [ "$names" ]
}}
left && sleep 0.05 && left && printf %s "$names" >&{LEFT_DESCRIPTOR}
exit $code
"""
_SH = "/bin/sh"
_OWN_PROCESSES_MAX = 4096
_MORE_PROCESSES_MAX = 512


@dataclass(frozen=True, slots=True)
class CommandLine:
    """A command to run: the text for bash, bash's absolute path, folder and environment.

    Attributes:
        confinement: The sandbox of the command; released when the command is closed or could not be
            started.
        exports: NAME=value for the command alone: what builds its sandbox must not see them.
        watched: How its changes are recorded; None: not at all.
    """

    text: str
    bash: Path
    cwd: Path
    environment: Mapping[str, str]
    confinement: Confinement = field(default_factory=Confinement)
    exports: Sequence[str] = ()
    output_bytes_max: int = OUTPUT_BYTES_MAX
    watched: Watched | None = None

    def order(self) -> Order:
        """Return the order for the launcher."""
        confinement = self.confinement
        bash = str(self.bash)
        shell = [bash, "--noprofile", "--norc", "-c", _LIMITED, "bash"]
        if confinement.nested:
            shell = [_SH, "-c", _NESTED, "sh", bash]
        words = (self._processes_max(), self.text, *self.exports)
        return Order(
            arguments=[*confinement.prefix, *shell, *words],
            cwd=str(self.cwd),
            environment={**self.environment, **confinement.environment},
            files=confinement.files,
            restriction=confinement.restriction,
            nested=confinement.nested,
            watched=self.watched,
        )

    def _processes_max(self) -> str:
        """Return the limit in the form `ulimit` takes."""
        # In its own namespace, only processes of the command count.
        if self.confinement.nested:
            return str(_OWN_PROCESSES_MAX)
        others = threads_of_user()
        return str(others + _MORE_PROCESSES_MAX) if others else "unlimited"
