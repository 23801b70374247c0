"""Know the programs that run a command given in their arguments, and where in them it stands.

A table of names and no proof: a wrapper that is missing hides its command from deny rules. What
such programs read from files or their input is not here.
"""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from types import MappingProxyType
from typing import Final

from agent_cli.policies.shell.syntax import SCRIPT
from agent_cli.sandbox.git_config import is_harmless_key
from agent_cli.system.loading import late_pattern

SHELLS: Final = frozenset(
    {
        *(
            "sh",
            "bash",
            "dash",
            "zsh",
            "ksh",
            "fish",
            "ash",
            "csh",
            "tcsh",
            "rbash",
            "rksh",
            "rzsh",
        ),
        *("mksh", "lksh", "oksh", "pdksh", "yash", "posh", "nu", "xonsh", "elvish", "pwsh"),
        *("rc", "es", "oil", "osh", "ysh", "scsh"),
    }
)
FIND_STARTS: Final = frozenset({"-exec", "-execdir", "-ok", "-okdir"})
"""The words of `find` behind which a command stands that it runs."""
FIND_ENDS: Final = frozenset({";", "\\;", "+"})
"""The words that end such a command, one of them as it is written in a shell."""
RUN_WORDS: Final[Mapping[str, re.Pattern[str]]] = MappingProxyType(
    {
        **dict.fromkeys(("find", "gfind"), late_pattern("|".join(sorted(FIND_STARTS)))),
        **dict.fromkeys(("fd", "fdfind"), late_pattern(r"-[^-]*[xX].*|--exec.*", re.DOTALL)),
    }
)
"""The words of the programs that look for files, behind which or in which a command stands."""
# Programs and shell keywords that run a command given in their arguments.
STARTERS: Final = SHELLS | {
    *("timeout", "time", "nice", "nohup", "stdbuf", "command", "builtin", "env", "xargs", "exec"),
    *("sudo", "doas", "su", "pkexec", "runuser", "setsid", "flock", "watch", "parallel", "find"),
    *("fd", "ionice", "chrt", "taskset", "chroot", "unshare", "nsenter", "bwrap", "firejail"),
    *("strace", "ltrace", "gdb", "valgrind", "perf", "script", "unbuffer", "busybox", "toybox"),
    *("eval", "trap", "source", ".", "coproc", "ssh", "docker", "podman", "kubectl", "entr"),
    *("setpriv", "prlimit", "setarch", "choom", "numactl", "uclampset", "cgexec", "systemd-run"),
    *("dbus-run-session", "dbus-launch", "xvfb-run", "sg", "fakeroot", "faketime", "eatmydata"),
    *("rlwrap", "torsocks", "proxychains", "proxychains4", "sem", "catchsegv"),
    # What the parser takes for a command behind the ones above.
    *("if", "then", "elif", "else", "while", "until", "do", "function"),
    *("!", "npx", "uvx", "pipx", "poetry", "uv", "hatch", "rye", "nix-shell", "direnv"),
    *("linux32", "newgrp", "start-stop-daemon", "expect", "bunx", "pdm", "tmux", "screen"),
    *(
        "dtach",
        "abduco",
        "zellij",
        "hyperfine",
        "nodemon",
        "watchexec",
        "watchmedo",
        "concurrently",
    ),
    *("chronic", "ifne", "capsh", "machinectl", "s6-setuidgid", "envdir", "wait-for-it.sh"),
    *("catatonit", "genv", "gnice", "gxargs", "caffeinate", "xterm", "kitty", "alacritty"),
    *("lldb", "rr", "pdsh", "mosh", "autossh", "torify", "tsocks", "systemd-nspawn"),
    *("systemd-cat", "logsave", "retry", "with-contenv", "ansible", "linux64", "i386", "x86_64"),
    *("pipenv", "pee", "fakechroot", "proot", "lxc", "chpst", "gosu", "su-exec", "setuidgid"),
    *("envuidgid", "softlimit", "dotenv", "dotenvx", "cross-env", "dockerize", "tini", "dumb-init"),
    *("cpulimit", "timelimit", "gtimeout", "gtime", "gstdbuf", "gfind", "fdfind", "sandbox-exec"),
    *("arch", "gnome-terminal", "konsole", "heaptrack", "fab", "sshpass", "schedtool", "gksu"),
    *("run0", "systemd-inhibit", "setlock", "run-one", "wait-for-it", "wine", "wine64"),
}
# The words behind which a command stands, of a program with many subcommands: any, or that one.
_STARTS_BEHIND: Final[Mapping[str, Sequence[tuple[str, frozenset[str]]]]] = MappingProxyType(
    {
        program: [(subcommand, frozenset(words.split()))]
        for programs, subcommand, words in (
            ("npm pnpm yarn bun", "", "exec x dlx"),
            ("conda mamba", "", "run"),
            ("bundle asdf aws-vault chamber tox lerna stack cabal opam rbenv", "", "exec"),
            ("cargo", "watch", "-s --shell -x --exec"),
            ("just mix", "", "--command cmd"),
            ("mise", "", "exec x"),
            ("op doppler infisical", "", "run"),
            ("sops", "", "exec-env exec-file"),
            ("nix guix", "", "-c --command --"),
            ("cmake ctest", "", "-E --test-command"),
            ("vagrant", "", "ssh"),
            ("docker-compose podman-compose nerdctl", "", "exec run"),
            ("ip oc", "", "exec --"),
        )
        for program in programs.split()
    }
    | {"git": [("bisect", frozenset({"run"})), ("submodule", frozenset({"foreach"}))]}
)
# Options whose value is a command, alone, before = or before the value itself.
_COMMAND_OPTIONS: Final[Mapping[str, re.Pattern[str]]] = MappingProxyType(
    {
        "git": late_pattern(
            r"-x|-u|--exec|--extcmd|--(?:upload|receive)-pack|-O|--open-files-in-pager|--\w+-filter"
        ),
        "tar": late_pattern(
            r"--to-command|--checkpoint-action(?:=exec)?|-I|--use-compress-program|-F"
            r"|--(?:info|new-volume)-script|--rsh-command|--rmt-command"
        ),
        "man": late_pattern(r"-\w*[PH]|--(?:pager|html)"),
        "java": late_pattern(r"-XX:On\w+(?==)"),
        "tcpdump": late_pattern(r"-z"),
        **dict.fromkeys(("mysql", "mariadb"), late_pattern(r"--pager")),
        **dict.fromkeys(("npm", "pnpm"), late_pattern(r"--script-shell|scripts\.[\w:-]+(?==)")),
        "rsync": late_pattern(r"-[a-zA-Z]*e|--rsh|--rsync-path"),
        "make": late_pattern(r"--eval|-E|[A-Z_]+(?==)"),
        "rg": late_pattern(r"--pre|--hostname-bin"),
        "fzf": late_pattern(r"--preview|--bind"),
        "split": late_pattern(r"--filter"),
        "sort": late_pattern(r"--compress-program"),
        "zip": late_pattern(r"-TT|--unzip-command"),
        "go": late_pattern(r"-exec|-toolexec|-vettool"),
        **dict.fromkeys(("nc", "ncat"), late_pattern(r"-e|-c|--exec|--sh-exec")),
        **dict.fromkeys(("scp", "sftp"), late_pattern(r"-S|-o")),
        **dict.fromkeys(("ssh", "apt", "apt-get"), late_pattern(r"-o")),
        "dpkg": late_pattern(r"--(?:pre|post)-invoke"),
    }
)
# Those of programs that accept the beginning of a long option.
_ABBREVIATED: Final[Mapping[str, Sequence[str]]] = MappingProxyType(
    {
        "git": ("--exec", "--extcmd", "--upload-pack", "--receive-pack", "--open-files-in-pager"),
        "tar": (
            *("--to-command", "--checkpoint-action", "--use-compress-program", "--info-script"),
            *("--new-volume-script", "--rsh-command", "--rmt-command"),
        ),
        "split": ("--filter",),
        "sort": ("--compress-program",),
    }
)
_OPTION_CHARS_MIN: Final = 3  # `git clone --u=x`
_OTHER_NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {"gmake": "make", "gtar": "tar", "gsed": "sed"}
)
# A command in a word of a program that leaves to a shell: `vim -c '!x'`, `sqlite3 a '.shell x'`.
_TO_SHELL: Final = late_pattern(
    r"\+?[:\\]?(?:sil\w*!?\s+|exe\w*\s+[\"'])?(?:r|w|read|write)?\s*!|\+?:?call\s+system\([\"']"
    r"|\.sh\w*\s|\.system\s|\.\w+\s+[\"']?\||\\o\s*\||(?i:\\?copy\s[^']*\bprogram\s+'?)|ext::"
    r"|(?:platform\s+)?shell\s|system\s|spawn\s|EXEC:|SYSTEM:",
)
# Behind an `e` in a script of sed, to the end of the line; without an address behind a blank.
_SED_ADDRESS: Final = r"(?:[\d$~]++|/(?>(?:[^/\\\n]|\\.)*)/[IM]*{})".format(
    "".join(
        rf"|\\{re.escape(mark)}(?>(?:[^{mark}\\\n]|\\.)*){re.escape(mark)}[IM]*"
        for mark in ",|%#@:!_+="
    )
)
_SED_BEGIN: Final = r"(?:^(?:--?\w+=|-\w*e)?|[;{}\n])\s*+"
_SED_WHERE: Final = rf"{_SED_ADDRESS}(?:,[+~]?{_SED_ADDRESS})?\s*+!?\s*+"
_SED_RUNS: Final = late_pattern(
    rf"{_SED_BEGIN}(?:{_SED_WHERE}e[ \t]*|!?\s*+e[ \t]+)([^\n;}}][^\n]*)"
)
_SED_REPLACES: Final = late_pattern(
    r"s([^\w\s])(?:\\.|(?!\1)[^\\\n]){0,500}\1((?:\\.|(?!\1)[^\\]){0,500})\1[gpIiMm\d]*e", re.DOTALL
)
# Sed then runs the line that it has read, or what a substitution makes of it.
_SED_RUNS_INPUT: Final = late_pattern(rf"{_SED_BEGIN}(?:{_SED_WHERE}|!?\s*+)e\s*+(?:$|[;}}\n])")
_OF_INPUT: Final = late_pattern(r"\s*|.*(?:&|\\\d).*", re.DOTALL)
_SAYS_ONLY: Final = frozenset(
    {"echo", "printf", "grep", "egrep", "fgrep", "rg", "gh", "find", "awk", "gawk", "mawk", "nawk"}
)
_PROSE: Final = r"-\w*m|--(?:message|title|body|notes?|description|reason)"
# An option whose value, the next word, is for people; and one that may have it joined to it.
OPTION_OF_PROSE: Final = late_pattern(_PROSE)
OPTION_WITH_PROSE: Final = late_pattern(rf"{_PROSE}(?:=.*)?")
ADDS_ARGUMENTS: Final = frozenset({"xargs", "parallel", "find", "fd", "entr"})
"""They run a command for each name that they read or find."""
_REPLACED: Final = late_pattern(r"(?:-[0rtx]*[Ii]|--replace=?)(.*)", re.DOTALL)
_RUNS_LATER: Final = frozenset({"at", "batch"})
# `sudo -i`, `su - me` without a command.
_OPENS_SHELL: Final = late_pattern(
    r"(?:sudo|doas)(?=.*\s-(?:\w*[is]|-(?:login|shell)))(?:\s-\w*[ugpCDhRrtT]\s\S+|\s-\S+)+"
    r"|su(?!.*\s-(?:\w*c|-(?:c|session-c)ommand))(?:\s\S+)*"
)
_SHOWS_JOBS: Final = frozenset({"-l", "-c", "-d", "-r", "-V"})
# ssh takes a blank, too: `-o "ProxyCommand nc x 22"`.
_SETS: Final = late_pattern(r"[\w.:-]+\s*=|\w+(?i:command)\s")
# The parser loses a - before `<<`.
_FROM_INPUT: Final = late_pattern(
    r"(?:-\w*f|--(?:make)?file)(?:$|[ =]?(?:-(?: |$)|/dev/(?:stdin|fd)))"
)


