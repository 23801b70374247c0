"""The forms of git that only read. What its configuration names, git runs even in those."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from agent_cli.policies.shell.options import KnownOptions, known_options
from agent_cli.policies.shell.place import Objection, Place
from agent_cli.policies.shell.words import Word

_GLOBAL_OPTIONS = frozenset({"--no-pager", "--no-optional-locks", "-P"})
_GIT_PATTERN = frozenset("*?[")
_DIFF = (
    " -p -u -s -w -b -z -U= --patch --no-patch --unified= --stat --numstat --shortstat --summary"
    " --name-only --name-status --color[=] --no-color --word-diff[=] --minimal --raw --full-index"
    " --ignore-all-space --ignore-space-change --diff-filter= --no-renames --no-ext-diff"
    " --no-textconv --relative --exit-code --quiet --abbrev[=]"
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
    """A subcommand: its options, and whether what follows names revisions and paths to read."""

    options: KnownOptions
    operands: bool = True


def _form(options: str, *, operands: bool = True) -> _Form:
    return _Form(known_options(options), operands)


# branch, tag, remote, reflog and stash change something when they get a name.
_FORMS: Mapping[str, _Form] = MappingProxyType(
    {
        "status": _form("-s -b -z -v -u[=] --short --branch --porcelain[=] --long --ignored[=]"),
        "diff": _form(_DIFF + " --cached --staged --merge-base --check"),
        "log": _form(_LOG),
        "show": _form(_LOG),
        "shortlog": _form("-s -n -e --summary --numbered --email --since= --until="),
        "blame": _form("-w -e -l -s -t -f -n -p --porcelain --date= --show-email"),
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
        "reflog": _form(_LOG, operands=False),
        "branch": _form("-a -r -v --all --remotes --verbose --show-current --list", operands=False),
        "tag": _form("-l --list", operands=False),
        "remote": _form("-v --verbose", operands=False),
    }
)


def check_git(arguments: Sequence[Word], place: Place, folder: str) -> None:
    """Accept a form that only reads, where git may run at all.

    Raises:
        Objection: It may do more; a file system monitor and clean filters run on `git status`.
    """
    if not place.git_is_safe:
        raise Objection("git runs what the repository's configuration names")
    words = list(arguments)
    while words and words[0].text in _GLOBAL_OPTIONS:
        words.pop(0)
    form = _FORMS.get(words[0].text) if words else None
    if form is None:
        raise Objection(f"git {words[0].text if words else ''} is not known to only read")
    name = f"git {words[0].text}"
    line = form.options.sort(name, words[1:])
    if line.operands and not form.operands:
        raise Objection(f"{name} with a name may change something")
    for operand in line.operands:
        if operand.text.startswith(":") or not _GIT_PATTERN.isdisjoint(operand.text):
            raise Objection(f"{name} with a pattern, which git expands itself")
        # A revision, a path or both, as in HEAD:path; outside the work tree diff reads any file.
        for part in {operand.text, operand.text.rpartition(":")[2] or "."}:
            place.check_path(part, folder)
