"""What "always this session" stands for: a rule narrow enough for a person to oversee."""

import re
from collections.abc import Sequence

from agent_cli.events import ToolCall
from agent_cli.policies.permission_rules import COMMAND_TOOL, plain_words

# What these do is in their arguments, which may be programs: no beginning of such a command says
# what the rest of it will do.
_NEVER = frozenset(
    {
        *("sh", "bash", "zsh", "dash", "ksh", "fish", "csh", "tcsh", "pwsh", "busybox"),
        *("python", "pypy", "ipython", "node", "deno", "bun", "perl", "ruby", "php", "lua"),
        *("awk", "gawk", "mawk", "sed", "tclsh", "java", "Rscript", "julia", "osascript"),
        *("vi", "vim", "emacs", "ed", "gdb", "crontab", "at", "systemctl"),
        *("sudo", "su", "doas", "pkexec", "runuser", "chroot", "unshare", "nsenter"),
        *("env", "exec", "eval", "command", "builtin", "source", ".", "nice", "nohup", "setsid"),
        *("stdbuf", "time", "timeout", "watch", "flock", "xargs", "parallel", "find", "fd"),
        *("rm", "rmdir", "shred", "dd", "mv", "ln", "chmod", "chown", "kill", "pkill", "killall"),
        *("curl", "wget", "nc", "ncat", "socat", "telnet", "ftp", "ssh", "scp", "sftp", "rsync"),
        *("docker", "podman", "kubectl", "npx", "uvx", "pipx"),
    }
)
# The second word says what these do; behind `run` and its like it is the third.
_WITH_SUBCOMMANDS = frozenset(
    {
        *("git", "gh", "npm", "pnpm", "yarn", "pip", "uv", "poetry", "hatch", "tox", "nox"),
        *("cargo", "rustup", "go", "dotnet", "mvn", "gradle", "make", "just", "task"),
        *("bundle", "gem", "rake", "composer", "mix", "apt", "apt-get", "brew", "conda"),
        *("terraform", "helm"),
    }
)
_STARTS_ANOTHER = frozenset({"run", "exec", "x", "dlx"})
_PROGRAM = re.compile(r"[\w.][\w./+-]*|/[\w./+-]+")
_SUBCOMMAND = re.compile(r"\w[\w:-]*")


def session_rule(call: ToolCall) -> str | None:
    """Return a rule that covers *call* and its like, or None when none can be overseen.

    A command is remembered by its first words, every other tool by its name.
    """
    given = call.input if isinstance(call.input, dict) else {}
    if call.name != COMMAND_TOOL:
        return f"{call.name}(*)" if "path" in given else call.name
    command = given.get("command")
    words = plain_words(command) if isinstance(command, str) else None
    beginning = _beginning(words) if words else None
    return f"{COMMAND_TOOL}({' '.join(beginning)} *)" if beginning else None


def _beginning(words: Sequence[str]) -> Sequence[str] | None:
    """Return the words that say what a command does; None where they do not."""
    count = 1
    if _name(words[0]) in _WITH_SUBCOMMANDS:
        count = 3 if words[1:2] and words[1] in _STARTS_ANOTHER else 2
    program, *subcommands = beginning = words[:count]
    overseen = (
        len(beginning) == count
        and _PROGRAM.fullmatch(program)
        and all(map(_SUBCOMMAND.fullmatch, subcommands))
        and _NEVER.isdisjoint(map(_name, beginning))
    )
    return beginning if overseen else None


def _name(program: str) -> str:
    """Return the name of a program without its path and version: python for /bin/python3.12."""
    name = program.rpartition("/")[2]
    return name.rstrip("0123456789.-") or name
