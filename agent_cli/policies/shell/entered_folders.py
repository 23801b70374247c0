"""Find the files that a script deletes in folders that it enters: `cd /etc; rm hosts`.

In such a folder, a relative path is another one. The way is followed as bash goes it, and ends
where a folder is not known.
"""

import os.path
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, pairwise
from pathlib import PurePath
from typing import TYPE_CHECKING, Final

from agent_cli.policies.shell.assignments import EXPANSIONS, NEW
from agent_cli.policies.shell.deleted_folders import (
    CHANGE_DIR,
    ENTER_DIR,
    FINDS,
    UNLINKS,
    entered,
    is_cache,
    is_foreign_file,
    is_vital,
)
from agent_cli.policies.shell.reach import Reach
from agent_cli.policies.shell.readings import Reading
from agent_cli.policies.shell.remote_commands import (
    MAY_BE_OTHERS,
    STARTED,
    joined,
    line_of,
    removals_elsewhere,
)
from agent_cli.policies.shell.searches import split_search, starts_remover
from agent_cli.policies.shell.starters import base_name, is_shell, options_end
from agent_cli.policies.shell.syntax import descendants, is_misread, source, syntax_tree
from agent_cli.policies.shell.words import (
    likely_word,
    likely_words,
    text_of,
    without_quotes,
    words_of,
)
from agent_cli.system.loading import late_pattern

if TYPE_CHECKING:
    from tree_sitter import Node

_ENTERS: Final = late_pattern(r"\b(?:cd|pushd)\b")
_REMOVES: Final = late_pattern(r"\b(?:rm|unlink|shred|find)\s")
_RUN_TEXT: Final = frozenset({"eval", "su", "trap"})
_VALUE: Final = late_pattern(r"\$(?:\{(\w+)\}|(\w+))", re.ASCII)
# What changes in them is as before behind them.
_OWN_SHELLS: Final = frozenset(
    {"subshell", "pipeline", "command_substitution", "process_substitution", "function_definition"}
)
# With it, as by `cd -P` or `set -P`, `..` is the folder above where a link leads.
_FOLLOWS_LINKS: Final = late_pattern(r"-\w*P\w*|physical")
_SETS_OPTIONS: Final = ENTER_DIR | {"set"}
_FOLDER_OF_SCRIPT: Final = late_pattern(
    r"\$\(\s*dirname\s+(?:--\s+)?\"?\$(?:0|BASH_SOURCE|\{BASH_SOURCE(?:\[0\])?\}|\{0\})\"?\s*\)"
)
_OWN_NAME: Final = late_pattern(r"\$\{?(?:0|BASH_SOURCE|_)(?!\w)")
_PRINTS_FOLDER: Final = late_pattern(r"\$\(\s*cd\s+\"?([\w./-]+)\"?\s*&&\s*pwd\s*\)")
IN_BACKGROUND: Final = late_pattern(r"(?<![&<>|])&(?![&>])")
"""What lets a command of a script go on in a shell of its own."""
# Plain words, of which none may delete, move, link or write a file, or run what does.
_KEEPS_FILES: Final = late_pattern(
    r"(?!(?s:.*)\b(?:rm|rmdir|unlink|shred|find|fd|fdfind|mv|cp|ln|dd|tee|install|rsync|truncate"
    r"|xargs|parallel|eval|exec|source|trap|alias|git-clean|clean|zip|tar|unzip|sudo|doas|su|env"
    r"|perl|ruby|node|python[\d.]*|awk|sed|ed|ex|vim?|\w*sh|docker|podman|ssh|pushd|popd)\b)"
    r"[\w\s./~&|;@:=+,%()-]+"
)
# What may say elsewhere in a script what a program there does: a function, or a file with commands.
_MAY_DEFINE: Final = late_pattern(
    r"\(\s*\)|<<|>(?!\s*/dev/null\b|&\d|&-)|\b(?:function|alias|trap|config|enable|hash|eval|source"
    r"|tee|sponge|dd|install|cp|mv|ln|rsync|ed|ex|sed|awk|perl|ruby|php|lua|node|python[\d.]*)\b"
    r"|(?:^|[\s;&|(])\.\s|\b(?:PATH|ENV|BASH_ENV|MAKEFILES|GIT_\w+)\+?="
)
LEADS_UP: Final = late_pattern(r"\.[\"'\\]*\.|/[\"']*[$`]")
"""What may name the folder above another one, in a script."""
OWN_NAMES: Final = frozenset({"0", "BASH_SOURCE"})
"""The variables by which a script knows its own path."""
# With one of them, the home may be another one here, or what it names be elsewhere.
_OTHER_HOME: Final = late_pattern(
    r"(?<!\$)(?<!\$\{)\bHOME\b|\$'|(?:^|[\s;&|(])\w*\{\w*,|\b(?:IFS|eval|source|export|declare"
    r"|typeset|local|readonly|read|printf|mapfile|readarray|unset|let|getopts|builtin|command|sudo"
    r"|doas|su|env|login|runuser|chroot|nsenter|unshare|bwrap|firejail|proot|flatpak|ssh|mosh|adb"
    r"|kubectl|oc|docker[\w-]*|podman[\w-]*|nerdctl|lxc|incus|machinectl|systemd-nspawn|toolbox"
    r"|distrobox|multipass|vagrant|limactl|wsl)\b"
)
_NAMES_HOME: Final = late_pattern(r"~/|HOME")
_HOMES: Final = frozenset({"$HOME", "${HOME}"})
_DEPTH_MAX: Final = 4
_SHELLS_MAX: Final = 20  # of each, all of its text is read
_FOLLOWED_CHARS_MAX: Final = 1_000  # of a folder: a thousand `cd a` take long


