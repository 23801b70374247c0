"""Commands that only report on a program or the machine: `node --version`, `ps`."""

import re
from collections.abc import Sequence

from agent_cli.policies.shell.place import Objection, Place
from agent_cli.policies.shell.words import Word

# Left out: programs that, even for --version, first run another program if a file of the repository
# says so: yarn, pnpm, cargo, rustc, go, dotnet, pytest, terraform.
_VERSION = {
    **dict.fromkeys(
        (
            *("python", "python3", "pip", "pip3", "node", "npm", "ruby", "perl", "php", "make"),
            *("gcc", "g++", "clang", "cmake", "git", "bash", "grep", "sed", "awk", "find", "tar"),
            *("gzip", "curl", "wget", "jq", "rg", "docker", "gh", "uv", "ruff", "black", "mypy"),
            *("sqlite3", "psql", "ls", "cat", "sort", "diff", "patch", "rsync", "tmux", "vim"),
        ),
        ("--version",),
    ),
}
_MORE_VERSIONS = {
    "node": ("-v",),
    "npm": ("-v",),
    "python": ("-V",),
    "python3": ("-V",),
    "ruby": ("-v",),
    "perl": ("-v",),
    "php": ("-v",),
    "java": ("-version", "--version"),
    "javac": ("-version", "--version"),
    "ssh": ("-V",),
    "openssl": ("version",),
    "tmux": ("-V",),
}
_HELP = frozenset(
    {
        *(
            "python3",
            "node",
            "pip",
            "pip3",
            "make",
            "gcc",
            "tar",
            "curl",
            "jq",
            "rg",
            "grep",
            "sed",
        ),
        *("find", "ls", "cat", "head", "tail", "sort", "uniq", "wc", "cut", "tr", "diff", "xargs"),
        *(
            "cp",
            "mv",
            "rm",
            "mkdir",
            "touch",
            "chmod",
            "ruff",
            "mypy",
            "black",
            "uv",
            "gh",
            "rsync",
        ),
        *("docker", "stat", "du", "df", "tree", "date", "ps", "gzip", "cmake"),
    }
)
_PS_OPTIONS = re.compile(r"-[AaeflFjTHwy]+|--forest|--no-headers|-p|-u|-C|--sort=-?[%\w]+")
_PS_BSD = re.compile(r"[afjlruwx]+")
_PS_FIELDS = re.compile(
    r"(?:pid|ppid|pgid|sid|user|uid|comm|args|cmd|command|pcpu|%cpu|pmem|%mem|rss|vsz|etime|etimes"
    r"|stat|state|start|lstart|time|tty|tt|nlwp|ni|pri)=?"
)
_PLAIN_VALUE = re.compile(r"[\w.,-]+")


def tells_about_itself(name: str, arguments: Sequence[Word], place: Place) -> bool:
    """Return whether a program only prints its version, its help or the processes.

    Raises:
        Objection: It is `ps`, and would show more than that.
    """
    texts = [word.text for word in arguments]
    if len(texts) == 1:
        [text] = texts
        if text in _VERSION.get(name, ()) or text in _MORE_VERSIONS.get(name, ()):
            return True
        if text == "--help" and name in _HELP:
            return True
    if name == "ps":
        _check_ps(texts, place)
        return True
    return False


def _check_ps(texts: list[str], place: Place) -> None:
    # Arguments of other programs may be secrets; the sandbox shows no other programs.
    if not place.secrets_are_masked:
        raise Objection("ps shows the arguments of other programs")
    waiting = iter(texts)
    for text in waiting:
        if text in ("-o", "-eo", "-Ao", "o", "axo"):
            known = all(map(_PS_FIELDS.fullmatch, next(waiting, "").split(",")))
        elif text in ("-p", "-u", "-C"):
            known = bool(_PLAIN_VALUE.fullmatch(next(waiting, "")))
        else:
            known = bool(_PS_OPTIONS.fullmatch(text) or _PS_BSD.fullmatch(text))
        if not known:
            raise Objection(f"ps {text} may do more than read")
