"""Find what appeared beside a command and would make programs act later; move it on request.

Existing files are mounted read-only. New ones in unforeseen folders, such as a repository with
hooks or an editor's settings in a subfolder, can only be found after the command has ended. The
command made them, or another program did meanwhile: a `git init` of the user, an editor, a second
agent. Nothing here can tell, so nothing is moved before a person has said so: see `undecided`.
"""

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from agent_cli.sandbox.acting import Acting, located, new_paths
from agent_cli.sandbox.git_config import harmless
from agent_cli.sandbox.git_folders import named_folder, pointed_at, shared_folders
from agent_cli.system.aside import move_aside
from agent_cli.system.fixed_paths import start_of
from agent_cli.system.records import dataclass

_ACTING_NAMES = ("config", "hooks", "config.worktree")
_CONFIG_BYTES_MAX = 1_000_000
_HOOKS_MAX = 30  # git knows fewer
_SENTENCES_MAX = 20
_FILES_MAX = 1_000

_ACTS = "makes other programs run commands"


@dataclass(frozen=True, slots=True)
class Appeared:
    """A new file or folder that makes programs act; the command or another program made it.

    Attributes:
        identity: Its device and inode when it was found.
    """

    path: Path
    identity: tuple[int, int] | None

    @classmethod
    def at(cls, path: Path) -> "Appeared":
        """Return the present state of *path* on the disk."""
        return cls(path, _identity(path))

    def undone(self, aside: Path) -> Sequence[str]:
        """Move the file to *aside* if it is unchanged since it was found; return a sentence.

        A repository keeps the part of its configuration that cannot start a program.
        """
        path = self.path
        if self.identity is None or _identity(path) != self.identity:
            return [f"{path} is no longer what was found, so it was not moved"]
        text = _config(path) if path.name == "config" and not path.is_symlink() else None
        kept = harmless(text) if text else None
        try:
            to = move_aside(path, aside)
            if kept:
                _write(path, kept)
        except OSError as error:
            return [f"{path} {_ACTS}, and could not be moved away: {error.strerror}"]
        rest = "; the part of it that starts no program stays" if kept else ""
        return [f"{path} {_ACTS}, so it was moved to {to}{rest}"]

    def stays(self, why: str) -> str:
        """Return the sentence for a file that stays, and *why*."""
        return f"{self.path} appeared while a command ran, and {_ACTS}; it stays: {why}"

    def consists_of(self, paths: Iterable[Path]) -> bool:
        """Return whether nothing but *paths* is in it."""
        known = {*paths}
        if self.path.is_symlink() or not self.path.is_dir():
            return self.path in known
        files: list[Path] = []
        for folder, folders, names in os.walk(self.path):
            linked = (name for name in folders if Path(folder, name).is_symlink())
            files += (Path(folder, name) for name in (*names, *linked))
            if len(files) > _FILES_MAX:
                return False
        return bool(files) and known.issuperset(files)


def appeared(
    before: Acting, after: Acting, writable: Sequence[Path], missing: Sequence[Path] = ()
) -> list[Appeared]:
    """Return the new acting files, nested files first.

    What lies outside *writable*, where the command could write, is not its work: there only a new
    name for it counts. *missing* are acting paths that did not exist before.
    """
    pointed, leading_out = set[Path](), set[Path]()
    for pointer in new_paths(before.pointers, after.pointers):
        found = pointed_at(pointer)
        # A forged worktree has its configuration in a folder that looks like none of git's.
        for folder in {*found, *(shared for each in found for shared in shared_folders(each))}:
            named = [folder / name for name in _ACTING_NAMES]
            if any(map(folder.is_relative_to, writable)):
                pointed.update(named)
            elif any(map(os.path.lexists, named)):
                leading_out.add(pointer)
    of_git = {each.path for each in before.git}
    there = {path for path in missing if os.path.lexists(path)}
    git = new_paths(before.git, after.git | located(pointed)) | (there & of_git)
    others = new_paths(before.others, after.others) | leading_out | (there - of_git)
    offending = [each for path in sorted(git) for each in _tried(path, _offending)]
    # Those inside others first: once a folder is moved, the paths in it lead nowhere.
    offending += [path for path in sorted(others, reverse=True) if os.path.lexists(path)]
    return [Appeared.at(path) for path in dict.fromkeys(offending)]


def unsearched(before: Acting, after: Acting) -> Iterator[str]:
    """Yield a sentence about each folder that became too large to search."""
    for folder in sorted(after.unsearched - before.unsearched):
        yield (
            f"{folder} now has too many folders to search them all: before you use a git repository"
            " or an editor there, delete the folders that the command made"
        )


def shortened(sentences: Sequence[str]) -> Sequence[str]:
    """Return the first *sentences*, and the number of the others; the log has all."""
    more = len(sentences) - _SENTENCES_MAX
    return [*sentences[:_SENTENCES_MAX], f"and {more} more like these"] if more > 0 else sentences


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        state = path.lstat()
    except OSError:
        return None
    return state.st_dev, state.st_ino


def _tried(path: Path, offending: Callable[[Path], list[Path]]) -> list[Path]:
    try:
        return offending(path)
    except OSError:  # for example of a folder that may not be listed
        return [path]


def _offending(path: Path) -> list[Path]:
    """Return the files at or in the new *path*, part of a repository, that may start programs."""
    if not os.path.lexists(path):
        return []
    if path.is_symlink():
        return [path]
    match path.name:
        case "hooks" if path.is_dir():
            hooks = [each for each in sorted(path.iterdir()) if each.suffix != ".sample"]
            return hooks if len(hooks) <= _HOOKS_MAX else [path]
        case "config":
            text = _config(path)
            return [] if text is not None and harmless(text) == text else [path]
        case "commondir" if path.parent.parent.name == "worktrees":
            leads_to = named_folder(path.parent, _read(path).rstrip("\r\n"))
            return [path] if leads_to != named_folder(path.parents[2], "") else []
        case "commondir" | "config.worktree":
            return [path]
        case _:
            pass
    return []


def _config(path: Path) -> str | None:
    """Return a configuration; None if it cannot be read, or is too long to be judged as a whole."""
    try:
        found = start_of(path, _CONFIG_BYTES_MAX + 1)
    except OSError:
        return None
    return found.decode(errors="surrogateescape") if len(found) <= _CONFIG_BYTES_MAX else None


def _read(path: Path) -> str:
    with contextlib.suppress(OSError):
        return start_of(path, _CONFIG_BYTES_MAX).decode(errors="surrogateescape")
    return ""


def _write(path: Path, text: str) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(path, flags, 0o644), "wb") as file:
        file.write(text.encode(errors="surrogateescape"))
