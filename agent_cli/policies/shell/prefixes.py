"""The rules behind "always this session": the narrowest prefixes that cover a script."""

import re
from types import MappingProxyType

from agent_cli.policies.shell.plain import SimpleCommand, Unknown, parse
from agent_cli.policies.shell.reach import Reach
from agent_cli.policies.shell.read_only import objections
from agent_cli.policies.shell.readings import STARTERS
from agent_cli.system.late_patterns import late_pattern

PREFIXES_MAX = 5

# The number of words that determine a command's effect; one for all others.
_TWO = (
    *("apt", "apt-get", "brew", "bun", "bundle", "cargo", "composer", "conda", "dotnet", "gem"),
    *("gh", "git", "go", "gradle", "hatch", "helm", "just", "make", "mix", "mvn", "nox", "npm"),
    *("pdm", "pip", "pip3", "pnpm", "poetry", "rake", "rustup", "rye", "task", "terraform"),
    *("tox", "uv", "yarn"),
)
_THREE = (
    *("npm run", "pnpm run", "yarn run", "bun run", "poetry run", "uv run", "hatch run"),
    *("rye run", "pdm run", "composer run", "git stash", "git remote", "gh pr", "gh issue"),
    *("gh run", "uv pip"),
)
_ARITY = MappingProxyType(dict.fromkeys(_TWO, 2) | dict.fromkeys(_THREE, 3))
_START_IF_TOLD = frozenset({"uv", "poetry", "hatch", "rye"})
# The arguments determine the effect of these: no prefix is enough.
_NEVER = (STARTERS - _START_IF_TOLD) | {
    *("awk", "gawk", "mawk", "sed", "perl", "ruby", "node", "deno", "python", "pypy", "ipython"),
    *("php", "lua", "tclsh", "java", "Rscript", "julia", "osascript", "pwsh", "vi", "vim", "nvim"),
    *("emacs", "ed", "ex", "crontab", "at", "systemctl", "cd", "pushd", "export", "alias", "set"),
    *("unset", "rm", "rmdir", "shred", "dd", "mv", "ln", "cp", "tee", "install", "chmod", "chown"),
    *("kill", "pkill", "killall", "curl", "wget", "nc", "ncat", "socat", "telnet", "ftp", "scp"),
    *("sftp", "rsync"),
}
_NEVER_BEGINNINGS = frozenset(
    {
        *("npm exec", "bundle exec", "go run", "go tool", "cargo run", "git config", "git push"),
        *("git rebase", "git bisect", "git submodule", "git filter-branch", "git difftool"),
        *("git mergetool", "git reset", "git clean"),
    }
)
_PROGRAM = late_pattern(r"[\w.][\w./+-]*|/[\w./+-]+", re.ASCII)
_SUBCOMMAND = late_pattern(r"\w[\w.:+-]*", re.ASCII)
_VERSION = late_pattern(r"[\d.-]+$")


def session_prefixes(script: str, reach: Reach) -> tuple[str, ...]:
    """Return rules that would allow *script* and similar ones, e.g. `npm run test *`.

    Returns:
        One for each command that does more than read; none if the effect of one is unclear, or if
        there are more than a person would read.
    """
    commands = parse(script, reach.variables)
    if isinstance(commands, Unknown):
        return ()
    asking = [command for command, objection in objections(commands, reach) if objection]
    prefixes = [_prefix(command) for command in asking]
    known = dict.fromkeys(prefix for prefix in prefixes if prefix)
    if None in prefixes or len(known) > PREFIXES_MAX:
        return ()
    return tuple(known)


def _prefix(command: SimpleCommand) -> str | None:
    if command.reads or any(word.untold for word in command.words):
        return None
    words = [word.text for word in command.words]
    count = _ARITY.get(" ".join(words[:2]), _ARITY.get(words[0], 1))
    program, *subcommands = beginning = words[:count]
    if not _PROGRAM.fullmatch(program) or not all(map(_SUBCOMMAND.fullmatch, subcommands)):
        return None
    if " ".join(words[:2]) in _NEVER_BEGINNINGS or not _NEVER.isdisjoint(map(_name, beginning)):
        return None
    # A command with fewer words, such as `make`, is allowed only exactly as written.
    return " ".join(beginning if len(beginning) < count else (*beginning, "*"))


def _name(program: str) -> str:
    """Return a program's name without folder and version: python for /usr/bin/python3.12."""
    name = program.rpartition("/")[2]
    return _VERSION.sub("", name) or name
