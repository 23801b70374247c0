"""What one command does, in verbs, for its explanation: those that only read too."""

import re
from collections.abc import Sequence
from functools import cache
from typing import Final

from agent_cli.policies.shell.effects import listed_effect
from agent_cli.policies.shell.readings import SHELLS, Reading, base_name

_NAMED_MAX: Final = 3
_VERSION: Final = re.compile(r"[\d.]+$")
# What programs do that change nothing; all others are in the table of effects.
_READING: Final = """
cat, bat, nl, tac, head, tail: shows files
ls, tree, exa, eza, dir: lists files
grep, rg, egrep, fgrep, ag, ack: searches for text
find, fd: searches for files
diff, cmp, comm: compares files
sort, uniq, cut, tr, column, rev, paste, sed, awk, gawk: prints text, rearranged
jq, yq: picks values out of data
pgrep, top: lists processes
which, type, whereis, hash: says where a program is
sha256sum, sha1sum, md5sum, cksum: computes checksums
wc: counts lines, words or characters
file, stat: shows what a file is
du, df: shows how much space is taken
date: shows the time
pwd: shows the current folder
whoami, id, uname, hostname: shows who or what this machine is
echo, printf: prints text
true, false: does nothing
test, [, [[: checks a condition
cd, pushd, popd: goes to another folder
declare, local, readonly, unset, read, shift: sets or removes variables
set, shopt, ulimit, trap: changes settings of the shell
exit, return, break, continue: ends what runs here
wait, jobs: waits for commands in the background, or lists them
source, .: runs a script in this shell
eval: runs its words as a command
exec: replaces the shell by a program
tee: writes its input to files
xargs, parallel: runs a command with the names it reads
time, timeout, nice, nohup, stdbuf, command, watch, setsid: runs a command, held in some way
git status, git log, git diff, git show, git blame, git ls-files: shows the repository
git: works with the repository
uv, poetry, hatch, pdm, rye, conda: manages a Python project
"""
# The names of files say more than the effect alone.
_WITH_NAMES: Final = frozenset(
    {
        *("rm", "rmdir", "unlink", "shred", "mkdir", "touch", "mv", "cp", "ln", "cat"),
        *("cd", "pushd", "tee", "source", ".", "ls", "chmod", "chown", "truncate", "patch"),
    }
)


def what_it_does(words: Reading) -> str:
    """Return what a simple command of *words* does, as a clause that begins with a verb.

    Returns:
        "" for a program that is not known. A word that is not known is left out.
    """
    head = words[0] if words else None
    if head is None:
        return ""
    name = base_name(head)
    known = [word for word in words[1:] if word is not None]
    if name in SHELLS:
        return "runs a shell script"
    does = listed_effect(name, known) or _read_only(name, known)
    names = [word for word in known if not word.startswith("-")] if name in _WITH_NAMES else []
    return f"{does}: {_few(names)}" if does and names else does


def _read_only(name: str, arguments: Sequence[str]) -> str:
    table = _reading()
    operands = [word for word in arguments if not word.startswith("-")]
    keys = [f"{name} {word}" for word in operands[:2]] + [name, _VERSION.sub("", name)]
    return next((table[key] for key in keys if key in table), "")


@cache
def _reading() -> dict[str, str]:
    lines = (line.split(": ", 1) for line in _READING.strip().splitlines())
    return {":": "does nothing"} | {
        name: does for written, does in lines for name in written.split(", ")
    }


def _few(names: Sequence[str]) -> str:
    more = len(names) - _NAMED_MAX
    return ", ".join(names[:_NAMED_MAX]) + (f" and {more} more" if more > 0 else "")
