"""The paths that make programs act, before and after a command; they are only listed here."""

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from agent_cli.sandbox.git_folders import WATCHED_MAX, GitFolders, of_repository
from agent_cli.sandbox.secret_index import Contents
from agent_cli.system.records import dataclass


class Located(NamedTuple):
    """A path, with the device and inode of its folder, None if that is missing.

    A command cannot replace a mounted file, but it can rename a folder above it, and then put
    another one of that name there. The mount moves with the folder, and the same path leads to
    another file.
    """

    path: Path
    folder: tuple[int, int] | None


def located(paths: Iterable[Path]) -> frozenset[Located]:
    """Return *paths* as they are on the disk now."""
    folders: dict[str, tuple[int, int] | None] = {}
    found = set[Located]()
    for path in paths:
        folder = os.path.dirname(path)  # noqa: PTH120 - for speed: before and after each command
        if folder not in folders:
            folders[folder] = _identity(folder)
        found.add(Located(path, folders[folder]))
    return frozenset(found)


def _identity(folder: str) -> tuple[int, int] | None:
    try:
        state = os.stat(folder)  # noqa: PTH116 - as above
    except OSError:
        return None
    return state.st_dev, state.st_ino


@dataclass(frozen=True, slots=True)
class Acting:
    """The paths that make programs act, at one moment.

    Attributes:
        git: Configuration and hooks of repositories.
        pointers: `.git` files and links, which name the folder of a repository.
        others: Settings, folders of hooks, and files that a rule protects from changes.
        unsearched: Folders with too many folders in them to find all these paths.
    """

    git: frozenset[Located]
    pointers: frozenset[Located]
    others: frozenset[Located]
    unsearched: frozenset[Path] = frozenset()


def acting_paths(
    roots: Sequence[Path],
    inside: Sequence[Contents],
    git: Sequence[GitFolders],
    executed: Sequence[Path] = (),
) -> Acting:
    """Return the paths in *inside*, the contents of *roots*, in the folders of git, and *executed*.

    The last are run, imported or read as settings by programs outside.
    """
    searched = zip(roots, inside, strict=True)
    unsearched = [root for root, contents in searched if not contents.is_complete]
    for folders in git:
        unsearched += () if folders.is_complete else folders.protected
    named = [path for each in git for path in each.named]
    others = [path for each in inside for path in (*each.settings, *each.locked)]
    every = (path for each in git for path in (*each.protected, *each.watched, *each.beyond))
    return Acting(
        git=located(every),
        pointers=located(path for each in inside for path in each.git_pointers),
        others=located([*others, *named, *executed]),
        unsearched=frozenset(unsearched),
    )


def new_paths(before: frozenset[Located], after: frozenset[Located]) -> set[Path]:
    """Return the paths that lead to other files than *before*."""
    # A command may have made so many folders that the search did not find the old paths again.
    missed = {each.path for each in before}.difference(each.path for each in after)
    return {each.path for each in (after | located(filter(os.path.lexists, missed))) - before}


def nested_repositories(
    inside: Sequence[Contents], part: slice, *, searched_max: int = WATCHED_MAX
) -> Iterator[GitFolders]:
    """Yield the git folders of *part* of the repositories inside the roots."""
    folders = [folder for contents in inside for folder in contents.git_folders]
    for folder in folders[part]:
        yield of_repository(folder, searched_max)
    files = [file for contents in inside for file in contents.git_files]
    yield GitFolders(protected=tuple(files[part]))
