"""Find the commands of a script that run elsewhere, and judge what they delete there.

In a container or on another machine, a path is taken for one of this machine only if there is one
here, too: a container may share the home. Else, a file that a command names there is left to the
rules, and so is a folder of a kind that is made again, or one of a new container without a folder
of this machine. All else is judged as here: a tree of which nothing is known, a pattern of all
names, a variable.
"""

import os.path
import re
import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from agent_cli.policies.shell.deleted_folders import (
    FINDS,
    REMOVES_NAMED,
    is_cache,
    is_history,
)
from agent_cli.policies.shell.reach import is_of_person
from agent_cli.policies.shell.readings import UNSEEN, Reading, readings
from agent_cli.policies.shell.searches import EVERY_NAME, is_narrow
from agent_cli.policies.shell.starters import base_name, is_shell, options_end
from agent_cli.policies.shell.syntax import (
    ENTERS_FIRST,
    descendants,
    document,
    source,
    syntax_tree,
)
from agent_cli.policies.shell.words import has_glob, text_of, without_quotes, words_of
from agent_cli.sandbox.path_sets import TEMPORARY
from agent_cli.system.loading import late_pattern

if TYPE_CHECKING:
    from tree_sitter import Node

FILLS: Final = ("mv", "ln", "mount", "rsync")
"""They fill a folder with what may be nowhere else."""
Target: TypeAlias = Literal["machine", "container", "new container"]

# The words of a command, each ended by a NUL, up to the command that it runs elsewhere.
_WORD: Final = r"[^\0]*\0"
_STARTED: Final = (
    # The parser takes `!` and `time` before a `{` for programs.
    r"(?>(?:(?:sudo|doas|timeout|nice|nohup|time|command|exec|env|sshpass|!|\{)\0"
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
_ADB: Final = rf"adb\0(?>(?:-[de]\0|-[sHPt]\0{_WORD})*)"
_NAME: Final = r"[^-\0][^\0]*\0"
_WAYS: Final[Mapping[Target, re.Pattern[str]]] = MappingProxyType(
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
            rf"|{_ADB}(?:shell|exec-out)\0)"
        ),
    }
)
_SHELL_THERE: Final = late_pattern(
    rf"{_STARTED}(?:ssh\0{_SSH_OPTIONS}(?=(?P<here>{_THIS_HOST})?){_NAME}{_SSH_OPTIONS}|{_ADB}shell\0)"
)
_LEADS_AWAY: Final = late_pattern(r"docker|podman|nerdctl|kubectl|\b(?:oc|ssh|adb)\s")
_NAMES_THIS_HOST: Final = late_pattern(r"(?i:(?:\b|-\w*o)hostname\b)|\buname\b|/proc/sys/kernel/")
MAY_BE_OTHERS: Final = late_pattern(
    r"\b(?:alias|hash|enable)\s|\b(?:ssh|adb|kubectl|oc|nerdctl|(?:docker|podman)[\w-]*)\s*\("
    r"|\bfunction\s"
)
"""In a script, what may give the names of these programs another meaning."""
_UNKNOWN: Final = "\1"
_RUNS_SCRIPT: Final = late_pattern(r"-[a-z]*c")
_MOVES: Final = late_pattern(r"\b(?:cd|pushd|popd|chdir|chroot|env)\b")
_RECURSES: Final = late_pattern(r"-[a-zA-Z]*[rR][a-zA-Z]*|--r.*")
# What the machine needs to start and to be reached.
_OF_THE_SYSTEM: Final = late_pattern(
    r"/(?:etc|boot|usr|s?bin|lib\w*|dev|proc|sys|system)/.*|(?:.*/)?\.ssh/.*"
)
_GENERATED: Final = late_pattern(
    r"(?!/home/[^/]*(?:/\*)?$)(?:/[^/]+/|(?!/))(?:.*/)?(?:(?:node_modules|__pycache__|\.?cache"
    r"|\.(?:npm|next|nuxt|turbo|vite|(?:pytest|mypy|ruff)_cache)|dist|build|target|tmp|coverage)"
    r"(?:/\*)?|(?:node_modules|__pycache__|\.?cache|\.npm)/.+)",
    re.DOTALL,
)
_ROOT_OR_HOME: Final = late_pattern(r"/?\*?|\.|~.*")
_FILLING: Final = late_pattern(rf"\b(?:{'|'.join(FILLS)})\s([^;&|\n]*)")
_ANYWHERE: Final = late_pattern(r"\$|(?<![\w./])\.(?![\w/])")  # of the target of such a command
_REMOVES_FOUND: Final = late_pattern(r"-exec(?:dir)?\0rm\0(?:-[fv]+\0)*\{\}\0(?:\\?;|\+)\0")
_FIND_ACTS: Final = late_pattern(r"(?:^|\0)-(?:exec|ok)")
STARTED: Final = late_pattern(_STARTED)
"""What `line_of` gives for the words before the command that they start here."""
_OF_READER: Final = late_pattern(r"-[eusxl]+|-")
_OF_DOCUMENT: Final = frozenset({"file_descriptor", "heredoc_start", "heredoc_body", "heredoc_end"})
# A folder of the workspace at a path of a container: `-v $PWD:/w`.
_MOUNT: Final = late_pattern(
    r"\$(?:PWD|\{PWD\}|\(pwd\))(?P<folder>(?:/\w[\w.-]*)*):(?P<at>(?:/\w[\w.-]*)+)(?::\w+)?"
)
# The folder, or the machine of the container, may be another one then.
_SETS_FOLDER: Final = late_pattern(
    r"(?<!\$)(?<!\$\{)\bPWD\b|\bpwd\s*\(\s*\)|\b(?:DOCKER|CONTAINER)_|(?:docker|podman|nerdctl)\s+-"
    r"|\bcontext\s+use\b|\bsystem\s+connection\b"
)
_DEPTH_MAX: Final = 4
_DOES_NOTHING: Final = ":"


