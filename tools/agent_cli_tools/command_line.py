"""The process of a command: its environment, a shell that sets a limit, members of its group."""

import contextlib
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from agent_cli.sandbox import Confinement
from agent_cli.system.keeper import LEFT_DESCRIPTOR
from agent_cli.system.launching import Order, Watched
from agent_cli.system.programs import users_path
from agent_cli.system.records import dataclass, field

_PASSED = frozenset(
    {
        *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "TZ", "LANG"),
        *("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"),
        *("XDG_RUNTIME_DIR", "SSL_CERT_FILE", "SSL_CERT_DIR", "CURL_CA_BUNDLE"),
        *("REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "VIRTUAL_ENV", "CONDA_PREFIX"),
        *("CONDA_DEFAULT_ENV", "PYENV_ROOT", "UV_CACHE_DIR", "CARGO_HOME", "RUSTUP_HOME"),
        *("GOPATH", "GOROOT", "GOCACHE", "GOMODCACHE", "JAVA_HOME", "GRADLE_USER_HOME"),
        *("CCACHE_DIR", "ZIG_GLOBAL_CACHE_DIR", "PRE_COMMIT_HOME", "npm_config_cache"),
        *("M2_HOME", "MAVEN_HOME", "NVM_DIR", "VOLTA_HOME", "PNPM_HOME", "BUN_INSTALL"),
        *("DENO_DIR", "GEM_HOME", "GEM_PATH", "RBENV_ROOT", "ASDF_DIR", "ASDF_DATA_DIR"),
        *("MISE_DATA_DIR", "SDKMAN_DIR", "ANDROID_HOME", "DOTNET_ROOT", "PKG_CONFIG_PATH"),
    }
)
_PROXIES = frozenset({"http_proxy", "https_proxy", "all_proxy", "no_proxy"})

# Non-interactive: no pager, no editor, no password prompt, no colour.
_UNATTENDED = {
    "CI": "1",
    # Messages in English, whatever the locale: the sandbox's refusals are recognised in them.
    "LANGUAGE": "en",
    "TERM": "dumb",
    "NO_COLOR": "1",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "MANPAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_EDITOR": "true",
    "GIT_ASKPASS": "true",
    "SSH_ASKPASS_REQUIRE": "never",
    "GIT_SSH_COMMAND": "ssh -oBatchMode=yes",
    "DEBIAN_FRONTEND": "noninteractive",
    "PIP_NO_INPUT": "1",
    "PYTHONUNBUFFERED": "1",
}


def command_environment(ours: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the environment for a command: an allowlist of *ours*, made non-interactive."""
    passed = {name: value for name, value in ours.items() if _is_passed(name, value)}
    if ours is os.environ:
        passed["PATH"] = users_path()
    return passed | _UNATTENDED


def _is_passed(name: str, value: str) -> bool:
    if name.casefold() in _PROXIES:
        # A proxy's URL may contain a password.
        return "@" not in value
    return name in _PASSED or name.startswith("LC_")


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
            shell = [confinement.shell, "-c", _NESTED, "sh", bash]
        words = (self._processes_max(), self.text, *self.exports)
        return Order(
            arguments=[*confinement.prefix, *shell, *words],
            cwd=str(self.cwd),
            environment={**self.environment, **confinement.environment},
            files=confinement.files,
            restriction=confinement.restriction,
            nested=confinement.nested,
            watched=self.watched,
            rest=confinement.rest,
        )

    def _processes_max(self) -> str:
        """Return the limit in the form `ulimit` takes."""
        # In its own namespace, only processes of the command count.
        if self.confinement.nested:
            return str(_OWN_PROCESSES_MAX)
        others = threads_of_user()
        return str(others + _MORE_PROCESSES_MAX) if others else "unlimited"


_PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class Member:
    """A living process: its id, its parent's, and the name of its program."""

    pid: int
    parent: int
    name: str


def group_members(group: int) -> list[Member]:
    """Return the living processes of the process group *group*."""
    return list(_from_proc(group) if (_PROC / "self/stat").exists() else _from_ps(group))


def descendants(pid: int, *, below: int) -> list[Member]:
    """Return the living descendants of *pid* from generation *below* on.

    Needs /proc.
    """
    living = [member for each in _pids() if (member := _member(each))]
    generation = {pid}
    for _ in range(below):
        generation = {member.pid for member in living if member.parent in generation}
    found = generation
    while generation:
        generation = {member.pid for member in living if member.parent in generation}
        found = found | generation
    return [member for member in living if member.pid in found]


def threads_of_user() -> int:
    """Return the number of this user's threads, as the kernel counts them; 0 without /proc."""
    count = 0
    for pid in _pids() if _PROC.exists() else ():
        # Not with Path: there may be thousands, and this runs before each command.
        with contextlib.suppress(OSError):  # It ended while we looked.
            tasks = os.stat(f"/proc/{pid}/task")  # noqa: PTH116
            if tasks.st_uid == os.getuid():
                count += tasks.st_nlink - 2
    return count


def _from_proc(group: int) -> Iterator[Member]:
    for pid in _pids():
        try:
            # Asking for the group is much cheaper than opening a file, and most are not in it.
            if os.getpgid(pid) != group:
                continue
        except OSError:
            continue  # It ended while we looked.
        if member := _member(pid):
            yield member


def _pids() -> Iterator[int]:
    return (int(name) for name in os.listdir(_PROC) if name.isdigit())  # noqa: PTH208 - names


def _member(pid: int) -> Member | None:
    """Return the process, or None if it has ended."""
    try:
        stat = (_PROC / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return None
    # "PID (NAME) STATE PARENT ...", where a name may contain blanks and parentheses.
    before, _, after = stat.rpartition(")")
    state, parent = after.split()[:2]
    return Member(pid, int(parent), before.partition("(")[2]) if state != "Z" else None


def _from_ps(group: int) -> Iterator[Member]:
    """List processes with ps, on systems without /proc (macOS, BSD)."""
    command = ["/bin/ps", "-A", "-o", "pid=,ppid=,pgid=,state=,comm="]
    listing = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    for line in listing.splitlines():
        pid, parent, its_group, state, name = line.split(None, 4)
        if int(its_group) == group and not state.startswith("Z"):
            yield Member(int(pid), int(parent), Path(name).name)
