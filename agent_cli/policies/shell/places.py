"""Know where the commands of a script run, for what cannot be taken back when they delete.

In a folder that the script enters, a relative path is another one. In a container or on another
machine, a path is taken for one of this machine only if there is one here, too: a container may
share the home. Else, a file that a command names there is left to the rules, and so is a folder of
a kind that is made again, or one of a new container without a folder of this machine. All else is
judged as here: a tree of which nothing is known, a pattern of all names, a variable.
"""

import os.path
import re
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from pathlib import PurePath
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from agent_cli.policies.shell.deleted_folders import (
    CHANGE_DIR,
    FINDS,
    REMOVES_NAMED,
    UNLINKS,
    is_cache,
    is_foreign_file,
    is_history,
)
from agent_cli.policies.shell.readings import Reading
from agent_cli.policies.shell.searches import EVERY_NAME, is_narrow, split_search, starts_remover
from agent_cli.policies.shell.starters import base_name, is_shell, options_end
from agent_cli.policies.shell.syntax import NOT_WORDS, descendants, source, syntax_tree
from agent_cli.policies.shell.words import likely_word, likely_words
from agent_cli.sandbox.path_sets import TEMPORARY
from agent_cli.system.loading import late_pattern

if TYPE_CHECKING:
    from tree_sitter import Node

FILLS: Final = ("mv", "ln", "mount", "rsync")
"""They fill a folder with what may be nowhere else."""
Place: TypeAlias = Literal["machine", "container", "new container"]

