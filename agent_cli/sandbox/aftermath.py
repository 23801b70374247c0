"""Find what appeared beside a command and would make programs act later; hold it for a decision.

Existing files are mounted read-only. New ones in unforeseen folders, such as a repository with
hooks or an editor's settings in a subfolder, can only be found after the command has ended. The
command made them, or another program did meanwhile: a `git init` of the user, an editor, a second
agent. The file system does not record who wrote, so nothing is moved or put back unless a person
has said so. Where there is no person, a new file stays, a warning names it, and while it is there
it is not trusted: hooks run in the sandbox, and a run without a person ends as one that needs a
decision.
"""

import asyncio
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Protocol

from agent_cli.sandbox.acting import Acting, located, new_paths
from agent_cli.sandbox.git_config import (
    destinations,
    harmful,
    harmless,
    harmless_steps,
    starting_steps,
    working_trees,
)
from agent_cli.sandbox.git_folders import REBASE_STEPS, named_folder, pointed_at, shared_folders
from agent_cli.sandbox.guarded_files import VERSION_FOLDERS
from agent_cli.system.fixed_paths import start_of
from agent_cli.system.logger import logger
from agent_cli.system.paths import Identity, identity, real_path
from agent_cli.system.records import dataclass
from agent_cli.system.trees import move_aside

_ACTING_NAMES = ("config", "hooks", "config.worktree")
_CONFIG_BYTES_MAX = 1_000_000
_HOOKS_MAX = 30  # git knows fewer
_SENTENCES_MAX = 20
_FILES_MAX = 1_000

_ACTS = "makes other programs run commands"
_KEPT = "the user keeps it"
NO_ANSWER = (
    "nobody decided whether a command made it, so hooks run in the sandbox from now on; look at it"
    " before another program acts on it"
)

_log = logger(__name__)


@dataclass(frozen=True, slots=True)
class Appeared:
    """A new file or folder that makes programs act; the command or another program made it.

    Attributes:
        identity: Its device and inode when it was found.
    """

    path: Path
    identity: Identity | None

    @classmethod
    def at(cls, path: Path) -> "Appeared":
        """Return the present state of *path* on the disk."""
        return cls(path, identity(path, follow_symlinks=False))

    def undone(self, aside: Path) -> Sequence[str]:
        """Move the file to *aside* if it is unchanged since it was found; return a sentence.

        A repository keeps the part of its configuration, or of the steps of a rebase, that cannot
        start a program.
        """
        path, now = self.path, identity(self.path, follow_symlinks=False)
        if now is None or now != self.identity:
            return [f"{path} is no longer what was found, so it was not moved"]
        is_in_part = path.name in ("config", REBASE_STEPS) and _is_of_git(path)
        text = _content(path) if is_in_part and not path.is_symlink() else None
        kept = _harmless_part(path, text) if text else None
        try:
            to = move_aside(path, aside)
            if kept is not None:
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


def same_but_harmless(path: Path, old: bytes, new: bytes) -> bool:
    """Return whether only harmless lines of *path*, as of `_harmless_part`, have changed.

    A remote or branch that is there must also send commits to the same place. A rebase takes its
    steps away one by one.
    """
    before, after = (each.decode(errors="surrogateescape") for each in (old, new))
    if path.name == REBASE_STEPS:
        return starting_steps(after) <= starting_steps(before)
    if path.name != "config":
        return False
    now, known = destinations(after), destinations(before)
    trees = working_trees(before)  # one that is gone, as after `git mv`, leads nowhere

    def is_own_tree(name: str) -> bool:
        return name in trees or _leads_back(path.parent, name)

    return harmful(before, is_own_tree) == harmful(after, is_own_tree) and all(
        now.get(each, known[each]) == known[each] for each in known
    )


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
        case "config" | "config.worktree" | "git-rebase-todo" if _is_of_git(path):
            text = _content(path)
            if text is None or _harmless_part(path, text) != text:
                return [path]
            # It is read behind the other one, whose remotes it could change.
            is_extra = path.name == "config.worktree"
            return [path] if is_extra and any(destinations(text).values()) else []
        case "commondir" if path.parent.parent.name == "worktrees":
            leads_to, *_ = shared_folders(path.parent)
            return [path] if leads_to != real_path(path.parents[2]) else []
        case "commondir":
            return [path]
        case _:
            return []


def _harmless_part(path: Path, text: str) -> str:
    """Return *text* of *path* without the lines that start programs, or use other folders.

    *path* is a configuration, or the steps of a rebase, which `git rebase --continue` takes.
    """
    if path.name == REBASE_STEPS:
        return harmless_steps(text)
    return harmless(text, partial(_leads_back, path.parent))


def _leads_back(folder: Path, name: str) -> bool:
    """Return whether the working tree *name* of the repository in *folder* has that as `.git`."""
    if not name:
        return False
    entry = named_folder(folder, name) / ".git"
    return real_path(folder) in (*pointed_at(entry), real_path(entry))


def _is_of_git(path: Path) -> bool:
    """Return whether *path*, of a name of git's, is no file of another version control."""
    return path.parent.name.casefold() not in VERSION_FOLDERS