# Cached: a decision asks for those of the same words many times.
@lru_cache(maxsize=4_096)
def base_name(program: str) -> str:
    """Return the name of a program without its folder, in lowercase, nor its ending on Windows."""
    return program.rpartition("/")[2].casefold().removesuffix(".exe")


_SHELL: Final = late_pattern(rf"(?:{'|'.join(sorted(SHELLS))})(?:-?\d[\d.]*)?")


def is_shell(word: str | None) -> bool:
    """Return whether *word* names a shell, also one with its version behind the name."""
    return word is not None and bool(_SHELL.fullmatch(base_name(word)))


GIT_OPTIONS_WITH_VALUE: Final = frozenset(
    {"-C", "-c", "--git-dir", "--work-tree", "--namespace", "--config-env", "--attr-source"}
    | {"--super-prefix"}
)
"""Git's own options, before the subcommand, whose value is the next word."""


def options_end(arguments: Sequence[str | None]) -> int:
    """Return the index of the `--` behind which each word is a name; their number without one."""
    return arguments.index("--") if "--" in arguments else len(arguments)


def git_call(words: Sequence[str]) -> Sequence[str]:
    """Return the subcommand of git among its arguments *words*, and what follows it."""
    at = 0
    while at < len(words) and words[at].startswith("-"):
        at += 2 if words[at] in GIT_OPTIONS_WITH_VALUE else 1
    return words[at:]