# The words of a command, each ended by a NUL, up to the command that it runs elsewhere.
_WORD: Final = r"[^\0]*\0"
_STARTED: Final = (
    r"(?>(?:(?:sudo|doas|timeout|nice|nohup|time|command|exec|env|sshpass)\0"
    rf"(?>(?:-p\0{_WORD}|-[^\0]+\0|\d[\d.]*[smhd]?\0|\w+=[^\0]*\0)*))*)(?:[^\0]*/)?"
)
_FLAG: Final = r"-[itdT]+\0|--(?:interactive|tty|detach|privileged|no-tty|rm|init|no-deps|quiet)\0"
_SET: Final = rf"-[itdT]*[euw]\0?{_WORD}|--(?:env|user|workdir|env-file|index|name)[=\0]{_WORD}"
# Of `run`, with a value that names no folder of this machine.
_SET_OF_RUN: Final = (
    rf"-[phlcm]\0{_WORD}|--(?:publish|network|net|hostname|label|platform|pull|memory|cpus|tmpfs"
    rf"|add-host|security-opt|cap-add|cap-drop|shm-size|ulimit|gpus)[=\0]{_WORD}"
)
_FLAGS_OF_RUN: Final = rf"(?:{_FLAG}|{_SET}|{_SET_OF_RUN})"
_DOCKER: Final = rf"(?:docker|podman|nerdctl)\0(?>(?:(?:-[Hc]|--(?:context|host))[=\0]{_WORD})*)"
_COMPOSE: Final = (
    rf"(?:{_DOCKER}compose|docker-compose|podman-compose)\0"
    rf"(?>(?:(?:-[fp]|--(?:file|project-name|profile|env-file|project-directory))[=\0]{_WORD})*)"
)
_SSH_OPTIONS: Final = (
    r"(?>(?:-[46AaCfGgKkMNnqsTtVvXxYy]+\0"
    rf"|-[46AaCfgKkMNnqsTtVvXxYy]*[BbcDEeFIiJLlmOopQRSWw]\0?{_WORD})*)"
)
# Also as a number, and as an address of IPv6.
_THIS_HOST: Final = (
    r"(?i:(?:ssh://)?(?:[^\0]*@)?(?:localhost|ip6-lo|127\.|0(?![\w-])|0x|017|2130706433"
    r"|\[?[0:]*:(?:ffff:)?(?:127\.|7f|1(?!\w))))"
)
_NAME: Final = r"[^-\0][^\0]*\0"
_WAYS: Final[Mapping[Place, re.Pattern[str]]] = MappingProxyType(
    {
        "container": late_pattern(
            rf"{_STARTED}(?:(?:{_DOCKER}(?:container\0)?|{_COMPOSE})exec\0(?>(?:{_FLAG}|{_SET})*){_NAME}"
            rf"|(?:kubectl|oc)\0(?>(?:(?!--\0|exec\0){_WORD})*)exec\0(?>(?:(?!--\0){_WORD})*)--\0)"
        ),
        "new container": late_pattern(
            rf"{_STARTED}{_DOCKER}(?:container\0)?run\0"
            rf"(?>(?:(?!--privileged){_FLAGS_OF_RUN})*){_NAME}"
        ),
        # They hand a shell there their words, with blanks between.
        "machine": late_pattern(
            rf"{_STARTED}(?:ssh\0{_SSH_OPTIONS}"
            rf"(?!{_THIS_HOST}){_NAME}{_SSH_OPTIONS}"
            rf"|adb\0(?>(?:-[de]\0|-[sHPt]\0{_WORD})*)(?:shell|exec-out)\0)"
        ),
    }
)
_SSH_SHELL: Final = late_pattern(
    rf"{_STARTED}ssh\0{_SSH_OPTIONS}(?=(?P<here>{_THIS_HOST})?){_NAME}{_SSH_OPTIONS}"
)
_LEADS_AWAY: Final = late_pattern(r"docker|podman|nerdctl|kubectl|\b(?:oc|ssh|adb)\s")
MAY_BE_OTHERS: Final = late_pattern(
    r"\b(?:alias|hash|enable)\s|\b(?:ssh|adb|kubectl|oc|nerdctl|(?:docker|podman)[\w-]*)\s*\("
    r"|\bfunction\s"
)
"""In a script, what may give the names of these programs another meaning."""
_UNKNOWN: Final = "\1"
_PLAIN: Final = late_pattern(r"[\w./+@%,=:*?~-]+")
_RUNS_SCRIPT: Final = late_pattern(r"-[a-z]*c")
_ENTERS_FIRST: Final = late_pattern(
    r"\s*cd\s+([\"']?)(?P<folder>/[\w./@+-]*)\1\s*(?:&&|;|\n).*", re.DOTALL
)
_MOVES: Final = late_pattern(r"\b(?:cd|pushd|popd|chdir|chroot|env)\b")
_RECURSES: Final = late_pattern(r"-[a-zA-Z]*[rR][a-zA-Z]*|--r.*")
# What the machine needs to start and to be reached.
_OF_THE_SYSTEM: Final = late_pattern(
    r"/(?:etc|boot|usr|s?bin|lib\w*|dev|proc|sys|system)/.*|(?:.*/)?\.ssh/.*"
)
_OF_PROGRAMS: Final = late_pattern(r"/(?:etc|usr|s?bin|lib\w*|dev|proc|sys|run|tmp|var)/.*")
_GENERATED: Final = late_pattern(
    r"(?!/home/[^/]*(?:/\*)?$)(?:/[^/]+/|(?!/))(?:.*/)?(?:(?:node_modules|__pycache__|\.?cache"
    r"|\.(?:npm|next|nuxt|turbo|vite|(?:pytest|mypy|ruff)_cache)|dist|build|target|tmp|coverage)"
    r"(?:/\*)?|(?:node_modules|__pycache__|\.?cache|\.npm)/.+)",
    re.DOTALL,
)
_ROOT_OR_HOME: Final = late_pattern(r"/?\*?|\.|~.*")
_ENTERS: Final = late_pattern(r"\b(?:cd|pushd)\b")
_FILLING: Final = late_pattern(rf"\b(?:{'|'.join(FILLS)})\s([^;&|\n]*)")
_ANYWHERE: Final = late_pattern(r"\$|(?<![\w./])\.(?![\w/])")  # of the target of such a command
_REMOVES: Final = late_pattern(r"\b(?:rm|unlink|shred|find)\s")
_REMOVES_FOUND: Final = late_pattern(r"-exec(?:dir)?\0rm\0(?:-[fv]+\0)*\{\}\0(?:\\?;|\+)\0")
_FIND_ACTS: Final = late_pattern(r"(?:^|\0)-(?:exec|ok)")
_RUN_TEXT: Final = frozenset({"eval", "su"})
_ONLY_STARTS: Final = late_pattern(_STARTED)
_VALUE: Final = late_pattern(r"\$(?:\{(\w+)\}|(\w+))", re.ASCII)
# What changes in them is as before behind them.
_OWN_SHELLS: Final = frozenset(
    {"subshell", "pipeline", "command_substitution", "process_substitution", "function_definition"}
)
_DEPTH_MAX: Final = 4
_FOLLOWED_CHARS_MAX: Final = 1_000  # of a folder: a thousand `cd a` take long
_DOES_NOTHING: Final = ":"