def is_elsewhere(commands: Sequence[tuple[str, Reading]], root: PurePath) -> bool:
    """Return whether *commands*, names and arguments, change to a folder outside *root*."""
    options = chain.from_iterable(words for name, words in commands if name in _SETS_OPTIONS)
    # Any program may make a link, and one that is there lead elsewhere.
    follows = any(map(_FOLLOWS_LINKS.fullmatch, filter(None, options)))
    return any(
        _leaves(words, root, follows=follows)
        if name in ENTER_DIR
        else any(is_vital(each, root) for each in entered(name, words))
        for name, words in commands
    )


def _leaves(arguments: Reading, root: PurePath, *, follows: bool) -> bool:
    """Return whether a `cd` with *arguments* may leave *root*; it *follows* links before `..`."""
    folders = [word for word in arguments if word is None or not word.startswith("-")]
    is_written = (follows or not each or each[0] == "~" for each in folders)
    paths = [
        each if is_kept else os.path.normpath(each or "")
        for each, is_kept in zip(folders, is_written, strict=True)
    ]
    return not folders or any(
        each is None or (PurePath(each) not in (PurePath(), root) and is_vital(each, root))
        for each in paths
    )


def without_cd_apart(script: str, loses: Callable[[str], bool]) -> str:
    """Return *script* without each `cd` of a subshell, or of the background, that deletes nothing.

    Nothing behind it is in another folder: `(cd ~/x && git pull); rm -rf build`. *loses* judges
    what such a shell runs, in which the `cd` counts: `(cd / && rimraf home)`.
    """
    if not (_ENTERS.search(script) and _REMOVES.search(script)):
        return script
    if not ("(" in script or IN_BACKGROUND.search(script)) or _names(_MAY_DEFINE, script):
        return script
    tree = syntax_tree(script)
    nodes = [*descendants(tree)]
    if tree.has_error or any(map(is_misread, nodes)):
        return script
    pairs = chain.from_iterable(pairwise(node.children) for node in nodes)
    shells = [each for each, behind in pairs if behind.type == "&"]
    shells += [each for each in nodes if each.type == "subshell"]
    if len(shells) > _SHELLS_MAX:
        return script
    kept = [x for x in shells if _KEEPS_FILES.fullmatch(source(x)) and not loses(source(x))]
    spans = [(x.start_byte, x.end_byte) for x in kept]
    text, at, pieces = whole_text(tree), 0, list[bytes]()
    for node in nodes:
        name = node.child_by_field_name("name") if node.type == "command" else None
        is_apart = any(start <= node.start_byte < end for start, end in spans)
        if name is not None and source(name) == "cd" and is_apart and node.start_byte >= at:
            pieces += [text[at : node.start_byte], b":"]
            at = node.end_byte
    return b"".join([*pieces, text[at:]]).decode() if pieces else script