def started_at(words: Sequence[str | None]) -> int | None:
    """Return the word of *words* behind which another command stands; None if there is none."""
    name = base_name(words[0] or "")
    if name in STARTERS:
        return 0
    for subcommand, behind in _STARTS_BEHIND.get(name, ()):
        if not subcommand or subcommand in words:
            return next((at for at, word in enumerate(words) if word in behind), None)
    return None


def has_commands(name: str) -> bool:
    """Return whether the program *name* takes commands in options."""
    usual = _usual_name(name)
    return usual in _COMMAND_OPTIONS or usual == "sed"


def option_scripts(words: Sequence[str | None]) -> Iterator[str]:
    """Yield the commands that the program of *words* takes in an option or behind a mark."""
    name = _usual_name(words[0] or "")
    option = _COMMAND_OPTIONS.get(name)
    for at, argument in enumerate(words[1:], 1):
        if not argument:
            continue
        word = _unabbreviated(name, argument)
        if option and (found := option.match(word)):
            value = _value(word, found.end(), words[at + 1 :])
            yield from filter(None, (value, set_value(value)))
        if name == "sed":
            yield from sed_commands(word)
        if name == "git" and words[at - 1] in ("-c", "--config"):
            yield from _git_setting(word, words[at + 1 :])
        if name == "git" and word.startswith("-c"):
            yield from _git_setting(word[2:], words[at + 1 :])
        if name == "git" and "config" in words and "." in (words[at - 1] or ""):
            yield from _git_setting(f"{words[at - 1]}={word}", ())
        if name == "git" and word.startswith("--config="):
            yield from _git_setting(word.partition("=")[2], ())
        if name == "git" and words[at - 1] == "--config-env":
            yield from _git_setting_of_variable(word)
        if name == "git" and word.startswith("--config-env="):
            yield from _git_setting_of_variable(word.partition("=")[2])
        if name in _SAYS_ONLY or OPTION_OF_PROSE.fullmatch(words[at - 1] or ""):
            continue
        if " " in word and (mark := _TO_SHELL.match(word)):
            yield word[mark.end() :]