def removals_elsewhere(
    command: "Node", whole: str, *, has_folder: bool = False
) -> Sequence[tuple["Node", str]]:
    """Return words of *command* in *whole*, and texts for them without what it may delete.

    With *has_folder*, all that sets a variable is seen in *whole*, so that PWD is known.
    """
    if not _LEADS_AWAY.search(source(command)):
        return ()
    words = words_of(command)
    texts, mount = _without_mount(words, whole) if has_folder else ([*map(text_of, words)], None)
    way = _way(texts, words)
    if way is None or (mount and way[0] != "new container"):
        return ()
    target, at = way
    words, texts = words[at:], texts[at:]
    if mount and texts and base_name(texts[0] or "") in REMOVES_NAMED:
        left = [_of_mount(each, mount) for each in texts]
    elif target != "machine":
        left = texts if mount else [*_left_of(texts, target, "", whole, 0)]
    elif None in texts:
        return ()
    else:
        handed = " ".join(filter(None, texts))
        is_changed = (kept := _script_left(handed, target, whole, 0)) != handed
        left = [kept, *[""] * (len(texts) - 1)] if is_changed else texts
    changed = zip(words, texts, left, strict=True)
    return [(word, shlex.quote(new) if new else "") for word, old, new in changed if new != old]


def _without_mount(
    words: Sequence["Node"], whole: str
) -> tuple[list[str | None], re.Match[str] | None]:
    """Return the texts of *words* without the one folder of the workspace to share, and that."""
    texts = [*map(text_of, words)]
    found = (_MOUNT.fullmatch(source(each).replace('"', "")) for each in words)
    mounts = [(at, mount) for at, mount in enumerate(found) if mount]
    is_set = _SETS_FOLDER.search(without_quotes(whole))
    if len(mounts) != 1 or texts[mounts[0][0] - 1] != "-v" or is_set:
        return texts, None
    at, mount = mounts[0]
    return [*texts[: at - 1], "--rm", "--rm", *texts[at + 1 :]], mount


def _of_mount(text: str | None, mount: re.Match[str]) -> str | None:
    """Return the path *text* in a container as one of the workspace, where it is in *mount*."""
    inside = (text or "").removeprefix(f"{mount['at']}/")
    is_kept = inside == text or ".." in inside or has_glob(inside)
    return text if is_kept else f".{mount['folder']}/{inside}"


