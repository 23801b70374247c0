"""The plugins of the user, each pinned by the content that was shown when it was added.

    plugins/plugins.json        name → source, commit and digest
    plugins/.values.json        name → source, and the user's values; nobody else can read it
    plugins/NAME/DIGEST/NAME/   its content; some plugins import themselves by that name
    plugins/NAME/data-SOURCE/   what it keeps itself, also when it is updated

A plugin whose content has another digest than the one that was shown is left out, with a sentence.
"""

import hashlib
import json
import os
import shutil
import stat
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Final

from agent_cli.added_plugins.options import values_of
from agent_cli.added_plugins.plugin import AddedPlugin, read_plugin
from agent_cli.added_plugins.sources import Source
from agent_cli.contracts.errors import UsageError
from agent_cli.system import paths
from agent_cli.system.paths import private_dir
from agent_cli.system.private_files import locked, write_private
from agent_cli.system.records import dataclass
from agent_cli.system.shapes import is_object
from agent_cli.system.trees import remove_tree, walk

# No plugin's name begins with a dot.
_LOCK: Final = ".lock"
_VALUES: Final = ".values.json"
_NEW: Final = ".new"
LINK: Final = "//link"
PROGRAM: Final = "//program"
"""Marks behind a path, which holds no two slashes: no file can be called so itself."""


@dataclass(frozen=True, slots=True)
class Pin:
    """An added plugin: its source, and the digest of the content that was shown."""

    source: Source
    commit: str
    digest: str


