"""Read a plugin's folder: `.claude-plugin/plugin.json`, and the files and folders it names.

A plugin may bring agents, commands, skills, output styles, hooks and MCP servers. What else it
brings is named, because nothing here uses it.
"""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from agent_cli.added_plugins.options import (
    PluginOption,
    in_hook,
    in_server,
    read_options,
    with_texts,
)
from agent_cli.contracts.errors import UsageError
from agent_cli.system.paths import is_dir, is_file, real_path
from agent_cli.system.records import dataclass, field
from agent_cli.system.shapes import is_array, is_object

FOLDER: Final = ".claude-plugin"
MANIFEST: Final = f"{FOLDER}/plugin.json"
ROOT: Final = "CLAUDE_PLUGIN_ROOT"
DATA: Final = "CLAUDE_PLUGIN_DATA"
NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_BYTES_MAX: Final = 1_048_576
_KINDS: Final[Mapping[str, str]] = {
    "agents": "agents",
    "commands": "commands",
    "skills": "skills",
    "outputStyles": "output-styles",
}
_UNUSED: Final[Mapping[str, str]] = {
    "lspServers": ".lsp.json",
    "monitors": "monitors",
    "themes": "themes",
    "workflows": "workflows",
    "settings": "settings.json",
    "channels": "",
    "dependencies": "",
    "bin": "bin",
}
PARTS: Final = ("description", "version", "hooks", "mcpServers", "userConfig", *_KINDS, *_UNUSED)
"""The keys of a manifest that mean something here; a marketplace may hold them too."""


@dataclass(frozen=True, slots=True)
class AddedPlugin:
    """A plugin of the user's.

    Attributes:
        name: It stands before the names of its commands and servers.
        root: Its folder, real.
        folders: The folders of its agents, commands, skills and output styles, by kind.
        hooks: Its groups of hooks: event, group, and the file they are in.
        servers: Its MCP servers by name, as written.
        unused: What it brings that nothing here uses.
        options: The values that it asks the user for.
        values: The user's values by key; "" for one that has none.
        data: The folder for what it keeps; a plugin that is only shown has none.
    """

    name: str
    description: str
    version: str
    root: Path
    folders: Mapping[str, tuple[Path, ...]]
    hooks: tuple[tuple[str, object, str], ...]
    servers: Mapping[str, object]
    unused: tuple[str, ...]
    options: tuple[PluginOption, ...] = ()
    values: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    data: Path | None = None

    @property
    def variables(self) -> dict[str, str]:
        """Its folders and values as variables of the environment, for its hooks and servers."""
        values = {each.variable: self.values.get(each.key, "") for each in self.options}
        return values | self._folders()

    def used_hooks(self) -> Iterator[tuple[str, object]]:
        """Yield its groups of hooks, each behind its event, as they run with the user's values."""
        shown = self._shown_values()
        yield from ((event, in_hook(group, shown)) for event, group, _file in self.hooks)

    def used_servers(self) -> Iterator[tuple[str, object]]:
        """Yield its MCP servers by name, with variables for the user's values."""
        for name, entry in self.servers.items():
            used = in_server(entry)
            if is_object(used) and "command" in used:
                inherited = {name: f"${{{name}}}" for name in self.variables}
                env = used.get("env")
                used = {**used, "env": {**inherited, **(env if is_object(env) else {})}}
            yield name, used

    def filled(self, text: str) -> str:
        """Return a *text* for the model with its folders and the values that are no secret."""
        for name, folder in self._folders().items():
            text = text.replace(f"${{{name}}}", folder)
        return with_texts(text, self._shown_values())

    def _folders(self) -> dict[str, str]:
        return {ROOT: str(self.root)} | ({DATA: str(self.data)} if self.data else {})

    def _shown_values(self) -> dict[str, str]:
        return {x.key: self.values.get(x.key, "") for x in self.options if not x.is_secret}