def target_of_input(words: Reading) -> Literal["here", "machine"] | None:
    """Return where *words*, `ssh host` or `adb shell`, start a shell that runs what it reads."""
    if not words or base_name(words[0] or "") not in ("ssh", "adb"):
        return None
    found = _SHELL_THERE.fullmatch(line_of(words))
    is_here = found and (found["here"] is not None or _name_this_host(words))
    return found and ("here" if is_here else "machine")


def _name_this_host(words: Iterable[str | None]) -> bool:
    return any(word and _NAMES_THIS_HOST.search(word) for word in words)


def without_input_elsewhere(script: str) -> tuple[str, Sequence[str]]:
    """Return *script* without the shells of containers that read a text in it, and those texts.

    `docker exec -i x sh <<E`, `echo 'rm x' | docker exec -i x sh`; the texts without what they may
    delete there.
    """
    if not _LEADS_AWAY.search(script) or MAY_BE_OTHERS.search(script):
        return script, ()
    tree, whole, texts = syntax_tree(script), script.encode(errors="replace"), list[str]()
    kept, end = b"", 0
    for node in descendants(tree) if not tree.has_error else ():
        fed = _fed(node) if node.start_byte >= end else None
        if fed is None:
            continue
        words = words_of(fed[0])
        way = _way([*map(text_of, words)], words)
        if way and way[0] == "container" and _reads_script([*map(text_of, words[way[1] :])]):
            texts.append(_script_left(fed[1], "container", script, 0))
            kept += whole[end : node.start_byte] + _DOES_NOTHING.encode()
            end = node.end_byte
    left = (kept + whole[end:]).decode()
    # What runs a text in turn, or what was printed there, may run any of the script.
    is_run = texts and any(UNSEEN in readings(each) for each in (left, *texts))
    return (script, ()) if is_run else (left, texts)


def _fed(node: "Node") -> tuple["Node", str] | None:
    """Return the command in *node*, which has no other redirection, and the text that it reads."""
    first, *others = node.children or (node,)
    if node.parent is not None and node.parent.type == "redirected_statement":
        return None
    match node.type, [each.type for each in others]:
        case "redirected_statement", ["heredoc_redirect"] if first.type == "command":
            # The parser puts in there what follows in the line, too: `<<E | sh`, `<<E && sh x`.
            parts = others[0].named_children
            if _OF_DOCUMENT.issuperset(each.type for each in parts):
                bodies = (document(each) for each in parts if each.type == "heredoc_body")
                return first, "".join(bodies)
        case "command", [*_, "herestring_redirect"]:
            text = text_of(others[-1].named_children[0])
            return None if text is None else (node, text)
        case "pipeline", ["|", "command"] if first.type == "command":
            name, *words = map(text_of, words_of(first))
            printed = " ".join(filter(None, words))
            is_known = name == "echo" and None not in words and "\\" not in printed
            return (others[1], printed) if is_known else None
        case _:
            pass
    return None


def _reads_script(words: Sequence[str | None]) -> bool:
    """Return whether *words* start a shell that is given no more than harmless options."""
    name, *options = words or [None]
    return is_shell(name) and all(each and _OF_READER.fullmatch(each) for each in options)


def script_read(script: str, targets: Collection[str | None]) -> str:
    """Return *script*, which shells in *targets* read, without what it may delete elsewhere."""
    return script if "here" in targets else _script_left(script, "machine", script, 0)


def line_of(texts: Sequence[str | None]) -> str:
    """Return *texts* as `_WAYS` match them."""
    return "".join(f"{_UNKNOWN if each is None else each}\0" for each in texts)


def _way(texts: Sequence[str | None], words: Sequence["Node"] = ()) -> tuple[Target, int] | None:
    """Return where the command of *texts* runs another one, and at which of them it begins.

    A value of *words* that bash splits may share a folder with a new container.
    """
    line = line_of(texts)
    for target, pattern in _WAYS.items():
        if found := pattern.match(line):
            begin = line.count("\0", 0, found.end())
            pairs = zip(texts[:begin], words, strict=False)
            # So does a list in quotes, "$@".
            is_split = any(
                text is None and (word.type != "string" or "@" in source(word))
                for text, word in pairs
            )
            is_here = _name_this_host(map(source, words[:begin]))
            return None if is_here or (is_split and target == "new container") else (target, begin)
    return None


