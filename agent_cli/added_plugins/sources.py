"""Fetch plugins: a folder, a git address, `owner/repo` on GitHub; each may be a marketplace.

Blocking. Nothing of what is fetched runs: no hook of git, no filter, no submodule.
"""

import json
import re
import shutil
import stat
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from agent_cli.added_plugins.plugin import FOLDER, MANIFEST, PARTS, read_json
from agent_cli.contracts.errors import UsageError
from agent_cli.system.git import GitError, run_git
from agent_cli.system.paths import expanded, is_dir, is_file, real_path
from agent_cli.system.records import dataclass
from agent_cli.system.shapes import is_array, is_object
from agent_cli.system.trees import walk

MARKETPLACE: Final = f"{FOLDER}/marketplace.json"
FILES_MAX: Final = 5_000
BYTES_MAX: Final = 50 * 1024 * 1024
LEVELS_MAX: Final = 40
_SHORT: Final = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
_URL: Final = re.compile(r"(?:https?|ssh|file)://.|[\w.-]+@[\w.-]+:.")
_LIMIT_S: Final = 300.0
_PROTOCOLS: Final = {"GIT_ALLOW_PROTOCOL": "https:ssh:file"}
_DEPTH_MAX: Final = 3


@dataclass(frozen=True, slots=True)
class Source:
    """The source of a plugin.

    Attributes:
        address: A folder, or an address for git.
        ref: A branch, tag or commit; "" for the default branch.
        inside: The plugin's folder below the top.
        plugin: Its name in a marketplace, or "".
    """

    address: str
    ref: str = ""
    inside: str = ""
    plugin: str = ""

    @property
    def is_folder(self) -> bool:
        """Whether it is a folder of this machine."""
        return not _URL.match(self.address)


@dataclass(frozen=True, slots=True)
class Fetched:
    """A plugin on this machine, not looked at yet; `commit` is "" for a plain folder."""

    folder: Path
    commit: str
    name: str


def source_of(text: str, plugin: str = "") -> Source:
    """Return the source that *text* names: `owner/repo`, a path or an address, perhaps with `@REF`.

    Raises:
        UsageError: It names none.
    """
    if is_dir(expanded(text)):
        return Source(str(real_path(expanded(text))), plugin=plugin)
    address, _, ref = text.rpartition("@") if "@" in text[1:] else (text, "", "")
    if not address or ("/" in ref and _URL.match(text)):
        address, ref = text, ""  # the @ of git@host:path
    if _URL.match(address):
        return Source(address, ref, plugin=plugin)
    if is_dir(expanded(address)):
        return Source(str(real_path(expanded(address))), ref, plugin=plugin)
    if _SHORT.fullmatch(address):
        return Source(f"https://github.com/{address}.git", ref, plugin=plugin)
    raise UsageError(
        f"{text!r} is no plugin: write owner/repo, a folder or an address for git, each with @REF"
        " if you want a certain version"
    )


def fetch(source: Source, folder: Path, *, depth: int = 0) -> Fetched:
    """Put the plugin of *source* into *folder*, which must be empty or missing.

    Raises:
        UsageError: It cannot be had, or it is a marketplace and `source.plugin` names none of it.
    """
    top = folder / f"top{depth}"
    commit = _cloned(source, top) if not source.is_folder or source.ref else _copied(source, top)
    root = real_path(top / source.inside)
    if not root.is_relative_to(real_path(top)) or not is_dir(root):
        raise UsageError(f"{source.address} has no folder {source.inside!r}")
    if source.plugin and is_file(root / MARKETPLACE):
        if depth == _DEPTH_MAX:
            raise UsageError("its marketplaces name each other; name the plugin's own address")
        return _of_marketplace(source, root, commit, folder, depth)
    if is_file(root / MARKETPLACE) and not is_file(root / MANIFEST):
        names = ", ".join(_entries(root))
        raise UsageError(f"{source.address} is a marketplace; name one of its plugins too: {names}")
    _check(root)
    return Fetched(root, commit, source.plugin or Path(source.address).stem)