def removals_in_entered(script: str, roots: Sequence[PurePath]) -> Iterator[str]:
    """Yield the paths that *script* deletes in folders which it enters, outside all of *roots*.

    As by `cd /etc; rm hosts`. It starts in the first of *roots*.
    """
    if _ENTERS.search(script) and _REMOVES.search(script):
        for path in _removed(script, ".", {"HOME": "~"}, 0):
            whole = path if path.startswith("~") else str(roots[0] / path)
            if not is_cache(whole) and all(
                is_foreign_file(whole, each, is_here=True) for each in roots
            ):
                yield path


def _removed(
    script: str, folder: str | None, values: Mapping[str, str], depth: int
) -> Iterator[str]:
    """Yield the paths that *script*, started in *folder*, deletes by relative ones, if known."""
    known, left = dict(values), list[tuple[int, str | None]]()
    for node in descendants(syntax_tree(script)):
        while left and node.start_byte >= left[-1][0]:
            _, folder = left.pop()
        if node.type in _OWN_SHELLS:
            left.append((node.end_byte, folder))
        elif node.type == "variable_assignment":
            name, _, value = source(node).partition("=")
            known[name] = likely_word(value) or "$"
        elif node.type == "command":
            texts = [*chain.from_iterable(_texts_of(word, known) for word in _words(node))]
            line = _line(texts)
            begin = _ONLY_STARTS.match(line)
            at = line.count("\0", 0, begin.end()) if begin else 0
            name, behind = base_name((texts[at:] or [""])[0] or ""), texts[at + 1 :]
            if name in CHANGE_DIR:
                folder = _entered(folder, behind) if name != "popd" else None
            elif folder is not None and folder != ".":
                yield from (_within(folder, each) for each in _relative(name, behind))
            if depth < _DEPTH_MAX and (name in _RUN_TEXT or any(map(is_shell, texts))):
                for inner in filter(_REMOVES.search, filter(None, behind)):
                    yield from _removed(inner, folder, known, depth + 1)


def _texts_of(word: "Node", values: Mapping[str, str]) -> Sequence[str | None]:
    """Return the texts of *word*, several if it has braces; None for one that is not known.

    With *values* in the place of variables.
    """
    if (text := _text(word)) is not None:
        return (text,)
    return likely_words(
        _VALUE.sub(lambda found: values.get(found[1] or found[2], "$"), source(word))
    )


def _within(folder: str, path: str) -> str:
    """Return *path*, in *folder* if it is relative, without the `//` that `normpath` leaves."""
    whole = f"{folder}/{path}" if folder and path[0] not in "/~" else path
    return re.sub("^//", "/", os.path.normpath(whole))


def _entered(folder: str | None, words: Sequence[str | None]) -> str | None:
    """Return the folder to which `cd` with *words* changes from *folder*; None if not known."""
    named = [word for word in words if word is None or not re.match("-.", word)] or ["~"]
    target = named[0]
    if target in (None, "", "-") or len(named) > 1:
        return None
    if target.startswith(("/", "~")):
        return os.path.normpath(target)
    is_followed = folder is not None and len(folder) < _FOLLOWED_CHARS_MAX
    return _within(folder or "", target) if is_followed else None