def read_plugin(root: Path, name: str = "") -> AddedPlugin:
    """Return the plugin in *root*; *name* is what a marketplace calls it.

    Raises:
        UsageError: It cannot be used as it is.
    """
    root = real_path(root)
    manifest: Mapping[str, object] = {}
    if is_file(root / MANIFEST):
        manifest = read_json(root / MANIFEST)
    called = str(manifest.get("name") or name or root.name)
    if not NAME.fullmatch(called):
        raise UsageError(
            f"the plugin's name {called!r} must be of lowercase letters, digits, ., - and _"
        )
    return AddedPlugin(
        name=called,
        description=" ".join(str(manifest.get("description", "")).split()),
        version=str(manifest.get("version", "")),
        root=root,
        folders={kind: tuple(_folders(root, manifest, kind)) for kind in _KINDS},
        hooks=tuple(_hooks(root, manifest)),
        servers=dict(_servers(root, manifest)),
        unused=tuple(_unused(root, manifest)),
        options=read_options(manifest.get("userConfig")),
    )


def with_root(value: object, root: Path) -> object:
    """Return *value* with the plugin's folder in place of `${CLAUDE_PLUGIN_ROOT}`."""
    if is_object(value):
        return {key: with_root(each, root) for key, each in value.items()}
    if is_array(value):
        return [with_root(each, root) for each in value]
    if not isinstance(value, str):
        return value
    return value.replace(f"${{{ROOT}}}", str(root)).replace(f"${ROOT}", str(root))


def read_json(path: Path) -> Mapping[str, object]:
    """Return the object in a file of a plugin.

    Raises:
        UsageError: The file holds none.
    """
    try:
        if path.stat().st_size > _BYTES_MAX:
            raise ValueError("it has more than 1 MB")
        found = json.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(f"{path} cannot be read as JSON: {error}") from error
    if not is_object(found):
        raise UsageError(f"{path} must hold one JSON object")
    return found


def _inside(root: Path, named: object) -> Path:
    """Return a path that a manifest names.

    Raises:
        UsageError: It leads out of the plugin.
    """
    path = real_path(root / str(named))
    if not path.is_relative_to(root):
        raise UsageError(f"the plugin names {str(named)!r}, which is outside its folder")
    return path


def _named(manifest: Mapping[str, object], key: str) -> list[object]:
    value = manifest.get(key)
    return [*value] if is_array(value) else [] if value is None else [value]


def _folders(root: Path, manifest: Mapping[str, object], kind: str) -> Iterator[Path]:
    paths = [_inside(root, _KINDS[kind])]
    paths += [_inside(root, each) for each in _named(manifest, kind) if isinstance(each, str)]
    # One file stands for its folder: nearly always that holds nothing else.
    found = (path.parent if is_file(path) else path for path in paths)
    yield from dict.fromkeys(path for path in found if is_dir(path))


def _hooks(root: Path, manifest: Mapping[str, object]) -> Iterator[tuple[str, object, str]]:
    written = _named(manifest, "hooks")
    files = [_inside(root, each) for each in written if isinstance(each, str)]
    default = root / "hooks" / "hooks.json"
    documents = [(each, root / MANIFEST) for each in written if is_object(each)]
    for path in dict.fromkeys([default, *files] if is_file(default) else files):
        documents.append((dict(read_json(path)), path))
    for document, path in documents:
        # Claude Code takes the table of events itself too.
        events = document.get("hooks", document)
        for event, groups in events.items() if is_object(events) else ():
            for group in groups if is_array(groups) else [groups]:
                yield event, with_root(group, root), str(path)


def _servers(root: Path, manifest: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    written = _named(manifest, "mcpServers")
    files = [_inside(root, each) for each in written if isinstance(each, str)]
    default = root / ".mcp.json"
    documents: list[Mapping[str, object]] = [each for each in written if is_object(each)]
    found = [default, *files] if is_file(default) else files
    documents += [read_json(path) for path in dict.fromkeys(found)]
    for document in documents:
        servers = document.get("mcpServers", document)
        for name, entry in servers.items() if is_object(servers) else ():
            yield name, with_root(entry, root)


def _unused(root: Path, manifest: Mapping[str, object]) -> Iterator[str]:
    for key, name in _UNUSED.items():
        path = root / name
        if key in manifest or (name and (is_file(path) or is_dir(path))):
            yield key