def _of_marketplace(source: Source, root: Path, commit: str, folder: Path, depth: int) -> Fetched:
    entries = _entries(root)
    if source.plugin not in entries:
        known = ", ".join(entries)
        raise UsageError(f"{source.address} has no plugin {source.plugin!r}; it has: {known}")
    entry = entries[source.plugin]
    where = entry.get("source")
    if isinstance(where, str):
        inside = real_path(root / where)
        if not inside.is_relative_to(root) or not is_dir(inside):
            raise UsageError(f"the marketplace names {where!r}, which is not in it")
        _check(inside)
        _add_parts(inside, entry)
        return Fetched(inside, commit, source.plugin)
    if not is_object(where):
        raise UsageError(f"the marketplace says no source of {source.plugin!r}")
    url = where.get("url") or f"https://github.com/{where.get('repo', '')}.git"
    ref = str(where.get("sha") or where.get("ref") or "")
    found = Source(str(url), ref, str(where.get("path") or ""))
    if not _URL.match(found.address):
        raise UsageError(f"the marketplace names {url!r}, which is no address for git")
    fetched = fetch(found, folder, depth=depth + 1)
    _add_parts(fetched.folder, entry)
    return replace(fetched, name=source.plugin)


def _add_parts(folder: Path, entry: Mapping[str, object]) -> None:
    """Write the parts that only the marketplace's *entry* says into the manifest in *folder*.

    They are shown and pinned with the rest from then on.
    """
    path = folder / MANIFEST
    manifest = dict(read_json(path)) if is_file(path) else {}
    more = {key: entry[key] for key in PARTS if key in entry and key not in manifest}
    if more:
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps({"name": entry["name"], **manifest, **more}, indent=2))


def _entries(root: Path) -> Mapping[str, Mapping[str, object]]:
    try:
        found = json.loads((root / MARKETPLACE).read_text(encoding="utf-8-sig"))
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(f"{MARKETPLACE} cannot be read as JSON: {error}") from error
    plugins = found.get("plugins") if is_object(found) else None
    if not is_array(plugins):
        raise UsageError(f"{MARKETPLACE} has no list of plugins")
    return {str(each["name"]): each for each in plugins if is_object(each) and "name" in each}


def _cloned(source: Source, top: Path) -> str:
    top.parent.mkdir(parents=True, exist_ok=True)
    try:
        where = ("clone", "--quiet", "--no-checkout", "--", source.address, str(top))
        run_git(top.parent, *where, limit_s=_LIMIT_S, variables=_PROTOCOLS)
        commit = _commit(top, source.ref or "HEAD")
        run_git(top, "checkout", "--quiet", "--detach", commit, limit_s=_LIMIT_S)
    except GitError as error:
        at = f"@{source.ref}" if source.ref else ""
        raise UsageError(f"{source.address}{at} cannot be fetched: {error}") from error
    shutil.rmtree(top / ".git")
    return commit


def _commit(top: Path, ref: str) -> str:
    verify = ("rev-parse", "--verify", "--quiet", "--end-of-options")
    for name in (f"refs/remotes/origin/{ref}", ref):
        try:
            found = run_git(top, *verify, f"{name}^{{commit}}", limit_s=_LIMIT_S)
        except GitError:
            continue
        return found.decode().strip()
    raise GitError(f"there is no branch, tag or commit {ref!r}")


def _copied(source: Source, top: Path) -> str:
    """Copy a plain folder; it has no commit, so its content alone is pinned."""
    from_folder = Path(source.address)
    _check(from_folder)
    try:
        shutil.copytree(from_folder, top, symlinks=True, ignore=shutil.ignore_patterns(".git"))
    except OSError as error:
        raise UsageError(f"{from_folder} cannot be copied: {error}") from error
    return ""


def _check(root: Path) -> None:
    """Check that *root* holds only files, few enough to be shown, and no link that leads out.

    Raises:
        UsageError: It is not so.
    """
    count = size = 0
    top = real_path(root)
    for folder, folders, names in walk(root):
        if ".git" in folders:
            folders.remove(".git")
        if len(Path(folder).relative_to(root).parts) > LEVELS_MAX:
            raise UsageError(f"{root} has folders more than {LEVELS_MAX} deep")
        for name in (*folders, *names):
            path = Path(folder, name)
            about, shown = path.lstat(), repr(str(path.relative_to(root)))
            if stat.S_ISLNK(about.st_mode):
                if not real_path(path).is_relative_to(top):
                    raise UsageError(f"{shown} of the plugin leads out of its folder")
            elif not (stat.S_ISREG(about.st_mode) or stat.S_ISDIR(about.st_mode)):
                raise UsageError(f"{shown} of the plugin is neither a file nor a folder")
            count, size = count + 1, size + about.st_size
            if count > FILES_MAX or size > BYTES_MAX:
                raise UsageError(f"{root} has more than {FILES_MAX:,} files and folders, or 50 MB")