class PluginStore:
    """The added plugins on disk, the user's alone."""

    def __init__(self) -> None:
        """Read nothing yet."""
        self._folder = paths.plugins_dir()
        self._list = paths.plugins_file()

    def pins(self) -> dict[str, Pin]:
        """Return the added plugins by name.

        Raises:
            UsageError: The list cannot be read.
        """
        try:
            found = json.loads(self._list.read_text(encoding="utf-8"))
            return {
                name: Pin(Source(**each["source"]), each["commit"], each["digest"])
                for name, each in found.items()
            }
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            raise UsageError(
                f"{self._list} cannot be read: add the plugins again ({error})"
            ) from error

    def pin(self, name: str) -> Pin:
        """Return the added plugin *name*.

        Raises:
            UsageError: There is none, or the list cannot be read.
        """
        pins = self.pins()
        if name not in pins:
            raise UsageError(f"there is no plugin {name!r}; there are: {', '.join(pins) or 'none'}")
        return pins[name]

    def folder_of(self, name: str, pin: Pin) -> Path:
        """Return the folder of a plugin's content."""
        return self._folder / name / pin.digest / name

    def data_of(self, name: str, pin: Pin) -> Path:
        """Return the folder for what a plugin keeps: another plugin of that name has its own."""
        source = hashlib.sha256(pin.source.address.encode()).hexdigest()[:16]
        return self._folder / name / f"data-{source}"

    def load(self) -> tuple[tuple[AddedPlugin, ...], tuple[str, ...]]:
        """Return the plugins with unchanged content, and a sentence about each changed plugin."""
        found: list[AddedPlugin] = []
        problems: list[str] = []
        try:
            pins = self.pins()
        except UsageError as error:
            return (), (str(error),)
        for name, pin in pins.items():
            root = self.folder_of(name, pin)
            try:
                plugin = read_plugin(root, name)
                if digest_of(root) != pin.digest:
                    raise UsageError("its files are not those that were shown")
                values, missing = values_of(plugin.options, self.values(name, pin))
                if missing:
                    why = f"it needs a value for {', '.join(missing)}"
                    problems.append(
                        f"plugin {name} is not used: {why}; `agent-cli plugins set {name}`"
                    )
                    continue
                data = self.data_of(name, pin)
                with suppress(OSError):  # a home that cannot be written switches off no guard
                    private_dir(data)
                found.append(replace(plugin, values=values, data=data))
            except (OSError, UsageError) as error:
                problems.append(
                    f"plugin {name} is not used: {error}; `agent-cli plugins update {name}`"
                )
        return tuple(found), tuple(problems)

    def values(self, name: str, pin: Pin) -> dict[str, str]:
        """Return the user's values for the plugin *name*; none that were for another source.

        Raises:
            UsageError: They cannot be read.
        """
        kept = self._all_values().get(name)
        if not is_object(kept) or kept.get("source") != pin.source.address:
            return {}
        values = kept.get("values")
        return {key: str(value) for key, value in values.items()} if is_object(values) else {}

    def keep_values(self, name: str, pin: Pin, values: Mapping[str, str]) -> None:
        """Keep *values* of the user's for the plugin *name*, in place of earlier ones.

        Raises:
            UsageError: They cannot be written.
        """
        kept = {"source": pin.source.address, "values": dict(values)}
        try:
            with locked(self._folder / _LOCK):
                self._write_values({**self._all_values(), name: kept})
        except OSError as error:
            raise UsageError(f"{self._folder} cannot be written: {error.strerror}") from error

    def _all_values(self) -> Mapping[str, object]:
        path = self._folder / _VALUES
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            raise UsageError(
                f"{path} cannot be read: remove it, and set the values anew"
            ) from error
        return found if is_object(found) else {}

    def _write_values(self, values: Mapping[str, object]) -> None:
        write_private(self._folder / _VALUES, json.dumps(values, indent=2).encode())

    def keep(self, name: str, content: Path, pin: Pin) -> None:
        """Keep *content*, whose digest is that of *pin*, as the plugin *name*.

        Raises:
            UsageError: The content changed after it was shown, or cannot be written.
        """
        if name == self._list.name:
            raise UsageError(f"no plugin can be called {name!r}: the list of plugins is")
        root = self.folder_of(name, pin)
        try:
            with locked(self._folder / _LOCK):
                if not root.is_dir() or digest_of(root) != pin.digest:
                    self._copy(content, root, pin.digest)
                pins = self.pins()
                self._write({**pins, name: pin})
                before = pins.get(name)
                if before and before.digest != pin.digest:
                    remove_tree(self.folder_of(name, before).parent)
        except OSError as error:
            raise UsageError(f"{root} cannot be written: {error.strerror or error}") from error

    def _copy(self, content: Path, root: Path, digest: str) -> None:
        """Copy *content* to *root*, completely or not at all; raises OSError."""
        new = self._folder / _NEW
        remove_tree(new)
        shutil.copytree(content, new, symlinks=True)
        if digest_of(new) != digest:
            remove_tree(new)
            raise UsageError("the plugin changed after it was shown: add it again")
        private_dir(root.parent)
        remove_tree(root)
        new.rename(root)

    def remove(self, name: str) -> None:
        """Remove the plugin *name* and its content.

        Raises:
            UsageError: There is none.
        """
        try:
            with locked(self._folder / _LOCK):
                self.pin(name)
                self._write({each: pin for each, pin in self.pins().items() if each != name})
                self._write_values({k: v for k, v in self._all_values().items() if k != name})
                remove_tree(self._folder / name)
        except OSError as error:
            raise UsageError(f"{self._folder} cannot be written: {error.strerror}") from error

    def _write(self, pins: Mapping[str, Pin]) -> None:
        text = json.dumps({name: asdict(pin) for name, pin in pins.items()}, indent=2)
        write_private(self._list, text.encode())


def digest_of(root: Path) -> str:
    """Return a hash of all names, modes, links and contents below *root*; raises OSError."""
    whole = hashlib.sha256()
    for path, data in sorted(contents_of(root).items()):
        whole.update(f"{len(path)} {path} {len(data)} ".encode(errors="surrogateescape") + data)
    return whole.hexdigest()


def contents_of(root: Path) -> dict[str, bytes]:
    """Return the files below *root* by path, with `PROGRAM` or `LINK` behind it where it is one.

    Raises:
        OSError: One of them cannot be read.
    """
    found: dict[str, bytes] = {}
    for folder, folders, names in walk(root):
        for name in (*folders, *names):
            path = Path(folder, name)
            key = str(path.relative_to(root))
            about = path.lstat().st_mode
            if stat.S_ISLNK(about):
                found[f"{key}{LINK}"] = os.fsencode(path.readlink())
            elif stat.S_ISREG(about):
                found[f"{key}{PROGRAM if about & 0o100 else ''}"] = path.read_bytes()
            elif not stat.S_ISDIR(about):
                raise OSError(f"{path} is neither a file nor a folder")
    return found
