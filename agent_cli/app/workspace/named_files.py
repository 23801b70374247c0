"""Find the files that a command names and may lose: they are kept where calls cannot be stopped."""

import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path, PurePath
from typing import Final

from agent_cli.policies.shell import Reach
from agent_cli.policies.shell.destructive import destructions
from agent_cli.policies.shell.fed_scripts import possible_commands
from agent_cli.policies.shell.git import only_shows
from agent_cli.policies.shell.named_paths import named_paths
from agent_cli.policies.shell.reach import OutOfReach
from agent_cli.policies.shell.readings import Reading
from agent_cli.policies.shell.starters import base_name
from agent_cli.system.git import git_output
from agent_cli.system.launching import NamedFiles
from agent_cli.system.records import dataclass, field

_FILES_MAX: Final = 20_000
_GIT_LIMIT_S: Final = 10.0
# Programs that delete or overwrite what they name.
_LOSERS: Final = frozenset(
    {
        *("rm", "rmdir", "unlink", "mv", "cp", "install", "ln", "tee", "truncate", "shred", "dd"),
        *("sed", "perl", "rsync", "find", "fd", "fdfind", "git", "chmod", "chown", "touch", "tar"),
        *("unzip", "patch", "xargs", "rename", "trash", "gio", "split", "sponge"),
    }
)
_WHOLE_TREE: Final = frozenset({"find", "fd", "fdfind", "rsync", "chmod", "chown", "tar", "unzip"})
# They write into no file that is there; nor do these print into one without a redirection.
_ONLY_DELETES: Final = frozenset(
    {"rm", "rmdir", "unlink", "find", "git", "cd", "echo", "ls", "true", "test", "[", ":"}
)
_REDIRECTION: Final = re.compile(r">\|?\s*(?![&>|\s]|/dev/)")
_WORD: Final = re.compile(r"[^-\0*?\[{~$][^\0*?\[{~$]*")
_CLEANS_IGNORED: Final = re.compile(r"-\w*[xXa]\w*|--all")
_TOO_MANY: Final = f"it holds more than {_FILES_MAX:,} files"
_SECRET: Final = "secrets are not kept"
_OBJECTS: Final = ".git/objects"


def named_files(
    command: str,
    reach: Reach,
    why: str,
    *,
    bytes_max: int,
    is_kept_back: Callable[[PurePath], bool] = lambda _path: False,
) -> NamedFiles | None:
    """Return the files to keep before *command*; None if it loses none that it names. Blocks.

    Args:
        command: A script for bash.
        reach: The workspace.
        why: Why its calls cannot be stopped.
        bytes_max: The limit of all copies together.
        is_kept_back: Returns whether a file is a secret, which is not kept.
    """
    seen = [each for each in possible_commands(command) if each and not _only_shows(each)]
    programs = {base_name(each[0]) if each[0] else "" for each in seen}
    redirects = _REDIRECTION.search(command) is not None
    if not (redirects or programs & _LOSERS or destructions(seen, reach.root)):
        return None
    by_link = not redirects and programs <= _ONLY_DELETES
    found = _Found(reach, is_kept_back, by_link=by_link, bytes_max=bytes_max)
    for path in sorted({*_named(command, reach)}):
        if path != str(reach.root) or programs & _WHOLE_TREE:
            found.add_tree(path, with_objects=by_link)
    if "git" in programs:
        _add_work_tree(found, reach.root, seen)
    return NamedFiles(
        why=why,
        paths=[*found.paths],
        absent=sorted({*_absent(seen, reach)}),
        unkept=found.unkept,
        by_link=by_link,
    )


def _only_shows(words: Reading) -> bool:
    return base_name(words[0] or "") == "git" and only_shows(words)


def _named(command: str, reach: Reach) -> Iterator[str]:
    with suppress(OutOfReach):  # Those that come before it are kept.
        for path in named_paths(command, reach):
            yield str(path)