def _content(path: Path) -> str | None:
    """Return the text of *path*; None if it cannot be read, or is too long to judge it whole."""
    try:
        found = start_of(path, _CONFIG_BYTES_MAX + 1)
    except OSError:
        return None
    return found.decode(errors="surrogateescape") if len(found) <= _CONFIG_BYTES_MAX else None


def _write(path: Path, text: str) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(path, flags, 0o644), "wb") as file:
        file.write(text.encode(errors="surrogateescape"))


class FileDecider(Protocol):
    """The person who decides."""

    @property
    def undecided_files(self) -> Sequence[Path]:
        """The files that await a person's decision, as long as they exist."""
        ...

    def note_undecided(self, paths: Iterable[Path], /) -> None:
        """Add *paths* to them."""
        ...

    @property
    def can_ask(self) -> bool:
        """Whether a person is there to answer."""
        ...

    async def decide_new_files(self, paths: Sequence[Path], aside: Path, /) -> bool | None:
        """Return whether *paths* are moved to *aside*, or put back; None without an answer."""
        ...


class Open(Protocol):
    """A file that a person has to decide about."""

    @property
    def path(self) -> Path:
        """Its path."""
        ...

    def undone(self, aside: Path) -> Sequence[str]:
        """Move the file to *aside*, or put the earlier file back; return sentences."""
        ...

    def stays(self, why: str) -> str:
        """Return the sentence for a file that stays, and *why*."""
        ...

    def consists_of(self, paths: Iterable[Path]) -> bool:
        """Return whether *paths* explain it."""
        ...


class Undecided:
    """Files of one session; commands end in threads, a person answers in the event loop."""

    def __init__(
        self, aside: Path, person: FileDecider | None, warn: Callable[[str], None]
    ) -> None:
        """Hold nothing yet; *warn* receives a sentence about each file without an answer."""
        self._aside = aside
        self._person = person
        self._warn = warn
        self._open: list[Open] = []
        self._written: set[Path] = set()
        self._failed: tuple[tuple[Acting, Sequence[Path], Sequence[Path]], ...] = ()
        self._lock = threading.Lock()

    @property
    def has_person(self) -> bool:
        """Whether someone may answer."""
        return self._person is not None and self._person.can_ask

    def expect(self, path: Path) -> None:
        """Note that a tool of this program wrote the real *path*, which was approved."""
        self._written.add(path)

    def look_for(
        self,
        search: Callable[[Acting], Acting],
        before: Acting,
        writable: Sequence[Path],
        missing: Sequence[Path],
    ) -> Sequence[str]:
        """Hold what appeared since *before*; return sentences about what was not searched.

        If the search fails, the next one looks for what appeared since then, too. Commands may
        overlap: either may have begun first.
        """
        begins = self._failed
        if (begin := (before, writable, missing)) not in begins:
            begins = (*begins, begin)
        try:
            after = search(before)
            new = [appeared(since, after, *where) for since, *where in begins]
        except OSError as error:
            self._failed = begins
            return [f"what the command added could not be looked for ({error.strerror})"]
        self._failed = ()
        for each in new:
            self.add(each)
        return [*unsearched(before, after)]

    def add(self, found: Iterable[Open]) -> None:
        """Hold *found*, without the files that tools of this program wrote."""
        kept = [each for each in found if not (self._written and each.consists_of(self._written))]
        with self._lock:
            known = {each.path for each in self._open}
            self._open += [each for each in kept if each.path not in known]

    async def settle(self) -> Sequence[str]:
        """Have a person decide; return a sentence about each file."""
        found = self._taken()
        if not found:
            return ()
        try:
            is_undone = await self._answer([each.path for each in found])
        except BaseException:
            with self._lock:
                self._open += found
            raise
        if is_undone:
            return shortened(_logged(await asyncio.to_thread(self._undone, found)))
        if is_undone is None:
            sentences = self._left(found)
            for sentence in sentences:
                self._warn(f"sandbox: {sentence}")
            return sentences
        return shortened(_logged([each.stays(_KEPT) for each in found]))

    async def _answer(self, paths: Sequence[Path]) -> bool | None:
        if self._person is None or not self.has_person:
            return None
        return await self._person.decide_new_files(paths, self._aside)

    def close(self) -> None:
        """Leave undecided files in place, with warnings."""
        _logged(self._left(self._taken()))

    def _taken(self) -> list[Open]:
        with self._lock:
            found, self._open = self._open, []
        return found

    def _undone(self, found: Sequence[Open]) -> list[str]:
        return [sentence for each in found for sentence in each.undone(self._aside)]

    def _left(self, found: Sequence[Open]) -> Sequence[str]:
        if self._person is not None:
            self._person.note_undecided(each.path for each in found)
        return shortened([each.stays(NO_ANSWER) for each in found])


def _logged(sentences: Sequence[str]) -> Sequence[str]:
    # No result shows them if the command ran on after its call.
    for sentence in sentences:
        _log.warning("new file that makes programs act", sentence=sentence)
    return sentences