def _relative(name: str, words: Sequence[str | None]) -> Iterator[str]:
    """Yield the relative paths that the program *name* with *words* deletes, or searches to do."""
    paths: Sequence[str | None] = ()
    if name in UNLINKS:
        end = options_end(words)
        paths = [*(x for x in words[:end] if x and x[0] != "-"), *words[end + 1 :]]
    elif name in FINDS and ("-delete" in words or starts_remover(tuple(words))):
        paths = split_search(tuple(words))[0] or (".",)
    yield from (each for each in paths if each and each[0] not in "/~")


def removals_elsewhere(command: "Node", whole: str) -> Sequence[tuple["Node", str]]:
    """Return words of *command* in *whole*, and texts for them without what it may delete."""
    if not _LEADS_AWAY.search(source(command)):
        return ()
    words = _words(command)
    texts = [*map(_text, words)]
    if (way := _way(texts, words)) is None:
        return ()
    place, at = way
    words, texts = words[at:], texts[at:]
    if place != "machine":
        left = _left_of(texts, place, "", whole, 0)
    elif None in texts:
        return ()
    else:
        handed = " ".join(filter(None, texts))
        is_changed = (kept := _script_left(handed, place, whole, 0)) != handed
        left = [kept, *[""] * (len(texts) - 1)] if is_changed else texts
    changed = zip(words, texts, left, strict=True)
    return [(word, shlex.quote(new) if new else "") for word, old, new in changed if new != old]


def place_of_input(words: Reading) -> Literal["here", "machine"] | None:
    """Return where *words*, an `ssh` without a command, start a shell that runs what it reads."""
    if not words or base_name(words[0] or "") != "ssh":
        return None
    found = _SSH_SHELL.fullmatch(_line(words))
    return found and ("here" if found["here"] is not None else "machine")


def script_read(script: str, places: Collection[str | None]) -> str:
    """Return *script*, which shells in *places* read, without what it may delete elsewhere."""
    return script if "here" in places else _script_left(script, "machine", script, 0)


def _words(command: "Node") -> list["Node"]:
    return [child for child in command.children if child.type not in NOT_WORDS]


def _text(word: "Node") -> str | None:
    if word.type == "file_redirect":
        return None
    written = source(word)
    return written if _PLAIN.fullmatch(written) else likely_word(written)


def _line(texts: Sequence[str | None]) -> str:
    """Return *texts* as `_WAYS` match them."""
    return "".join(f"{_UNKNOWN if each is None else each}\0" for each in texts)


def _way(texts: Sequence[str | None], words: Sequence["Node"] = ()) -> tuple[Place, int] | None:
    """Return where the command of *texts* runs another one, and at which of them it begins.

    A value of *words* that bash splits may share a folder with a new container.
    """
    line = _line(texts)
    for place, pattern in _WAYS.items():
        if found := pattern.match(line):
            begin = line.count("\0", 0, found.end())
            pairs = zip(texts[:begin], words, strict=False)
            is_split = any(text is None and word.type != "string" for text, word in pairs)
            return None if is_split and place == "new container" else (place, begin)
    return None


def _left_of(
    texts: Sequence[str | None], place: Place, folder: str, whole: str, depth: int
) -> Sequence[str | None]:
    """Return the words *texts* of a command in *place* with `:` for what it may delete."""
    begin = 1 if texts[:1] in (["sudo"], ["doas"]) else 0
    name, behind = base_name((texts[begin:] or [""])[0] or ""), texts[begin + 1 :]
    if name in REMOVES_NAMED and _may_remove(behind, place, folder, whole):
        return [_DOES_NOTHING, *[""] * (len(texts) - 1)]
    if name in FINDS and place != "machine" and _may_find(behind):
        return [_DOES_NOTHING, *[""] * (len(texts) - 1)]
    left = [*texts]
    for at in range(begin + 2, len(texts)):
        option, script = texts[at - 1], texts[at]
        if is_shell(name) and option and script and _RUNS_SCRIPT.fullmatch(option):
            left[at] = _script_left(script, place, whole, depth + 1)
            break
    return left


