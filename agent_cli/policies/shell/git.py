"""The read-only forms of git, and repositories whose configuration names programs that they run.

Even the read-only ones run programs that the configuration names.
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from agent_cli.policies.shell.fed_scripts import possible_commands
from agent_cli.policies.shell.programs import KnownOptions, known_options
from agent_cli.policies.shell.reach import Objection, Reach
from agent_cli.policies.shell.readings import Reading, readings
from agent_cli.policies.shell.starters import base_name, git_call
from agent_cli.policies.shell.words import Word, has_glob
from agent_cli.system.fixed_paths import start_of
from agent_cli.system.loading import late_pattern
from agent_cli.system.records import dataclass

_GLOBAL_OPTIONS = frozenset({"--no-pager", "--no-optional-locks", "-P"})
_DIFF = (
    " -p -u -s -w -b -z -U= --patch --no-patch --unified= --stat --numstat --shortstat --summary"
    " --name-only --name-status --color[=] --no-color --word-diff[=] --minimal --raw --full-index"
    " --ignore-all-space --ignore-space-change --diff-filter= --no-renames --no-ext-diff"
    " --no-textconv --relative --exit-code --quiet --abbrev[=] -M -a --text --find-renames[=]"
)
_LOG = (
    _DIFF + " -n= -i -E -F -g -m -c -S= -G= -NUMBER --oneline --graph --all --decorate[=]"
    " --no-decorate --max-count= --skip= --since= --until= --after= --before= --author="
    " --committer= --grep= --format= --pretty[=] --date= --follow --first-parent --merges"
    " --no-merges --reverse --branches --tags --remotes --abbrev-commit --topo-order"
    " --date-order --full-history"
)


@dataclass(frozen=True, slots=True)
class _Form:
    """A subcommand: its options, and whether its operands are revisions and paths to read."""

    options: KnownOptions
    operands: bool


def _form(options: str, *, operands: bool = True) -> _Form:
    return _Form(known_options(options), operands)


# branch, tag, remote, reflog and stash change something when they get a name.
_FORMS: Mapping[str, _Form] = MappingProxyType(
    {
        "status": _form(
            "-s -b -v -z -u[=] --untracked-files[=] --short --branch --porcelain[=] --long"
            " --ignored[=]"
        ),
        "diff": _form(_DIFF + " --cached --staged --merge-base --check"),
        "log": _form(_LOG),
        "show": _form(_LOG),
        "shortlog": _form("-s -n -e --summary --numbered --email --since= --until="),
        "blame": _form("-w -e -l -s -t -f -n -p -L= --porcelain --date= --show-email"),
        "rev-parse": _form(
            "--short[=] --abbrev-ref[=] --verify --quiet --show-toplevel --git-dir"
            " --is-inside-work-tree --symbolic-full-name --show-prefix"
        ),
        "ls-files": _form(
            "-c -d -m -o -s -t -z --cached --deleted --modified --others --stage"
            " --exclude-standard --full-name"
        ),
        "ls-tree": _form("-r -t -d -l -z --name-only --long --full-tree"),
        "merge-base": _form("-a --all --is-ancestor --fork-point"),
        "describe": _form("--tags --all --always --long --dirty[=] --abbrev[=] --match="),
        "rev-list": _form(_LOG + " --count --objects"),
        "name-rev": _form("--name-only --tags --always"),
        "cat-file": _form("-p -t -s -e"),
        "check-ignore": _form("-v -q -n --verbose --quiet --non-matching"),
        "count-objects": _form("-v -H --verbose --human-readable", operands=False),
        "show-ref": _form("--heads --tags --head -s -d --hash[=] --verify --dereference -q"),
        "for-each-ref": _form("--format= --sort= --count= --contains= --merged="),
        "diff-tree": _form(_DIFF + " -r --root --no-commit-id"),
        "reflog": _form(_LOG, operands=False),
        "branch": _form(
            "-a -r -v --all --remotes --verbose --show-current --list --no-color --sort="
            " --format= --contains= --merged[=] --no-merged[=]",
            operands=False,
        ),
        "tag": _form("-l -n --list --sort= --format= --contains= --points-at=", operands=False),
        "remote": _form("-v --verbose", operands=False),
        "stash list": _form(_LOG, operands=False),
        "stash show": _form(_DIFF),
        "worktree list": _form("-v --verbose --porcelain", operands=False),
        "remote get-url": _form("--all --push"),
        "reflog show": _form(_LOG),
        "config --get": _form("--global --local --show-origin"),
        "config --get-all": _form("--global --local --show-origin"),
        "grep": _form(
            "-n -i -l -L -w -c -h -H -E -F -P -G -I -p -W -o -q -A= -B= -C= -e= --line-number"
            " --ignore-case --name-only --files-with-matches --files-without-match --count"
            " --word-regexp --extended-regexp --fixed-strings --perl-regexp --show-function"
            " --function-context --only-matching --heading --break --no-color --color[=] --cached"
            " --max-depth= --quiet --invert-match -v --and --or --not"
        ),
    }
)
_NAMES = frozenset({"config --get", "config --get-all", "remote get-url"})
_CONFIG_NAME = late_pattern(r"[\w.-]+", re.ASCII)
_SECRET_CONFIG = late_pattern(
    r"pass|token|secret|auth(?!or)|header|credential|cookie|apikey|privatekey", re.IGNORECASE
)
# Parts of formats and sort keys that make git verify signatures with another program.
_VERIFIES = late_pattern(r"%G|%\(\*?signature|^(?:--sort=)?[-*]*signature(?::.*)?$")

# Subcommands that change HEAD, the index or files of the working tree, whoever made them.
_TAKES_ALL = frozenset(
    {
        *("checkout", "switch", "stash", "reset", "restore", "clean", "read-tree", "rebase"),
        *("merge", "pull", "cherry-pick", "revert", "am", "bisect", "checkout-index"),
    }
)
_STAGES = frozenset({"add", "stage", "rm", "mv", "commit"})
# They take nothing away, so nobody expects them to be undone with the files.
_ONLY_ADDS = frozenset(
    {"add", "commit", "tag", "push", "fetch", "remote", "init", "clone", "notes"}
)
_TAKES_AWAY = late_pattern(r"-[dDf]|--delete|--force|--amend")
_ONLY_SHOWS = frozenset({"list", "show", "log"})
_ADDS_ALL = late_pattern(r"-\w*[Au]\w*|--all|--update|--no-ignore-removal|\.?/?|:/?|\*")
_ADDS_TO_STAGED = late_pattern(r"-(?![mFCct])[a-zA-Z]*i\w*|--include")
_HAS_VALUE_BEHIND = late_pattern(
    r"-[a-zA-Z]*[mFCct]|--(?:message|file|author|date|template|reuse-message|reedit-message"
    r"|fixup|squash|cleanup|trailer)"
)
_COMMITS_ALL = late_pattern(r"-(?![mFCct])[a-zA-Z]*a\w*|--all")


def taking_all(script: str) -> str:
    """Return the first git command in *script* that takes all that is not committed, or "".

    Such a command stages, stores or discards the changes of others in the same folder as well.
    """
    for words in _calls(script):
        if _takes_all(words[0], words[1:]):
            return " ".join(["git", *filter(None, words)])
    return ""


def commits_staged(script: str) -> bool:
    """Return whether *script* commits all that is staged, whoever staged it."""
    return any(words[0] == "commit" and not _names_paths(words[1:]) for words in _calls(script))


def _names_paths(words: Sequence[str]) -> bool:
    """Return whether a commit takes only the files that it names."""
    rest = iter(words)
    is_named = False
    for word in rest:
        if _ADDS_TO_STAGED.fullmatch(word):
            return False
        if word == "--":
            return next(rest, None) is not None
        if _HAS_VALUE_BEHIND.fullmatch(word):
            next(rest, None)
        elif word.startswith("--pathspec-from-file"):
            return True
        elif not word.startswith("-"):
            is_named = True
    return is_named


def staged_names(script: str) -> Sequence[str]:
    """Return the names that git commands in *script* stage, move or remove with all below them."""
    calls = [words for words in _calls(script) if words[0] in _STAGES]
    return [word for words in calls for word in words[1:] if word and not word.startswith("-")]


def _calls(script: str) -> Iterator[Sequence[str]]:
    """Yield the subcommand and the arguments of each git command in *script*."""
    for reading in possible_commands(script):
        if not reading or base_name(reading[0] or "") != "git":
            continue
        if words := git_call([word or "" for word in reading[1:]]):
            yield words


def only_adds(script: str) -> bool:
    """Return whether *script* runs only git commands that add to a repository."""
    seen = [[word or "" for word in each] for each in readings(script) if each]
    return bool(seen) and all(
        base_name(words[0]) == "git"
        and words[1:2]
        and words[1] in _ONLY_ADDS
        and not any(map(_TAKES_AWAY.fullmatch, words[2:]))
        for words in seen
    )


def _takes_all(name: str, rest: Sequence[str]) -> bool:
    if name == "add":
        return any(map(_ADDS_ALL.fullmatch, rest))
    if name == "commit":
        return any(map(_COMMITS_ALL.fullmatch, rest))
    if not name:  # the script does not say it
        return True
    return name in _TAKES_ALL and not (rest and rest[0] in _ONLY_SHOWS)


def check_git(arguments: Sequence[Word], reach: Reach, folder: str) -> None:
    """Accept a read-only form, if git may run at all.

    Raises:
        Objection: It may do more; a file system monitor and clean filters run on `git status`.
    """
    is_safe = reach.git_is_safe
    if not (names_no_program(reach.root) if is_safe is None else is_safe):
        raise Objection("git can run programs set in this repository's config")
    if not is_same_repository(reach.root, Path(folder)):
        raise Objection("git in another repository")
    name, form, rest = _form_of(arguments)
    line = form.options.sort(f"git {name}", rest)
    if name in _NAMES:
        if len(line.operands) != 1 or not _CONFIG_NAME.fullmatch(line.operands[0].text):
            raise Objection(f"git {name} with more than one name")
        if _SECRET_CONFIG.search(line.operands[0].text):
            raise Objection(f"git {name} {line.operands[0].text} may show a secret")
        return
    if any(_VERIFIES.search(word.text) for word in rest):
        raise Objection(f"git {name} with signatures runs another program to verify them")
    if line.operands and not form.operands:
        raise Objection(f"git {name} with a name may change the repository")
    operands = line.operands
    if name == "grep" and "-e" not in line.options:
        if operands[:1] and operands[0].glob:
            raise Objection("git grep: the search text is a pattern of file names; quote it")
        operands = operands[1:]
    _check_named(f"git {name}", operands, reach, folder)


def only_shows(words: Reading) -> bool:
    """Return whether the git command *words* has a read-only form, whatever it names."""
    if None in words:
        return False
    try:
        name, form, rest = _form_of([Word(word) for word in words[1:] if word])
        line = form.options.sort(f"git {name}", rest)
    except Objection:
        return False
    return form.operands or not line.operands


def _form_of(arguments: Sequence[Word]) -> tuple[str, _Form, Sequence[Word]]:
    """Return the subcommand, its read-only form, and what stands behind it.

    Raises:
        Objection: It has none.
    """
    words = list(arguments)
    while words and words[0].text in _GLOBAL_OPTIONS:
        words.pop(0)
    for length in (2, 1):
        name = " ".join(word.text for word in words[:length])
        if name in _FORMS:
            return name, _FORMS[name], words[length:]
    raise Objection(f"git {words[0].text if words else ''} may change the repository")


def _check_named(name: str, operands: Sequence[Word], reach: Reach, folder: str) -> None:
    """Accept revisions, paths or both, as in HEAD:path."""
    for operand in operands:
        if operand.text.startswith(":") or has_glob(operand.text):
            raise Objection(f"{name} with a pattern that git expands itself")
        # With paths outside the work tree, diff reads any file.
        for part in (operand.text.rpartition(":")[2] or ".", operand.text):
            reach.check_path(part, folder)


# The configuration is parsed here, because git itself would run the programs. A key not known to
# be harmless counts as one: a future key may name a program.
_CONFIG_BYTES_MAX = 64 * 1024
_INDEX_BYTES_MAX = 64 * 1024 * 1024
# The mode of a submodule: `git status` enters it, and reads its configuration.
_SUBMODULE = b"\x00\x00\xe0\x00"
_HARMLESS = late_pattern(
    r"core\.(?:repositoryformatversion|filemode|bare|logallrefupdates|ignorecase|symlinks|autocrlf"
    r"|precomposeunicode|eol|quotepath|longpaths|safecrlf|abbrev|compression)"
    r"|remote\..+\.(?:url|pushurl|fetch|tagopt|prune)|remote\.pushdefault"
    r"|branch\..+\.(?:remote|merge|rebase|pushremote|description)|branch\.autosetup\w+"
    r"|user\.(?:name|email)|init\.defaultbranch|pull\.(?:rebase|ff)|push\.\w+|fetch\.prune"
    r"|color\..+|advice\..+|merge\.conflictstyle|rerere\.enabled|rebase\.auto\w+"
    r"|diff\.(?:renames|algorithm|mnemonicprefix|colormoved)|log\.(?:date|decorate)"
)
_ELSEWHERE = ("commondir", "config.worktree", "objects/info/alternates", "modules", "worktrees")


def names_no_program(root: Path) -> bool:
    """Return whether read-only git commands in *root* start no program of the repository.

    The repository must lie in *root* itself, without submodules, hooks or a second configuration.
    """
    git = root / ".git"
    try:
        return (
            git.is_dir()
            and not git.is_symlink()
            and not any(os.path.lexists(git / name) for name in _ELSEWHERE)
            and not any(git.glob("sharedindex.*"))
            and _has_no_hooks(git / "hooks")
            and _has_no_submodules(git / "index")
            and _is_harmless(git / "config")
        )
    except OSError:
        return False


def is_same_repository(root: Path, folder: Path) -> bool:
    """Return whether git in *folder*, below *root*, uses the repository of *root*."""
    between = [each for each in (folder, *folder.parents) if each.is_relative_to(root)]
    return not any(
        os.path.lexists(each / name)
        for each in between
        if each != root
        for name in (".git", "HEAD")
    )


def _has_no_hooks(hooks: Path) -> bool:
    return not hooks.exists() or all(path.name.endswith(".sample") for path in hooks.iterdir())


def _has_no_submodules(index: Path) -> bool:
    if not index.exists():
        return True
    content = start_of(index, _INDEX_BYTES_MAX + 1)
    return len(content) <= _INDEX_BYTES_MAX and _SUBMODULE not in content


def _is_harmless(config: Path) -> bool:
    """Return whether every key is known to be harmless; a file we cannot parse is not."""
    written = start_of(config, _CONFIG_BYTES_MAX + 1)
    try:
        text = written.decode("ascii")
    except UnicodeDecodeError:
        return False
    section = ""
    # For git only a line feed ends a line; Python's splitlines() knows more line ends.
    for line in map(str.strip, text.split("\n")):
        if not line or line[0] in "#;":
            continue
        if found := re.fullmatch(r'\[([\w.-]+)(?: "([^"\\]*)")?\]', line):
            section = ".".join(filter(None, (found[1].lower(), found[2])))
        elif found := re.fullmatch(r"([A-Za-z][\w-]*)(?:\s*=\s*([^\\]*))?", line):
            if not section or not _HARMLESS.fullmatch(f"{section}.{found[1].lower()}"):
                return False
        else:
            return False
    return len(written) <= _CONFIG_BYTES_MAX