@dataclass(slots=True)
class _Found:
    """The files to keep so far, what is in a folder before the folder."""

    reach: Reach
    is_kept_back: Callable[[PurePath], bool]
    by_link: bool
    bytes_max: int
    paths: dict[str, None] = field(default_factory=dict[str, None])
    unkept: dict[str, str] = field(default_factory=dict[str, str])
    bytes: int = 0

    def add_tree(self, top: str, *, with_objects: bool) -> None:
        """Add *top*, and all in it; all or nothing, if there is too much."""
        if os.path.realpath(os.path.dirname(top)) != os.path.dirname(top):  # noqa: PTH120
            return  # through a link: its real path is named as well
        if top in self.paths or not self.reach.holds(top) or not os.path.lexists(top):
            return
        new, size = dict[str, None](), 0
        for path in _tree(top, with_objects=with_objects):
            new[path] = None
            size += _size(path)
            too_large = not self.by_link and self.bytes + size > self.bytes_max
            if too_large or len(self.paths) + len(new) > _FILES_MAX:
                self.unkept[top] = "it is larger than undo.max_mb" if too_large else _TOO_MANY
                return
        self.bytes += size
        for path in new:
            self._add(path)

    def add_file(self, path: str) -> None:
        """Add one file."""
        if path not in self.paths and len(self.paths) < _FILES_MAX and os.path.lexists(path):
            self._add(path)

    def _add(self, path: str) -> None:
        if self.is_kept_back(PurePath(path)):
            self.unkept[path] = _SECRET
        else:
            self.paths[path] = None


def _tree(top: str, *, with_objects: bool) -> Iterator[str]:
    if os.path.islink(top) or not os.path.isdir(top):  # noqa: PTH112, PTH114 - many
        yield top
        return
    waiting, folders = [top], list[str]()
    files: dict[str, list[str]] = {}
    while waiting:
        folder = waiting.pop()
        folders.append(folder)
        files[folder] = []
        try:
            with os.scandir(folder) as entries:
                for each in entries:
                    if not each.is_dir(follow_symlinks=False):
                        files[folder].append(each.path)
                    elif with_objects or not each.path.endswith(f"/{_OBJECTS}"):
                        waiting.append(each.path)
        except OSError:
            continue
    for folder in reversed(folders):  # a folder stands behind what is in it
        yield from files[folder]
        yield folder


def _add_work_tree(found: _Found, root: Path, seen: Sequence[Reading]) -> None:
    """Add the files that git commands may change: in the work tree, and in git's own folder."""
    words = {word for each in seen for word in each if word}
    cleans = bool(words & {"clean", "stash"}) and any(map(_CLEANS_IGNORED.fullmatch, words))
    others = () if cleans else ("--exclude-standard",)
    forms = (("--cached",), ("--others", "--directory", *others))
    listed = [git_output(root, "ls-files", "-z", *form, limit_s=_GIT_LIMIT_S) for form in forms]
    names = filter(None, "\0".join(each or "" for each in listed).split("\0"))
    paths = [f"{root}/{name}" for name in names]
    folders = {os.path.dirname(path.rstrip("/")) for path in paths}  # noqa: PTH120 - many
    folders |= {str(above) for each in folders for above in PurePath(each).parents}
    for path in paths:
        if path.endswith("/"):  # git holds nothing in it
            found.add_tree(path.rstrip("/"), with_objects=True)
        else:
            found.add_file(path)
    inside = [each for each in folders if each == str(root) or each.startswith(f"{root}/")]
    for folder in sorted(inside, key=len, reverse=True):
        found.add_file(folder)
    found.add_tree(f"{root}/.git", with_objects=False)


def _absent(seen: Sequence[Reading], reach: Reach) -> Iterator[str]:
    """Yield the paths that a command names, where nothing is: it may make files there."""
    for word in {word for each in seen for word in each[1:] if word}:
        path = os.path.normpath(reach.root / word)
        if _WORD.fullmatch(word) and reach.holds(path) and not os.path.lexists(path):
            yield path


def _size(path: str) -> int:
    try:
        return os.lstat(path).st_blocks * 512
    except OSError:
        return 0