def _script_left(script: str, place: Place, whole: str, depth: int) -> str:
    """Return *script*, which a shell in *place* runs, with `:` for what it may delete.

    It is in *whole*, which may move something that is nowhere else to a folder that it deletes.
    """
    tree = syntax_tree(script)
    if depth > _DEPTH_MAX or tree.has_error:
        return script
    entered = _ENTERS_FIRST.fullmatch(script)
    is_moved = len(_MOVES.findall(script)) > (1 if entered else 0)
    folder = entered["folder"] if entered else ""
    text, at, pieces = script.encode(), 0, list[bytes]()
    for node in descendants(tree):
        if node.type != "command" or node.start_byte < at:
            continue
        words = _words(node)
        texts = [*map(_text, words)]
        within, begin = _way(texts, words) or (place, 0)
        start = "" if begin else ".." if is_moved else folder
        left = _left_of(texts[begin:], within, start, whole, depth)
        # What stands before, among and behind the words may run commands, too.
        between = node.children[node.children.index(words[0]) :][: len(words)] if words else []
        if left != texts[begin:] and None not in left and between == words:
            kept = (*texts[:begin], *filter(None, left))
            pieces += [text[at : words[0].start_byte], shlex.join(map(str, kept)).encode()]
            at = words[-1].end_byte
    return b"".join([*pieces, text[at:]]).decode()


def _may_remove(words: Sequence[str | None], place: Place, folder: str, whole: str) -> bool:
    """Return whether `rm` with *words* may delete in *place*; relative paths begin in *folder*."""
    end = options_end(words)
    options = [word for word in words[:end] if word and word.startswith("-")]
    named = [*(word for word in words[:end] if word not in options), *words[end + 1 :]]
    paths = [_within(folder, each) for each in named if each]
    if len(paths) < len(named) or not paths or any(".." in each.split("/") for each in paths):
        return False
    if place == "new container":
        return not any(map(_ROOT_OR_HOME.fullmatch, paths))
    if any(map(_is_here, paths)) or (
        place == "machine" and any(map(_OF_THE_SYSTEM.fullmatch, paths))
    ):
        return False
    if any(map(_RECURSES.fullmatch, options)):
        is_own = place == "container"
        return all(_is_made_again(x, is_own=is_own) and not _is_filled(x, whole) for x in paths)
    return not any(map(EVERY_NAME.fullmatch, paths))


def _is_here(path: str) -> bool:
    """Return whether there is a file *path*, or a folder of that pattern, on this machine, too.

    Of the home or another folder of a person: those of programs are at the same paths everywhere.
    """
    named = re.split(r"[^/]*[*?\[]", path)[0]
    home, whole = map(os.path.expanduser, ("~", named))  # Path raises for an unknown user
    is_in_home = f"{whole}/".startswith(f"{home}/")
    is_of_person = is_in_home or not _OF_PROGRAMS.fullmatch(whole)
    return whole[:1] == "/" != whole and is_of_person and os.path.lexists(whole)


def _is_filled(folder: str, script: str) -> bool:
    """Return whether *script* may move something to *folder*, or to what holds that."""
    moved = _words_of_moves(script)
    name = folder.rstrip("/*").rpartition("/")[2]
    return moved is None or name in moved


# Cached: it is asked for each folder.
@lru_cache(maxsize=8)
def _words_of_moves(script: str) -> str | None:
    """Return what *script* moves, and to where; None if that may be any folder."""
    moved = "\n".join(found[1] for found in _FILLING.finditer(script))
    return None if _ANYWHERE.search(moved) else moved


def _is_made_again(path: str, *, is_own: bool) -> bool:
    """Return whether the folder *path* there is of a kind that is made again.

    With *is_own*, it is a container: no other program has temporary files there.
    """
    if is_history(path) or path in TEMPORARY:
        return False
    if any(path.startswith(f"{each}/") for each in TEMPORARY):
        return is_own or re.search(r"\w", path.rsplit("/", maxsplit=1)[-1]) is not None
    return is_cache(path) or _GENERATED.fullmatch(path) is not None


def _may_find(words: Sequence[str | None]) -> bool:
    """Return whether `find` with *words* deletes files of a container by their names alone."""
    line = _REMOVES_FOUND.sub("", _line(words))
    is_plain = _UNKNOWN not in line and not _FIND_ACTS.search(line)
    return is_plain and "/" not in words and is_narrow(tuple(words))
