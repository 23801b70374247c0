"""Name the commands that reach beyond the workspace, or lose something, by what they are.

They change this machine, another one, or the settings of all projects; they set hooks of git, read
what they run from their input, or run a task whose name says that it loses something.
"""

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from agent_cli.policies.shell.effects import known_effect
from agent_cli.sandbox.git_config import is_harmless_key
from agent_cli.system.late_patterns import late_pattern

_OTHER_RIGHTS = frozenset({"sudo", "doas", "su", "pkexec", "runuser", "agent-cli", "agent_cli"})
# They change this machine or another one, unless they only show something.
_OF_MACHINES = frozenset(
    {
        *("crontab", "at", "batch", "systemctl", "service", "launchctl", "mount", "umount"),
        *("apt", "apt-get", "dnf", "yum", "pacman", "apk", "brew", "port", "snap", "zypper"),
        *("ssh", "scp", "sftp", "ssh-copy-id", "ssh-add", "useradd", "usermod", "userdel"),
        *("passwd", "chsh", "iptables", "nft", "ufw", "sysctl", "modprobe", "insmod", "chroot"),
    }
)
# Subcommands about settings, accounts and tools for all projects.
_FOR_ALL_PROJECTS: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {
        **dict.fromkeys(("npm", "pnpm", "yarn"), frozenset({"config", "login", "adduser", "set"})),
        **dict.fromkeys(("pip", "pip3", "poetry", "conda"), frozenset({"config"})),
        **dict.fromkeys(("cargo", "go", "gem", "pipx"), frozenset({"install", "uninstall"})),
        **dict.fromkeys(("docker", "podman"), frozenset({"login", "context"})),
        "gh": frozenset({"auth", "config", "alias", "extension", "ssh-key", "secret"}),
        "aws": frozenset({"configure"}),
        "gcloud": frozenset({"auth", "config"}),
    }
)
_SHOWS = frozenset({"get", "list", "ls", "status", "show", "--get", "--list", "-l"})
_EVERYWHERE = late_pattern(r"--global|--system|--user|--location=(?:user|global)")
_TAKES_GLOBAL = frozenset({"git", "npm", "pnpm", "yarn", "pip", "pip3", "gem", "cargo", "composer"})
# They write hooks of git.
_SETS_HOOKS = frozenset({"pre-commit", "husky", "lefthook"})
_OPTION = late_pattern(r"-.*")
# Tasks of a project or a service: `db:drop`, `flush`.
_LOSING_TASK = late_pattern(
    r"(?:[\w-]+:)*(?:drop|destroy|purge|flush|yank|reset|wipe|truncate|nuke|downgrade)(?::[\w-]+)*"
)
_TASK_WORDS_MAX = 3
_FROM_INPUT = late_pattern(r"(?:-\w*f|--(?:make)?file)[ =]?(?:-(?: |$)|/dev/(?:stdin|fd))")
# An expansion whose value is not known to lie in the workspace.
_UNKNOWN = late_pattern(
    r"\$(?![\d?#@*!$-]|\{?(?:PWD|@|\d)\b|\((?:pwd|git rev-parse --show-toplevel)\)|[^\w{(]|$)|`"
)


def is_reserved_program(name: str, operands: Sequence[str]) -> bool:
    """Return whether the program *name* with *operands*, as written, is a person's to allow."""
    if name in _OTHER_RIGHTS or _OTHER_RIGHTS.intersection(operands):
        return True
    if name in ("cd", "pushd") and not operands:  # home, or the folder before
        return True
    effect = known_effect(name, operands)
    kind = effect.kind if effect else "unknown"
    if name in _OF_MACHINES and kind in ("acts", "unknown") and not _SHOWS.intersection(operands):
        return True
    if kind == "acts" and any(map(is_unknown, operands)):
        return True
    tasks = [word for word in operands if not _OPTION.fullmatch(word)][:_TASK_WORDS_MAX]
    if name != "git" and kind != "reads" and any(map(_LOSING_TASK.fullmatch, tasks)):
        return True
    return (
        _is_for_all_projects(name, operands)
        or _sets_hooks(name, operands)
        or _reads_recipes(name, operands)
    )


def is_unknown(written: str) -> bool:
    """Return whether the word *written* expands to what is not in the text."""
    return bool(_UNKNOWN.search(written))


def _is_for_all_projects(name: str, operands: Sequence[str]) -> bool:
    if _SHOWS.intersection(operands):
        return False
    if name in _TAKES_GLOBAL and any(map(_EVERYWHERE.fullmatch, operands)):
        return True
    if name in ("npm", "pnpm") and "-g" in operands:
        return True
    return bool(_FOR_ALL_PROJECTS.get(name, frozenset()).intersection(operands[:2]))


def _sets_hooks(name: str, operands: Sequence[str]) -> bool:
    """Return whether a command changes which programs git starts."""
    if name in _SETS_HOOKS:
        return "install" in operands or "init" in operands
    if name != "git":
        return False
    if list(operands[:2]) == ["lfs", "install"]:
        return True
    if "config" not in operands:
        return False
    named = operands[operands.index("config") + 1 :]
    words = [word for word in named if not _OPTION.fullmatch(word) and word != "set"]
    is_read = len(words) < 2 and not {"--unset", "--edit", "-e"}.intersection(named)
    return not (is_read or _SHOWS.intersection(named) or is_harmless_key(words[0] if words else ""))


def _reads_recipes(name: str, operands: Sequence[str]) -> bool:
    """Return whether make takes its recipes from its input, which may be any command."""
    is_make = re.fullmatch(r"g?make", name) is not None
    return is_make and bool(_FROM_INPUT.search(" ".join(operands)))
