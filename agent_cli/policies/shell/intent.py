"""Whether a script says that it is to change something, or needs what a read-only run lacks.

Such a script is asked about at once: to attempt it first would only take time, and one that hides
its errors would seem to have succeeded. Nothing is safe because of this list: the sandbox of the
attempt is what prevents changes.
"""

import re

from agent_cli.policies.shell.named_paths import named_paths
from agent_cli.policies.shell.place import Place
from agent_cli.policies.shell.readings import base_name, readings
from agent_cli.policies.shell.syntax import (
    WRITING,
    descendants,
    redirect_words,
    source,
    syntax_tree,
)
from agent_cli.policies.shell.words import likely_word

_CHANGES = frozenset(
    {
        *("rm", "rmdir", "unlink", "mv", "cp", "mkdir", "mkfifo", "mknod", "touch", "ln", "chmod"),
        *("chown", "chgrp", "setfacl", "install", "tee", "truncate", "dd", "patch", "mktemp"),
        *("rsync", "split", "csplit", "shred", "gunzip", "bunzip2", "unxz", "rename"),
    }
)
# Other hosts, other users, services, and other processes.
_BEYOND = frozenset(
    {
        *("curl", "wget", "ssh", "scp", "sftp", "ftp", "nc", "ncat", "telnet", "ping", "dig"),
        *("nslookup", "host", "traceroute", "sudo", "doas", "su", "pkexec", "kill", "pkill"),
        *("killall", "systemctl", "service", "journalctl", "docker", "podman", "kubectl", "helm"),
        *("gh", "glab", "aws", "gcloud", "az", "apt", "apt-get", "dnf", "yum", "pacman", "brew"),
        *("snap", "ss", "netstat", "lsof", "crontab", "at", "mount", "umount", "open"),
        *("xdg-open", "code", "vim", "vi", "nano", "emacs", "less", "more", "top", "htop"),
    }
)
# The first of its words that is no option.
_SUBCOMMANDS = {
    "git": frozenset(
        {
            *("add", "am", "apply", "bisect", "checkout", "cherry-pick", "clean", "clone"),
            *("commit", "fetch", "gc", "init", "merge", "mv", "pull", "push", "rebase", "reset"),
            *("restore", "revert", "rm", "switch", "maintenance", "prune", "repack", "lfs"),
        }
    ),
    **dict.fromkeys(
        ("npm", "pnpm", "yarn", "bun"),
        frozenset(
            {
                *("install", "i", "ci", "add", "remove", "rm", "uninstall", "update", "up"),
                *("upgrade", "link", "init", "create", "publish", "audit", "outdated", "view"),
            }
        ),
    ),
    **dict.fromkeys(("pip", "pip3", "pipx"), frozenset({"install", "uninstall", "download"})),
    "uv": frozenset({"add", "remove", "sync", "lock", "venv", "init", "build", "publish", "pip"}),
    "poetry": frozenset({"add", "remove", "install", "update", "lock", "init", "build"}),
    "cargo": frozenset({"add", "remove", "install", "update", "new", "init", "fix", "publish"}),
    "go": frozenset({"get", "install", "mod", "generate", "work"}),
    "gem": frozenset({"install", "uninstall", "update", "push"}),
    "bundle": frozenset({"install", "update", "add"}),
}
_IN_PLACE = re.compile(r"-[A-Za-z]*i.*|--in-place.*")
_EDITORS = frozenset({"sed", "perl", "ruby"})
_NO_FILE = ("/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty", "/dev/fd/")


def may_only_read(script: str, place: Place) -> bool:
    """Return whether nothing in the text of *script* says that it does more than to read.

    To read a secret is more: the sandbox would hide it.
    """
    if _writes_a_file(script) or any(map(place.is_secret, named_paths(script, place))):
        return False
    return not any(
        _is_more(base_name(words[0]), [word for word in words[1:] if word is not None])
        for words in readings(script)
        if words and words[0]
    )


def _is_more(name: str, words: list[str]) -> bool:
    if name in _CHANGES or name in _BEYOND:
        return True
    if name in _EDITORS:
        return any(map(_IN_PLACE.fullmatch, words))
    known = _SUBCOMMANDS.get(name, frozenset())
    return next((word for word in words if not word.startswith("-")), "") in known


def _writes_a_file(script: str) -> bool:
    for node in descendants(syntax_tree(script)):
        if node.type != "file_redirect" or WRITING.isdisjoint(each.type for each in node.children):
            continue
        for target in redirect_words(node)[:1]:
            word = likely_word(source(target))
            if word is None or not word.startswith(_NO_FILE):
                return True
    return False
