"""Hide most entries of a folder by one mount: an unreadable copy of its names in its place."""

import hashlib
import os
import stat
import tempfile
from collections.abc import Iterable, Mapping, Sequence, Set
from pathlib import Path
from typing import Final

from agent_cli.sandbox.places import Places
from agent_cli.system.records import dataclass
from agent_cli.system.trees import remove_tree

_STAND_INS: Final = "stand-ins"
_STAND_INS_MAX: Final = 50


@dataclass(frozen=True, slots=True)
class StandIn:
    """An unreadable copy of a folder, with its names alone, to be mounted over it.

    Attributes:
        kept: The entries of the folder to be mounted onto the copy again.
    """

    folder: Path
    copy: Path
    kept: Sequence[Path]


def stand_in(folder: Path, hidden: Set[Path], places: Places) -> StandIn | None:
    """Return a copy of *folder* that hides its entries *hidden* with fewer mounts than these.

    Bubblewrap reads the table of all mounts for each one, so that 85 take 50 ms.

    Returns:
        None if most entries stay visible, or if the copy cannot be made.
    """
    try:
        with os.scandir(folder) as entries:
            found = sorted(entries, key=lambda entry: entry.name)
        links = {each.name: Path(each.path).readlink() for each in found if each.is_symlink()}
        others = [each for each in found if each.name not in links]
        kept = [path for each in others if (path := Path(each.path)) not in hidden]
        if len(kept) + 1 >= len(hidden):
            return None
        folders = [each.name for each in others if each.is_dir(follow_symlinks=False)]
        files = [each.name for each in others if each.name not in folders]
        mode = stat.S_IMODE(folder.stat().st_mode)
        key = repr((str(folder), mode, links, folders, files))
        every = places.folder.path / _STAND_INS
        copy = every / hashlib.sha256(key.encode(errors="surrogateescape")).hexdigest()
        if not copy.exists():
            every.mkdir(mode=0o700, exist_ok=True)
            if len([*every.iterdir()]) >= _STAND_INS_MAX:  # the folder changes all the time
                return None
            _make_copy(copy, mode, links, folders=folders, files=files)
        is_whole = len([*copy.iterdir()]) == len(found)
    except OSError:
        return None
    return StandIn(folder, copy, kept) if is_whole else None


def _make_copy(
    copy: Path,
    mode: int,
    links: Mapping[str, Path],
    *,
    folders: Iterable[str],
    files: Iterable[str],
) -> None:
    """Make *copy* with these entries, complete or not at all: other commands are being prepared."""
    made = Path(tempfile.mkdtemp(dir=copy.parent))
    try:
        for name, target in links.items():
            (made / name).symlink_to(target)
        for name in folders:
            (made / name).mkdir(mode=0o000)
        for name in files:
            (made / name).touch(mode=0o000)
        made.chmod(mode)
        made.rename(copy)
    except OSError:
        remove_tree(made)
        if not copy.exists():
            raise
