"""Move away files that a command created and that would make programs act later.

Existing files are mounted read-only. New ones in unforeseen folders, such as a repository with
hooks or an editor's settings in a subfolder, can only be checked after the command has ended. They
are not deleted but moved to a folder of this program, which the tool result names.
"""

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from agent_cli.sandbox.acting import Acting, located, new_paths
from agent_cli.sandbox.git_config import harmless
from agent_cli.sandbox.git_folders import named_folder, pointed_at, shared_folders
from agent_cli.system.aside import move_aside
from agent_cli.system.regular_files import start_of

_ACTING_NAMES = ("config", "hooks", "config.worktree")
_CONFIG_BYTES_MAX = 1_000_000
_HOOKS_MAX = 30  # git knows fewer
_SENTENCES_MAX = 20


def clean_up(before: Acting, after: Acting, aside: Path, writable: Sequence[Path]) -> Iterator[str]:
    """Move new acting files to *aside*; yield a sentence about each path.

    A repository keeps the part of its configuration that cannot start a program. What lies outside
    *writable*, where the command could write, is not its work: there only a new name for it is
    moved.
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
    for path in sorted(new_paths(before.git, after.git | located(pointed))):
        yield from _reported(path, aside, _offending)
    # Those inside others first, while their paths are true.
    for path in sorted(new_paths(before.others, after.others) | leading_out, reverse=True):
        yield from _reported(path, aside, lambda each: [each])
    for folder in sorted(after.unsearched - before.unsearched):
        yield (
            f"{folder} now has too many folders to search them all: before you use a git repository"
            " or an editor there, delete the folders that the command made"
        )


def shortened(sentences: Sequence[str]) -> Sequence[str]:
    """Return the first *sentences*, and how many more there are; the log has all of them."""
    more = len(sentences) - _SENTENCES_MAX
    return [*sentences[:_SENTENCES_MAX], f"and {more} more like these"] if more > 0 else sentences


def moved_sentence(path: Path | str, to: Path | str) -> str:
    """Return the sentence about a moved path."""
    return f"{path} makes other programs run commands, so it was moved to {to}"


def _reported(path: Path, aside: Path, offending: Callable[[Path], list[Path]]) -> Iterator[str]:
    try:
        found = offending(path)
    except OSError:  # for example of a folder that may not be listed
        found = [path]
    for each in found:
        text = _config(each) if each.name == "config" and not each.is_symlink() else None
        kept = harmless(text) if text else None
        try:
            moved = move_aside(each, aside)
            if kept:
                _write(each, kept)
        except OSError as error:
            act = "makes other programs run commands, and could not be moved away"
            yield f"{each} {act}: {error.strerror}"
        else:
            rest = "; the part of it that starts no program stays" if kept else ""
            yield moved_sentence(each, moved) + rest


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