def sed_commands(script: str) -> Iterator[str]:
    """Yield the commands that *script*, of sed, runs."""
    yield from (found[1] for found in _SED_RUNS.finditer(script))
    yield from (found[2] for found in _SED_REPLACES.finditer(script))


def _usual_name(program: str) -> str:
    """Return the name that the tables have for *program*, which may be a path."""
    name = base_name(program)
    return _OTHER_NAMES.get(name, name)


def _unabbreviated(name: str, word: str) -> str:
    """Return *word* with its long option in full, if it runs a command."""
    option, mark, value = word.partition("=")
    if len(option) < _OPTION_CHARS_MIN:
        return word
    whole = (each for each in _ABBREVIATED.get(name, ()) if each.startswith(option))
    return f"{next(whole, option)}{mark}{value}"


def set_value(word: str) -> str:
    """Return what *word* sets if it is `NAME=VALUE`, else ""."""
    found = _SETS.match(word)
    return word[found.end() :] if found else ""


def reads_recipes(name: str, operands: Sequence[str]) -> bool:
    """Return whether make takes its recipes from its input, which may be any command."""
    is_make = re.fullmatch(r"g?make", name) is not None
    return is_make and bool(_FROM_INPUT.search(" ".join(operands)))


def runs_input(words: Sequence[str | None]) -> bool:
    """Return whether the program of *words*, which is no shell, runs commands that it reads."""
    name = _usual_name(words[0] or "")
    # An unknown file may be the output of a process.
    operands = [word or "/dev/fd" for word in words[1:] if word != ""]
    if name == "sed":
        return bool(_FROM_INPUT.search(" ".join(operands))) or any(
            _SED_RUNS_INPUT.search(word)
            or any(_OF_INPUT.fullmatch(found[2]) for found in _SED_REPLACES.finditer(word))
            for word in operands
        )
    is_later = name in _RUNS_LATER and _SHOWS_JOBS.isdisjoint(operands)
    opens = _OPENS_SHELL.fullmatch(" ".join((name, *operands)))
    return is_later or opens is not None or reads_recipes(name, operands)


