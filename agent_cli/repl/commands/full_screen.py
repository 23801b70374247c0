"""Detect commands that need the terminal: full-screen programs, and programs that prompt.

Known by name, because a command whose output is already captured cannot be moved to the terminal
later.
"""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

_FULL_SCREEN: Final = (
    *("vi", "vim", "vimdiff", "view", "nvim", "nano", "pico", "emacs", "micro", "hx", "helix"),
    *("kak", "joe", "jed", "mcedit", "ed", "ex", "less", "more", "most", "man", "info"),
    *("top", "htop", "btop", "atop", "iotop", "nvtop", "watch", "glances", "mc", "ranger", "nnn"),
    *("lf", "yazi", "vifm", "ncdu", "tig", "lazygit", "gitui", "k9s", "lazydocker", "fzf"),
    *("gdb", "lldb", "tmux", "screen", "zellij", "dialog", "whiptail"),
)
# These ask for a password on the terminal, wherever their output goes.
_ASKING: Final = (
    *("sudo", "doas", "su", "ssh", "mosh", "telnet", "sftp", "ftp", "passwd", "visudo", "vipw"),
)
# These open a prompt unless they are given something to run.
_SHELLS: Final = (
    *("bash", "zsh", "sh", "fish", "python", "python3", "ipython", "node", "irb", "ghci"),
    *("psql", "mysql", "sqlite3", "redis-cli", "bc"),
)
_WRAPPERS: Final = ("command", "exec", "env", "time", "nice", "nohup")
_VARIABLES: Final = ("VISUAL", "EDITOR", "PAGER", "MANPAGER")
_SEPARATORS: Final = re.compile(r"[;&|()<>]+")
_ASSIGNMENT: Final = re.compile(r"\w+=")
_GIT_OPTIONS: Final = {
    "rebase": ("-i", "--interactive"),
    "add": ("-i", "-p", "-e", "--interactive", "--patch", "--edit"),
    **dict.fromkeys(("checkout", "restore", "reset", "stash"), ("-p", "--patch")),
}
_GIT_MESSAGES: Final = ("-m", "-F", "-C", "--message", "--file", "--no-edit", "--fixup", "--reuse")


def needs_terminal(command: str, environment: Mapping[str, str]) -> bool:
    """Return whether a part of *command* is a full-screen program or asks on the terminal."""
    own = {
        Path(first).name for name in _VARIABLES for first in environment.get(name, "").split()[:1]
    }
    return any(_needs_terminal(words, end, own) for words, end in _parts(command))


def _needs_terminal(words: Sequence[str], end: str, own: set[str]) -> bool:
    """Return whether the simple command *words*, followed by the operator *end*, does."""
    name, arguments = Path(words[0]).name, words[1:]
    if name in _ASKING:
        return True
    if end.startswith(("|", ">")):  # its output is not a terminal, which it notices
        return False
    if name in _SHELLS:
        return not arguments
    if name == "git":
        return _opens_editor(arguments)
    return name in _FULL_SCREEN or name in own or (name == "crontab" and "-e" in arguments)


def _opens_editor(arguments: Sequence[str]) -> bool:
    """Return whether git with these *arguments* opens an editor or asks."""
    subcommand = next((word for word in arguments if not word.startswith("-")), "")
    if subcommand == "commit":
        return not any(re.match(r"-[a-z]*[mFC]", word) for word in arguments) and not any(
            word.startswith(_GIT_MESSAGES) for word in arguments
        )
    return any(word in _GIT_OPTIONS.get(subcommand, ()) for word in arguments)


def _parts(command: str) -> Iterator[tuple[list[str], str]]:
    """Yield the words of each simple command, and the operator behind them."""
    lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    lexer.commenters = ""
    words: list[str] = []
    try:
        for token in [*lexer, ";"]:
            if not _SEPARATORS.fullmatch(token):
                words.append(token)
                continue
            while words and (words[0] in _WRAPPERS or _ASSIGNMENT.match(words[0])):
                words.pop(0)
            if words:
                yield words, token
            words = []
    except ValueError:  # an unclosed quote: the shell reports it
        return