def _left_of(
    texts: Sequence[str | None], target: Target, folder: str, whole: str, depth: int
) -> Sequence[str | None]:
    """Return the words *texts* of a command in *target* with `:` for what it may delete."""
    begin = 1 if texts[:1] in (["sudo"], ["doas"]) else 0
    name, behind = base_name((texts[begin:] or [""])[0] or ""), texts[begin + 1 :]
    if name in REMOVES_NAMED and _may_remove(behind, target, folder, whole):
        return [_DOES_NOTHING, *[""] * (len(texts) - 1)]
    if name in FINDS and target != "machine" and _may_find(behind):
        return [_DOES_NOTHING, *[""] * (len(texts) - 1)]
    left = [*texts]
    for at in range(begin + 2, len(texts)):
        option, script = texts[at - 1], texts[at]
        if is_shell(name) and option and script and _RUNS_SCRIPT.fullmatch(option):
            left[at] = _script_left(script, target, whole, depth + 1)
            break
    return left


def _script_left(script: str, target: Target, whole: str, depth: int) -> str:
    """Return *script*, which a shell in *target* runs, with `:` for what it may delete.

    It is in *whole*, which may move something that is nowhere else to a folder that it deletes.
    """
    tree = syntax_tree(script)
    if depth > _DEPTH_MAX or tree.has_error:
        return script
    entered = ENTERS_FIRST.fullmatch(script)
    folder = entered["folder"] if entered and entered["folder"][0] == "/" else ""
    is_moved = len(_MOVES.findall(script)) > (1 if folder else 0)
    text, at, pieces = script.encode(), 0, list[bytes]()
    for node in descendants(tree):
        if node.type != "command" or node.start_byte < at:
            continue
        words = words_of(node)
        texts = [*map(text_of, words)]
        within, begin = _way(texts, words) or (target, 0)
        start = "" if begin else ".." if is_moved else folder
        left = _left_of(texts[begin:], within, start, whole, depth)
        # What stands before, among and behind the words may run commands, too.
        between = node.children[node.children.index(words[0]) :][: len(words)] if words else []
        if left != texts[begin:] and None not in left and between == words:
            kept = (*texts[:begin], *filter(None, left))
            pieces += [text[at : words[0].start_byte], shlex.join(map(str, kept)).encode()]
            at = words[-1].end_byte
    return b"".join([*pieces, text[at:]]).decode()


def _may_remove(words: Sequence[str | None], target: Target, folder: str, whole: str) -> bool:
    """Return whether `rm` with *words* may delete in *target*; relative paths begin in *folder*."""
    end = options_end(words)
    options = [word for word in words[:end] if word and word.startswith("-")]
    named = [*(word for word in words[:end] if word not in options), *words[end + 1 :]]
    paths = [joined(folder, each) for each in named if each]
    if len(paths) < len(named) or not paths or any(".." in each.split("/") for each in paths):
        return False
    if target == "new container":
        return not any(map(_ROOT_OR_HOME.fullmatch, paths))
    if any(map(is_of_person, paths)) or (
        target == "machine" and any(map(_OF_THE_SYSTEM.fullmatch, paths))
    ):
        return False
    if any(map(_RECURSES.fullmatch, options)):
        is_own = target == "container"
        return all(_is_made_again(x, is_own=is_own) and not _is_filled(x, whole) for x in paths)
    return not any(map(EVERY_NAME.fullmatch, paths))


def joined(folder: str, path: str) -> str:
    """Return *path*, in *folder* if it is relative, without the `//` that `normpath` leaves."""
    whole = f"{folder}/{path}" if folder and path[0] not in "/~" else path
    return re.sub("^//", "/", os.path.normpath(whole))


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
    line = _REMOVES_FOUND.sub("", line_of(words))
    is_plain = _UNKNOWN not in line and not _FIND_ACTS.search(line)
    return is_plain and "/" not in words and is_narrow(tuple(words))