def _names(pattern: re.Pattern[str], script: str) -> bool:
    """Return whether *script* has *pattern*: a program's name may be written with quotes in it."""
    return any(map(pattern.search, (script, without_quotes(script))))


def with_own_folder(text: str, path: str) -> str:
    """Return *text*, the script in *path*, with the folder of that instead of `dirname $0`.

    Unless that is one from the root or the home, or outside; or the script goes up from there, and
    may copy itself.
    """
    if "$(" not in text or path.startswith(("/", "~", "..")) or "/.." in path:
        return text
    folder, _, name = path.rpartition("/")
    known = _FOLDER_OF_SCRIPT.sub(lambda _: folder or ".", text)
    named = rf"(?<![\w.-]){re.escape(name)}(?![\w-])"
    if LEADS_UP.search(known) and (re.search(named, known) or _OWN_NAME.search(known)):
        return text
    return _PRINTS_FOLDER.sub(r"\1", known)


def removals_in_entered(script: str, roots: Sequence[PurePath]) -> Iterator[str]:
    """Yield the paths that *script* deletes in folders which it enters, outside all of *roots*.

    As by `cd /etc; rm hosts`. It starts in the first of *roots*.
    """
    if _ENTERS.search(script) and _REMOVES.search(script):
        is_known = MAY_BE_OTHERS.search(script) is None
        for path in _removed(script, ".", {"HOME": "~"}, 0, is_known=is_known):
            whole = path if path.startswith("~") else str(roots[0] / path)
            if not is_cache(whole) and all(
                is_foreign_file(whole, each, is_here=True) for each in roots
            ):
                yield path


def _removed(
    script: str, folder: str | None, values: Mapping[str, str], depth: int, *, is_known: bool
) -> Iterator[str]:
    """Yield the paths that *script*, started in *folder*, deletes by relative ones, if known.

    None of what may be deleted in a container or on another machine, if *is_known* what is there.
    """
    known, left = dict(values), list[tuple[int, str | None]]()
    nodes = [*descendants(syntax_tree(script))]
    pairs = chain.from_iterable(pairwise(node.children) for node in nodes)
    apart = {node.id for node, behind in pairs if behind.type == "&"}  # in the background
    for node in nodes:
        while left and node.start_byte >= left[-1][0]:
            _, folder = left.pop()
        if node.id in apart or (node.type in _OWN_SHELLS and not _is_list(node)):
            left.append((node.end_byte, folder))
        if node.type == "variable_assignment":
            name, _, value = source(node).partition("=")
            known[name] = likely_word(value) or "$"
        elif node.type == "command":
            away = dict(removals_elsewhere(node, script) if is_known else ())
            texts = [
                *chain.from_iterable(
                    shlex.split(away[word]) if word in away else _texts_of(word, known)
                    for word in words_of(node)
                )
            ]
            line = line_of(texts)
            begin = STARTED.match(line)
            at = line.count("\0", 0, begin.end()) if begin else 0
            name, behind = base_name((texts[at:] or [""])[0] or ""), texts[at + 1 :]
            if name in CHANGE_DIR:
                folder = _entered(folder, behind) if name != "popd" else None
            elif folder is not None:
                yield from (joined(folder, each) for each in _relative(name, behind))
            if depth < _DEPTH_MAX and (name in _RUN_TEXT or any(map(is_shell, texts))):
                for inner in filter(_REMOVES.search, filter(None, behind)):
                    yield from _removed(inner, folder, known, depth + 1, is_known=is_known)


def _is_list(pipeline: "Node") -> bool:
    """Return whether the commands of *pipeline* are a list: `cd a && b 2>&1 | c` is read as one."""
    first = pipeline.children[0]
    return first.type == "redirected_statement" and first.children[0].type == "list"


def _texts_of(word: "Node", values: Mapping[str, str]) -> Sequence[str | None]:
    """Return the texts of *word*, several if it has braces; None for one that is not known.

    With *values* in the place of variables.
    """
    if (text := text_of(word)) is not None:
        return (text,)
    return likely_words(
        _VALUE.sub(lambda found: values.get(found[1] or found[2], "$"), source(word))
    )