def with_unknown(words: tuple[str | None, ...]) -> tuple[str | None, ...]:
    """Return *words* of a program that runs a command for each name, which is unknown in them."""
    if base_name(words[0] or "") not in ADDS_ARGUMENTS:
        return words
    mark = "{}"
    for option, behind in pairwise((*words, None)):
        if found := _REPLACED.fullmatch(option or ""):
            mark = found[1] or (behind if found[0].endswith("I") else None) or mark
            break
    # In a script it is what a variable is.
    return tuple(
        (word.replace(mark, "$_") if SCRIPT.search(word) else None)
        if word and mark in word
        else word
        for word in words
    )


def _value(word: str, end: int, behind: Sequence[str | None]) -> str:
    """Return the value of the option that ends at *end* of *word*; *behind* stands behind it."""
    joined = word[end:]
    if joined:
        is_value = joined.startswith("=") or not word.startswith("--")
        return joined.removeprefix("=") if is_value else ""
    return (behind[0] if behind else "") or ""


def _git_setting(written: str, behind: Sequence[str | None]) -> Iterator[str]:
    """Yield what git may run by the setting *written*: of an alias with the words *behind* it."""
    key, _, value = written.partition("=")
    section, _, alias = key.casefold().partition(".")
    if section == "alias":
        given = behind[behind.index(alias) + 1 :] if alias in behind else ()
        words = ('"$_"' if word is None else shlex.quote(word) for word in given)
        run = value.removeprefix("!") if value.startswith("!") else f"git {value}"
        yield " ".join((run, *words))
    elif not is_harmless_key(key):
        yield value.removeprefix("!")


def _git_setting_of_variable(written: str) -> Iterator[str]:
    key, _, variable = written.rpartition("=")
    if not is_harmless_key(key):
        yield f'"${variable}"'  # a command whose name is not known
