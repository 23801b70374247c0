"""Find the commands that only a person may allow, whatever a model says.

Those that cannot be undone, that leave the workspace, change files that make programs act, have
other rights or are not understood. Like `readings`, this searches everywhere and rejects nothing:
wrappers, quoted scripts, here-documents, and code of other languages count as well.

Some programs always reach beyond the workspace or lose something. They change this machine, another
one, or the settings of all projects; they set hooks of git, run what they read from their input, or
run a task whose name says that it loses something.
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Final

from agent_cli.policies.shell.data_losses import has_data_loss
from agent_cli.policies.shell.deleted_folders import FINDS
from agent_cli.policies.shell.destructive import destructions
from agent_cli.policies.shell.effects import known_effect
from agent_cli.policies.shell.foreign_code import (
    code_leaves,
    code_of,
    reads_code,
    sed_leaves,
    starts_code,
)
from agent_cli.policies.shell.judgement import losses_of
from agent_cli.policies.shell.known_words import MAY_RUN_ELSEWHERE
from agent_cli.policies.shell.named_paths import at_home, brace_words, named_words, paths_of
from agent_cli.policies.shell.reach import OutOfReach, Reach, is_foreign, path_beyond
from agent_cli.policies.shell.readings import Reading, readings
from agent_cli.policies.shell.starters import OPTION_OF_PROSE, SHELLS, base_name, reads_recipes
from agent_cli.policies.shell.syntax import (
    descendants,
    is_too_large,
    odd_character,
    source,
    syntax_tree,
)
from agent_cli.policies.shell.words import likely_word, unquoted
from agent_cli.policies.shell.written_texts import documents
from agent_cli.sandbox.git_config import is_harmless_key
from agent_cli.sandbox.guarded_files import PROTECTED_NAMES, what_it_starts, why_protected
from agent_cli.sandbox.path_sets import is_inside
from agent_cli.system.loading import late_pattern
from agent_cli.system.paths import is_too_long

_INSIDE_WORD: Final = late_pattern(r"[=@:,]")
_SED: Final = late_pattern(r"g?sed")
# They run what they read, so the words that others print count as commands.
_RUNS_INPUT: Final = SHELLS | {"make", "gmake", "xargs", "parallel", "source", "."}
_SHEBANG: Final = late_pattern(r"#!\S*/(?:env )?\w*sh\b")
_VARIABLE: Final = late_pattern(r"\$(?:\{(\w+)\}|(\w+))")
# A script that changes its folder once.
_CHANGES_FOLDER: Final = late_pattern(
    r"((?:(?!\bcd\s).)*?)\bcd\s+([\w./-]+)\s*&&(?:(?!\b(?:cd|pushd|popd)\b).)*"
)
_PLAIN_COMMANDS: Final = late_pattern(r"(?:(?!CDPATH)[\w./:@%+, -]+&&\s*)*")
_HIDES_COMMAND: Final = late_pattern(
    r"\w[\"']+\w|\\|&&\s*[\"'$]|\b(?:builtin|command|eval|set)\b|[\"']\s*&&"
)
_FIND_ENDS: Final = frozenset({";", "+"})
_VALUES_MAX: Final = 64
_DEPTH_MAX: Final = 3

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
_LOSING_TASKS = frozenset(
    {"drop", "destroy", "purge", "flush", "yank", "reset", "wipe", "truncate", "nuke", "downgrade"}
)
_TASK = late_pattern(r"[\w-]+(?>(?::[\w-]+)*)")
_TASK_WORDS_MAX = 3
# An expansion whose value is not known to lie in the workspace.
_UNKNOWN = late_pattern(
    r"\$(?![\d?#@*!$-]|\{?(?:PWD|@|\d)\b|\((?:pwd|git rev-parse --show-toplevel)\)|[^\w{(]|$)|`"
)


def is_reserved(script: str, reach: Reach, depth: int = 0) -> bool:
    """Return whether a person must allow *script*, which stands *depth* scripts deep."""
    if depth > _DEPTH_MAX or is_too_large(script) or odd_character(script):
        return True
    try:
        return any(
            _Script(each, reach, depth).is_reserved() for each in _with_values(script, reach)
        )
    except OutOfReach:
        return True


def is_reserved_value(text: str, reach: Reach) -> bool:
    """Return whether *text* in the input of a tool needs a person, as a command in bash does.

    It is a path outside the workspace, a secret, a file that makes programs act, a command that
    cannot be undone, or a statement that deletes from a database.
    """
    if has_data_loss(text) or is_foreign(text, reach):
        return True
    if re.search(r"\s", text):
        return bool(destructions(readings(text), reach.root))
    path = Path(os.path.normpath(reach.root / at_home(text, reach)))
    return _acts(text, reach) or (reach.is_secret(path) and os.path.lexists(path))


class _Script:
    """One script, with the values of its variables in their place."""

    def __init__(self, script: str, reach: Reach, depth: int) -> None:
        self._script = script
        self._reach = reach
        self._depth = depth
        self._readings = list(readings(script))
        # What expands is unknown to `readings`, but for its text.
        self._commands = [*dict.fromkeys((*self._readings, *_as_written(script)))]
        self._harmless = set[str]()
        # Words that are only printed count if something may run them.
        heads = [words[0] or "" for words in self._commands if words]
        names = set(map(base_name, heads))
        self._runs_text = (
            not names.isdisjoint(_RUNS_INPUT)
            or any("/" in head for head in heads)
            or any(map(reads_code, self._commands))
        )
        self._names = names
        self._behind_cd = _behind_cd(script, reach)

    def is_reserved(self) -> bool:
        """Return whether a person must allow it."""
        return (
            bool(losses_of(self._script, self._readings, self._reach))
            or any(map(self._leaves, self._commands))
            or any(map(self._has_reserved_text, self._commands))
            or any(map(self._is_reserved_document, documents(self._script)))
            or self._names_what_is_kept()
        )

    def _inner(self, script: str) -> bool:
        # Most stand in several commands: that of a wrapper, and its own.
        if script not in self._harmless and is_reserved(script, self._reach, self._depth + 1):
            return True
        self._harmless.add(script)
        return False

    def _leaves(self, words: Reading) -> bool:
        """Return whether one command is unknown, or reaches beyond the workspace."""
        head = words[0] if words else ""
        is_of_find = not FINDS.isdisjoint(self._names) and not _FIND_ENDS.isdisjoint(words)
        if head is None:
            # What `find -exec` puts in the place of {} starts nothing.
            return not is_of_find
        if is_of_find and head.startswith("$"):
            return True
        if is_reserved_program(base_name(head), [word for word in words[1:] if word]):
            return True
        code = set(code_of(words)) if starts_code(words) else ()
        pieces = (piece for word in words if word and word not in code for piece in _pieces(word))
        return any(_is_outside(piece, self._behind_cd) for piece in pieces)

    def _has_reserved_text(self, words: Reading) -> bool:
        """Return whether a word of a command is code or a script that is reserved."""
        texts = [
            *(code_of(words) if starts_code(words) else _texts(words, printed=self._runs_text))
        ]
        # Once for all texts: a command may have thousands of words.
        has_shell = bool(texts) and any(word and base_name(word) in SHELLS for word in words)
        return any(self._is_reserved_text(text, words, has_shell=has_shell) for text in texts)

    def _is_reserved_text(self, text: str, words: Reading, *, has_shell: bool) -> bool:
        if _SED.fullmatch(base_name(words[0] or "")):
            return sed_leaves(text, self._reach, self._inner)
        if starts_code(words):
            return code_leaves(text, self._reach, self._inner)
        if has_shell:
            return self._inner(text)
        # `exec=COMMAND`, and an alias of git: `alias.x=!COMMAND`.
        scripts = (text, *(piece.lstrip("!") for piece in _INSIDE_WORD.split(text)[1:]))
        return any(self._destroys(each) for each in scripts if " " in each)

    def _is_reserved_document(self, text: str) -> bool:
        if code_leaves(text, self._reach, self._inner):
            return True
        if _SHEBANG.match(text):
            return self._inner(text)
        return self._runs_text and self._destroys(text)

    def _destroys(self, text: str) -> bool:
        return bool(destructions(readings(text), self._reach.root))

    def _names_what_is_kept(self) -> bool:
        words = list(dict.fromkeys(named_words(self._script, self._reach)))
        return any(_acts(word, self._reach) for word in words) or any(
            map(self._reach.is_secret, paths_of(words, self._script, self._reach))
        )


def _behind_cd(script: str, reach: Reach) -> Reach:
    """Return *reach* from the folder that *script* changes to first: `cd build && cmake ..`.

    Only if each command with a `..` surely runs there.
    """
    found = "cd" in script and _CHANGES_FOLDER.fullmatch(script)
    if not found or MAY_RUN_ELSEWHERE.search(script) or ".." in found[1] + found[2]:
        return reach
    # What is not written plainly may be another `cd`, or none.
    if not _PLAIN_COMMANDS.fullmatch(found[1]) or _HIDES_COMMAND.search(script):
        return reach
    folder = Path(os.path.realpath(reach.root / found[2]))
    if not is_inside(folder, reach.root):
        return reach
    return replace(reach, root=folder, extra_dirs=(reach.root, *reach.extra_dirs))


def _with_values(script: str, reach: Reach) -> Iterator[str]:
    """Yield *script* with the values of its variables in their place.

    Only values that stand in it count; those of one name take turns.

    Raises:
        OutOfReach: They are too many.
    """
    values: dict[str, list[str]] = {"HOME": [reach.home]} if reach.home else {}
    for node in descendants(syntax_tree(script)):
        if node.type == "variable_assignment":
            name, _, written = source(node).partition("=")
            taken = [written]
        elif node.type == "for_statement":
            name, *taken = (source(child) for child in node.named_children[:-1])
        else:
            continue
        known = (likely_word(each) or _pattern(each) for each in taken)
        values.setdefault(name, []).extend(filter(None, known))
    most = max(map(len, values.values()), default=1) or 1
    if most > _VALUES_MAX:
        raise OutOfReach("has a variable of too many values to try each of them")
    for at in range(most):
        chosen = {name: each[min(at, len(each) - 1)] for name, each in values.items() if each}
        # A value may name another variable.
        yield _substituted(_substituted(script, chosen), chosen)


def _pattern(written: str) -> str:
    """Return *written* if it only stands for names of files, else ""."""
    return "" if is_unknown(written) else unquoted(written)


def _substituted(script: str, values: Mapping[str, str]) -> str:
    return _VARIABLE.sub(lambda found: values.get(found[1] or found[2], found[0]), script)


def _as_written(script: str) -> list[Reading]:
    """Return the commands of *script* with their words as written."""
    return [
        tuple(unquoted(source(child)) for child in node.children)
        for node in descendants(syntax_tree(script))
        if node.type == "command"
    ]


def _texts(words: Reading, *, printed: bool) -> Iterator[str]:
    """Yield words that may be a script; with *printed* also words of commands that only read."""
    name = base_name(words[0] or "") if words else ""
    effect = known_effect(name, [word for word in words[1:] if word])
    if effect and effect.kind == "reads" and not printed:
        return
    for before, word in pairwise(words):
        if word and re.search(r"\s", word) and not OPTION_OF_PROSE.fullmatch(before or ""):
            yield word


def _acts(word: str, reach: Reach) -> bool:
    """Return whether *word* is a file of the workspace that makes programs act."""
    # As text: pathlib of Python 3.12 and later takes minutes for a path of 60,000 parts.
    path = Path(os.path.normpath(reach.root / word))
    if "\0" in word or not is_inside(path, reach.root):
        return False
    below = str(path).removeprefix(str(reach.root))
    if any(map(_matches_kept, below.split("/"))):
        return True
    if is_too_long(below):
        return False
    return bool(why_protected(path, reach.root) or what_it_starts(path, reach.root))


def _matches_kept(part: str) -> bool:
    """Return whether *part* of a path is a pattern for such a file; a dot must be written."""
    is_pattern = part.startswith(".") and any(sign in part for sign in "*?[")
    return is_pattern and any(fnmatchcase(name, part) for name in (".git", *PROTECTED_NAMES))


def _pieces(word: str) -> Iterator[str]:
    """Yield *word*, its brace expansions, and what stands behind the name of an option in it."""
    yield word
    yield from brace_words(word)
    yield from (piece for piece in _INSIDE_WORD.split(word)[1:] if not re.search(r"\s", piece))


def _is_outside(word: str, reach: Reach) -> bool:
    if word.startswith("~") and not word.startswith(("~/", "~+")) and word != "~":
        return True  # the home of another user
    return path_beyond(at_home(word, reach), reach) is not None


def is_losing_task(word: str) -> bool:
    """Return whether *word* is a task that deletes what it works on."""
    return not _LOSING_TASKS.isdisjoint(word.split(":")) and bool(_TASK.fullmatch(word))


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
    if name != "git" and kind != "reads" and any(map(is_losing_task, tasks)):
        return True
    return (
        _is_for_all_projects(name, operands)
        or _sets_hooks(name, operands)
        or reads_recipes(name, operands)
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