def _entered(folder: str | None, words: Sequence[str | None]) -> str | None:
    """Return the folder to which `cd` with *words* changes from *folder*; None if not known."""
    named = [word for word in words if word is None or not re.match("-.", word)] or ["~"]
    target = named[0]
    if target in (None, "", "-") or len(named) > 1:
        return None
    if target.startswith(("/", "~")):
        return os.path.normpath(target)
    is_followed = folder is not None and len(folder) < _FOLLOWED_CHARS_MAX
    return joined(folder or "", target) if is_followed else None


def _relative(name: str, words: Sequence[str | None]) -> Iterator[str]:
    """Yield the relative paths that the program *name* with *words* deletes, or searches to do."""
    paths: Sequence[str | None] = ()
    if name in UNLINKS:
        end = options_end(words)
        paths = [*(x for x in words[:end] if x and x[0] != "-"), *words[end + 1 :]]
    elif name in FINDS and ("-delete" in words or starts_remover(tuple(words))):
        paths = split_search(tuple(words))[0] or (".",)
    yield from (each for each in paths if each and each[0] not in "/~")


def without_home(script: str, reach: Reach) -> str:
    """Return *script* with whole paths of the workspace for those that begin at the home."""
    home, folders = reach.home, (reach.root, *reach.extra_dirs)
    below = [
        str(each.relative_to(home)) for each in folders if home and PurePath(home) in each.parents
    ]
    if not below or not _NAMES_HOME.search(script) or _names(_OTHER_HOME, script):
        return script
    inside = re.compile(rf"/(?:{'|'.join(map(re.escape, below))})(?![\w.+@%,:-])".encode())
    tree = syntax_tree(script)
    text, at, pieces = whole_text(tree), 0, list[bytes]()  # not the script's: it may be longer
    for node in descendants(tree):
        # In quotes, a program that the home is another one for may read a tilde.
        is_tilde = node.type == "word" and source(node).startswith("~/")
        if is_tilde or (node.type in EXPANSIONS and source(node) in _HOMES):
            end = node.start_byte + 1 if is_tilde else node.end_byte
            if inside.match(text, end):
                pieces += [text[at : node.start_byte], home.encode()]
                at = end
    return b"".join([*pieces, text[at:]]).decode() if pieces else script


class CurrentFolder:
    """The folder that a script is in after each `cd`, from where it started; ".." if unknown."""

    def __init__(self, *, has_links: bool) -> None:
        """With *has_links*, a folder in /tmp may be one to a folder of the workspace."""
        self._folder, self._before, self._has_links = ".", "..", has_links

    def after(self, command: "Node", texts: Sequence[str | None]) -> Sequence[str | None]:
        """Return the folder that *command*, a `cd` to one of *texts*, changes to, if known."""
        text = texts[0] if len(texts) == 1 else None
        is_alone = len(command.children_by_field_name("argument")) == 1
        parent = command.parent
        if parent is not None and parent.type == "redirected_statement":
            parent = parent.parent
        in_pipe = parent is not None and parent.type == "pipeline"
        is_alone = is_alone and " " not in (text or "")
        is_known = text and text[0] != "'" and (text[0] != "-" or text == "-")
        if text and is_known and is_alone and not in_pipe:
            whole = text if text[0] == "/" else f"{self._folder}/{text}"
            folder = self._before if text == "-" else os.path.normpath(whole)
            # Any other folder from the root may be the workspace, or around it, as a link may.
            is_new = f"{folder}/".startswith(f"{NEW}/") and not self._has_links
            if folder[0] != "/" or is_new:
                self._folder, self._before = folder, self._folder
                return [folder]
        self._folder = ".."
        return texts

    def all_files(self) -> Sequence[str]:
        """Return the pattern of all files there; () at the start, and where that may be unknown.

        A folder in /tmp may be a link to the workspace, which an earlier command made.
        """
        return [f"'{self._folder}/*'"] if self._folder[0] not in "./" else ()


def whole_text(tree: "Node") -> bytes:
    """Return the source text of *tree* from the script's beginning, where positions count from."""
    return b" " * tree.start_byte + (tree.text or b"")
